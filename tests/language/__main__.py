"""`python -m tests.language`: the language lint; exit code 1 if a file breaks a rule."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.language.allowances import judge, lowered, read_table, table_text

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = Path(__file__).parent / "allowances.toml"
ROOMS: Final = (
    "apis",
    "infra",
    "node_agent",
    "fleet_controller",
    "kubeapi",
    "telemetry",
    "slicewright",
    "policy",
    "rehearsal/clouds",
    "rehearsal/plugins",
    "rehearsal/cluster/control_plane",
    "rehearsal/cluster/model_server",
)
"""The product, and the rooms of the rehearsal that have been read. Other Python files are not
checked yet.
"""


def checked_files() -> dict[str, str]:
    """Returns the texts of the product's Python files and of all pages, by path."""
    patterns = [f"{room}/**/*.py" for room in ROOMS] + ["*.md", "**/*.md"]
    return {path: (ROOT / path).read_text() for path in _listed(patterns)}


def _listed(patterns: Sequence[str]) -> list[str]:
    """Returns the paths in the repository that match, including files not added to git yet."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--"]
    globs = [f":(glob){pattern}" for pattern in patterns]
    listed = subprocess.run(
        [*command, *globs], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for path in listed.stdout.splitlines() if (ROOT / path).is_file()]


def main() -> int:
    """Runs the lint, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.language", description=__doc__)
    parser.add_argument("--update", action="store_true", help="lower the allowances")
    options = parser.parse_args()
    allowances = read_table(TABLE)
    files = checked_files()
    if options.update:
        allowances = lowered(judge(files, allowances).counts, allowances)
        TABLE.write_text(table_text(allowances))
    messages = judge(files, allowances).messages
    for message in messages:
        sys.stdout.write(f"{message}\n")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
