"""Tables as they come: strings, categories, dates and gaps, turned into numbers by a plan that can be seen and saved.

Needs pandas: ``pip install "softmargin[cli]"``.
"""

from .classifier import TableClassifier
from .encoder import TableEncoder
from .files import read_table, write_table

__all__ = ["TableClassifier", "TableEncoder", "read_table", "write_table"]
