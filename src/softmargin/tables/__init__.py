"""Tables with strings, categories, dates and missing values, encoded by a plan that can be inspected and saved.

Needs pandas: ``pip install "softmargin[cli]"``.
"""

from .classifier import TableClassifier
from .encoder import TableEncoder
from .files import read_table, write_table

__all__ = ["TableClassifier", "TableEncoder", "read_table", "write_table"]
