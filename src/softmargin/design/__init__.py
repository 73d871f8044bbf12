"""Design matrices of mixed models, from a table and a formula or column names; there is no inference here.

A `Design` is learned from one table, and maps this and any later table to a matrix with the same columns: fixed
effects, spline bases, random slopes, and codes of groups.  Categories, knots and means are those of the first table.
"""

from .design import Design, Factor, SplineTerm
from .nesting import Nesting, nesting
from .splines import Spline

__all__ = ["Design", "Factor", "Nesting", "Spline", "SplineTerm", "nesting"]
