"""Which pods the controller takes for NVIDIA's operands: those in the operator's namespace. Others
may have the same labels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from slicewright.apis.reasons.troubles import MIG_MANAGER
from slicewright.fleet_controller.cluster import observe
from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.fleet_controller.cluster.operands import namespaces_of
from slicewright.fleet_controller.objects.node import Node, read_node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.kubeapi import ApiError, Client, JsonObject
from tests.fleet_controller.cluster.test_bound_pods import _node

OPERATOR, TENANT = "nvidia", "aaa-tenant"
PODS = "/api/v1/pods"


def policy(**status: str) -> JsonObject:
    return {"metadata": {"name": "cluster-policy"}, "status": status}


def pod(namespace: str, **labels: str) -> JsonObject:
    """A pod of a DaemonSet, which looks like mig-manager's and like the driver's, and crashes."""
    waiting = {"reason": "CrashLoopBackOff", "message": f"words of {namespace}"}
    return {
        "metadata": {
            "namespace": namespace,
            "name": f"pod-of-{namespace}",
            "uid": f"uid-{namespace}",
            "labels": {
                "app": MIG_MANAGER,
                "app.kubernetes.io/component": "nvidia-driver",
                "app.kubernetes.io/managed-by": "gpu-operator",
                **labels,
            },
            "ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}],
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "nvidia-driver-ctr", "image": "driver:580.95.05"}],
        },
        "status": {"containerStatuses": [{"name": "c", "state": {"waiting": waiting}}]},
    }


class Api:
    """Answers as an API server with these pods and ClusterPolicies; None: without their kind."""

    def __init__(self, policies: list[JsonObject] | None, *pods: JsonObject) -> None:
        self.policies = policies
        self.pods = pods
        self.asked: list[str] = []

    def get(self, path: str, **query: str) -> JsonObject:
        self.asked.append(path)
        if path.endswith("/clusterpolicies"):
            if self.policies is None:
                raise ApiError(404, {})
            return {"items": self.policies}
        within = path.removesuffix("/pods").rpartition("/namespaces/")[2]
        found = [p for p in self.pods if path == PODS or p["metadata"]["namespace"] == within]
        return {"metadata": {"resourceVersion": "1"}, "items": found}


def cluster(api: Api) -> Cluster:
    return Cluster.for_client(cast(Client, api))


@pytest.fixture
def node() -> Node:
    """Held and stuck, so that its pods are listed."""
    return replace(read_node(_node("n1", 5, held=True)), stuck="{}")


IN_ITS_NAMESPACE = [policy(namespace=OPERATOR, state="ready")]


def test_a_decoy_of_a_tenant_is_a_pod_like_any_other(node: Node) -> None:
    api = Api(IN_ITS_NAMESPACE, pod(TENANT), pod(OPERATOR))
    decoy, operand = cluster(api).pods(node)
    assert (decoy.app, decoy.driver, decoy.owner) == ("", "", "")
    assert (operand.app, operand.driver, operand.owner) == (MIG_MANAGER, "580.95.05", "d")


def test_words_of_a_tenants_pod_reach_no_condition() -> None:
    for nodes in ({"n1"}, {f"n{i}" for i in range(observe.FEW_NODES + 1)}):
        api = Api(IN_ITS_NAMESPACE, pod(TENANT), pod(OPERATOR))
        asked = cluster(api)
        asked.cluster_policies()
        found = asked.waiting_operands(nodes)
        assert {p["metadata"]["name"] for p in found} == {f"pod-of-{OPERATOR}"}
        assert PODS not in api.asked


@pytest.mark.parametrize("stated", [policy(), policy(namespace="")])
def test_no_pod_counts_as_operand_before_the_operators_namespace_is_known(
    node: Node, stated: JsonObject
) -> None:
    api = Api([stated], pod(TENANT), pod(OPERATOR))
    asked = cluster(api)
    assert {found.app for found in asked.pods(node)} == {""}
    assert asked.waiting_operands({"n1"}) == []
    api.policies = IN_ITS_NAMESPACE
    assert {found.app for found in asked.pods(node)} == {"", MIG_MANAGER}


def test_operators_namespace_is_not_read_in_every_pass(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(observe.time, "monotonic", lambda: now)
    for policies, expected in ((IN_ITS_NAMESPACE, 1), (None, 1)):
        api = Api(policies, pod(OPERATOR))
        asked = cluster(api)
        for _ in range(3):
            asked.pods(node)
        assert sum(path.endswith("/clusterpolicies") for path in api.asked) == expected
        now += 301.0
        asked.pods(node)
        assert sum(path.endswith("/clusterpolicies") for path in api.asked) == expected + 1


def test_a_node_without_anything_like_an_operand_needs_no_question(node: Node) -> None:
    other = pod(TENANT)
    other["metadata"]["labels"] = {}
    api = Api(IN_ITS_NAMESPACE, other)
    assert [type(found) for found in cluster(api).pods(node)] == [NodePod]
    assert api.asked == [PODS]


def test_several_policies_and_none() -> None:
    others: Any = [policy(namespace="a"), policy(namespace="b"), {"metadata": {"name": "new"}}]
    assert namespaces_of(others) == {"a", "b"}
    assert namespaces_of([]) is None
