"""The mutation check, `make mutate`: changes the code in small ways and lets its tests notice.

benchmarks/mutate.toml lists modules, their tests, and survivors with the reason why they survive.
The tests of a module run once per mutant, in a copy of the project: one process imports pytest,
hypothesis and whatever does not depend on the module, and forks for each mutant. Those tests that
noticed most mutants in the least time run first. Hypothesis takes the same examples each time, so
that the same mutants survive on every machine. A mutant that never ends is killed by a limit on
processor time, not on wall time, and one that allocates without end by a limit on memory.

Writes docs/mutation.md, and its total to docs/figures.md. Exit codes: 0 when every module reaches
the goal; 1 when one does not, or when mutate.toml excuses a mutant that is gone or is killed; 2
when the tests fail without a mutant.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutants import Mutant, mutants_of

GOAL = 95.0
"""Per cent of each module's mutants."""
FIGURE = "Mutation check: "
"""Starts the line in docs/figures.md; `make bench` keeps that line."""
_HERE = Path(__file__).resolve()
_CPU_FACTOR, _CPU_MINIMUM_S = 4, 2
_MEMORY_BYTES = 4 << 30
_WALL_S = 300.0
# The first failure is enough, nobody reads its message, and what pytest does beside running tests
# would take most of the time.
_UNUSED_PLUGINS = (
    "cacheprovider doctest faulthandler junitxml logging threadexception unraisableexception "
    "warnings"
)
_OPTIONS = ["-x", "-q", "--assert=plain", *(f"-pno:{name}" for name in _UNUSED_PLUGINS.split())]
_TESTS_ENDED_WELL, _BROKEN = 0, 99
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
    total: int
    survivors: tuple[Survivor, ...]

    @property
    def killed(self) -> int:
        return self.total - len(self.survivors)

    @property
    def score(self) -> float:
        return 100.0 * self.killed / self.total if self.total else 100.0


