"""A new user gets from a fresh environment, through the demo, to a report on her own table in under three minutes.

Every command is copied verbatim from README.md: its first block of commands except the tests, and the block under
"Your own table".  They run one after the other in a fresh clone of the project, with a fresh virtual environment;
packages are those that `pip` finds, in its cache or elsewhere.  The report must be there at the end, complete.

Target: under three minutes in all.

    python benchmarks/new_user.py            # needs no data
    python benchmarks/new_user.py --quick    # with the packages of this environment, and a short demo
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from common import arguments, print_table, report, timed

ROOT = Path(__file__).parents[1]
MOST_SECONDS = 180.0


def commands(quick: bool) -> list[str]:
    """What README.md says, in order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = {
        heading: re.search(r"^```sh\n(.*?)^```", part, re.DOTALL | re.MULTILINE)
        for heading, _, part in (section.partition("\n") for section in re.split(r"^#+ ", text, flags=re.MULTILINE))
    }
    first, own = blocks["softmargin"], blocks["Your own table"]
    if first is None or own is None:
        raise SystemExit("README.md has no such commands.")
    lines = [line for block in (first[1], own[1]) for line in block.splitlines() if "pytest" not in line]
    parts = [part.strip() for line in lines for part in line.split("&&")]
    if quick:
        parts = [part.replace("demo", "demo --quick") for part in parts if not part.startswith("pip ")]
    return parts


def main() -> None:
    options = arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        clone, home = Path(folder, "softmargin"), Path(folder, "venv")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        seconds, _ = timed(lambda: venv.create(home, with_pip=True, system_site_packages=options.quick))
        rows = [["python -m venv", seconds]]
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        environment["PATH"] = f"{home / 'bin'}{os.pathsep}{environment['PATH']}"
        if options.quick:
            scripts = Path(sys.executable).parent
            environment |= {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(clone / "src")}
        for command in commands(options.quick):
            seconds, done = timed(
                lambda command=command: subprocess.run(
                    command, shell=True, cwd=clone, env=environment, capture_output=True, text=True, check=False
                )
            )
            if done.returncode:
                raise SystemExit(f"{command}\n{done.stdout}{done.stderr}")
            rows.append([command, seconds])
        page = (clone / "report.html").read_text(encoding="utf-8")
    total = sum(seconds for _, seconds in rows)
    print_table(["command", "seconds"], [*([name, f"{value:.1f}"] for name, value in rows), ["all", f"{total:.1f}"]])
    whole = page.rstrip().endswith("</html>")
    print(f"The report has {len(page) / 1000:.0f} kB and is {'whole' if whole else 'cut off'}.")
    value = {"seconds": round(total, 1), "commands": len(rows), "report_is_whole": whole}
    report("new_user", value, {"seconds": MOST_SECONDS, "report_is_whole": True}, total < MOST_SECONDS and whole)


if __name__ == "__main__":
    main()
