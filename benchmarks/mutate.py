"""The mutation check, `make mutate`: changes the code in small ways and lets its tests notice.

benchmarks/mutate.toml lists modules, their tests, and survivors with the reason why they survive.
A module's score is the share of its mutants that are killed; those that are marked there as
equivalent, because no behaviour differs, are not counted.
mutants.py makes the mutants of a module; mutant_runs.py, in a process of its own and in a copy of
the project, runs the module's tests against each of them.

Writes docs/mutation.md, and its total to docs/figures.md. A run of some modules replaces their rows
and lists there, and leaves those of the others. Exit codes: 0 when every module of the run reaches
the goal; 1 when one does not, or when mutate.toml excuses a mutant that is gone or is killed; 2
when the tests fail without a mutant.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

GOAL = 95.0
"""Per cent of each module's mutants that are not equivalent."""
FIGURE = "Mutation check: "
"""Starts the line in docs/figures.md; `make bench` keeps that line."""
_HEADINGS = ("Survivors", "Equivalent mutants")
_ROW = re.compile(
    r"^\| `([\w.]+)` \| (\d+) \| (\d+) \| (\d+) \| [\d.]+ % \| ([\d-]+) \|$", re.MULTILINE
)
_HERE = Path(__file__).resolve()
_NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", ".rehearsal", ".hypothesis", "__pycache__", ".*_cache", "*.egg-info"
)


@dataclass(frozen=True)
class Survivor:
    """A mutant that no test noticed."""

    function: str
    line: str
    change: str


@dataclass(frozen=True)
class Result:
    """What became of one module's mutants."""

    module: str
    killed: int
    survivors: tuple[Survivor, ...]
    equivalent: tuple[Survivor, ...]

    @property
    def score(self) -> float:
        return _score(self.killed, len(self.survivors))


@dataclass(frozen=True)
class Entry:
    """What docs/mutation.md says of one module."""

    module: str
    killed: int
    survivors: int
    equivalent: int
    on: str
    """The date of the run."""
    lists: tuple[str, str]
    """Its survivors and its equivalent mutants with their reasons, as the page lists them."""


@dataclass(frozen=True)
class Explanation:
    """Why a mutant survives."""

    reason: str
    equivalent: bool
    """No behaviour differs, so that no test can notice it."""


Explanations = Mapping[tuple[str, Survivor], Explanation]
"""By module and mutant."""


