"""Rows from anywhere.

A model is fitted to a table in memory, or to a *source* of rows: files (`Parquet`), arrays that are not in memory
(`Arrays`), batches that somebody makes (`Batches`), or the partitions of a Dask cluster.  ``fit`` makes a source of
whatever it is given; these names are for what needs saying, such as which columns to read.

One reading of a source chooses a sample, by which everything is chosen that is chosen (`survey`); then passes add up
sums over all rows (`passes`).  Memory does not depend on how many there are.
"""

from .blocks import Table, dense, gather_rows, rows_in_block
from .parquet import Parquet
from .passes import Whole, of_each, summed
from .sources import Arrays, Batch, Batches, Source, kind_of_source, source_of
from .survey import Checked, Survey, surveyed
from .threads import n_threads, one_blas_thread, sweep, swept

__all__ = [
    "Arrays",
    "Batch",
    "Batches",
    "Checked",
    "Parquet",
    "Source",
    "Survey",
    "Table",
    "Whole",
    "dense",
    "gather_rows",
    "kind_of_source",
    "n_threads",
    "of_each",
    "one_blas_thread",
    "rows_in_block",
    "source_of",
    "summed",
    "surveyed",
    "sweep",
    "swept",
]
