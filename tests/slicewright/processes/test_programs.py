"""A program is limited, ended with all its descendants, and its output is kept."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slicewright.processes import signals
from slicewright.processes.programs import NotInstalled, Program, ProgramFailed, follow, run


def python(script: str, **changes: Any) -> Program:
    settings: dict[str, Any] = {"name": "the program", "limit_s": 60.0, "grace_s": 0.3, **changes}
    return Program(argv=(sys.executable, "-c", script), **settings)


@contextmanager
def signalled(number: int, *at_s: float) -> Iterator[None]:
    """This process gets the signal at these times."""
    timers = [threading.Timer(s, os.kill, (os.getpid(), number)) for s in at_s]
    for timer in timers:
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.join()


def test_code_output_and_complaint_are_returned() -> None:
    ended = run(python("import sys; print('out'); print('a\\nb', file=sys.stderr); sys.exit(7)"))
    assert (ended.code, ended.stdout, ended.complaint, ended.signal) == (7, b"out\n", "a b", None)


def test_a_large_input_reaches_a_program_that_prints_meanwhile() -> None:
    content = os.urandom(3_000_000)
    copied = run(
        python(
            "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)",
            standard_input=content,
        )
    )
    assert copied.stdout == content


def test_a_program_that_does_not_read_its_input_is_no_error() -> None:
    assert run(python("", standard_input=bytes(3_000_000))).code == 0


@pytest.mark.parametrize(
    ("script", "changes", "reason"),
    [
        ("import time; time.sleep(60)", {"limit_s": 0.3}, "did not end within 0 s"),
        (
            "import sys, time; print('step 1', file=sys.stderr, flush=True); time.sleep(60)",
            {"limit_s": 1.5},
            "it printed: step 1",
        ),
        ("while True: print('x' * 1000)", {"largest_output": 2**20}, "printed more than 1 MiB"),
        (
            "import sys\nwhile True: sys.stdout.write('x')",
            {"largest_output": 2**20},
            "printed more than 1 MiB",
        ),
    ],
)
def test_a_broken_limit_ends_it_and_is_named(
    script: str, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ProgramFailed, match=f"the program .*{reason}"):
        run(python(script, **changes))


def test_gigabytes_of_complaints_are_not_kept() -> None:
    ended = run(python("import sys\nfor n in range(1000): sys.stderr.write(f'{n}' * 1000)"))
    assert len(ended.stderr) == 65536
    assert ended.stderr.endswith(b"999")


@pytest.mark.parametrize(
    ("argv", "error", "reason"),
    [
        (("no-such-program",), NotInstalled, "install it, or fix PATH"),
        (("/etc/passwd",), ProgramFailed, "Permission denied"),
        (("/bin",), ProgramFailed, "Permission denied"),
        (("sh", "a\0b"), ProgramFailed, "null byte"),
    ],
)
def test_a_program_that_cannot_be_started_is_one_message(
    argv: Sequence[str], error: type[ProgramFailed], reason: str
) -> None:
    with pytest.raises(error, match=reason) as raised:
        run(Program(argv=argv, name="it", limit_s=1.0))
    assert raised.type is error


CHILDREN = """\
import os, subprocess, sys, time
plain = subprocess.Popen(["sleep", "1000"])
apart = subprocess.Popen(["sleep", "1000"], process_group=0)
print(plain.pid, apart.pid, flush=True)
"""


def ended(pids: bytes) -> bool:
    return not any(_lives(int(pid)) for pid in pids.split())


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_children_that_outlive_it_are_ended_and_do_not_hold_the_output_open() -> None:
    began = time.monotonic()
    left = run(python(CHILDREN))
    assert time.monotonic() - began < 30
    assert len(left.stdout.split()) == 2
    assert ended(left.stdout)


DEAF = """\
import signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
"""


@pytest.mark.parametrize("number", signals.STOPPING)
def test_a_program_that_ignores_the_signal_is_killed_after_its_grace(number: int) -> None:
    before = signal.getsignal(number)
    parts: list[bytes] = []
    deaf = python(f"{CHILDREN}{DEAF}time.sleep(1000)")
    with signalled(number, 2.0):
        stopped = follow(deaf, parts.append)
    assert (stopped.signal, stopped.code) == (number, -signal.SIGKILL)
    assert ended(b"".join(parts))
    assert signal.getsignal(number) is before


def test_the_output_after_the_signal_counts_too() -> None:
    parts: list[bytes] = []
    saving = python("import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: print('saved')")
    with signalled(signal.SIGINT, 2.0):
        assert follow(saving, parts.append).signal == signal.SIGINT
    assert b"".join(parts) == b"saved\n"


def test_an_interrupted_run_raises_the_signal() -> None:
    with signalled(signal.SIGTERM, 1.0), pytest.raises(signals.Interrupted) as raised:
        run(python("import time; time.sleep(60)"))
    assert signals.exit_code(raised.value) == 143


def test_a_second_signal_without_grace_kills_the_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    deaf = python(f"{DEAF}time.sleep(1000)", grace_s=None)
    with signalled(signal.SIGINT, 1.5, 3.0):
        stopped = follow(deaf, print)
    assert stopped.code == -signal.SIGKILL
    assert "a second Ctrl-C kills it" in capsys.readouterr().err


def test_an_error_of_the_reader_asks_it_to_stop_and_waits_for_it(tmp_path: Path) -> None:
    """`slicewright destroy | head -1` must not kill a pulumi in the middle of a step."""
    done = tmp_path / "done"
    script = f"""\
import pathlib, time
try:
    print("x", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    pathlib.Path({str(done)!r}).touch()
"""

    def refuse(_: bytes) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        follow(python(script, grace_s=None), refuse)
    assert done.exists()


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As with nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signalled(signal.SIGHUP, 0.3):
            assert run(python("import time; time.sleep(1)")).signal is None
    finally:
        signal.signal(signal.SIGHUP, before)
