"""The processor time of a start: of the help, and of `check` with one stack file.

`python benchmarks/start.py`

Each command runs in a process of its own, with the bytecode of all modules written before. Other
programs of the machine make processor time longer, as they share its caches and cores. So in each
round Python itself is timed, too, with the imports of the libraries that `check` needs: the ratio
to that changes little. The shortest of the rounds counts.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_ROUNDS = 15
_MAIN = (sys.executable, "-m", "slicewright.cli")
_LIBRARIES = "its libraries alone"
_COMMANDS: Mapping[str, Sequence[str]] = {
    "Python": (sys.executable, "-c", "pass"),
    _LIBRARIES: (sys.executable, "-c", "import pydantic, rich.console, yaml"),
    "--help": (*_MAIN, "--help"),
    "check": (*_MAIN, "check", "stacks/Pulumi.gke-h100.yaml"),
}
_GOALS_MS = {"--help": 150, "check": 300, "200,000 wrong lines": 3000}
_WRONG_LINES = 199_990
"""A file has at most 200,000 values."""


def main() -> None:
    # Bytecode is what an installed package has.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    spent = {name: float("inf") for name in _COMMANDS}
    for _ in range(1 + _ROUNDS):
        for name, command in _COMMANDS.items():
            spent[name] = min(spent[name], _processor_ms(command, environment))
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "Pulumi.wrong.yaml"
        wrong = "".join(f"    key{i}: 1\n" for i in range(_WRONG_LINES))
        file.write_text(f"config:\n  slicewright:fleet:\n    cloud: gke\n{wrong}")
        spent["200,000 wrong lines"] = min(
            _processor_ms((*_MAIN, "check", str(file)), environment) for _ in range(3)
        )
    for name, ms in spent.items():
        goal = f", goal {_GOALS_MS[name]} ms" if name in _GOALS_MS else ""
        ratio = ms / spent[_LIBRARIES]
        print(f"{name:<20} {ms:6.0f} ms of processor time, {ratio:5.2f} of the libraries{goal}")


def _processor_ms(command: Sequence[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    main()
