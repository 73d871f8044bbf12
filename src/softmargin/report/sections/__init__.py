"""The parts of a report, one file each; a part is a function from `Facts` to a `Section`."""

from .calibration import calibration
from .data import data
from .learned import learned
from .measures import cards, measures, verdict
from .model import model
from .ranking import ranking
from .surest import surest

#: In the order of the tabs.
SECTIONS = (measures, calibration, ranking, surest, learned, model, data)

__all__ = ["SECTIONS", "cards", "verdict"]
