"""Tables that make trouble, drawn by hypothesis.

Hypothesis draws what a table is made of (kinds of columns, labels, weights, a model and its words) and a seed; entries
come from the seed, so that a table of forty rows is a few dozen choices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from hypothesis import strategies as st

from softmargin import BayesianGPC, BayesianKernelMachine, BayesianLinearSVC, BayesianMixedSVC, BayesianSVC
from softmargin.tables import TableClassifier

#: A fit and its predictions may take so many seconds of the processor; nothing here has more than 130 rows.
LIMIT = 20.0

# Columns ------------------------------------------------------------------------------------------

Rng = np.random.Generator
Maker = Callable[[Rng, int, np.ndarray], Any]

NUMBERS: dict[str, Maker] = {
    "normal": lambda rng, n, y: rng.normal(size=n) + 0.5 * y,
    "scaled": lambda rng, n, y: 10.0 ** rng.uniform(-300, 300) * rng.normal(size=n),
    "every scale": lambda rng, n, y: rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-300, 300, n),
    "far": lambda rng, n, y: 10.0 ** rng.uniform(8, 15) + rng.normal(size=n),
    "barely varying": lambda rng, n, y: 1.0 + 1e-15 * rng.integers(0, 3, n),
    "constant": lambda rng, n, y: np.full(n, rng.choice([0.0, 1.0, -1e9, 1e300, 5e-324, 1e-200])),
    "ties": lambda rng, n, y: rng.integers(0, 3, n).astype(float),
    "separating": lambda rng, n, y: y * 10.0 ** rng.uniform(-200, 200),
    "gap between": lambda rng, n, y: y + 1e-9 * rng.normal(size=n),
    "denormal": lambda rng, n, y: 5e-324 * rng.integers(-4, 5, n),
    "spike": lambda rng, n, y: np.where(np.arange(n) == rng.integers(n), 10.0 ** rng.uniform(0, 300), 0.0),
    "largest": lambda rng, n, y: rng.choice([-1.0, 1.0], n) * rng.choice([1e300, 1e300, 1e300, np.finfo(float).max]),
    "truth": lambda rng, n, y: rng.random(n) < 0.4,
    "small integers": lambda rng, n, y: rng.integers(-128, 128, n).astype(np.int8),
    "large integers": lambda rng, n, y: rng.integers(2**61, 2**62, n),
    "single": lambda rng, n, y: (10.0 ** rng.uniform(-38, 37) * rng.uniform(-1, 1, n)).astype(np.float32),
    "half": lambda rng, n, y: rng.uniform(-6e4, 6e4, n).astype(np.float16),
}
_WORDS = np.array(["", "a", "b", " ", "überall", "日本", "nan", "1", "a=b", "long " * 20], dtype=object)
OTHERS: dict[str, Maker] = {
    "text": lambda rng, n, y: rng.choice(_WORDS, n),
    "names": lambda rng, n, y: np.array([f"row {row}" for row in range(n)], dtype=object),
    "category": lambda rng, n, y: pd.Categorical(rng.choice(["low", "mid", "high"], n), ["low", "mid", "high", "none"]),
    "gaps in text": lambda rng, n, y: np.where(rng.random(n) < 0.5, None, rng.choice(_WORDS, n)),
    "date": lambda rng, n, y: pd.Timestamp("2020-02-29") + pd.to_timedelta(rng.integers(0, 10**6, n), unit="min"),
    "dates with gaps": lambda rng, n, y: pd.Series(
        np.where(rng.random(n) < 0.5, np.datetime64("NaT", "ns"), np.datetime64("1900-01-01", "ns"))
    ),
    "mixed": lambda rng, n, y: rng.choice(np.array([1, "1", 2.5, None, True, "x"], dtype=object), n),
    "nullable": lambda rng, n, y: pd.array(np.where(rng.random(n) < 0.3, None, 3), dtype="Int64"),
    "nothing": lambda rng, n, y: np.full(n, None, dtype=object),
    "duration": lambda rng, n, y: pd.to_timedelta(rng.integers(0, 10**6, n), unit="s"),
}
TITLES = ["a", "größe", "with space", "x=1", "y ~ x", "a|b", "(1", "", "日本", "s(x)", "classes_", "1"]


@dataclass(frozen=True)
class Trouble:
    """A model, what it is fitted to, and rows to predict; ``made_of`` says it in words."""

    model: Any
    X: Any
    y: np.ndarray
    weight: Any
    new: Any
    stream: bool
    twice: bool
    made_of: str


@st.composite
def troubles(draw: Any, small: bool = False) -> Trouble:
    """A table that somebody might bring, with a model and its settings; the small ones take little time."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.sampled_from([2, 3, 5, 8, 13] if small else [2, 3, 5, 8, 13, 25, 40, 40, 130]))
    y, how = labels(draw, rng, n, [2, 2, 2, 3] if small else [2, 2, 2, 2, 3, 4, 9])
    n = len(y)
    codes = np.unique(y, return_inverse=True)[1].astype(float)
    framed = draw(st.integers(0, 9)) > 5
    wide = n < 30 and seldom(draw, 10)
    kinds = draw(st.lists(st.sampled_from(list(NUMBERS)), min_size=1, max_size=5))
    kinds = kinds * 12 if wide else kinds
    if framed and draw(st.booleans()):
        kinds = kinds + draw(st.lists(st.sampled_from(list(OTHERS)), min_size=1, max_size=3))
    columns = [(NUMBERS | OTHERS)[kind](rng, n, codes) for kind in kinds]
    if seldom(draw, 10):
        kinds, columns = [*kinds, "copy"], [*columns, columns[0]]
    poison = draw(st.sampled_from([None] * 14 + ["gaps"] * 5 + ["infinity"]))
    columns = [poisoned(rng, column, poison) for column in columns]
    weight, weighed = weights(draw, rng, n)
    X = table(draw, columns, framed)
    model, stream = models(draw, X, kinds, y)
    made_of = f"{n} rows, {how}, columns {', '.join(kinds[:6])}; {poison or 'no gaps'}, weights {weighed}"
    return Trouble(model, X, y, weight, further(X, rng), stream, seldom(draw, 5), made_of)


