"""`slicewright-agent prove` as a person runs it on a host."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from slicewright.rehearsal.cluster.silicon import state
from tests.node_agent.compute.conftest import devices_of
from tests.node_agent.conftest import Silicon

MakeNode = Callable[..., Silicon]
Command = Callable[..., "subprocess.CompletedProcess[str]"]
SEVENTHS = ["1g.10gb"] * 7
NEVER_MS = 3_600_000


def uuids_of(node: Silicon) -> list[str]:
    return [uuid for uuids in devices_of(node).values() for uuid in uuids]


def test_a_table_shows_every_device_with_its_memory_and_rates(
    node: MakeNode, command: Command
) -> None:
    two = node(2, SEVENTHS)
    ended = command(two, "prove")
    assert (ended.returncode, ended.stderr) == (0, "")
    head, _, titles, *rows = ended.stdout.splitlines()
    assert head.startswith("computed: 14 of 14 devices computed (")
    assert head.endswith(" s, CUDA 13.0)")
    assert titles.split() == ["device", "is", "SMs", "tested", "written", "read"]
    assert [row.split()[1] for row in rows] == uuids_of(two)
    assert "  GPU 1, 1g.10gb  16   8935 of 9984 MiB  " in rows[-1]


def test_a_device_that_fails_is_shown_with_code_cause_and_remedy(
    node: MakeNode, command: Command
) -> None:
    one = node(1, SEVENTHS)
    broken = uuids_of(one)[4]
    state.inject(one.path, state.Injection(call="cuCtxSynchronize", code=719, uuid=broken))
    ended = command(one, "prove")
    assert ended.returncode == 1
    assert ended.stdout.startswith("failed: 6 of 7 devices computed, 1 failed (")
    (row,) = [line for line in ended.stdout.splitlines() if line.startswith("NO")]
    assert row.split()[1] == broken
    assert row.endswith("CUDA_ERROR_LAUNCH_FAILED (719) in cuCtxSynchronize")
    assert (
        "CUDA_ERROR_LAUNCH_FAILED (719): an exception on the GPU, mostly with an Xid.\n"
        "  Remedy: read the kernel log for Xids, drain the node and reset the GPU"
    ) in ended.stdout


def test_json_has_the_same(node: MakeNode, command: Command) -> None:
    one = node(1, SEVENTHS)
    state.inject(one.path, state.Injection(call="cuInit", code=802))
    ended = command(one, "prove", "--json")
    assert ended.returncode == 1
    proof = json.loads(ended.stdout)
    assert proof["outcome"] == "failed"
    assert [d["uuid"] for d in proof["gpus"][0]["devices"]] == uuids_of(one)
    failure = proof["gpus"][0]["devices"][0]["failure"]
    assert (failure["step"], failure["code"]) == ("cuInit", 802)
    assert "Fabric Manager" in failure["remedy"]


def test_it_refuses_to_compute_beside_a_process(node: MakeNode, command: Command) -> None:
    one = node(2, SEVENTHS)
    gi = state.load(one.path).gpus[1].instances[0]
    state.run_process(one.path, state.Process(gpu=1, gi=gi.id, ci=0, pid=1 << 30))
    ended = command(one, "prove")
    assert ended.returncode == 2
    assert ended.stdout == (
        f"untried: nothing was computed beside others: GPU 1 is in use by process {1 << 30} (?)\n"
    )
    assert json.loads(command(one, "prove", "--json").stdout)["outcome"] == "untried"
    state.end_processes(one.path)
    assert command(one, "prove").returncode == 0


def test_a_process_on_a_whole_gpu_stops_it_too(node: MakeNode, command: Command) -> None:
    one = node(1)
    state.run_process(one.path, state.Process(gpu=0, pid=1 << 30))
    assert command(one, "prove").returncode == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="changes its user")
def test_it_needs_no_root(node: MakeNode, command: Command) -> None:
    ended = command(node(2, SEVENTHS), "prove", user=65534)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_machine_without_partitions_has_nothing_to_prove(
    node: MakeNode, command: Command
) -> None:
    one = node(1)
    state.set_mig_mode(one.path, 0, True)
    ended = command(one, "prove")
    assert (ended.returncode, ended.stdout) == (
        2,
        "untried: there is nothing to prove: no partition and no whole GPU\n",
    )


def test_a_driver_that_does_not_answer_is_unknown(node: MakeNode, command: Command) -> None:
    one = node(1)
    state.inject(one.path, state.Injection(call="nvmlDeviceGetUUID", delay_ms=NEVER_MS))
    ended = command(one, "prove", "--deadline", "1")
    assert ended.returncode == 2
    assert ended.stdout.startswith("untried: The driver did not answer: ")


def test_a_gpu_that_cannot_be_read_is_unknown(node: MakeNode, command: Command) -> None:
    two = node(2)
    state.lose(two.path, 1)
    ended = command(two, "prove")
    assert ended.returncode == 2
    assert ended.stdout.startswith("untried: the driver cannot read GPU 1: ")


def test_it_ends_at_the_timeout(node: MakeNode, command: Command) -> None:
    one = node(1, SEVENTHS)
    state.inject(one.path, state.Injection(call="cuInit", delay_ms=NEVER_MS))
    ended = command(one, "prove", "--timeout", "0.5")
    assert ended.returncode == 1
    assert ended.stdout.startswith("failed: 0 of 7 devices computed, 7 failed (")
    assert "TIMED_OUT (the process was ended at its deadline): " in ended.stdout


def test_in_a_pod_the_allotted_partition_is_proven_beside_other_processes(
    node: MakeNode, command: Command, tmp_path: Path
) -> None:
    one = node(1, ["7g.80gb"])
    gi = state.load(one.path).gpus[0].instances[0]
    state.run_process(one.path, state.Process(gpu=0, gi=gi.id, ci=0, pid=1 << 30))
    message = tmp_path / "termination-log"
    ended = command(one, "prove", "--allotted", "7g.80gb", "--message", str(message))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert message.read_text().startswith("computed in ")
    assert message.read_text().endswith(f" s: {uuids_of(one)[0]}")


def test_another_device_than_the_requested_one_is_not_proven(
    node: MakeNode, command: Command, tmp_path: Path
) -> None:
    for layout, requested in [
        (["7g.80gb"], "1g.10gb"),
        (["7g.80gb"], "gpu"),
        ([], "7g.80gb"),
        (SEVENTHS, "1g.10gb"),
    ]:
        message = tmp_path / "termination-log"
        one = node(1, layout)
        ended = command(one, "prove", "--allotted", requested, "--message", str(message))
        assert (ended.returncode, ended.stderr) == (4, "")
        assert ended.stdout.startswith(f"wrong device: requested {requested}, and the container")
        assert message.read_text() == ended.stdout.rstrip()


def test_a_gpu_in_mig_mode_without_its_partition_is_a_wrong_device(
    node: MakeNode, command: Command, tmp_path: Path
) -> None:
    """As of a device plugin that hands out the GPU: no program finds a device on it."""
    one, message = node(1), tmp_path / "message"
    state.set_mig_mode(one.path, 0, enabled=True)
    ended = command(one, "prove", "--allotted", "3g.40gb", "--message", str(message))
    assert ended.returncode == 4
    expected = "wrong device: requested 3g.40gb, and the container has no device"
    assert message.read_text() == expected


def test_a_whole_gpu_is_allotted_by_its_name(node: MakeNode, command: Command) -> None:
    assert command(node(1), "prove", "--allotted", "gpu").returncode == 0


def test_a_failure_of_the_allotted_device_is_in_the_message(
    node: MakeNode, command: Command, tmp_path: Path
) -> None:
    one, message = node(1, ["7g.80gb"]), tmp_path / "termination-log"
    state.inject(one.path, state.Injection(call="cuInit", code=802))
    ended = command(one, "prove", "--allotted", "7g.80gb", "--message", str(message))
    assert ended.returncode == 1
    assert "CUDA_ERROR_SYSTEM_NOT_READY (802) in cuInit" in message.read_text()


def test_a_message_that_cannot_be_written_changes_no_result(
    node: MakeNode, command: Command, tmp_path: Path
) -> None:
    missing = tmp_path / "missing" / "file"
    ended = command(node(1), "prove", "--allotted", "gpu", "--message", str(missing))
    assert ended.returncode == 0
    assert "not written" in ended.stderr
