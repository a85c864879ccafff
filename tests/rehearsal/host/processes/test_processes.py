"""Recorded processes: never without a record, all ended, and no other process touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.processes import Recorded, kernel, records
from slicewright.rehearsal.host.processes.marks import marked

SLEEP = ["sleep", "300"]
# Ends on SIGTERM and appends its name to a file; creates another file once its trap is set.
POLITE = 'trap \'echo "$0" >>ended; exit 0\' TERM; : >"ready-$0"; while :; do sleep 0.02; done'
STUBBORN = "trap '' TERM; : >ready; while :; do sleep 0.02; done"


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "environment"
    root.mkdir()
    yield root
    processes.end_leftovers(root)


def until(condition: Callable[[], object], *, timeout_s: float = 180.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def runs(pid: int) -> bool:
    seen = kernel.see(pid)
    return seen is not None and not seen.ended


def runs_program(record: Recorded, name: str) -> bool:
    """The pid is first that of the shell that starts the program."""
    return Path(f"/proc/{record.pid}/comm").read_text().strip() == name


def pid_in(path: Path) -> int:
    until(lambda: path.exists() and path.read_text().strip())
    return int(path.read_text())


def start_polite(environment: Path, name: str, **options: int) -> Recorded:
    record = processes.start(
        environment, name, ["sh", "-c", POLITE, name], cwd=environment, **options
    )
    until((environment / f"ready-{name}").exists)
    return record


def test_a_started_process_has_a_record_and_leads_its_own_session(environment: Path) -> None:
    record = processes.start(environment, "sleeper", SLEEP)
    seen = kernel.see(record.pid)
    assert seen is not None
    assert (seen.pid, seen.start_ticks) == (record.pid, record.start_ticks)
    assert (seen.session, seen.group) == (record.pid, record.pid)
    assert processes.find(environment, "sleeper") == record
    assert (
        json.loads((environment / "processes/sleeper.json").read_text())["boot_id"]
        == kernel.boot_id()
    )
    until(lambda: runs_program(record, "sleep"))


def test_the_record_is_there_when_the_program_begins(environment: Path) -> None:
    script = 'cat processes/early.json >copy; echo "$$" >pid'
    processes.start(environment, "early", ["sh", "-c", script], cwd=environment)
    pid = pid_in(environment / "pid")
    assert json.loads((environment / "copy").read_text())["pid"] == pid


def test_a_program_whose_starter_dies_before_the_record_never_runs(environment: Path) -> None:
    starter = (
        "import os, signal, sys; from pathlib import Path\n"
        "from slicewright.rehearsal.host import processes\n"
        "from slicewright.rehearsal.host.processes import records\n"
        "records.store = lambda record: os.kill(os.getpid(), signal.SIGKILL)\n"
        "processes.start(Path(sys.argv[1]), 'orphan', ['sh', '-c', ': >ran; sleep 300'], "
        "cwd=Path(sys.argv[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", starter, environment], timeout=60)
    assert done.returncode == -signal.SIGKILL
    until(lambda: not marked(environment, "orphan"))
    assert not (environment / "ran").exists()


def test_output_goes_to_a_private_log_and_input_is_empty(environment: Path) -> None:
    record = processes.start(
        environment, "talker", ["sh", "-c", "echo out; echo err >&2; cat; echo end of input"]
    )
    until(lambda: not processes.is_alive(record))
    assert record.log == environment / "log/talker.log"
    assert record.log.read_text().splitlines()[1:] == ["out", "err", "end of input"]
    assert record.log.stat().st_mode & 0o777 == 0o600


def test_the_environment_is_the_given_one_and_the_marks(environment: Path) -> None:
    record = processes.start(
        environment, "sleeper", SLEEP, env={"PATH": os.environ["PATH"], "COLOUR": "blue"}
    )
    until(lambda: runs_program(record, "sleep"))
    held = dict(e.split(b"=", 1) for e in kernel.initial_environment(record.pid) if b"=" in e)
    held.pop(b"PWD", None)  # the shell's own
    assert held == {
        b"PATH": os.environ["PATH"].encode(),
        b"COLOUR": b"blue",
        b"SLICEWRIGHT_REHEARSAL": str(environment).encode(),
        b"SLICEWRIGHT_REHEARSAL_PROCESS": b"sleeper",
    }


def test_one_name_is_one_process(environment: Path) -> None:
    first = processes.start(environment, "only", SLEEP)
    with pytest.raises(processes.AlreadyRunning) as refused:
        processes.start(environment, "only", SLEEP)
    assert refused.value.record == first


def test_only_one_of_simultaneous_starts_succeeds(environment: Path) -> None:
    def attempt(_: int) -> Recorded | None:
        try:
            return processes.start(environment, "contested", SLEEP)
        except processes.AlreadyRunning:
            return None

    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(attempt, range(8)))
    assert len([record for record in outcomes if record]) == 1
    until(lambda: len(marked(environment)) == 1)


@pytest.mark.parametrize("program", ["no-such-program-anywhere", "/no/such/program", "/etc/passwd"])
def test_a_program_that_cannot_run_is_named(environment: Path, program: str) -> None:
    with pytest.raises(processes.NotStarted, match=program):
        processes.start(environment, "broken", [program])
    assert processes.recorded(environment) == []


@pytest.mark.parametrize("name", ["", "../escape", "a/b", ".hidden"])
def test_a_name_that_is_no_file_name_is_refused(environment: Path, name: str) -> None:
    with pytest.raises(ValueError, match="process name"):
        processes.start(environment, name, SLEEP)


def test_stop_sends_sigterm_first(environment: Path) -> None:
    record = start_polite(environment, "polite")
    processes.stop(record, grace_s=10)
    assert (environment / "ended").read_text() == "polite\n"
    assert not processes.is_alive(record)
    assert processes.recorded(environment) == []


def test_stop_kills_a_process_that_ignores_sigterm(environment: Path) -> None:
    record = processes.start(environment, "stubborn", ["sh", "-c", STUBBORN], cwd=environment)
    until((environment / "ready").exists)
    processes.stop(record, grace_s=0.2)
    assert not runs(record.pid)
    assert marked(environment) == []


def test_stop_reaches_descendants_in_sessions_of_their_own(environment: Path) -> None:
    record = processes.start(
        environment,
        "parent",
        ["sh", "-c", "setsid sleep 300 & echo $! >child; wait"],
        cwd=environment,
    )
    child = pid_in(environment / "child")
    until(lambda: (seen := kernel.see(child)) and seen.session != record.pid)
    processes.stop(record)
    assert not runs(child)


def test_a_zombie_is_not_alive(environment: Path) -> None:
    record = processes.start(environment, "brief", ["true"])
    until(lambda: not processes.is_alive(record))
    assert processes.find(environment, "brief") is None


@pytest.mark.parametrize(
    "end", [lambda e, r: processes.stop(r), lambda e, r: processes.end_leftovers(e)]
)
@pytest.mark.parametrize("lie", [{"start_ticks": 1}, {"boot_id": "another boot"}])
def test_a_process_with_a_reused_pid_is_left_alone(
    environment: Path, end: Callable[[Path, Recorded], object], lie: dict[str, object]
) -> None:
    stranger = subprocess.Popen(SLEEP, start_new_session=True)
    try:
        seen = kernel.see(stranger.pid)
        assert seen is not None
        record = Recorded(
            environment=environment,
            name="reused",
            pid=stranger.pid,
            start_ticks=seen.start_ticks,
            boot_id=kernel.boot_id(),
            log=environment / "log",
            stop_rank=0,
        )
        record = replace(record, **lie)  # type: ignore[arg-type]
        (environment / "processes").mkdir()
        records.store(record)
        assert not processes.is_alive(record)
        assert processes.find(environment, "reused") is None
        end(environment, record)
        assert stranger.poll() is None
        assert processes.recorded(environment) == []
    finally:
        stranger.kill()
        stranger.wait()


def test_after_kill_9_of_the_starter_everything_is_found_and_ended(environment: Path) -> None:
    starter = (
        "import os, signal, sys; from pathlib import Path\n"
        "from slicewright.rehearsal.host import processes\n"
        "e = Path(sys.argv[1])\n"
        "processes.start(e, 'one', ['sleep', '300'])\n"
        "processes.start(e, 'two', ['sh', '-c', 'setsid sleep 300 & echo $! >grandchild; "
        "wait'], cwd=e)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", starter, environment], timeout=60)
    grandchild = pid_in(environment / "grandchild")
    assert len(marked(environment)) >= 3
    assert sorted(processes.end_leftovers(environment)) == ["one", "two"]
    assert not runs(grandchild)
    assert marked(environment) == []
    assert processes.end_leftovers(environment) == []


def orphan_of(environment: Path, name: str) -> int:
    """A descendant, in a session of its own, of a process that was killed."""
    script = f"setsid sleep 300 & echo $! >child-{name}; wait"
    record = processes.start(environment, name, ["sh", "-c", script], cwd=environment)
    child = pid_in(environment / f"child-{name}")
    os.kill(record.pid, signal.SIGKILL)
    until(lambda: not processes.is_alive(record))
    assert runs(child)
    return child


def test_the_children_of_a_killed_process_are_leftovers(environment: Path) -> None:
    child = orphan_of(environment, "killed")
    assert processes.end_leftovers(environment) == ["killed"]
    assert not runs(child)


def test_a_new_start_ends_the_children_of_the_previous_process(environment: Path) -> None:
    child = orphan_of(environment, "again")
    record = processes.start(environment, "again", SLEEP)
    assert not runs(child)
    assert processes.is_alive(record)


def test_an_old_record_does_not_end_the_newer_process_of_its_name(environment: Path) -> None:
    old = processes.start(environment, "service", SLEEP)
    processes.stop(old)
    new = processes.start(environment, "service", SLEEP)
    processes.stop(old)
    assert processes.find(environment, "service") == new


def test_a_process_without_a_readable_record_is_found_by_its_marks(environment: Path) -> None:
    record = processes.start(environment, "lost", SLEEP)
    until(lambda: runs_program(record, "sleep"))
    (environment / "processes/lost.json").write_text("{ not json")
    assert processes.end_leftovers(environment) == [f"process {record.pid}"]
    assert not runs(record.pid)
    assert list((environment / "processes").iterdir()) == []


@pytest.mark.parametrize(
    "marks",
    [
        {"SLICEWRIGHT_REHEARSAL": "{environment}"},  # a user's shell, from `rehearse env`
        {
            "SLICEWRIGHT_REHEARSAL": "{environment}2",
            "SLICEWRIGHT_REHEARSAL_PROCESS": "etcd",
        },  # another environment's
        {"SLICEWRIGHT_REHEARSAL_PROCESS": "etcd"},
    ],
)
def test_processes_of_other_environments_are_not_touched(
    environment: Path, marks: dict[str, str]
) -> None:
    env = {name: value.format(environment=environment) for name, value in marks.items()}
    stranger = subprocess.Popen(SLEEP, env={**os.environ, **env}, start_new_session=True)
    try:
        processes.start(environment, "own", SLEEP)
        assert processes.end_leftovers(environment) == ["own"]
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_the_caller_is_not_ended(environment: Path) -> None:
    """A process of the environment may clean up the rest of it."""
    script = (
        "import sys; from pathlib import Path; "
        "from slicewright.rehearsal.host.processes.ending import "
        "end_descendants\n"
        "end_descendants(Path(sys.argv[1]), 'cleaner'); print('still here')\n"
    )
    record = processes.start(environment, "cleaner", [sys.executable, "-c", script, environment])
    until(lambda: not processes.is_alive(record))
    assert record.log.read_text().splitlines()[1:] == ["still here"]


def test_lower_ranks_end_first(environment: Path) -> None:
    for name, rank in (("etcd", 30), ("kwok", 10), ("apiserver", 20), ("agent", 0)):
        start_polite(environment, name, stop_rank=rank)
    assert processes.stop_all(environment) == ["agent", "kwok", "apiserver", "etcd"]
    assert (environment / "ended").read_text().split() == ["agent", "kwok", "apiserver", "etcd"]


def test_an_order_precedes_ranks(environment: Path) -> None:
    for name, rank in (("kubelet-a", 5), ("cloud", 0), ("kubelet-b", 9)):
        start_polite(environment, name, stop_rank=rank)
    assert processes.stop_all(environment, ["kubelet-*"]) == ["kubelet-a", "kubelet-b", "cloud"]


def test_an_environment_that_does_not_exist_has_no_leftovers(tmp_path: Path) -> None:
    assert processes.end_leftovers(tmp_path / "nowhere") == []
    assert not (tmp_path / "nowhere").exists()


def test_an_environment_is_the_same_by_any_path(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(environment)
    record = processes.start(tmp_path / "link", "sleeper", SLEEP)
    assert processes.find(environment, "sleeper") == record
    assert processes.end_leftovers(environment) == ["sleeper"]
