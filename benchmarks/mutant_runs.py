"""Runs the tests of one module against each of its mutants; `benchmarks/mutate.py` starts it.

    python mutant_runs.py MODULE JOBS TEST...

In the root of a copy of the project. Prints a line of JSON with the number of mutants, then one for
each mutant. The tests of a mutant run in a fork, in one of two ways:

- A mutant of a function that nothing calls before the first test: one process collects the tests,
  and each of its forks gives the function the mutated code. Nothing depends yet on what the
  function does, so this is the same as importing the mutant, and a hundredth of the time.
- Any other mutant: one process imports pytest, hypothesis and whatever does not depend on the
  module; each of its forks imports the mutant and collects the tests.

Those tests that noticed most mutants in the least time run first. Hypothesis takes the same
examples each time, so that the same mutants survive on every machine. A mutant that never ends is
killed by a limit on the processor time of each test, not on wall time, and one that allocates
without end by a limit on memory.
"""

from __future__ import annotations

import gc
import importlib.util
import inspect
import json
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import chain
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mutants import Mutant, mutants_of

_CPU_FACTOR, _CPU_MINIMUM_S = 4, 2
_MEMORY_BYTES = 4 << 30
_WALL_S = 300.0
# The first failure is enough, nobody reads its message, and what pytest does beside running tests
# would take most of the time.
_UNUSED_PLUGINS = (
    "cacheprovider doctest faulthandler junitxml logging threadexception unraisableexception "
    "warnings"
)
_OPTIONS = ["-x", "-q", "--assert=plain", "--capture=no", "--tb=native"]
_OPTIONS += [f"-pno:{name}" for name in _UNUSED_PLUGINS.split()]
_TESTS_ENDED_WELL, _TEST_FAILED, _BROKEN = 0, 1, 99

Function = tuple[str, int]
"""Qualified name and first line."""


@dataclass(frozen=True)
class Swap:
    """The one function whose code a mutant changes."""

    function: Function
    original: CodeType
    mutated: CodeType


@dataclass(frozen=True)
class Ended:
    """What became of a mutant's tests."""

    mutant: Mutant
    status: int
    """Exit status; negative where a signal ended them."""
    failed: str | None
    """The test that noticed it."""


def main(module: str, jobs: str, *tests: str) -> int:
    paths = [path for each in tests for path in sorted(map(str, Path().glob(each))) or [each]]
    path = Path(module.replace(".", "/") + ".py").resolve()
    source = path.read_text()
    note = path.with_suffix(".found.json")
    if _wait_for(_start(partial(_collect, paths, path, note))) != _TESTS_ENDED_WELL:
        print(json.dumps({"error": f"cannot be collected: pytest {' '.join(paths)}"}))
        return 0
    found = json.loads(note.read_text())
    _preload(module, found["modules"])
    gc.freeze()  # shared pages stay shared
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    if _wait_for(_start(partial(_time, paths, note))) != _TESTS_ENDED_WELL:
        print(json.dumps({"error": f"fails without a mutant: pytest {' '.join(paths)}"}))
        return 0
    took_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    runs = _Runs(
        module=module,
        path=path,
        tests=paths,
        order=_Order(json.loads(note.read_text())),
        limit_s=int(_CPU_MINIMUM_S + _CPU_FACTOR * took_s),
        jobs=int(jobs),
    )
    mutants = list(mutants_of(source, str(path)))
    print(json.dumps({"total": len(mutants)}), flush=True)
    original = compile(source, path, "exec", dont_inherit=True)
    uncalled = {(name, line) for name, line in found["uncalled"]}
    swaps = {}
    for mutant in mutants:
        swap = swap_of(original, mutant.code)
        if swap and swap.function in uncalled:
            swaps[mutant] = swap
    imported = [mutant for mutant in mutants if mutant not in swaps]
    for ended in chain(runs.in_place(swaps), runs.imported(imported)):
        _print(ended)
    return 0


def _print(ended: Ended) -> None:
    mutant = ended.mutant
    survived = ended.status == _TESTS_ENDED_WELL
    named = [mutant.function, mutant.line, mutant.change] if survived else None
    print(json.dumps({"number": mutant.number, "survived": named}), flush=True)


