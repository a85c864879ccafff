"""A full node still gets its agent: asked of the real scheduler with the pods that the program
ships.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis import names

_ROOT = Path(__file__).parents[3]
DAEMON_SETS = f"/apis/apps/v1/namespaces/{names.NAMESPACE}/daemonsets"
PODS = f"/api/v1/namespaces/{names.NAMESPACE}/pods"


@pytest.fixture(scope="module")
def agent() -> Mapping[str, Any]:
    """The DaemonSet of the agents."""
    from slicewright.infra import plan
    from tests.fleet_controller.conftest import with_integers
    from tests.recorder import recorded

    made = recorded(plan.read_file(_ROOT / "stacks" / "Pulumi.gke-h100.yaml"), "gke-h100")
    (inputs,) = (m.inputs for m in made if m.type.endswith(":DaemonSet"))
    return with_integers(inputs)


def _for_pool(agent: Mapping[str, Any], pool: str, **pod: Any) -> dict[str, Any]:
    """The DaemonSet for another pool, with these fields of its pods changed."""
    body: dict[str, Any] = copy.deepcopy(dict(agent))
    labels = {**body["metadata"]["labels"], names.POOL_LABEL: pool}
    body["metadata"] = {"name": f"node-agent-{pool}", "labels": labels}
    body["spec"]["selector"] = {"matchLabels": labels}
    body["spec"]["template"]["metadata"]["labels"] = labels
    body["spec"]["template"]["spec"] |= {"nodeSelector": {names.POOL_LABEL: pool}, **pod}
    return body


def _fill(api_server: Any, node: str) -> None:
    """A pod that takes all of the node's CPUs."""
    taken = {"requests": {"cpu": "8"}}
    spec = {
        "nodeName": node,
        # No kubelet is there to confirm its end.
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "test", "resources": taken}],
    }
    path = "/api/v1/namespaces/default/pods"
    api_server.admin.create(path, {"metadata": {"name": f"job-on-{node}"}, "spec": spec})


def _agents(api_server: Any, pool: str) -> list[dict[str, Any]]:
    found = api_server.admin.get(PODS, labelSelector=f"{names.POOL_LABEL}={pool}")["items"]
    assert isinstance(found, list)
    return found


def test_the_scheduler_makes_room_for_the_agent(api_server: Any, agent: Mapping[str, Any]) -> None:
    api_server.make_node("full", "full")
    _fill(api_server, "full")
    api_server.admin.create(DAEMON_SETS, _for_pool(agent, "full"))

    def bound() -> bool:
        return [p["spec"].get("nodeName") for p in _agents(api_server, "full")] == ["full"]

    api_server.wait(bound, "the agent is bound to the full node")
    (pod,) = _agents(api_server, "full")
    # From this priority on the kubelet evicts no pod.
    assert pod["spec"]["priority"] >= 2_000_000_000
    left = api_server.admin.get("/api/v1/namespaces/default/pods")["items"]
    assert "job-on-full" not in {p["metadata"]["name"] for p in left}


def test_without_its_priority_class_it_would_stay_pending(
    api_server: Any, agent: Mapping[str, Any]
) -> None:
    api_server.make_node("stuck", "stuck")
    _fill(api_server, "stuck")
    api_server.admin.create(DAEMON_SETS, _for_pool(agent, "stuck", priorityClassName=None))

    def refused() -> bool:
        conditions = [
            c
            for p in _agents(api_server, "stuck")
            for c in (p.get("status") or {}).get("conditions") or ()
        ]
        return any("Insufficient cpu" in c.get("message", "") for c in conditions)

    api_server.wait(refused, "the scheduler finds no room")
    assert [p["spec"].get("nodeName") for p in _agents(api_server, "stuck")] == [None]
