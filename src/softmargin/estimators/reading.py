"""From a source of rows to the input of a fit: checks every batch like a table, and draws a sample for all rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..chunks import Batch, Checked, Parquet, Source, Survey, Whole, dense, gather_rows, of_each, survey, surveyed
from ..chunks.labels import LabelTypes
from ..extras import needed
from ..validation import check_labels, check_named, check_weights, class_weights, coded, present_classes
from .found import Data


class Reader(NamedTuple):
    """Reads the items of a source for a model; once the classes are known, as rows, labels and weights like in `Data`.

    ``named`` says that the model knows the names of the columns, and where labels are.  ``told`` keeps the warnings
    already given, so that they are not repeated for every batch; without it, every warning is given.
    """

    model: Any
    unpack: Callable[..., Batch]
    labels: np.ndarray | None = None
    factors: np.ndarray | None = None
    dtype: Any = None
    named: bool = False
    told: dict[str, object] | None = None

    def checked(self, item: Any, first: bool = False) -> Checked | None:
        """The rows of an item with nonzero weight; None if it has no rows."""
        batch = self.unpack(item, frames=self.model._FRAMES)
        if batch.X.shape[0] == 0:
            return None
        X = self.numbers(batch, first and not self.named)
        if batch.y is None and not self.named:
            raise ValueError(
                "The rows have no labels: name the column that holds them, as in chunks.Parquet(path, target='name'), "
                "or pass batches as (X, y)."
            )
        y = self.model._labels(batch.X, batch.y)
        y = check_labels(X, y, part=True, warn=np.ndim(y) == 2 and self._is_news("labels in a column"))
        copies = check_weights(batch.weight, X.shape[0])
        return Checked(X, y, copies) if copies.all() else Checked(*(part[copies > 0] for part in (X, y, copies)))

    def numbers(self, batch: Batch, first: bool = False) -> Any:
        """Rows as numbers, after checks."""
        if batch.names is not None:
            return check_named(self.model, batch.X, batch.names, reset=first, missing=self.model._MISSING)
        only_one_has_names = hasattr(batch.X, "columns") != hasattr(self.model, "feature_names_in_")
        names = first or not only_one_has_names or self._is_news("names of columns")
        return self.model._numbers(batch.X, reset=first, names=names)

    def _is_news(self, warning: str) -> bool:
        """Whether a warning has not been given yet; true for only one of several threads that ask at once."""
        own = object()
        return self.told is None or self.told.setdefault(warning, own) is own

    def __call__(self, item: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        assert self.labels is not None
        assert self.factors is not None
        batch = self.checked(item)
        if batch is None:
            return np.empty((0, self.model.n_features_in_), dtype=self.dtype), np.empty(0), np.empty(0)
        X, y, copies = batch
        codes = np.minimum(np.searchsorted(self.labels, y), len(self.labels) - 1)
        unknown = self.labels[codes] != y
        if unknown.any():
            raise ValueError(
                f"The label {y[unknown][0]!r} did not occur when the rows were first read: they must not change during "
                f"a fit."
            )
        present = self.factors > 0  # a class of weight 0 is absent
        there, weight = present[codes], self.factors[codes] * copies
        y = coded((np.cumsum(present) - 1)[codes], int(present.sum()))
        X = X.astype(self.dtype, copy=False)
        return (X, y, weight) if there.all() else (X[there], y[there], weight[there])


def moments_of(model: Any, source: Source, place: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """The latent moments of all rows of a source, read batch by batch."""
    source = _known_columns(model, source)
    reader = Reader(model, source.unpack, told={})
    batches = (reader.unpack(item, frames=model._FRAMES) for item in source.items())
    parts = [model._moments(reader.numbers(batch), place) for batch in batches if batch.X.shape[0]]
    if not parts:
        shape, _ = model._shape_of_row("latent_mean_and_variance")
        return np.empty((0, *shape)), np.empty((0, *shape))
    mu, v = gather_rows(parts)
    return mu, v


def _known_columns(model: Any, source: Source, labelled: bool = False) -> Source:
    """A source restricted to the columns of the model, if both have column names."""
    names = getattr(model, "feature_names_in_", None)
    return source.only(names.tolist(), labelled) if isinstance(source, Parquet) and names is not None else source


class _Correct(NamedTuple):
    """The weight of an item's correctly predicted rows, and of all its rows."""

    reader: Reader

    def __call__(self, item: Any) -> np.ndarray:
        batch, model = self.reader.checked(item), self.reader.model
        if batch is None:
            return np.zeros(2)
        correct = model._likelier(model._sides_of(batch.X)) == batch.y
        return np.array([batch.copies @ correct, batch.copies.sum()])


def share_correct(model: Any, source: Source, jobs: int, named: bool = False) -> float:
    """The weighted proportion of rows of a source whose labels a model predicts correctly; NaN without rows."""
    source = source if named else _known_columns(model, source, labelled=True)
    reader = Reader(model, source.unpack, named=named, told={})
    right, whole = sum(of_each(source, _Correct(reader), jobs), np.zeros(2))
    return float(right / whole) if whole > 0 else float("nan")


