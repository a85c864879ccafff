"""Pod status from container states."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.cluster.kubelet.containers.backoff import RestartBackoff
from slicewright.rehearsal.cluster.kubelet.containers.state import ContainerState, Terminated
from slicewright.rehearsal.cluster.kubelet.pods.status import PodFacts, pod_status


def ended(code: int) -> Terminated:
    return Terminated(
        exit_code=code, reason="Error" if code else "Completed", started_at="t0", finished_at="t1"
    )


def state(name: str = "c", **known: Any) -> ContainerState:
    return ContainerState(name=name, image="i", **known)


def status(*main: ContainerState, policy: str = "Always", **known: Any) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "metadata": known.pop("metadata", {}),
        "spec": {"restartPolicy": policy, **known.pop("spec", {})},
    }
    if "conditions" in known:
        pod["status"] = {"conditions": known.pop("conditions")}
    facts = {
        "init": (),
        "initialized": True,
        "pod_ip": "127.1.1.1",
        "host_ip": "127.0.0.1",
        "start_time": "t0",
        **known,
    }
    return pod_status(PodFacts(pod=pod, main=main, **facts))


def condition(made: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(c for c in made["conditions"] if c["type"] == kind)


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        ("Never", 0, "Succeeded"),
        ("Never", 3, "Failed"),
        ("OnFailure", 0, "Succeeded"),
        ("OnFailure", 3, "Running"),
    ],
)
def test_the_restart_policy_decides_the_phase_when_containers_exit(
    policy: str, code: int, phase: str
) -> None:
    assert status(state(terminated=ended(code)), policy=policy)["phase"] == phase


def test_a_pod_is_pending_before_its_first_start_and_running_between_restarts() -> None:
    assert status(state())["phase"] == "Pending"
    again = status(state(last=ended(1), waiting_reason="CrashLoopBackOff"))
    assert again["phase"] == "Running"
    assert again["containerStatuses"][0]["state"] == {"waiting": {"reason": "CrashLoopBackOff"}}
    assert again["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1


def test_ready_needs_every_container() -> None:
    running: dict[str, Any] = {"running_since": "t0", "started": True}
    made = status(state("a", ready=True, **running), state("b", **running))
    assert condition(made, "Ready")["status"] == "False"
    assert condition(made, "Ready")["message"] == "containers with unready status: [b]"
    assert condition(status(state("a", ready=True, **running)), "Ready")["status"] == "True"


def test_a_readiness_gate_affects_ready_but_not_containers_ready() -> None:
    running = state(running_since="t0", started=True, ready=True)
    gate: dict[str, Any] = {"readinessGates": [{"conditionType": "x/y"}]}
    made = status(running, spec=gate)
    assert condition(made, "ContainersReady")["status"] == "True"
    assert condition(made, "Ready")["reason"] == "ReadinessGatesNotReady"
    opened = [{"type": "x/y", "status": "True", "lastTransitionTime": "t0"}]
    assert condition(status(running, spec=gate, conditions=opened), "Ready")["status"] == "True"


def test_a_conditions_transition_time_changes_only_with_its_status() -> None:
    before = [{"type": "Ready", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}]
    assert (
        condition(status(state(), conditions=before), "Ready")["lastTransitionTime"]
        == "2020-01-01T00:00:00Z"
    )
    now = status(state(running_since="t0", ready=True), conditions=before)
    assert condition(now, "Ready")["lastTransitionTime"] != "2020-01-01T00:00:00Z"


def test_a_rejected_pod_is_failed_with_the_reason() -> None:
    made = status(state(), refusal=("UnexpectedAdmissionError", "Pod was rejected: no"))
    assert (made["phase"], made["reason"], made["message"]) == (
        "Failed",
        "UnexpectedAdmissionError",
        "Pod was rejected: no",
    )


def test_a_container_that_ran_when_the_kubelet_ended_is_terminated() -> None:
    earlier = {
        "restartCount": 2,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
        "containerID": "x",
    }
    taken = ContainerState.from_api({"name": "c", "image": "i"}, earlier)
    assert taken.restarts == 2
    assert taken.terminated is not None
    assert taken.terminated.exit_code == 137


def test_the_first_restart_is_immediate_and_later_ones_back_off() -> None:
    backoff = RestartBackoff()
    assert [backoff.next(1.0) for _ in range(8)] == [0, 10, 20, 40, 80, 160, 300, 300]
    assert backoff.next(601.0) == 0


def test_back_off_ends_when_the_kubelet_is_asked_to_end_it() -> None:
    backoff = RestartBackoff(longest_s=2.0)
    assert [backoff.next(1.0) for _ in range(4)] == [0, 2, 2, 2]
