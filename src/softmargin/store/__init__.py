"""Model files: `save` and `load`, and `write` and `read` for other values.

A file is one zip of arrays and JSON (`softmargin.store.archive`).  It contains no code and cannot cause any to run:
reading builds only values of known types and instances of known classes (`softmargin.store.registry`).  A file is
written beside the old one and replaces it once it is complete.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

from .archive import open_archive, write_archive
from .errors import StoreError
from .registry import name_of
from .tree import Decoder, Encoder

__all__ = ["StoreError", "load", "read", "save", "write"]

KINDS = ("model", "checkpoint")


def save(model: Any, path: str | PathLike[str]) -> None:
    """Save an estimator of this package to a file, fitted or not.

    The file holds the parameters and the fitted state, so that `load` returns a model that predicts and continues to
    learn exactly as this one does, to the last bit.  An existing file of that name is replaced atomically, and left
    unchanged if writing fails.

    Parameters
    ----------
    model : estimator of this package
    path : str or path
        The name of the file; no suffix is added.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import make_moons
    >>> from softmargin import BayesianSVC
    >>> X, y = make_moons(100, noise=0.2, random_state=0)
    >>> model = BayesianSVC(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "moons.model")
    ...     save(model, path)
    ...     same = load(path)
    >>> bool((same.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    if not isinstance(model, BaseEstimator) or name_of(type(model)) is None:
        raise StoreError(f"Only estimators of softmargin can be saved, not a {type(model).__qualname__}.")
    write(path, model, "model")


def load(path: str | PathLike[str]) -> Any:
    """Load an estimator from a file written by `save`.

    Files that are damaged, modified, of a newer format or hold anything but a model are refused with a `StoreError`.
    Nothing in a file is ever executed.

    >>> import os, tempfile
    >>> from softmargin import BayesianLinearSVC
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "three.model")
    ...     BayesianLinearSVC().fit([[0.0], [1.0], [2.0]], ["no", "yes", "yes"]).save(path)
    ...     load(path).predict([[5.0]]).tolist()
    ['yes']
    """
    model = read(path, "model")
    if not isinstance(model, BaseEstimator):
        raise StoreError(f"Cannot read {str(path)!r}: it holds a {type(model).__name__}, not an estimator.")
    return model


def _check_path(path: Any) -> None:
    if not isinstance(path, (str, PathLike)):
        raise StoreError(f"The path of a file is needed, as a string or a Path, but got {path!r}.")


def write(path: str | PathLike[str], value: Any, kind: str) -> None:
    """Writes a value to a file of the given kind, ``"model"`` or ``"checkpoint"``.

    ``value`` may consist of None, booleans, numbers, strings, bytes, lists, tuples, dicts, slices, NumPy arrays,
    scalars and dtypes, RandomStates, CSR matrices, and instances of this package's estimators, dataclasses and named
    tuples.  Arrays of objects may hold any of these.
    """
    from .. import __version__

    assert kind in KINDS, kind
    _check_path(path)
    encoder = Encoder()
    try:
        tree = encoder.node(value, kind)
        write_archive(Path(path), tree, encoder.arrays, kind, __version__)
    except StoreError as error:
        raise StoreError(f"Cannot write {str(path)!r}: {error}.") from error


def read(path: str | PathLike[str], kind: str) -> Any:
    """The value that `write` wrote to a file of that kind."""
    _check_path(path)
    try:
        with open_archive(Path(path), kind) as contents:
            return Decoder(contents.array, contents.n_arrays).whole(contents.tree)
    except StoreError as error:
        raise StoreError(f"Cannot read {str(path)!r}: {error}.") from error
    except Exception as error:  # an inconsistent value may cause any exception
        raise StoreError(
            f"Cannot read {str(path)!r}: it holds inconsistent values "
            f"({type(error).__name__}: {str(error)[:200]}); save the model again."
        ) from error