def data_of(model: Any, source: Source, jobs: int, named: bool = False) -> Data:
    """The input of a fit on a source: all of its rows if they are few, else a sample and access to all rows."""
    reader = Reader(model, source.unpack, named=named, told={})
    found: Survey = surveyed(source, reader.checked, jobs)
    totals, (X, y, copies, *_), growth = found.totals, found.sample, found.growth
    if found.is_whole:
        return model._weighed(X, y, copies)
    factors = class_weights(model.class_weight, totals.labels, totals.copies)
    classes, _ = present_classes(totals.labels, factors * totals.copies)
    reader = reader._replace(labels=totals.labels, factors=factors, dtype=X.dtype)
    data = model._weighed(X, y, copies, classes, factors[np.searchsorted(totals.labels, y)])
    grown = growth[np.isin(y, classes)]
    weight, copies = data.weight * grown, data.copies * grown
    n_rows = int(totals.rows[factors > 0].sum())
    data = data._replace(X=dense(data.X), weight=weight, copies=copies, whole=Whole(source, reader, n_rows, 0, jobs))
    # The moments of all rows ignore class weights; where there are any, the weighted sample describes columns better.
    columns = totals.moments.columns if model.class_weight is None else None
    return data._replace(columns=columns, gaps=totals.moments.weight < (1 - 1e-9) * totals.copies.sum())


def rows_of_few(source: Source) -> Batch | None:
    """All rows of a source as one frame or array if they fit in a sample; otherwise None."""
    if hasattr(source, "total"):  # partitions stay where they are
        return None
    parts, n_rows = [], 0
    for item in source.items():
        parts.append(source.unpack(item, frames=True))
        n_rows += parts[-1].X.shape[0]
        if n_rows > survey.MOST_ROWS:
            return None
    if n_rows == 0:
        raise ValueError("There are no rows to fit.")
    frames = [part.X for part in parts if part.X.shape[0]]
    pandas = needed("pandas", "formula", "A frame of batches") if hasattr(frames[0], "columns") else None
    X = np.concatenate(frames) if pandas is None else pandas.concat(map(_as_pandas, frames), ignore_index=True)
    own = [[part[index] for part in parts if part.X.shape[0]] for index in (1, 2)]
    types = LabelTypes("batch")
    for number, part in enumerate(parts):
        if part.y is not None:
            types.meet(np.asarray(part.y), number)
    y, weight = (None if part[0] is None else np.concatenate(list(map(np.asarray, part))) for part in own)
    return Batch(X, y, weight)


def _as_pandas(frame: Any) -> Any:
    return frame.to_pandas() if hasattr(frame, "to_pandas") else frame


class _Representatives(NamedTuple):
    """The first row of a batch for every combination of values in the given columns."""

    unpack: Callable[..., Batch]
    columns: tuple[Any, ...]

    def __call__(self, item: Any) -> Any:
        batch = self.unpack(item, frames=True)
        X, there = _as_pandas(batch.X), check_weights(batch.weight, batch.X.shape[0]) > 0
        return distinct_by(X if there.all() else X[there], self.columns)


def representatives(source: Source, design_of: Callable[[Any, None], Any], jobs: int) -> Any:
    """Rows of a source that cover every group and category.

    The first batch shows which columns matter: those of groups, and all that are not numeric.
    """
    batches = (source.unpack(item, frames=True).X for item in source.items())
    first = next((_as_pandas(batch) for batch in batches if batch.shape[0]), None)
    if first is None:
        raise ValueError("There are no rows to fit.")
    design = design_of(first, None)
    columns = [name for grouping in design.groupings for name in grouping.columns]
    if hasattr(first, "columns"):
        columns += [name for name in design.inputs if np.asarray(first[name]).dtype.kind not in "fiu"]
    columns = tuple(dict.fromkeys(columns))
    parts = [part for part in of_each(source, _Representatives(source.unpack, columns), jobs) if len(part)]
    if not hasattr(first, "columns"):
        return distinct_by(np.concatenate(parts), columns)
    pandas = needed("pandas", "formula", "A frame of groups")
    return distinct_by(pandas.concat(parts, ignore_index=True), columns)


def distinct_by(rows: Any, columns: tuple[Any, ...]) -> Any:
    """The first row for each combination of values in ``columns``; one row if there are no columns to combine.

    >>> distinct_by(np.array([[1.0, 5.0], [2.0, 7.0], [3.0, 5.0]]), (1,))
    array([[1., 5.],
           [2., 7.]])
    """
    if not columns:
        return rows[:1]
    if hasattr(rows, "columns"):
        return rows.drop_duplicates(list(columns))
    _, index = np.unique(rows[:, list(columns)], axis=0, return_index=True)
    return rows[np.sort(index)]