def swap_of(original: CodeType, mutated: CodeType) -> Swap | None:
    """The only function in which two compiled modules differ; None where more differs."""
    if original.co_flags & inspect.CO_OPTIMIZED:  # a function, unlike a module or a class
        name = original.co_qualname
        if "<" in name or original.co_freevars != mutated.co_freevars:
            return None
        return Swap((name, original.co_firstlineno), original, mutated)
    inner, mutated_inner = _nested(original), _nested(mutated)
    if _without_lines(original, nested=False) != _without_lines(mutated, nested=False):
        return None
    changed = [
        (before, after)
        for before, after in zip(inner, mutated_inner, strict=True)
        if _without_lines(before) != _without_lines(after)
    ]
    return swap_of(*changed[0]) if len(changed) == 1 else None


def _nested(code: CodeType) -> list[CodeType]:
    return [const for const in code.co_consts if isinstance(const, CodeType)]


def _without_lines(code: CodeType, *, nested: bool = True) -> CodeType:
    """The code without the places of its instructions in the source, and without nested code."""
    consts = tuple(
        (_without_lines(const) if nested else None) if isinstance(const, CodeType) else const
        for const in code.co_consts
    )
    return code.replace(co_consts=consts, co_linetable=b"")


@dataclass(frozen=True, kw_only=True)
class _Runs:
    module: str
    path: Path
    tests: Sequence[str]
    order: _Order
    limit_s: int
    """Of processor time for all tests of one mutant."""
    jobs: int

    def imported(self, mutants: Sequence[Mutant]) -> Iterator[Ended]:
        """Each fork imports the mutant and collects the tests."""
        return self._run(mutants, self._import_and_test)

    def _import_and_test(self, mutant: Mutant) -> int:
        self._limit()
        sys.meta_path.insert(0, _Mutated(self.module, self.path, mutant.code))
        return _test(self.tests, self.order)

    def in_place(self, swaps: Mapping[Mutant, Swap]) -> Iterator[Ended]:
        """Each fork gets the mutated function when the tests are already collected."""
        mutants = list(swaps)
        reading, writing = os.pipe()

        def serve() -> int:
            task = partial(self._serve, swaps=swaps, writing=writing)
            return _test(self.tests, self.order, _AfterCollection(task))

        server = _start(serve)
        os.close(writing)
        with os.fdopen(reading) as lines:
            for line in lines:
                number, status, failed = json.loads(line)
                self.order.learn(failed)
                yield Ended(mutants[number], status, failed)
        if _wait_for(server) != _TESTS_ENDED_WELL:
            raise RuntimeError(f"{self.module}: the process with the collected tests failed")

    def _serve(self, session: pytest.Session, swaps: Mapping[Mutant, Swap], writing: int) -> bool:
        _warm_hypothesis()
        functions = _functions(self.path)
        gc.collect()
        gc.freeze()
        numbers = {mutant: number for number, mutant in enumerate(swaps)}

        def swap_and_test(mutant: Mutant) -> int:
            self._limit()
            swap = swaps[mutant]
            for function in functions[swap.function]:
                function.__code__ = swap.mutated
            self.order.pytest_collection_modifyitems(session.items)
            try:
                session.config.hook.pytest_runtestloop(session=session)
            except session.Failed:  # -x
                return _TEST_FAILED
            return _TEST_FAILED if session.testsfailed else _TESTS_ENDED_WELL

        for ended in self._run(list(swaps), swap_and_test):
            line = json.dumps([numbers[ended.mutant], ended.status, ended.failed])
            os.write(writing, f"{line}\n".encode())
        return True

    def _run(self, mutants: Sequence[Mutant], judge: Callable[[Mutant], int]) -> Iterator[Ended]:
        waiting = list(reversed(mutants))
        running: dict[int, tuple[Mutant, float]] = {}
        while waiting or running:
            while waiting and len(running) < self.jobs:
                mutant = waiting.pop()
                running[_start(partial(judge, mutant))] = mutant, time.monotonic()
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in running:
                failed = self.order.failed_in(pid)
                self.order.learn(failed)
                yield Ended(running.pop(pid)[0], os.waitstatus_to_exitcode(status), failed)
                continue
            for pid, (_, began) in running.items():
                if time.monotonic() - began > _WALL_S:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)

    def _limit(self) -> None:
        self.order.limited = True
        resource.setrlimit(resource.RLIMIT_CPU, (self.limit_s, self.limit_s))
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))


