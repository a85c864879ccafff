"""`python -m tests.language`: the language lint; exit code 1 if a file breaks a rule."""

from __future__ import annotations

import argparse
import subprocess
import sys
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
)
"""The product. The rehearsal and the tests are not held to the rules yet."""


def product_files() -> dict[str, str]:
    """Returns the texts of the product's Python files in the repository, by path."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *ROOMS]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [path for path in listed.splitlines() if path.endswith(".py")]
    return {path: (ROOT / path).read_text() for path in paths if (ROOT / path).is_file()}


def main() -> int:
    """Runs the lint, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.language", description=__doc__)
    parser.add_argument("--update", action="store_true", help="lower the allowances")
    options = parser.parse_args()
    allowances = read_table(TABLE)
    files = product_files()
    if options.update:
        allowances = lowered(judge(files, allowances).counts, allowances)
        TABLE.write_text(table_text(allowances))
    messages = judge(files, allowances).messages
    for message in messages:
        sys.stdout.write(f"{message}\n")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
