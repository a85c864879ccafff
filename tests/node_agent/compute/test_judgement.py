"""A proof compares by UUID, and never takes silence for a pass."""

from __future__ import annotations

from dataclasses import replace

from slicewright.node_agent.compute import signs
from slicewright.node_agent.compute.judgement import Proof, as_json, judge
from slicewright.node_agent.compute.results import DeviceResult, Failure, Started
from slicewright.node_agent.compute.units import Run, Unit

DEVICES = {"g": ["a", "b"], "h": ["c"]}
LAUNCH_FAILED = Failure(step="cuCtxSynchronize", code=719, name="CUDA_ERROR_LAUNCH_FAILED")


def run(gpu: str, *uuids: str, failing: str | None = None) -> Run:
    return Run(
        unit=Unit(gpu=gpu, uuids=uuids),
        started=Started(cuda=13000, init_ms=5.0, uuids=uuids),
        results=tuple(
            DeviceResult(uuid=uuid, failure=LAUNCH_FAILED if uuid == failing else None)
            for uuid in uuids
        ),
    )


def outcome(*runs: Run) -> str:
    return judge(DEVICES, runs, seconds=1.0).outcome


def signs_of(proof: Proof) -> dict[str, str]:
    return {d.uuid: d.failure.sign.name for d in proof.devices if d.failure}


def test_it_is_computed_only_if_every_device_is() -> None:
    assert outcome(run("g", "a", "b"), run("h", "c")) == "computed"
    assert outcome(run("g", "a", "b"), run("h", "c", failing="c")) == "failed"
    assert outcome(run("g", "a", "b")) == "untried"


def test_no_device_is_no_pass() -> None:
    assert judge({"g": []}, [], seconds=0.0).outcome == "untried"


def test_the_right_number_of_other_devices_is_no_pass() -> None:
    stranger = run("h", "c")
    stranger = replace(stranger, started=Started(cuda=1, init_ms=1.0, uuids=(), unexpected=("d",)))
    proof = judge(DEVICES, [run("g", "a", "b"), replace(stranger, results=())], seconds=1.0)
    assert proof.outcome == "failed"
    assert proof.unexpected == ("d",)
    assert signs_of(proof) == {"c": signs.NOT_ENUMERATED}


def test_the_second_attempt_counts() -> None:
    first, second = run("g", "a", "b", failing="b"), run("g", "b")
    assert outcome(first, second, run("h", "c")) == "computed"


def test_a_device_that_waits_for_another_process_keeps_its_last_result() -> None:
    """The second run ends before it reaches `b`."""
    cut_short = replace(run("g", "a", "b"), results=(), begun="a")
    proof = judge(DEVICES, [run("g", "a", "b", failing="b"), cut_short], seconds=1.0)
    assert signs_of(proof)["b"] == "CUDA_ERROR_LAUNCH_FAILED"


def test_users_of_a_gpu_are_the_reason_of_every_device_that_was_left_out() -> None:
    proof = judge(DEVICES, [run("g", "a", "b")], seconds=1.0, in_use=["process 7 (python)"])
    assert proof.outcome == "untried"
    assert signs_of(proof) == {"c": signs.IN_USE}


def test_json_has_each_failure_with_code_cause_and_remedy() -> None:
    plain = as_json(judge(DEVICES, [run("g", "a", "b", failing="a")], seconds=1.0))
    failure = plain["gpus"][0]["devices"][0]["failure"]
    assert (failure["code"], failure["name"]) == (719, "CUDA_ERROR_LAUNCH_FAILED")
    assert failure["cause"] == signs.of_code(719).cause
    assert failure["remedy"] == signs.of_code(719).remedy
