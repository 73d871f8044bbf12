"""Why mutants that no test kills are right as well: see `mutants`."""

JUSTIFIED: dict[str, str] = {}
