"""What users name on the command line: files, columns and models."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..estimators import BayesianGPC, BayesianKernelMachine, BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from ..parameters import how_many, meant
from ..store import load
from ..tables import read_table
from ..tables.classifier import told_of_seen
from ..tables.files import SUFFIXES
from ..tables.plans import as_numbers
from .showing import complain, refuse_out

__all__ = [
    "MODELS",
    "As_json",
    "Data",
    "ModelFile",
    "Seed",
    "Target",
    "Weight",
    "columns_of",
    "groups_of",
    "labelled",
    "model_and_rows",
    "names",
    "out_file",
    "refuse_clashes",
    "whole_list",
]

#: The words that ``--model`` accepts.
MODELS: dict[str, Any] = {
    "svc": BayesianSVC,
    "linear": BayesianLinearSVC,
    "gpc": BayesianGPC,
    "kernel-machine": BayesianKernelMachine,
    "mixed": BayesianMixedSVC,
}
#: A column with more distinct labels than the first number is not taken for classes.  Integers are taken for classes if
#: their distinct values are at most the second number, or at most the first with, on average, at least the third number
#: of rows for each value.
_MOST_CLASSES, _FEW_CLASSES, _ROWS_OF_A_CLASS = 200, 10, 10
#: The largest number of columns that are listed as candidates for the target.
_MOST_NAMED = 20


def names(text: str) -> tuple[str, ...]:
    """Comma-separated names; those with a comma are in double quotes.

    >>> names('age, "income, net"')
    ('age', 'income, net')
    """
    return tuple(name for name in _entries(text) if name)


def whole_list(text: str) -> str:
    """The text of a list, after checking that none of its entries is empty.

    Where a script writes ``--drop "$id,$leak"``, an empty variable would otherwise keep a column unnoticed.
    """
    if text.strip() and not all(_entries(text)):
        raise typer.BadParameter(f"{text!r} has an empty entry: remove the comma, or write the name that is missing.")
    return text


def _entries(text: str) -> list[str]:
    try:
        return [entry.strip() for line in csv.reader([text], skipinitialspace=True) for entry in line]
    except csv.Error:  # a line break outside quotes
        return [entry.strip() for entry in text.split(",")]


Data = Annotated[Path, typer.Argument(help="A table: .csv, .tsv, .parquet, .feather or .arrow.", show_default=False)]
ModelFile = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model saved by `softmargin fit`.", show_default=False)
]
Target = Annotated[str | None, typer.Option(metavar="COLUMN", help="The column with the labels.", show_default=False)]
Weight = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="A column with weights of the rows.", show_default=False)
]
Seed = Annotated[int, typer.Option(metavar="NUMBER", min=0, max=2**32 - 1, help="Random seed.")]
As_json = Annotated[bool, typer.Option("--json", help="Print the result as one line of JSON.")]
Categorical = Annotated[
    str,
    typer.Option(
        metavar="COLUMNS", callback=whole_list, help="Comma-separated columns whose numbers stand for categories."
    ),
]
Keep = Annotated[
    str,
    typer.Option(
        metavar="COLUMNS",
        callback=whole_list,
        help="Comma-separated columns to use even if they look like identifiers.",
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="The column with the group of each row: patient, school, machine.", show_default=False
    ),
]
Drop = Annotated[
    str, typer.Option(metavar="COLUMNS", callback=whole_list, help="Comma-separated columns to leave out.")
]


def column(frame: Any, name: str, what: str) -> Any:
    """The column of this name; an error refers to it as ``what``."""
    if name not in frame.columns:
        raise ValueError(f"The table has no column {name!r} ({what}); {meant(name, frame.columns)}")
    return frame[name]


def refuse_clashes(uses: Mapping[str, Iterable[str | None]], alone: Collection[str]) -> None:
    """Refuses a column that two options use differently.

    ``uses`` has the columns that each option names.  A column of the options in ``alone`` is no feature, so that no
    other option can name it.
    """
    named = {option: {name for name in columns if name is not None} for option, columns in uses.items()}
    for option in alone:
        for other, columns in named.items():
            both = named[option] & columns
            if both and other != option:
                problem = f"column {min(both)!r} is also used for {other}: remove it from one of them."
                raise typer.BadParameter(problem, param_hint=option)


def ask_for_target(data: Path) -> typer.BadParameter:
    """An error that asks which column holds the labels, and lists the columns."""
    known = [repr(name) for name in read_table(data).columns]
    listed = ", ".join(known[:_MOST_NAMED]) + (", ..." if len(known) > _MOST_NAMED else "")
    return typer.BadParameter(f"which column holds the labels? The table has {listed}.", param_hint="--target")


def without(frame: Any, drop: str) -> Any:
    """The table without some columns."""
    for name in names(drop):
        column(frame, name, "--drop")
    return frame.drop(columns=list(names(drop)))


def labelled(
    frame: Any, target: str, weight: str | None, known_classes: bool = False
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Rows, labels and weights; rows without a label are left out, with a message."""
    known = column(frame, target, "--target").notna().to_numpy()
    if not known.any():
        raise ValueError(f"Column {target!r} is empty.")
    if not known.all():
        n_left = int((~known).sum())
        complain(f"{how_many(n_left, 'row')} without a value in {target!r} {'is' if n_left == 1 else 'are'} left out.")
        frame = frame[known].reset_index(drop=True)
    labels = frame[target].infer_objects()  # booleans with missing values are objects
    if labels.dtype.kind == "f" and np.isfinite(labels).all() and (labels == labels.round()).all():
        labels = labels.astype(int)  # integers with missing values were floats
    if not known_classes and _is_quantity(labels):
        raise ValueError(
            f"Column {target!r} has {labels.nunique():,} distinct values, such as {labels.tolist()[0]!r}: that is a "
            f"quantity, not a class. Classes must be names or a few whole numbers."
        )
    weights = None if weight is None else _weights(frame, weight)
    left = frame.drop(columns=[name for name in (target, weight) if name is not None])
    if not len(left.columns):
        raise ValueError(f"The table has no columns to predict {target!r} from.")
    return left, labels.to_numpy(), weights