def seldom(draw: Any, one_in: int) -> bool:
    """Once in so many; never in the simplest table, from which hypothesis draws many others."""
    return draw(st.integers(1, one_in)) == one_in


def poisoned(rng: Rng, column: Any, poison: str | None) -> Any:
    """A column of numbers with entries that are none."""
    if poison is None or not isinstance(column, np.ndarray) or column.dtype.kind != "f":
        return column
    if poison == "infinity":
        return np.where(np.arange(len(column)) == rng.integers(len(column)), np.inf, column)
    return np.where(rng.random(len(column)) < 0.3, np.nan, column).astype(column.dtype)


def table(draw: Any, columns: list[Any], framed: bool) -> Any:
    """Columns as an array of some type, a sparse matrix, or a frame."""
    if framed:
        titles = draw(st.permutations(TITLES))
        names = [*titles, *(f"column {place}" for place in range(len(columns)))][: len(columns)]
        if seldom(draw, 60) and len(names) > 1:
            names[1] = names[0]
        frame = pd.DataFrame(dict(enumerate(columns)))
        frame.columns = names
        if not seldom(draw, 5) or len(set(names)) < len(names):
            return frame
        return as_polars(frame)
    with np.errstate(over="ignore"):
        X = np.column_stack([np.asarray(column) for column in columns])
        how = draw(st.sampled_from(["as it is"] * 6 + ["sparse", "float32", "list", "fortran"]))
        if how == "sparse":
            return scipy.sparse.csr_matrix(X.astype(float))
        if how == "float32":
            return np.clip(X, -3e37, 3e37).astype(np.float32)
    return {"list": X.tolist(), "fortran": np.asfortranarray(X)}.get(how, X)


