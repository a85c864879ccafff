"""The process that proves on request, as the agent uses it."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slicewright.node_agent.compute import signs
from slicewright.node_agent.compute.prover import Prover
from slicewright.node_agent.nvml.child_process import write_message
from slicewright.node_agent.nvml.prober import ForkServerEnded
from slicewright.rehearsal.cluster.silicon import state
from tests.node_agent.compute.conftest import devices_of
from tests.node_agent.conftest import Silicon

MakeNode = Callable[..., Silicon]
Start = Callable[[Silicon], Prover]
SEVENTHS = ["1g.10gb"] * 7


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, driver_libraries: Path) -> Iterator[Start]:
    started: list[Prover] = []

    def run(node: Silicon) -> Prover:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(driver_libraries))
        monkeypatch.setenv(state.VARIABLE, str(node.path))
        started.append(Prover.start())
        return started[-1]

    yield run
    for prover in started:
        if Path(f"/proc/{prover.pid}").exists():
            prover.close()


def test_it_proves_as_often_as_it_is_asked(node: MakeNode, start: Start) -> None:
    two = node(2, SEVENTHS)
    prover = start(two)
    assert prover.prove(devices_of(two)).outcome == "computed"
    broken = devices_of(two)[state.load(two.path).gpus[1].uuid][0]
    state.inject(two.path, state.Injection(call="cuCtxSynchronize", code=719, uuid=broken))
    assert prover.prove(devices_of(two)).outcome == "failed"
    state.heal(two.path)
    assert prover.prove(devices_of(two)).outcome == "computed"


def test_it_does_not_compute_beside_a_tenant(node: MakeNode, start: Start) -> None:
    one = node(1, SEVENTHS)
    gi = state.load(one.path).gpus[0].instances[0]
    state.run_process(one.path, state.Process(gpu=0, gi=gi.id, ci=0, pid=77))
    proof = start(one).prove(devices_of(one))
    assert proof.outcome == "untried"
    assert {d.failure.name for d in proof.devices if d.failure} == {signs.IN_USE}
    assert {d.failure.detail for d in proof.devices if d.failure} == {
        "GPU 0 is in use by process 77"
    }


def test_a_prover_that_ended_is_no_result(node: MakeNode, start: Start) -> None:
    one = node(1)
    prover = start(one)
    os.kill(prover.pid, signal.SIGKILL)
    with pytest.raises(ForkServerEnded, match=r"the prover \(process \d+\) ended"):
        prover.prove(devices_of(one))


def test_closing_it_ends_a_proof_under_way(node: MakeNode, start: Start) -> None:
    one = node(1)
    state.inject(one.path, state.Injection(call="cuInit", delay_ms=3_600_000))
    prover = start(one)
    write_message(prover._to, b"p", pickle.dumps(devices_of(one)))
    deadline = time.monotonic() + 60
    while not (computing := _computing(prover.pid)):
        assert time.monotonic() < deadline, "no process computes"
        time.sleep(0.01)
    prover.close()
    while any(Path(f"/proc/{pid}").exists() for pid in (prover.pid, *computing)):
        assert time.monotonic() < deadline, "a process is left"
        time.sleep(0.01)


def _computing(pid: int) -> list[int]:
    """Children that lead a process group of their own."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if os.getpgid(int(child)) == int(child)]
