"""Which files here hold no tests, the site's machinery and what it builds, and where pages find the contracts."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))
collect_ignore_glob = ["conf.py", "status.py", "_build/*", "_extensions/*", "gallery/*", "pictures/*"]