def as_polars(frame: pd.DataFrame) -> Any:
    """The frame in polars, or as it is where polars has no type for a column, or is not there."""
    try:
        import polars

        return polars.from_pandas(frame)
    except Exception:  # whatever Arrow says of mixed objects
        return frame


def labels(draw: Any, rng: Rng, n: int, numbers: list[int]) -> tuple[np.ndarray, str]:
    """Labels of two classes or more, each with a row at least, and how they came about."""
    n_classes = min(draw(st.sampled_from(numbers)), n)
    how = draw(st.sampled_from(["even", "rare", "words", "truth", "floats"]))
    codes = rng.integers(0, n_classes, n) if how != "rare" else np.zeros(n, dtype=int)
    codes[rng.permutation(n)[:n_classes]] = np.arange(n_classes)
    shown = {
        "words": lambda: np.array(["no", "yes", "ä", "", "e", "f", "g", "h", "i"])[codes],
        "floats": lambda: codes + 0.0,
    }
    y = shown.get(how, lambda: codes)()
    return (codes > 0 if how == "truth" else y), f"{n_classes} classes ({how})"


def weights(draw: Any, rng: Rng, n: int) -> tuple[np.ndarray | None, str]:
    """Weights of rows, or none."""
    how = draw(
        st.sampled_from(["none"] * 8 + ["some zero", "tiny", "huge", "every scale", "copies", "one row", "beyond"])
    )
    made = {
        "none": lambda: None,
        "some zero": lambda: (rng.random(n) < 0.7).astype(float),
        "tiny": lambda: np.full(n, 10.0 ** rng.uniform(-300, -3)),
        "huge": lambda: np.full(n, 10.0 ** rng.uniform(2, 9)),
        "every scale": lambda: 10.0 ** rng.uniform(-20, 9, n),
        "beyond": lambda: 10.0 ** rng.uniform(-300, 300, n),
        "copies": lambda: rng.integers(0, 5, n),
        "one row": lambda: np.where(np.arange(n) == 0, 1e9, 1.0),
    }
    return made[how](), how


def further(X: Any, rng: Rng) -> Any:
    """Rows to predict: some that were seen, and the same far away or with levels that were not."""
    if scipy.sparse.issparse(X):
        return scipy.sparse.vstack([X[:3], 1e100 * X[:2].sign()]).tocsr()
    if hasattr(X, "columns"):
        if not isinstance(X, pd.DataFrame):
            return X[:3]
        seen = X.iloc[[0, 1, 0]].copy()
        parts = [_strange(seen.iloc[:, place]) for place in range(seen.shape[1])]
        strange = pd.concat(parts, axis=1, keys=range(len(parts)))
        strange.columns = X.columns
        return strange
    rows = np.asarray(X)[:3]
    if rows.dtype.kind != "f":
        return rows
    far = rng.choice([-1, 1], rows.shape) * np.array(_FAR[rows.dtype.itemsize], rows.dtype)
    return np.vstack([rows, np.where(np.isfinite(rows), far, rows)])


#: Far away, by the bytes of a number.
_FAR = {2: 6e4, 4: 1e38, 8: 1e200}


def _strange(column: pd.Series) -> pd.Series:
    """A column whose last entry is one that the fit did not see."""
    if column.dtype == float:
        column.iloc[-1] = 1e200
    elif column.dtype == object:
        column.iloc[-1] = "never seen"
    return column


# Models -------------------------------------------------------------------------------------------

LOSSES = ["hinge", "hinge-augmented", "logistic", "logistic-jj", "probit", "logistic-taylor", "probit-taylor"]


