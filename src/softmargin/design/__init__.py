"""From a table and a formula, or from column names, to the numbers of a mixed model; no inference here.

A `Design` is learnt from one table and turns that one and any later one into a matrix of the same columns: fixed
effects, spline bases, random slopes, and the codes of groups.  Categories, knots and means are those of the first.
"""

from .design import Design, Factor, SplineTerm
from .nesting import Nesting, nesting
from .splines import Spline

__all__ = ["Design", "Factor", "Nesting", "Spline", "SplineTerm", "nesting"]
