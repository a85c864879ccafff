"""A rehearsal's table calls those pods failing that `kubectl get pods` shows in red."""

from __future__ import annotations

from typing import Any, cast

import pytest

from slicewright.kubeapi import Client
from slicewright.rehearsal.scenario import failing_pods


def pod(reason: str = "", phase: str = "Running", ready: bool = True) -> dict[str, Any]:
    state = {"waiting": {"reason": reason}} if reason else {"running": {}}
    return {
        "metadata": {"name": "a", "namespace": "ai"},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [{"state": state}],
        },
    }


@pytest.mark.parametrize(
    ("found", "failing"),
    [
        (pod(), ()),
        (pod("ContainerCreating", "Pending", ready=False), ()),
        (pod(phase="Succeeded", ready=False), ()),
        (pod(phase="Pending", ready=False), ()),
        (pod("CrashLoopBackOff", ready=False), ("ai/a: CrashLoopBackOff",)),
        (pod("RehearsalUnsupported", "Pending", ready=False), ("ai/a: RehearsalUnsupported",)),
        (pod(phase="Failed", ready=False), ("ai/a: Failed",)),
        (pod(ready=False), ("ai/a: not Ready",)),
    ],
)
def test_pod_fails_if_it_cannot_start_has_failed_or_is_not_ready(
    found: dict[str, Any], failing: tuple[str, ...]
) -> None:
    assert failing_pods.failing([found]) == failing


def test_a_pod_that_is_being_deleted_does_not_count() -> None:
    leaving = pod("CrashLoopBackOff")
    leaving["metadata"]["deletionTimestamp"] = "now"
    assert failing_pods.failing([leaving]) == ()


class Looks:
    """A cluster whose pods differ from look to look; the last look goes on."""

    def __init__(self, *looks: list[dict[str, Any]]) -> None:
        self._looks = list(looks)

    def get(self, _path: str) -> dict[str, Any]:
        return {"items": self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]}


def wait(*looks: list[dict[str, Any]], timeout_s: float = 60.0) -> tuple[str, ...]:
    client = cast("Client", Looks(*looks))
    return failing_pods.wait_until_none(client, timeout_s=timeout_s, lasting_s=0.6)


def test_a_crash_loop_is_seen_though_its_container_runs_for_a_moment() -> None:
    loop = [[pod()], [pod("CrashLoopBackOff")]] * 3
    assert wait(*loop, timeout_s=2.0) == ("ai/a: CrashLoopBackOff",)


def test_a_container_that_starts_at_the_second_try_is_no_failure() -> None:
    assert wait([pod("CrashLoopBackOff")], [pod()]) == ()