def _collect(tests: Sequence[str], path: Path, note: Path) -> int:
    """Writes to `note` what the tests import, and which functions of the module nothing calls
    before the first test.
    """
    called: set[Function] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename == str(path):
            called.add(_name(frame.f_code))

    def collected(_: pytest.Session) -> bool:
        sys.setprofile(None)
        _warm_hypothesis()
        uncalled = list(_functions(path).keys() - called)
        note.write_text(json.dumps({"modules": sorted(sys.modules), "uncalled": uncalled}))
        return True

    sys.setprofile(profile)
    return _test(tests, _Order({}), _AfterCollection(collected))


def _time(tests: Sequence[str], note: Path) -> int:
    """Runs the tests without a mutant; writes to `note` how long each took."""
    order = _Order({})
    status = _test(tests, order)
    note.write_text(json.dumps(order.seconds))
    return status


def _test(tests: Sequence[str], order: _Order, *plugins: object) -> int:
    """pytest's exit status."""
    return int(pytest.main([*_OPTIONS, *tests], plugins=[_SameExamples(), order, *plugins]))


def _functions(path: Path) -> Mapping[Function, list[FunctionType]]:
    """Every function that has been made from a source, also inside of decorators."""
    found = defaultdict(list)
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename == str(path):
            found[_name(each.__code__)].append(each)
    return found


def _name(code: CodeType) -> Function:
    return code.co_qualname, code.co_firstlineno


class _Order:
    """A pytest plugin: runs the tests first that are likely to fail soon, and ends those that do
    not end.
    """

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self.seconds = dict(seconds)
        """Test -> its processor time."""
        self.limited = False
        self._failures: Counter[str] = Counter()
        self._directory = Path.cwd()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        def key(item: pytest.Item) -> tuple[float, float]:
            took_s = self.seconds.get(item.nodeid, 0.0)
            return -self._failures[item.nodeid] / (took_s + 0.02), took_s

        items.sort(key=key)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        began = time.process_time()
        if self.limited:
            # In another order a test may fill a cache that another one has filled before.
            allowed = _CPU_FACTOR * self.seconds.get(item.nodeid, 0.0) + max(self.seconds.values())
            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            soft = min(hard, int(began + _CPU_MINIMUM_S + allowed) + 1)
            resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
        try:
            return (yield)
        finally:
            if not self.limited:
                self.seconds[item.nodeid] = time.process_time() - began

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._note(os.getpid()).write_text(report.nodeid)

    def failed_in(self, pid: int) -> str | None:
        """Which test failed in a process that has ended."""
        note = self._note(pid)
        if not note.exists():
            return None
        failed = note.read_text()
        note.unlink()
        return failed

    def learn(self, failed: str | None) -> None:
        if failed:
            self._failures[failed] += 1

    def _note(self, pid: int) -> Path:
        return self._directory / f"failed-{pid}"


class _AfterCollection:
    """A pytest plugin: does a task when the tests are collected; runs them where it says False."""

    def __init__(self, task: Callable[[pytest.Session], bool]) -> None:
        self._task: Callable[[pytest.Session], bool] | None = task

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        task, self._task = self._task, None
        return (task(session) or None) if task else None


class _SameExamples:
    """A pytest plugin: hypothesis without chance, without its database, without shrinking."""

    def pytest_sessionstart(self) -> None:
        # After the conftest of all tests, which chooses a profile, and before any test is imported.
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


@given(st.integers(), st.text())
def _warm_hypothesis(number: int, text: str) -> None:
    """What hypothesis prepares for its first test, once for all forks."""


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
    raise SystemExit(main(*sys.argv[1:]))
