"""Programs in forks of one server are what programs in processes of their own are."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from slicewright.rehearsal.plugins.engine import served_program
from slicewright.rehearsal.plugins.engine.served_program import VARIABLE, ServedProgram


@dataclass
class Programs:
    directory: Path
    socket: Path

    def start(
        self,
        text: str,
        *arguments: str,
        python: str = sys.executable,
        more: Mapping[str, str] | None = None,
    ) -> ServedProgram | None:
        program = self.directory / "program.py"
        program.write_text(textwrap.dedent(text))
        variables = {**os.environ, VARIABLE: str(self.socket), **(more or {})}
        argv = [python, "-u", str(program), *arguments]
        return served_program.start(argv, variables, self.directory)

    def run(self, text: str, *arguments: str, more: Mapping[str, str] | None = None) -> int:
        started = self.start(text, *arguments, more=more)
        assert started is not None
        return started.wait(180)

    def wrote(self) -> str:
        return (self.directory / "out").read_text()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    where = tmp_path / "s"
    with served_program.server(where):
        yield Programs(tmp_path, where)


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 180
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text()


def ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_program_has_its_own_arguments_variables_and_directory(programs: Programs) -> None:
    text = """
        import os, sys
        open("out", "w").write(
            f"{sys.argv[1:]} {os.environ['ONLY_HERE']} {os.environ.get('HOME')} {__name__} "
            f"{sys.path[0] == os.getcwd()} {os.read(0, 10)}"
        )
    """
    assert programs.run(text, "a", "b c", more={"ONLY_HERE": "x", "HOME": "/h"}) == 0
    assert programs.wrote() == "['a', 'b c'] x /h __main__ True b''"


def test_programs_output_goes_to_its_hosts_streams(
    programs: Programs, capfd: pytest.CaptureFixture[str]
) -> None:
    assert programs.run("import sys; print('said'); print('warned', file=sys.stderr)") == 0
    assert capfd.readouterr() == ("said\n", "warned\n")


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("pass", 0),
        ("raise SystemExit(32)", 32),
        ("raise SystemExit", 0),
        ("import os; os._exit(3)", 3),
        ("raise ValueError('broken')", 1),
        ("import sys; sys.exit('in words')", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
        ("import threading, time\nthreading.Thread(target=lambda: time.sleep(0.2)).start()", 0),
        ("import os, time\nif os.fork() == 0:\n    time.sleep(5)\n    os._exit(0)", 0),
        ("import atexit, os\natexit.register(lambda: os._exit(7))", 7),
    ],
)
def test_it_ends_as_a_process_of_its_own_does(programs: Programs, text: str, status: int) -> None:
    assert programs.run(text) == status


def test_an_exception_has_its_traceback(
    programs: Programs, capfd: pytest.CaptureFixture[str]
) -> None:
    programs.run("def inner():\n    raise ValueError('broken')\ninner()")
    assert "in inner" in (found := capfd.readouterr().err)
    assert found.endswith("ValueError: broken\n")


def test_changed_source_is_seen_and_nothing_of_an_earlier_program(programs: Programs) -> None:
    beside = programs.directory / "beside.py"
    text = """
        import beside, json
        open("out", "w").write(f"{beside.answer} {getattr(json, 'left', None)}")
        json.left = "by a program"
    """
    beside.write_text("answer = 1")
    assert programs.run(text) == 0
    assert programs.wrote() == "1 None"
    beside.write_text("answer = 'another'")
    assert programs.run(text) == 0
    assert programs.wrote() == "another None"


def test_site_packages_imports_of_a_program_are_preloaded_for_the_next(
    programs: Programs,
) -> None:
    (programs.directory / "own.py").write_text("")
    text = """
        import sys
        open("out", "w").write(f"{'yaml' in sys.modules} {'own' in sys.modules}")
        import yaml, own
    """
    assert programs.run(text) == 0
    assert programs.wrote() == "False False"
    assert programs.run(text) == 0
    assert programs.wrote() == "True False"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    """Programs of a checkout of its own, whose only package is `toy`."""
    package, engine = tmp_path / "toy", tmp_path / "a" / "b" / "c"
    package.mkdir()
    (package / "__init__.py").write_text("from toy.inner import answer")
    (package / "inner.py").write_text("answer = 1")
    engine.mkdir(parents=True)
    server = engine / "program_server.py"
    server.write_text(served_program._SERVER.read_text())
    monkeypatch.setattr(served_program, "_SERVER", server)
    # As an editable install makes it known, to the server as to programs.
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "programs").mkdir()
    with served_program.server(tmp_path / "s"):
        yield Programs(tmp_path / "programs", tmp_path / "s")


def toy(programs: Programs, *arguments: str) -> str:
    """Whether `toy` is there when a program begins, and what the program gets of it."""
    text = """
        import sys
        there = "toy.inner" in sys.modules
        sys.path[:0] = sys.argv[1:]
        import toy
        open("out", "w").write(f"{there} {toy.answer}")
    """
    assert programs.run(text, *arguments) == 0
    return programs.wrote()


def test_project_imports_of_a_program_are_preloaded_for_the_next(
    checkout: Programs,
) -> None:
    assert [toy(checkout) for _ in range(3)] == ["False 1", "True 1", "True 1"]


@pytest.mark.parametrize("changed", ["inner.py", "data.toml"])
def test_with_a_changed_file_the_project_is_imported_again(
    checkout: Programs, changed: str
) -> None:
    toy(checkout)
    assert toy(checkout) == "True 1"
    (checkout.directory.parent / "toy" / changed).write_text("answer = 'another'")
    expected = "False another" if changed == "inner.py" else "False 1"
    assert [toy(checkout) for _ in range(2)] == [expected, expected]


def test_a_program_with_another_package_of_that_name_gets_its_own(checkout: Programs) -> None:
    toy(checkout)
    own = checkout.directory / "copy" / "toy"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("answer = 'its own'")
    assert toy(checkout, str(own.parent)) == "False its own"
    # A rehearsal's environment has links to the checkout.
    linked = checkout.directory / "links"
    linked.mkdir()
    (linked / "toy").symlink_to(checkout.directory.parent / "toy")
    assert toy(checkout, str(linked)) == "True 1"


def test_a_class_with_its_modules_name_stays_a_class(programs: Programs) -> None:
    # Pulumi's SDKs load packages when they are first used, and a package's submodule stood in it
    # for the class when it was loaded first.
    text = """
        import pulumi_kubernetes
        open("out", "w").write(type(pulumi_kubernetes.apiextensions.CustomResource).__name__)
    """
    for _ in range(2):
        assert programs.run(text) == 0
        assert programs.wrote() == "type"


def test_programs_run_at_the_same_time(programs: Programs) -> None:
    text = """
        import sys, time, pathlib
        pathlib.Path(sys.argv[1]).touch()
        while not pathlib.Path(sys.argv[2]).exists():
            time.sleep(0.01)
    """
    first, second = programs.start(text, "a", "b"), programs.start(text, "b", "a")
    assert first is not None
    assert second is not None
    assert (first.wait(60), second.wait(60)) == (0, 0)


ASLEEP = "import os, time\nopen('pid', 'w').write(f'{os.getpid()}\\n')\ntime.sleep(600)"


def test_it_ends_by_the_signal_that_its_host_asks_for(programs: Programs) -> None:
    running = programs.start(ASLEEP)
    assert running is not None
    pid = int(wait_for(programs.directory / "pid"))
    assert running.poll() is None
    running.terminate()
    assert running.wait(180) == -signal.SIGTERM
    assert ended(pid)


def test_an_interrupt_is_the_programs_own(programs: Programs) -> None:
    running = programs.start(f"try:\n    exec({ASLEEP!r})\nexcept KeyboardInterrupt: exit(5)")
    assert running is not None
    os.kill(int(wait_for(programs.directory / "pid")), signal.SIGINT)
    assert running.wait(180) == 5


def test_it_does_not_outlive_its_host(programs: Programs) -> None:
    running = programs.start(ASLEEP)
    assert running is not None
    pid = int(wait_for(programs.directory / "pid"))
    running._connection.shutdown(2)
    deadline = time.monotonic() + 180
    while not ended(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_nothing_outlives_the_server(tmp_path: Path) -> None:
    with served_program.server(tmp_path / "s"):
        running = Programs(tmp_path, tmp_path / "s").start(ASLEEP)
        assert running is not None
        wait_for(tmp_path / "pid")
    assert running.wait(180) == -signal.SIGKILL


def test_program_with_another_import_path_runs_in_a_separate_process(programs: Programs) -> None:
    assert programs.start("pass", more={"PYTHONPATH": "/elsewhere"}) is None
    assert programs.start("pass", python="/opt/other/bin/python") is None
    assert programs.start("pass", more={VARIABLE: "/no/such/socket"}) is None
    assert programs.start("pass", more={VARIABLE: ""}) is None
