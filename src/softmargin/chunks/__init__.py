"""Sources of rows that need not fit in memory.

A model is fitted to a table in memory, or to a *source* of rows: files (`Parquet`), arrays that are not in memory
(`Arrays`), batches (`Batches`), or the partitions of a Dask cluster.  ``fit`` recognises sources by itself; these names
are for options, such as which columns to read.

A first pass over a source draws a sample, on which all choices are based (`survey`); further passes then add up sums
over all rows (`passes`).  Memory does not depend on the number of rows.
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
