"""The Events that a simulated cluster-autoscaler writes on pods."""

from __future__ import annotations

from typing import Any, cast

from slicewright.kubeapi import ApiError, JsonObject
from slicewright.rehearsal.clouds.core.autoscaler_events import tell_pods
from slicewright.rehearsal.clouds.core.node_api import NodeApi
from slicewright.rehearsal.clouds.core.scaling import ScaleUp


def pod(name: str, namespace: str) -> JsonObject:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"}}


class Api:
    """Refuses objects in the namespace `going`, as an API server that deletes it."""

    def __init__(self) -> None:
        self.created: list[tuple[str, JsonObject]] = []

    def create(self, path: str, manifest: JsonObject) -> None:
        if "/going/" in path:
            raise ApiError(403, {"reason": "Forbidden"})
        self.created.append((path, manifest))


def test_refused_event_keeps_no_node_from_being_added() -> None:
    pods: Any = (pod("a", "going"), pod("b", "ai"))
    step = ScaleUp(pool="p", zone="", size=3, added=2, limit=9, pods=pods)
    api = Api()
    tell_pods(cast(NodeApi, api), step, group="asg")
    ((path, event),) = api.created
    assert path == "/api/v1/namespaces/ai/events"
    assert event["message"] == "pod triggered scale-up: [{asg 3->5 (max: 9)}]"
    assert event["involvedObject"]["uid"] == "uid-b"
