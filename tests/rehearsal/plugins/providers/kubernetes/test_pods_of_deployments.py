"""What a wait for a Deployment shows of its pods."""

from __future__ import annotations

from typing import Any

from slicewright.rehearsal.plugins.engine.plugin import Severity
from slicewright.rehearsal.plugins.providers.kubernetes.readiness import Deployment, pod_error

DEPLOYMENT: dict[str, Any] = {
    "metadata": {
        "name": "d",
        "namespace": "n",
        "uid": "u",
        "generation": 1,
        "annotations": {"deployment.kubernetes.io/revision": "1"},
    },
    "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": {"spec": {}}},
    "status": {"observedGeneration": 1},
}


class Related:
    """The objects beside a Deployment."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self._pods = list(pods)

    def is_listed(self, name: str) -> bool:
        return True

    def items(self, name: str) -> list[dict[str, Any]]:
        return self._pods if name == "pods" else []

    def idle_s(self, name: str) -> float:
        return 0.0


def pod(reason: str, message: str, *, ready: bool = False) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    unready = {"type": "ContainersReady", "message": "containers with unready status: [c]"}
    return {
        "metadata": {"name": "d-x", "namespace": "n"},
        "status": {
            "conditions": [unready],
            "containerStatuses": [{"name": "c", "ready": ready, "state": state}],
        },
    }


def test_an_image_that_does_not_come_is_shown_as_pulumis_provider_shows_it() -> None:
    failing = pod("ImagePullBackOff", 'Back-off pulling image "i": ErrImagePull: no')
    verdict = Deployment().judge(DEPLOYMENT, Related(failing))
    assert not verdict.done
    assert verdict.severity is Severity.WARNING
    assert verdict.status == (
        "[Pod n/d-x]: containers with unready status: [c]"
        '[ImagePullBackOff] Back-off pulling image "i": ErrImagePull: no'
    )


def test_ordinary_waits_are_not_errors() -> None:
    assert pod_error([pod("ContainerCreating", "")]) == ""
    assert pod_error([pod("ImagePullBackOff", "no", ready=True)]) == ""
    status = Deployment().judge(DEPLOYMENT, Related(pod("ContainerCreating", ""))).status
    assert status == "Waiting for app ReplicaSet to be available (0/1 Pods available)"


def test_only_the_deployments_own_pods_are_watched() -> None:
    assert Deployment().needs(DEPLOYMENT)["pods"].query == {"labelSelector": "app=d"}