class TestsFailed(Exception):
    """The tests of a module fail without a mutant, so they cannot judge one."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks/mutate.py", description=__doc__)
    parser.add_argument(
        "modules", nargs="*", help="of mutate.toml; default: all, and only then docs/ is written"
    )
    parser.add_argument("--config", type=Path, default=_HERE.with_name("mutate.toml"))
    parser.add_argument("--root", type=Path, default=_HERE.parents[1], help="the project")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--worker", metavar="MODULE", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    config = tomllib.loads(options.config.read_text())
    targets = _targets(config["tests"], Path() if options.worker else options.root)
    if options.worker:
        return _work(options.worker, targets[options.worker], options.jobs)
    unknown = set(options.modules) - targets.keys()
    if unknown:
        parser.error(f"{options.config} has no tests for {', '.join(sorted(unknown))}")
    modules = [module for module in targets if module in (options.modules or targets)]
    with tempfile.TemporaryDirectory(prefix="sw-mutate-") as directory:
        copy = Path(directory) / "project"
        shutil.copytree(options.root, copy, ignore=_NOT_COPIED, symlinks=True)
        try:
            results = [_result(module, copy, options.config, options.jobs) for module in modules]
        except TestsFailed as e:
            print(e, file=sys.stderr)
            return 2
    excuses = {
        (each["module"], Survivor(each["function"], each["line"], each["change"])): each["reason"]
        for each in config.get("survivor", ())
        if each["module"] in modules
    }
    survived = {(result.module, survivor) for result in results for survivor in result.survivors}
    stale = sorted(excuses.keys() - survived, key=str)
    for module, survivor in stale:
        print(f"stale in {options.config.name}: {module}: {_shown(survivor)}", file=sys.stderr)
    low = [result for result in results if result.score < GOAL]
    for result in low:
        print(f"{result.module}: {result.score:.1f} %, the goal is {GOAL:g} %", file=sys.stderr)
    for module, survivor in sorted(survived - excuses.keys(), key=str):
        print(f"survived: {module}: {_shown(survivor)}")
    if not options.modules:
        docs = options.root / "docs"
        (docs / "mutation.md").write_text(_page(results, excuses))
        _write_figure(docs / "figures.md", results)
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


def _result(module: str, copy: Path, config: Path, jobs: int) -> Result:
    """Runs one module's mutants in a process of its own; prints progress."""
    command = [sys.executable, str(_HERE), "--worker", module, "--jobs", str(jobs)]
    # The same order of sets in every run, and the copy's modules before the installed ones.
    environment = os.environ | {"PYTHONHASHSEED": "0", "PYTHONPATH": str(copy)}
    began, total, done, survivors = time.monotonic(), 0, 0, []
    terminal = sys.stdout.isatty()
    with subprocess.Popen(
        [*command, "--config", str(config.resolve())],
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
    result = Result(module, total, tuple(survivor for _, survivor in sorted(survivors, key=str)))
    print(
        f"{chr(13) if terminal else ''}{module}: {result.killed} of {total} killed, "
        f"{result.score:.1f} %, in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return result


def _page(results: Sequence[Result], excuses: dict[tuple[str, Survivor], str]) -> str:
    lines = [
        "# Mutation check",
        "",
        f"Written by `make mutate` on {datetime.now(UTC):%Y-%m-%d}; {_machine()}.",
        "Each mutant is one small change of the code: a comparison, a boundary, `and`, `or`,",
        "`not`, a constant, an operator, a statement or argument left out, a returned value. It is",
        f"killed when a test of its module fails. The goal is {GOAL:g} % of each module.",
        "",
        "| module | mutants | killed | score | survivors explained |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        explained = sum((result.module, each) in excuses for each in result.survivors)
        lines.append(
            f"| `{result.module}` | {result.total} | {result.killed} | {result.score:.1f} % | "
            f"{explained} of {len(result.survivors)} |"
        )
    lines += ["", _total(results), "", "## Survivors"]
    for result in results:
        if not result.survivors:
            continue
        lines += ["", f"### {result.module}", ""]
        for each in result.survivors:
            reason = excuses.get((result.module, each), "Not explained.")
            lines += [f"- {_shown(each)}", f"  {reason}"]
    return "\n".join(lines) + "\n"


def _total(results: Sequence[Result]) -> str:
    total, killed = sum(r.total for r in results), sum(r.killed for r in results)
    return f"{killed} of {total} mutants killed ({100 * killed / max(total, 1):.1f} %)."


def _write_figure(path: Path, results: Sequence[Result]) -> None:
    """Replaces the line in the page, or adds it at its end."""
    figure = f"{FIGURE}{_total(results)} See [mutation.md](mutation.md)."
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


def _work(module: str, tests: Sequence[str], jobs: int) -> int:
    """In the copy: prints a line of JSON with the number of mutants, then one for each mutant."""
    import pytest  # noqa: F401 - to be there before the first fork

    tests = [path for each in tests for path in sorted(map(str, Path().glob(each))) or [each]]
    path = Path(module.replace(".", "/") + ".py")
    source = path.read_text()
    note = Path("baseline.json").resolve()
    if _wait_for(_start(partial(_test, tests, _Order({}), note))) != _TESTS_ENDED_WELL:
        print(json.dumps({"error": f"fails without a mutant: pytest {' '.join(tests)}"}))
        return 0
    _preload(module, json.loads(note.read_text())["modules"])
    gc.freeze()  # shared pages stay shared
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    if _wait_for(_start(partial(_test, tests, _Order({}), note))) != _TESTS_ENDED_WELL:
        print(json.dumps({"error": "the tests fail in a process with preloaded modules"}))
        return 0
    took_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    limit_s = int(_CPU_MINIMUM_S + _CPU_FACTOR * took_s)
    order = _Order(json.loads(note.read_text())["seconds"])
    mutants = list(mutants_of(source, str(path.resolve())))
    print(json.dumps({"total": len(mutants)}), flush=True)
    judge = partial(_judge, module=module, path=path, tests=tests, order=order, limit_s=limit_s)
    for mutant, status in _run(mutants, judge, order, jobs):
        survived = status == _TESTS_ENDED_WELL
        named = [mutant.function, mutant.line, mutant.change] if survived else None
        print(json.dumps({"number": mutant.number, "survived": named}), flush=True)
    return 0


def _run(
    mutants: Sequence[Mutant], judge: Callable[[Mutant], int], order: _Order, jobs: int
) -> Iterator[tuple[Mutant, int]]:
    """Every mutant with the exit status of its tests; negative where a signal ended them."""
    waiting = list(reversed(mutants))
    running: dict[int, tuple[Mutant, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            running[_start(partial(judge, mutant))] = mutant, time.monotonic()
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended in running:
            order.learn(ended)
            yield running.pop(ended)[0], os.waitstatus_to_exitcode(status)
            continue
        for pid, (_, began) in running.items():
            if time.monotonic() - began > _WALL_S:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def _judge(
    mutant: Mutant, *, module: str, path: Path, tests: Sequence[str], order: _Order, limit_s: int
) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    sys.meta_path.insert(0, _Mutated(module, path, mutant.code))
    return _test(tests, order)


def _test(tests: Sequence[str], order: _Order, note: Path | None = None) -> int:
    """pytest's exit status. note: where to write what was imported, and how long each test took."""
    import pytest

    status = int(pytest.main([*_OPTIONS, *tests], plugins=[_SameExamples(), order]))
    if note:
        found = {"modules": sorted(sys.modules), "seconds": order.seconds}
        note.write_text(json.dumps(found))
    return status


class _Order:
    """A pytest plugin: runs the tests first that are likely to fail soon."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        """Test -> how long it takes."""
        self._failures: Counter[str] = Counter()
        self._directory = Path.cwd()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        def key(item: Any) -> tuple[float, float]:
            took_s = self.seconds.get(item.nodeid, 0.0)
            return -self._failures[item.nodeid] / (took_s + 0.02), took_s

        items.sort(key=key)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call":
            self.seconds[report.nodeid] = report.duration
        if report.failed:
            self._note(os.getpid()).write_text(report.nodeid)

    def learn(self, pid: int) -> None:
        """Which test failed in a process that has ended."""
        note = self._note(pid)
        if note.exists():
            self._failures[note.read_text()] += 1
            note.unlink()

    def _note(self, pid: int) -> Path:
        return self._directory / f"failed-{pid}"


class _SameExamples:
    """A pytest plugin: hypothesis without chance, without its database, without shrinking."""

    def pytest_sessionstart(self) -> None:
        # After the conftest of all tests, which chooses a profile, and before any test is imported.
        from hypothesis import HealthCheck, Phase, settings

        settings.register_profile(
            "mutants",
            settings.default,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate],
        )
        settings.load_profile("mutants")


def _start(task: Callable[[], int]) -> int:
    """Runs the task in a fork without output; its process id."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    status = _BROKEN
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nowhere, descriptor)
        status = task()
    finally:
        os._exit(status)


def _wait_for(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class _Mutated(MetaPathFinder, Loader):
    """Imports one module from a mutant's code; with none, refuses to import it."""

    def __init__(self, module: str, path: Path, code: CodeType | None) -> None:
        self._module, self._path, self._code = module, path, code

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname != self._module:
            return None
        if self._code is None:
            raise ImportError(f"{fullname} is not to be imported yet")
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        assert self._code is not None
        exec(self._code, module.__dict__)  # noqa: S102 - what an import does


def _preload(module: str, names: Sequence[str]) -> None:
    """Imports what does not depend on the module, so that no mutant's tests need to."""
    refuse = _Mutated(module, Path(), None)
    sys.meta_path.insert(0, refuse)
    for name in names:
        if name.partition(".")[0] in ("tests", "conftest", "__main__"):
            continue
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001, S110 - it needs the module, or is no module of its own
            pass
    sys.meta_path.remove(refuse)


if __name__ == "__main__":
    raise SystemExit(main())
