"""What every classifier owes whoever brings a table, however much trouble it makes."""

from __future__ import annotations

import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from strategies import LIMIT, Trouble

#: Errors that may be shown to a user, if their words name the cause.
REFUSALS = (ValueError, TypeError)
_CAUSES = r"column|\brows?\b|class|label|weight|\bX\b|\by\b|[a-z_]+=|feature|sample|dtype|sparse|must be"
#: The calls of a model in `check`: four predictions for each of two tables.
_PREDICTIONS = 8
#: What nobody here sets, so that nobody can be told to set it otherwise.
_INNER = "must be positive and finite (a number, or one for each column)"


class BrokenPromiseError(AssertionError):
    """A fitted model that does not keep what the library promises."""


def outcome(trouble: Trouble) -> tuple[str, str]:
    """``("fitted", "")``, ``("refused", words)``, or ``("broken", which promise)``."""
    start = time.process_time()
    try:
        with watched() as seen:
            model = fitted(trouble)
        check_warnings(seen, calls=2 if trouble.stream else 1)
    except REFUSALS as error:
        kept = _is_told(error)
        return ("refused", _without_numbers(str(error))) if kept else ("broken", _where(error))
    except Exception as error:
        return "broken", _where(error)
    try:
        with watched() as seen:
            check(model, trouble)
        check_warnings(seen, calls=_PREDICTIONS)
        if trouble.twice and _core(model).stop_reason_ != "time":
            with watched():
                again = fitted(trouble)
            _promise("the same bound again", _core(again).bound_ == _core(model).bound_)
            if not _left_out(trouble):
                first, second = (each.predict_proba(trouble.X) for each in (model, again))
                _promise("the same again", np.array_equal(first, second))
    except Exception as error:
        return "broken", _where(error)
    taken = time.process_time() - start
    return ("fitted", "") if taken < LIMIT else ("broken", f"slow: {type(_core(model)).__name__}")


@contextmanager
def watched() -> Iterator[list[warnings.WarningMessage]]:
    """All warnings of a block, none of them shown."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield seen


def check_warnings(seen: list[warnings.WarningMessage], calls: int = 1) -> None:
    """None of NumPy's, and none of a kind twice in a call."""
    for each in seen:
        if issubclass(each.category, RuntimeWarning):
            raise BrokenPromiseError(f"{each.message} at {_place(each.filename)}:{each.lineno}")
    kinds = Counter((each.category.__name__, _without_numbers(str(each.message))[:60]) for each in seen)
    for (category, words), count in kinds.items():
        _promise(f"one warning of a kind: {category} {words}", count <= calls)


def fitted(trouble: Trouble) -> Any:
    """The model of a table, of all rows or of two batches."""
    model = clone(trouble.model)
    settings = {} if trouble.weight is None else {"sample_weight": trouble.weight}
    if not trouble.stream:
        return model.fit(trouble.X, trouble.y, **settings)
    classes, half = np.unique(trouble.y), (len(trouble.y) + 1) // 2
    for part in (slice(0, half), slice(half, None)):
        X = trouble.X.iloc[part] if isinstance(trouble.X, pd.DataFrame) else trouble.X[part]
        model.partial_fit(X, trouble.y[part], classes=classes, **{name: each[part] for name, each in settings.items()})
    check_is_fitted(model)  # which it is not where no row of any batch has any weight
    return model


def check(model: Any, trouble: Trouble) -> None:
    """Finite answers that agree with each other, for rows of the fit and for others."""
    for X in (trouble.X, trouble.new):
        try:
            p = model.predict_proba(X)
        except REFUSALS as error:
            if (X is trouble.X and not _left_out(trouble)) or not _is_told(error):
                raise
            continue
        score, (mu, v) = model.decision_function(X), model.latent_mean_and_variance(X)
        _promise("finite probabilities", np.isfinite(p).all())
        _promise("probabilities from 0 to 1", ((p >= 0) & (p <= 1)).all())
        _promise("probabilities that sum to 1", np.abs(p.sum(axis=1) - 1).max() < 1e-9)
        _promise("predict is argmax", (model.classes_[p.argmax(axis=1)] == model.predict(X)).all())
        _promise("finite scores", np.isfinite(score).all())
        two = score.ndim == 1
        _promise("scores that agree", ((score > 0) == (p[:, 1] > p[:, 0])).all() if two else score.shape == p.shape)
        _promise("finite latent means", np.isfinite(mu).all())
        _promise("finite latent variances", np.isfinite(v).all())
        _promise("latent variances >= 0", (v >= 0).all())
    core = _core(model)
    _promise("a finite bound", np.isfinite(core.bound_))
    loo = core.loo_log_loss_
    _promise("a leave-one-out loss", loo is None or not np.isinf(loo))


def _left_out(trouble: Trouble) -> bool:
    """Whether there are rows that the fit did not see, and levels that only they have."""
    return trouble.weight is not None and not np.all(trouble.weight)


def _core(model: Any) -> Any:
    return getattr(model, "classifier_", model)


def _promise(what: str, kept: Any) -> None:
    if not kept:
        raise BrokenPromiseError(what)


def _is_told(error: Exception) -> bool:
    """Whether an error was raised to be read: by this library or scikit-learn, in words that name a cause."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    ours = "/softmargin/" in last or "/sklearn/utils/" in last or "/sklearn/base" in last
    return ours and re.search(_CAUSES, str(error), re.IGNORECASE) is not None and _INNER not in str(error)


def _where(error: Exception) -> str:
    """An error and the last line of the library on its way, as one line."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/softmargin/" in frame.filename]
    kind = type(error).__name__
    if isinstance(error, BrokenPromiseError) or not frames:
        return f"{kind}: {_without_numbers(str(error))}" if not isinstance(error, BrokenPromiseError) else str(error)
    return f"{kind} at {_place(frames[-1].filename)}:{frames[-1].lineno}: {_without_numbers(str(error))[:120]}"


def _place(filename: str) -> str:
    return filename.rpartition("/softmargin/")[2] if "/softmargin/" in filename else Path(filename).name


def _without_numbers(words: str) -> str:
    """A message as one line, without what differs from table to table."""
    words = re.sub(r"\[[^\]]*\]", "[...]", " ".join(words.split()))
    return re.sub(r"-?\d[\d.,e+-]*", "#", re.sub(r"'[^']*'", "'...'", words))
