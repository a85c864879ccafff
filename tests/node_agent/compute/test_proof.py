"""The proof over the fake driver: what it finds, what it leaves running, and where it stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slicewright import node_agent
from slicewright.node_agent.compute import signs
from slicewright.node_agent.compute.children import Limits
from slicewright.node_agent.compute.judgement import Proof
from slicewright.node_agent.compute.results import DeviceResult
from slicewright.rehearsal.cluster.silicon import device_nodes, state
from tests.node_agent.compute.conftest import devices_of
from tests.node_agent.conftest import Silicon

MakeNode = Callable[..., Silicon]
Prove = Callable[..., Proof]
SEVENTHS = ["1g.10gb"] * 7
NEVER_MS = 3_600_000
SHORT = Limits(cold_s=5.0, cold_per_gpu_s=0.0, warm_s=5.0, warm_per_device_s=0.0)


def failures(proof: Proof) -> dict[str, str]:
    return {d.uuid: d.failure.sign.title for d in proof.devices if d.failure}


def device(proof: Proof, uuid: str) -> DeviceResult:
    (result,) = (result for result in proof.devices if result.uuid == uuid)
    return result


def uuids_of(node: Silicon) -> list[str]:
    return [uuid for uuids in devices_of(node).values() for uuid in uuids]


def children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def test_fifty_six_partitions_compute(node: MakeNode, prove: Prove) -> None:
    eight = node(8, SEVENTHS)
    proof = prove(eight)
    assert (proof.outcome, failures(proof), len(proof.devices)) == ("computed", {}, 56)
    assert [d.uuid for d in proof.devices] == uuids_of(eight)
    measured = [d.measurement for d in proof.devices if d.measurement]
    assert {(m.multiprocessors, m.memory_mib, m.wrong_words) for m in measured} == {(16, 9984, 0)}
    assert all(0.85 * m.memory_mib < m.tested_mib < m.memory_mib for m in measured)
    assert all(m.read_gb_s > m.write_gb_s > 100 for m in measured)


@pytest.mark.parametrize(
    ("call", "code", "title"),
    [
        ("cuCtxSynchronize", 719, "CUDA_ERROR_LAUNCH_FAILED (719)"),
        ("cuDevicePrimaryCtxRetain", 46, "CUDA_ERROR_DEVICE_UNAVAILABLE (46)"),
        ("cuMemAlloc", 214, "CUDA_ERROR_ECC_UNCORRECTABLE (214)"),
        ("pattern", 3, "WRONG_WORDS"),
    ],
)
def test_the_one_partition_of_56_that_does_not_compute_is_found(
    call: str, code: int, title: str, node: MakeNode, prove: Prove
) -> None:
    eight = node(8, SEVENTHS)
    broken = uuids_of(eight)[23]
    state.inject(eight.path, state.Injection(call=call, code=code, uuid=broken))
    proof = prove(eight)
    assert proof.outcome == "failed"
    assert failures(proof) == {broken: title}


def test_wrong_words_are_counted(node: MakeNode, prove: Prove) -> None:
    one = node(1, SEVENTHS)
    broken = uuids_of(one)[3]
    state.inject(one.path, state.Injection(call="pattern", code=5, uuid=broken))
    result = device(prove(one), broken)
    assert result.measurement is not None
    assert result.measurement.wrong_words == 5
    assert result.failure is not None
    assert result.failure.detail.startswith("5 of 234")


@pytest.mark.parametrize("code", [100, 802, 803, 919, 999])
def test_a_refused_initialization_is_of_every_device_of_the_node(
    code: int, node: MakeNode, prove: Prove
) -> None:
    two = node(2, ["3g.40gb"] * 2)
    state.inject(two.path, state.Injection(call="cuInit", code=code))
    proof = prove(two)
    assert set(failures(proof)) == set(uuids_of(two))
    assert {signs.of_code(code).title} == set(failures(proof).values())
    assert proof.outcome == ("untried" if code == 803 else "failed")


@pytest.mark.parametrize(
    ("call", "code"),
    [("cuModuleLoadData", 221), ("cuModuleLoadData", 222), ("cuInit", 34), ("cuInit", 804)],
)
def test_an_incomplete_library_accuses_no_partition(
    call: str, code: int, node: MakeNode, prove: Prove
) -> None:
    one = node(1)
    state.inject(one.path, state.Injection(call=call, code=code))
    proof = prove(one)
    assert (proof.outcome, list(failures(proof).values())) == (
        "untried",
        [signs.of_code(code).title],
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root counts injected faults down")
def test_a_failure_that_does_not_come_again_is_none(node: MakeNode, prove: Prove) -> None:
    one = node(1, SEVENTHS)
    fault = state.Injection(call="cuCtxSynchronize", code=719, times=1, uuid=uuids_of(one)[2])
    state.inject(one.path, fault)
    assert prove(one).outcome == "computed"


def test_drivers_before_r570_show_a_process_one_partition(node: MakeNode, prove: Prove) -> None:
    two = node(2, SEVENTHS, driver="550.90.07")
    proof = prove(two)
    assert (proof.outcome, len(proof.devices)) == ("computed", 14)


def test_compute_instances_of_one_gpu_instance_compute_each(node: MakeNode, prove: Prove) -> None:
    """CUDA shows a process only one of them."""
    one = node(1, ["1c.3g.40gb"] * 3)
    proof = prove(one)
    assert (proof.outcome, len(proof.devices)) == ("computed", 3)


def test_whole_gpus_and_partitions_of_one_machine(node: MakeNode, prove: Prove) -> None:
    two = node(2)
    state.repartition(two.path, 1, ["3g.40gb", "4g.40gb"])
    proof = prove(two)
    assert proof.outcome == "computed"
    sizes = [d.measurement.multiprocessors for d in proof.devices if d.measurement]
    assert (sizes[0], sorted(sizes[1:])) == (132, [60, 64])


def test_a_partition_that_is_gone_fails_and_hides_none_of_the_others(
    node: MakeNode, prove: Prove
) -> None:
    one = node(1, SEVENTHS)
    (gpu,) = devices_of(one)
    gone = "MIG-00000000-0000-0000-0000-000000000000"
    proof = prove(one, devices={gpu: [gone, *uuids_of(one)]})
    assert failures(proof) == {gone: "CUDA_ERROR_NO_DEVICE (100)"}
    assert proof.outcome == "failed"


def test_without_the_library_nothing_was_tried(
    node: MakeNode, prove: Prove, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = node(1)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    proof = prove(one)
    assert (proof.outcome, list(failures(proof).values())) == ("untried", [signs.LIBRARY_MISSING])


def test_a_container_that_is_older_than_uvm_gets_999(
    node: MakeNode, prove: Prove, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = node(1)
    for name in {*device_nodes.existing(state.load(one.path))} - {"nvidia-uvm"}:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv(device_nodes.VARIABLE, str(tmp_path))
    assert set(failures(prove(one)).values()) == {"CUDA_ERROR_UNKNOWN (999)"}
    (tmp_path / "nvidia-uvm").touch()
    assert prove(one).outcome == "computed"


def test_memory_that_others_hold_is_left_alone_and_too_much_of_it_is_untried(
    node: MakeNode, prove: Prove
) -> None:
    one = node(1)
    state.run_process(one.path, state.Process(gpu=0, pid=77, memory_mib=40_000))
    half = device(prove(one), uuids_of(one)[0]).measurement
    assert half is not None
    assert half.tested_mib < 41_559
    state.run_process(one.path, state.Process(gpu=0, pid=78, memory_mib=41_500))
    assert set(failures(prove(one)).values()) == {"CUDA_ERROR_OUT_OF_MEMORY (2)"}


def test_variables_of_the_parent_do_not_reach_cuda(
    node: MakeNode, prove: Prove, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("CUDA_DISABLE_PTX_JIT", "1")
    assert prove(node(1, SEVENTHS)).outcome == "computed"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_a_hung_device_is_given_up_at_the_deadline_and_the_others_compute(
    node: MakeNode, prove: Prove
) -> None:
    two = node(2, SEVENTHS)
    hung = uuids_of(two)[1]
    state.inject(two.path, state.Injection(call="cuCtxSynchronize", delay_ms=NEVER_MS, uuid=hung))
    before = children_of(os.getpid())
    proof = prove(two, limits=SHORT)
    assert failures(proof) == {hung: signs.TIMED_OUT}
    assert proof.outcome == "failed"
    assert children_of(os.getpid()) == before


def test_when_the_time_is_over_the_rest_is_untried(node: MakeNode, prove: Prove) -> None:
    two = node(2, SEVENTHS)
    state.inject(two.path, state.Injection(call="cuInit", delay_ms=NEVER_MS))
    limits = replace(SHORT, parallel=1, cold_s=60.0, total_s=0.5)
    proof = prove(two, limits=limits)
    first, second = (gpu.devices for gpu in proof.gpus)
    assert {d.failure.name for d in first if d.failure} == {signs.TIMED_OUT}
    assert {d.failure.name for d in second if d.failure} == {signs.NOT_REACHED}


def test_a_process_that_comes_meanwhile_stops_the_proof(node: MakeNode, prove: Prove) -> None:
    three = node(3)
    calls = 0

    def occupants(children: frozenset[int]) -> list[str]:
        nonlocal calls
        calls += 1
        return ["process 77 (python)"] if calls == 2 else []

    proof = prove(three, occupants=occupants, limits=Limits(parallel=1))
    assert proof.outcome == "untried"
    _, *rest = uuids_of(three)
    assert failures(proof) == dict.fromkeys(rest, signs.IN_USE)


def test_the_processes_of_the_proof_are_not_its_own_obstacle(node: MakeNode, prove: Prove) -> None:
    seen: set[int] = set()

    def occupants(children: frozenset[int]) -> list[str]:
        seen.update(children)
        return []

    prove(node(4, SEVENTHS), occupants=occupants, limits=Limits(parallel=2))
    assert seen
    assert os.getpid() not in seen


def test_no_more_processes_run_at_once_than_allowed(node: MakeNode, prove: Prove) -> None:
    most = 0

    def occupants(children: frozenset[int]) -> list[str]:
        nonlocal most
        most = max(most, len(children))
        return []

    prove(node(8), occupants=occupants, limits=Limits(parallel=3))
    assert most == 2, "it asks before each start: two run while the third begins"


_HANGING = """
import sys
from slicewright.node_agent.compute import children
print("ready", flush=True)
children.prove({"g": [sys.argv[1]]}, occupants=lambda _: ())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_proof_that_is_ended_leaves_no_process(
    number: signal.Signals, node: MakeNode, driver_libraries: Path
) -> None:
    one = node(1)
    state.inject(one.path, state.Injection(call="cuInit", delay_ms=NEVER_MS))
    process = subprocess.Popen(
        [sys.executable, "-c", _HANGING, uuids_of(one)[0]],
        env={**os.environ, "LD_LIBRARY_PATH": str(driver_libraries), state.VARIABLE: str(one.path)},
        cwd=Path(node_agent.__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not (children := children_of(process.pid)):
        assert time.monotonic() < deadline, "it starts no child"
        time.sleep(0.01)
    process.send_signal(number)
    process.communicate(timeout=60)
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline, "its child still runs"
        time.sleep(0.01)
