"""``python -m softmargin.cli``."""

from . import main

main()