class TestsFailed(Exception):
    """The tests of a module fail without a mutant, so they cannot judge one."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/mutate.py", description=__doc__)
    parser.add_argument("modules", nargs="*", help="of mutate.toml; default: all")
    parser.add_argument("--config", type=Path, default=_HERE.with_name("mutate.toml"))
    parser.add_argument("--root", type=Path, default=_HERE.parents[1], help="the project")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    config = tomllib.loads(options.config.read_text())
    targets = _targets(config["tests"], options.root)
    unknown = set(options.modules) - targets.keys()
    if unknown:
        parser.error(f"{options.config} has no tests for {', '.join(sorted(unknown))}")
    modules = [module for module in targets if module in (options.modules or targets)]
    explanations = {
        (each["module"], Survivor(each["function"], each["line"], each["change"])): Explanation(
            each["reason"], each.get("equivalent", False)
        )
        for each in config.get("survivor", ())
        if each["module"] in modules
    }
    results = []
    with tempfile.TemporaryDirectory(prefix="sw-mutate-") as directory:
        copy = Path(directory) / "project"
        shutil.copytree(options.root, copy, ignore=_NOT_COPIED, symlinks=True)
        for module in modules:
            try:
                results.append(_result(module, targets[module], copy, options.jobs, explanations))
            except TestsFailed as e:
                print(e, file=sys.stderr)
                return 2
            for survivor in results[-1].survivors:
                if (module, survivor) not in explanations:
                    print(f"survived: {module}: {_shown(survivor)}", flush=True)
    survived = {
        (result.module, each)
        for result in results
        for each in (*result.survivors, *result.equivalent)
    }
    stale = sorted(explanations.keys() - survived, key=str)
    for module, survivor in stale:
        print(f"stale in {options.config.name}: {module}: {_shown(survivor)}", file=sys.stderr)
    low = [result for result in results if result.score < GOAL]
    for result in low:
        print(f"{result.module}: {result.score:.1f} %, the goal is {GOAL:g} %", file=sys.stderr)
    docs = options.root / "docs"
    page = docs / "mutation.md"
    entries = {
        **(_entries(page.read_text()) if page.exists() else {}),
        **{result.module: _entry(result, explanations) for result in results},
    }
    shown = [entries[module] for module in targets if module in entries]
    page.write_text(_page(shown))
    _write_figure(docs / "figures.md", shown)
    return 1 if stale or low else 0


def _targets(tests: dict[str, list[str]], root: Path) -> dict[str, list[str]]:
    """Module -> arguments of pytest. `package.*` stands for all modules of a package."""
    targets: dict[str, list[str]] = {}
    for name, arguments in tests.items():
        package = name.removesuffix(".*")
        if package == name:
            targets[name] = arguments
            continue
        for path in sorted((root / package.replace(".", "/")).glob("*.py")):
            if path.stem != "__init__":
                targets[f"{package}.{path.stem}"] = arguments
    return targets


def _result(
    module: str, tests: Sequence[str], copy: Path, jobs: int, explanations: Explanations
) -> Result:
    """Runs one module's mutants in a process of its own; prints progress."""
    command = [sys.executable, str(_HERE.with_name("mutant_runs.py")), module, str(jobs), *tests]
    # The same order of sets in every run, and the copy's modules before the installed ones.
    environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(copy)}
    began, total, done, survivors = time.monotonic(), 0, 0, []
    terminal = sys.stdout.isatty()
    with subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            said: dict[str, Any] = json.loads(line)
            if "error" in said:
                raise TestsFailed(f"{module}: {said['error']}")
            if "total" in said:
                total = said["total"]
                continue
            done += 1
            if said["survived"]:
                survivors.append((said["number"], Survivor(*said["survived"])))
            if terminal:
                print(f"\r{module}: {done} of {total}, {len(survivors)} survived", end="")
    if worker.returncode or done != total:
        raise TestsFailed(f"{module}: the worker ended with {worker.returncode}")
    inert = {each for (of, each), why in explanations.items() if of == module and why.equivalent}
    alive = [survivor for _, survivor in sorted(survivors, key=str)]
    result = Result(
        module,
        killed=total - len(alive),
        survivors=tuple(each for each in alive if each not in inert),
        equivalent=tuple(each for each in alive if each in inert),
    )
    print(
        f"{chr(13) if terminal else ''}{module}: {_total([_entry(result, {})])}, "
        f"in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return result


def _page(entries: Sequence[Entry]) -> str:
    lines = [
        "# Mutation check",
        "",
        f"Written by `make mutate`, each row on its date; {_machine()}.",
        "Each mutant is one small change of the code: a comparison, a boundary, `and`, `or`,",
        "`not`, a constant, an operator, a statement or argument left out, a returned value. It is",
        "killed when a test of its module fails, and equivalent when no behaviour differs. The",
        f"score is killed / (killed + survivors); the goal is {GOAL:g} % of each module.",
        "",
        "| module | killed | survivors | equivalent | score | measured |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| `{each.module}` | {each.killed} | {each.survivors} | {each.equivalent} | "
        f"{_score(each.killed, each.survivors):.1f} % | {each.on} |"
        for each in entries
    ]
    lines += ["", f"{_total(entries)}."]
    for number, heading in enumerate(_HEADINGS):
        listed = [(each.module, each.lists[number]) for each in entries if each.lists[number]]
        if listed:
            lines += ["", f"## {heading}"]
        for module, mutants in listed:
            lines += ["", f"### {module}", "", mutants]
    return "\n".join(lines) + "\n"


def _entry(result: Result, explanations: Explanations) -> Entry:
    def listed(mutants: Sequence[Survivor]) -> str:
        lines = []
        for each in mutants:
            why = explanations.get((result.module, each))
            lines += [f"- {_shown(each)}", f"  {why.reason if why else 'Not explained.'}"]
        return "\n".join(lines)

    return Entry(
        result.module,
        result.killed,
        len(result.survivors),
        len(result.equivalent),
        f"{datetime.now(UTC):%Y-%m-%d}",
        (listed(result.survivors), listed(result.equivalent)),
    )


def _entries(page: str) -> dict[str, Entry]:
    """Of an earlier run, by module."""
    table, *parts = re.split(rf"^## ({'|'.join(_HEADINGS)})\n", page, flags=re.MULTILINE)
    lists: dict[tuple[str, str], str] = {}
    for heading, part in zip(parts[::2], parts[1::2], strict=True):
        _, *modules = re.split(r"^### ([\w.]+)\n", part, flags=re.MULTILINE)
        for module, listed in zip(modules[::2], modules[1::2], strict=True):
            lists[heading, module] = listed.strip()
    survivors, equivalent = _HEADINGS
    return {
        module: Entry(
            module,
            int(killed),
            int(survived),
            int(inert),
            on,
            (lists.get((survivors, module), ""), lists.get((equivalent, module), "")),
        )
        for module, killed, survived, inert, on in _ROW.findall(table)
    }


def _total(entries: Sequence[Entry]) -> str:
    killed, survived = sum(e.killed for e in entries), sum(e.survivors for e in entries)
    equivalent = sum(e.equivalent for e in entries)
    text = f"{killed} of {killed + survived} mutants killed, {_score(killed, survived):.1f} %"
    return f"{text} ({equivalent} equivalent left out)" if equivalent else text


def _score(killed: int, survived: int) -> float:
    return 100.0 * killed / (killed + survived) if killed + survived else 100.0


def _write_figure(path: Path, entries: Sequence[Entry]) -> None:
    """Replaces the line in the page, or adds it at its end."""
    figure = f"{FIGURE}{_total(entries)}. See [mutation.md](mutation.md)."
    lines = path.read_text().splitlines() if path.exists() else ["# Figures"]
    at = [i for i, line in enumerate(lines) if line.startswith(FIGURE)]
    if at:
        lines[at[0]] = figure
    else:
        lines += ["", figure]
    path.write_text("\n".join(lines) + "\n")


def _shown(survivor: Survivor) -> str:
    return f"`{survivor.function}`: `{survivor.line}`: `{survivor.change}`"


def _machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return f"{os.cpu_count()} × {model}"


if __name__ == "__main__":
    raise SystemExit(main())