def models(draw: Any, X: Any, kinds: list[str], y: np.ndarray) -> tuple[Any, bool]:
    """An unfitted model, and whether rows come in batches."""

    def rarely(name: str, *values: Any) -> dict[str, Any]:
        return {name: draw(st.sampled_from(values))} if seldom(draw, 5) else {}

    maker = draw(
        st.sampled_from(
            [BayesianSVC] * 4
            + [BayesianGPC] * 3
            + [BayesianLinearSVC] * 5
            + [BayesianMixedSVC] * 4
            + [BayesianKernelMachine]
        )
    )
    settings = rarely("link", "probit", "logistic") | rarely(
        "class_weight", "balanced", {_first(y): 1e6}, {_first(y): 1e-9}
    )
    stream = maker is not BayesianMixedSVC and seldom(draw, 10)
    if maker is BayesianGPC:
        settings |= draw(
            st.sampled_from(
                [{}] * 4 + [{"loss": "jj"}, {"loss": "taylor"}, {"tune": None}, {"tune": "bound"}, {"tune": "loo"}]
            )
        )
    else:
        settings |= draw(st.sampled_from([{}] * 8 + _meetings(maker, y)))
    if maker in (BayesianSVC, BayesianKernelMachine):
        settings |= rarely("tune", None, "bound", "loo", "bound-steps") | rarely("kernel", "matern")
    if maker in (BayesianSVC, BayesianGPC):
        settings |= rarely("n_inducing", 1, 5) | rarely("inducing", "random", "mixture", "tuned")
    if maker is BayesianKernelMachine:
        settings |= {"n_frequencies": 16, "n_steps": 20, "n_particles": 4} | rarely("inference", "stein")
    elif seldom(draw, 12):
        settings |= _ways(draw, maker, y)
    if maker in (BayesianLinearSVC, BayesianMixedSVC):
        settings |= rarely("prior", "laplace-zero", "laplace-zero", "ard", 1.0) | rarely("fit_intercept", False)
        settings |= {"standardize": False} if seldom(draw, 20) else {}
    if maker is BayesianMixedSVC:
        settings |= _structure(draw, X, kinds)
    if settings.get("prior") == "laplace-zero":
        settings["max_time"] = LIMIT / 4  # choices of many classes are reconsidered one by one
    model = maker(random_state=0, **settings)
    tabled = draw(st.integers(0, 9)) > (2 if set(kinds) & set(OTHERS) else 7)
    return (TableClassifier(model), False) if tabled else (model, stream)


def _meetings(maker: Any, y: np.ndarray) -> list[dict[str, Any]]:
    """Losses, and how classes meet in them."""
    if len(np.unique(y)) == 2:
        return [{"loss": loss} for loss in LOSSES]
    own = [{"loss": loss, "multi_class": how} for loss in LOSSES[:5] for how in ("ovr", "weston-watkins")]
    together = {"loss": "logistic", "multi_class": "softmax"}
    return [*own, together, {"multi_class": "crammer-singer"}, {"loss": "hinge", "multi_class": "crammer-singer"}]


def _ways(draw: Any, maker: Any, y: np.ndarray) -> dict[str, Any]:
    """Another inference than the usual one, with a loss that it knows."""
    few = {"inference": "gibbs", "n_draws": 20, "n_chains": 2}
    of_two = [few, *([{"inference": "ecm"}] if maker in (BayesianSVC, BayesianLinearSVC) else [])]
    stochastic = (
        [{"inference": "svi"}, {"inference": "adam"}] if maker is not BayesianMixedSVC else [{"inference": "cavi"}]
    )
    way = draw(st.sampled_from(stochastic + (of_two if len(np.unique(y)) == 2 else [])))
    return way | ({} if maker is BayesianGPC else {"loss": "auto"})


def _first(y: np.ndarray) -> Any:
    return np.unique(y)[0].item()


def _structure(draw: Any, X: Any, kinds: list[str]) -> dict[str, Any]:
    """Which columns say what group a row is in, or have a curve."""
    names = list(X.columns) if hasattr(X, "columns") else list(range(len(kinds)))
    one, other = names[-1], names[0]
    choices = [{}, {"groups": one}, {"groups": [one, other]}, {"groups": {one: [other]}}, {"splines": [other]}]
    return draw(st.sampled_from(choices)) if one != other else draw(st.sampled_from([{}, {"groups": one}]))
