"""A fleet whose nodes are proven by pods, at the edge of the controller's API client."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.apis import names
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.kubeapi.client import path_of
from tests.fleet_controller.api_edge import NODES, POOLS
from tests.fleet_controller.cluster.test_proof_pod_body import SPEC
from tests.fleet_controller.cluster.test_requests import Fleet

PODS = path_of("v1", "pods", namespace=names.NAMESPACE)
COMPUTED = {"key": "0" * 32, "outcome": "computed", "seconds": 1, "deviceCount": 2, "devices": []}


@pytest.fixture
def fleet() -> Fleet:
    fleet = Fleet(pools=1, of_a_pool=2)
    verification = {"compute": True, "pod": SPEC}
    fleet.edge.change(POOLS, "p0", {"spec": {"verification": verification}})
    fleet.passes(2)
    fleet.mig_manager_says("success")
    return fleet


def _pods(fleet: Fleet) -> dict[str, dict[str, Any]]:
    return fleet.edge.objects[PODS]


def _end(fleet: Fleet, phase: str, code: int) -> None:
    """The scheduler and the kubelet have run every pod."""
    terminated = {"exitCode": code, "message": "a line"}
    status = {"phase": phase, "containerStatuses": [{"state": {"terminated": terminated}}]}
    for key in _pods(fleet):
        fleet.edge.change(PODS, key, {"status": status})


def _passes(fleet: Fleet, count: int) -> None:
    """The API server stamps each pod that is created."""
    for _ in range(count):
        fleet.passes()
        for key, pod in [*_pods(fleet).items()]:
            if "creationTimestamp" not in pod["metadata"]:
                created = {"metadata": {"creationTimestamp": stamp(fleet.now)}}
                fleet.edge.change(PODS, key, created)


def _reasons(fleet: Fleet) -> set[str]:
    return {node.condition.reason for node in fleet.cluster.nodes.all().values() if node.condition}


def test_a_pod_is_created_only_after_the_agents_own_proof(fleet: Fleet) -> None:
    fleet.agents_report()
    _passes(fleet, 3)
    assert (_reasons(fleet), _pods(fleet)) == ({"ComputeNotProven"}, {})
    fleet.agents_report(compute=COMPUTED)
    _passes(fleet, 3)
    assert (_reasons(fleet), len(_pods(fleet))) == ({"PodProofUnderWay"}, 2)
    assert not fleet.settled()


def test_each_node_costs_one_pod_and_is_released_by_it(fleet: Fleet) -> None:
    fleet.agents_report(compute=COMPUTED)
    _passes(fleet, 3)
    _end(fleet, "Succeeded", 0)
    written = fleet.written()
    assert _pods(fleet) == {}
    assert (written["POST pods"], written["DELETE pods"]) == (2, 2)
    assert written["PATCH nodes"] == 5 * len(fleet.nodes)
    for node in fleet.edge.objects[NODES].values():
        assert node["metadata"]["annotations"][names.POD_PROOF_ANNOTATION]
    fleet.edge.requests.clear()
    fleet.passes(3)
    assert "GET pods" not in fleet.edge.requests, "nothing is listed once all is proven"


def test_a_failed_pod_holds_the_node_and_is_replaced_after_five_minutes(fleet: Fleet) -> None:
    fleet.agents_report(compute=COMPUTED)
    _passes(fleet, 3)
    _end(fleet, "Failed", 4)
    _passes(fleet, 3)
    assert _reasons(fleet) == {"WrongDeviceAllotted"}
    fleet.now += 300
    fleet.agents_report(compute=COMPUTED)
    _passes(fleet, 3)
    assert len(_pods(fleet)) == 2
    assert all("status" not in pod for pod in _pods(fleet).values())
    _end(fleet, "Succeeded", 0)
    _passes(fleet, 4)
    assert fleet.settled()
