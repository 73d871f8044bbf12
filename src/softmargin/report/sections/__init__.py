"""The sections of a report, one file each; a section is made by a function from `Facts` to a `Section`."""

from .calibration import calibration
from .data import data
from .learned import learned
from .measures import cards, measures, verdict
from .model import model
from .ranking import ranking
from .surest import surest

#: The sections, in the order of the tabs.
SECTIONS = (measures, calibration, ranking, surest, learned, model, data)

__all__ = ["SECTIONS", "cards", "verdict"]