def _weights(frame: Any, name: str) -> np.ndarray:
    """The weight of each row."""
    values = as_numbers(column(frame, name, "--weight"), name)
    n_bad = int((~(values >= 0)).sum())
    if n_bad:
        raise ValueError(
            f"Column {name!r} (--weight) is missing or negative in {how_many(n_bad, 'row')}: write 0 to ignore a row."
        )
    return values


def _is_quantity(labels: Any) -> bool:
    """Whether labels look like a quantity instead of classes."""
    n = labels.nunique()
    if labels.dtype.kind not in "iuf":
        return n > _MOST_CLASSES
    if labels.dtype.kind == "f":
        return True
    return n > _FEW_CLASSES and (n > _MOST_CLASSES or len(labels) < _ROWS_OF_A_CLASS * n)


def columns_of(model: Any, frame: Any) -> Any:
    """The columns that a model was fitted on, in its order."""
    known = getattr(model, "feature_names_in_", None)
    if known is None:
        return frame
    for name in known:
        if name not in frame.columns:
            raise ValueError(
                f"The table has no column {name!r}, but the model was fitted on it; {meant(name, frame.columns)}"
            )
    return frame[list(known)]


def model_and_rows(path: Path, data: Path) -> tuple[Any, Any]:
    """A fitted model, and a table read with its column types."""
    if not path.exists():
        beside = sorted(other.name for other in path.parent.glob("*.sm"))
        raise FileNotFoundError(f"There is no model {str(path)!r}; {meant(path.name, beside)}")
    model = load(path)
    if not hasattr(model, "classes_"):
        raise ValueError(f"{str(path)!r} holds a {type(model).__name__} that is not fitted.")
    return model, read_table(data, like=model)


def groups_of(frame: Any, name: str | None, what: str = "--groups") -> np.ndarray | None:
    """The group of each row."""
    if name is None:
        return None
    members = column(frame, name, what)
    n_missing = int(members.isna().sum())
    if n_missing:
        raise ValueError(
            f"Column {name!r} ({what}) is missing in {how_many(n_missing, 'row')}: every row needs a group."
        )
    return np.unique(members.astype(str).to_numpy(), return_inverse=True)[1]


def target_of(model: Any, target: str | None, frame: Any) -> str:
    """The column of labels: the one asked for, or that of the fit."""
    name = target or getattr(model, "target_", None)
    if name is None:
        raise ValueError("The model does not know the name of its target column: give --target COLUMN.")
    column(frame, name, "the labels")
    return name


def evaluable(
    model: Any, frame: Any, target: str | None, weight: str | None, groups: str | None = None
) -> tuple[Any, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Rows, labels, weights and groups for an evaluation, with labels converted to the type of the model's classes.

    Warns about rows that the model was trained on.
    """
    labels = target_of(model, target, frame)
    first = "--target" if target else "the labels"
    refuse_clashes({"--weight": [weight], "--groups": [groups], first: [labels]}, ["--weight", "--groups"])
    for name, option in ((labels, "--target"), (weight, "--weight")):
        if name is not None and name in getattr(model, "feature_names_in_", ()):
            raise ValueError(f"The model predicts from column {name!r}: name another one with {option}.")
    rows, y, weights = labelled(frame, labels, weight, known_classes=True)
    members = groups_of(rows, groups)
    classes = model.classes_
    if classes.dtype.kind in "OUT" and y.dtype.kind not in "OUT":
        y = np.array([str(label) for label in y.tolist()], dtype=object)
    rows = columns_of(model, rows)
    tell_of_seen(model, rows)
    return rows, y, weights, members


def tell_of_seen(model: Any, rows: Any, more: str = "") -> None:
    """Warns if a model was trained on rows of its evaluation."""
    said = told_of_seen(model, rows)
    if said is not None:
        complain(f"Warning: {said}{more}")


def out_file(path: Path, *formats: str, inputs: Iterable[Path | None] = (), option: str = "--out") -> Path:
    """The path given by an option, after checking that it can be written and is not an input."""
    problem = refuse_out(path, formats)
    if problem is None and any(is_same(path, other) for other in inputs):
        problem = f"{path} is an input of this command: write to another file."
    if problem:
        raise typer.BadParameter(problem, param_hint=option)
    return path


def is_same(path: Path, other: Path | None) -> bool:
    """Whether two paths lead to the same file."""
    return other is not None and path.resolve() == other.resolve()


def table_file(path: Path, inputs: Iterable[Path | None] = (), option: str = "--out") -> Path:
    """The path, after checking that a table can be written there."""
    return out_file(path, *(suffix[1:] for suffix in SUFFIXES), inputs=inputs, option=option)


def model_file(path: Path, inputs: Iterable[Path | None] = ()) -> Path:
    """The path, after checking that a model can be written there and that it has no suffix of a table."""
    if path.suffix.lower() in SUFFIXES:
        raise typer.BadParameter(f"{path} has the suffix of a table: model files end in .sm.", param_hint="--out")
    return out_file(path, inputs=inputs)
