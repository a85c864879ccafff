"""`make bench`: runs the benchmarks, and writes what they print into docs/figures.md.

Of that page only the blocks between `<!-- measured: NAME -->` and `<!-- end -->` are replaced: what
people wrote around them stays. The page is written at the end, and only if every benchmark
succeeded.

Exit codes: 0 when the page is written; 1 when a benchmark failed, and the page is as it was.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "figures.md"


@dataclass(frozen=True)
class Benchmark:
    """A program, run in the project's directory, whose output is shown on the page."""

    command: Sequence[str]
    markdown: bool = False
    """It prints Markdown that says when and where it was measured; others print plain text."""


BENCHMARKS: Mapping[str, Benchmark] = {
    "rehearsal": Benchmark(
        (sys.executable, "-m", "slicewright.rehearsal.scenario.bench"), markdown=True
    ),
    **{
        name: Benchmark((sys.executable, f"benchmarks/{name}.py"))
        for name in (
            *("agent", "proof", "fleet_agents", "plan", "preview", "geometry", "planner"),
            *("controller", "start"),
        )
    },
}


class BenchmarkFailed(Exception):
    """A benchmark ended with another exit code than 0."""


def main(
    arguments: Sequence[str] | None = None,
    benchmarks: Mapping[str, Benchmark] = BENCHMARKS,
    page: Path = PAGE,
) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/figures.py", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"{', '.join(benchmarks)}; default: all")
    names = parser.parse_args(arguments).names or list(benchmarks)
    if unknown := set(names) - benchmarks.keys():
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    try:
        measured = {name: _measured(name, benchmarks[name]) for name in names}
    except BenchmarkFailed as e:
        print(f"{e}; {page} is as it was", file=sys.stderr)
        return 1
    text = page.read_text(encoding="utf-8")
    for name, block in measured.items():
        text = with_block(text, name, block)
    written = page.with_suffix(".new")
    written.write_text(text, encoding="utf-8")
    written.replace(page)
    return 0


def with_block(page: str, name: str, block: str) -> str:
    """The page with another block of this name; with a section of its own where it has none."""
    marked = f"<!-- measured: {name} -->\n{block}\n<!-- end -->\n"
    pattern = re.compile(
        rf"^<!-- measured: {re.escape(name)} -->\n.*?^<!-- end -->\n", re.MULTILINE | re.DOTALL
    )
    replaced, found = pattern.subn(lambda _: marked, page)
    return replaced if found else f"{page.rstrip()}\n\n## {name}\n\n{marked}"


def _measured(name: str, benchmark: Benchmark) -> str:
    began = (
        f"{datetime.now(UTC):%Y-%m-%d}; load average {os.getloadavg()[0]:.1f} on "
        f"{os.cpu_count()} processors as it began."
    )
    lines = []
    with subprocess.Popen(
        benchmark.command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        raise BenchmarkFailed(f"benchmark {name} ended with {process.returncode}")
    output = "".join(lines).rstrip()
    return output if benchmark.markdown else f"{began}\n\n```\n{output}\n```"


if __name__ == "__main__":
    raise SystemExit(main())
