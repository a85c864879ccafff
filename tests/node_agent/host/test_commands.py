"""`apply` and `clear` when the world around them goes: the terminal, the reader, the driver,
another `apply`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright import node_agent
from slicewright.rehearsal.cluster.silicon import state

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="cutting GPUs is for root, in reality and on the fake"
)
Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., "subprocess.Popen[str]"]
SEVENTHS = "0:1g.10gb*7"
LONG_MS = 3_600_000
"""For ever, unless the node is healed."""


@pytest.fixture
def cut(silicon: Callable[..., Any]) -> Any:
    node = silicon("H100-80", 1)
    state.repartition(node.path, 0, ["3g.40gb", "3g.40gb"])
    return node


@pytest.fixture
def start() -> Iterator[Start]:
    """The agent, still at work when this returns."""
    started: list[subprocess.Popen[str]] = []

    def run(node: Any, *arguments: str, **how: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "slicewright.node_agent", *arguments],
            env={
                "PATH": os.environ["PATH"],
                "LD_LIBRARY_PATH": str(node.library.parent),
                state.VARIABLE: str(node.path),
            },
            cwd=Path(node_agent.__file__).resolve().parents[1],
            stdin=subprocess.DEVNULL,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **how},
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def _devices(node: Any) -> list[str]:
    return sorted(state.load(node.path).gpus[0].profiles)


def _stop_half_way(node: Any) -> None:
    """The old instances go, and the first new one is not made until `state.heal`."""
    call = "nvmlDeviceCreateGpuInstanceWithPlacement"
    state.inject(node.path, state.Injection(call=call, delay_ms=LONG_MS))


def _until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    while text not in (line := process.stdout.readline()):
        assert line, "it ended before"


def _child_that_hangs(process: subprocess.Popen[str], node: Any) -> int:
    """Of the process that reads, as soon as it is in the one call that hangs. A probe before it has
    a child, too, which ends soon.
    """
    deadline = time.monotonic() + 180
    while any(injection.times != 0 for injection in state.load(node.path).injections):
        assert time.monotonic() < deadline, "nobody makes the call"
        time.sleep(0.02)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0])


def test_a_reader_that_goes_does_not_stop_a_change_half_way(cut: Any, start: Start) -> None:
    """`apply … | head -1`"""
    process = start(cut, "apply", SEVENTHS)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("GPU 0: destroy")
    process.stdout.close()
    assert (process.wait(180), _devices(cut)) == (0, ["1g.10gb"] * 7)


def test_a_full_disk_behind_the_output_does_not_stop_a_change(cut: Any, start: Start) -> None:
    with Path("/dev/full").open("w") as full:
        process = start(cut, "apply", SEVENTHS, stdout=full)
        _, said = process.communicate(timeout=180)
        assert (process.returncode, said, _devices(cut)) == (0, "", ["1g.10gb"] * 7)
        shown = start(cut, "show", "--layout", stdout=full)
        _, said = shown.communicate(timeout=180)
    assert (shown.returncode, said) == (2, "slicewright-agent: show: No space left on device\n")


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name
)
def test_signal_half_way_rolls_back(number: signal.Signals, cut: Any, start: Start) -> None:
    _stop_half_way(cut)
    process = start(cut, "apply", SEVENTHS)
    _until(process, "create")
    process.send_signal(number)
    state.heal(cut.path)
    _, said = process.communicate(timeout=180)
    assert process.returncode == 1
    assert "stop requested" in said
    assert "rolled back: every GPU is as before" in said
    assert _devices(cut) == ["3g.40gb"] * 2


def test_under_nohup_a_lost_terminal_changes_nothing(cut: Any, start: Start) -> None:
    _stop_half_way(cut)
    process = start(
        cut, "apply", SEVENTHS, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    _until(process, "create")
    process.send_signal(signal.SIGHUP)
    state.heal(cut.path)
    process.communicate(timeout=180)
    assert (process.returncode, _devices(cut)) == (0, ["1g.10gb"] * 7)


def test_after_kill_9_a_second_apply_completes_the_layout(
    cut: Any, start: Start, command: Run
) -> None:
    _stop_half_way(cut)
    process = start(cut, "apply", SEVENTHS)
    _until(process, "create")
    process.kill()
    process.communicate()
    assert _devices(cut) == []
    state.heal(cut.path)
    assert (command(cut, "apply", SEVENTHS).returncode, _devices(cut)) == (0, ["1g.10gb"] * 7)


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        (["apply", "0:off"], "nvmlDeviceGetUUID"),
        (["apply", "--dry-run", "0:off"], "nvmlDeviceGetUUID"),
        (["clear", "all"], "nvmlDeviceGetMigMode"),
        (["show", "--profiles"], "nvmlDeviceGetPersistenceMode"),
    ],
    ids=["apply", "dry run", "clear", "show --profiles"],
)
def test_a_driver_that_hangs_is_given_up_at_the_deadline(
    arguments: list[str], call: str, cut: Any, command: Run
) -> None:
    state.inject(cut.path, state.Injection(call=call, delay_ms=LONG_MS))
    ended = command(cut, *arguments, "--deadline", "1")
    assert ended.returncode == 2
    assert ended.stderr.endswith("no answer from the driver within 1 s\n")
    assert _devices(cut) == ["3g.40gb"] * 2


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name
)
def test_while_the_driver_hangs_a_signal_ends_apply(
    number: signal.Signals, cut: Any, start: Start
) -> None:
    state.inject(cut.path, state.Injection(call="nvmlDeviceGetUUID", delay_ms=LONG_MS, times=1))
    process = start(cut, "apply", "0:off", "--deadline", "3600")
    _child_that_hangs(process, cut)
    process.send_signal(number)
    _, said = process.communicate(timeout=180)
    assert (process.returncode, said) == (
        1,
        "slicewright-agent: stop requested; nothing was changed\n",
    )


def test_ctrl_c_ends_show_profiles_while_the_driver_hangs(cut: Any, start: Start) -> None:
    state.inject(
        cut.path, state.Injection(call="nvmlDeviceGetPersistenceMode", delay_ms=LONG_MS, times=1)
    )
    process = start(cut, "show", "--profiles", "--deadline", "3600")
    _child_that_hangs(process, cut)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=180)
    assert (process.returncode, said) == (128 + signal.SIGINT, "")


def test_a_second_apply_waits_and_says_so(cut: Any, start: Start) -> None:
    _stop_half_way(cut)
    first = start(cut, "apply", SEVENTHS)
    _until(first, "create")
    second = start(cut, "apply", "--dry-run", SEVENTHS)
    assert second.stderr is not None
    assert second.stderr.readline().startswith(
        "waiting: another apply or clear is running on this machine (it holds /"
    )
    state.heal(cut.path)
    said, _ = second.communicate(timeout=180)
    assert "nothing to do" in said, "it saw what the first had done"
    first.communicate(timeout=180)
    assert (first.returncode, second.returncode) == (0, 0)


def test_a_hung_reader_does_not_block_the_next_apply(cut: Any, start: Start, command: Run) -> None:
    state.inject(cut.path, state.Injection(call="nvmlDeviceGetUUID", delay_ms=LONG_MS, times=1))
    process = start(cut, "apply", SEVENTHS)
    reader = _child_that_hangs(process, cut)
    process.kill()
    process.wait()
    try:
        state.heal(cut.path)
        assert (command(cut, "apply", SEVENTHS).stderr, _devices(cut)) == ("", ["1g.10gb"] * 7)
    finally:
        os.kill(reader, signal.SIGKILL)


def test_dry_run_says_which_gpu_may_need_a_reset(silicon: Callable[..., Any], command: Run) -> None:
    node = silicon("A100-40", 1)
    planned = command(node, "apply", "--dry-run", "0:3g.20gb")
    assert planned.returncode == 0
    first, warning, *_ = planned.stdout.splitlines()
    assert first == "GPU 0: turn MIG on"
    assert (
        "this may need a reset of the GPU or a reboot (A100 and A30 do): then apply "
        "ends here with exit code 4" in warning
    )
    assert command(node, "apply", "0:3g.20gb").returncode == 4, "as it was said"
    state.reboot(node.path)
    assert "reset" not in command(node, "apply", "--dry-run", "0:3g.20gb").stdout
