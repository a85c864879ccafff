"""A node that is not verified names the device plugin of others that runs on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.fleet_controller.decision.decide import decide
from slicewright.fleet_controller.nodes.assess import assess
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.objects.shares import PoolShares
from slicewright.kubeapi import ApiError, Client, JsonObject
from slicewright.kubeapi.watch import Event

DIRECTORY = "/var/lib/kubelet/device-plugins"
NVIDIAS = "nvcr.io/nvidia/k8s-device-plugin:v0.14.5"
NAMED = (
    "DaemonSet kube-system/nvidia-device-plugin-daemonset registers the node's GPUs with the "
    "kubelet, too, which keeps the plugin that registered last: delete the DaemonSet, or keep it "
    "off the pool's nodes with a nodeAffinity"
)


def plugin(
    daemon_set: str = "nvidia-device-plugin-daemonset",
    *,
    namespace: str = "kube-system",
    image: str = NVIDIAS,
    path: str = DIRECTORY,
    owner: str = "DaemonSet",
) -> JsonObject:
    return {
        "metadata": {
            "namespace": namespace,
            "name": f"{daemon_set}-x7k2p",
            "uid": f"uid-{daemon_set}",
            "resourceVersion": "7",
            "ownerReferences": [{"kind": owner, "name": daemon_set, "controller": True}],
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "c", "image": image}],
            "volumes": [{"name": "socket", "hostPath": {"path": path}}],
        },
        "status": {},
    }


class Api:
    """Answers with these ClusterPolicies. None: the API server does not know their kind."""

    def __init__(self, policies: list[JsonObject] | None) -> None:
        self.policies = policies
        self.questions = 0

    def get(self, path: str, **query: str) -> JsonObject:
        assert path.endswith("/clusterpolicies")
        self.questions += 1
        if self.policies is None:
            raise ApiError(404, {})
        return {"items": self.policies}


OPERATOR = [{"metadata": {"name": "p"}, "status": {"namespace": "gpu-operator"}}]


def cluster(*pods: JsonObject, policies: list[JsonObject] | None = OPERATOR) -> tuple[Cluster, Api]:
    api = Api(policies)
    observed = Cluster.for_client(cast(Client, api))
    for pod in pods:
        observed.bound._apply(Event("ADDED", pod))
    return observed, api


def others(*pods: JsonObject, policies: list[JsonObject] | None = OPERATOR) -> dict[str, str]:
    return cluster(*pods, policies=policies)[0].other_plugins({"n1"})


def test_plugin_of_others_is_named_with_its_daemonset() -> None:
    assert others(plugin()) == {"n1": "kube-system/nvidia-device-plugin-daemonset"}
    assert others(plugin(), policies=None) == {"n1": "kube-system/nvidia-device-plugin-daemonset"}


@pytest.mark.parametrize(
    "pod",
    [
        plugin(namespace="gpu-operator"),
        plugin("nvidia-gpu-device-plugin-small-cos", image="gke.gcr.io/nvidia-gpu-device-plugin:1"),
        plugin("nvidia-gpu-device-plugin-large-cos", image="registry.example/plugin@sha256:1"),
        plugin("aws-efa-k8s-device-plugin", image="ecr/eks/aws-efa-k8s-device-plugin:v0.5"),
        plugin("dcgm-exporter", path="/var/lib/kubelet/pod-resources"),
        plugin("gpu-job", owner="ReplicaSet"),
        plugin("log-collector", image="registry.example/logs:1"),
    ],
    ids=lambda pod: str(pod["metadata"]["name"]),
)
def test_other_pods_are_no_plugin_of_others(pod: JsonObject) -> None:
    assert others(pod) == {}


def test_plugins_are_not_judged_before_the_operators_namespace_is_known() -> None:
    assert others(plugin(), policies=[{"metadata": {"name": "p"}, "status": {}}]) == {}


def test_without_plugins_the_api_server_is_not_asked() -> None:
    observed, api = cluster(plugin("dcgm", path="/var/lib/kubelet/pod-resources"))
    assert (observed.other_plugins({"n1"}), api.questions) == ({}, 0)


def test_unknown_operator_names_no_plugin() -> None:
    """Rights may lack, and the API server may be away: a clearer message is not worth a pass."""
    observed, api = cluster(plugin())

    def refuse(path: str, **query: str) -> JsonObject:
        raise ApiError(403, {})

    api.get = refuse  # type: ignore[method-assign]
    assert observed.other_plugins({"n1"}) == {}


def test_plugin_is_kept_apart_from_the_pods_that_a_change_considers() -> None:
    observed, _ = cluster(plugin())
    assert observed.bound.pods_on("n1") == ()
    assert observed.other_plugins({"n2"}) == {}
    observed.bound._apply(Event("DELETED", plugin()))
    assert observed.other_plugins({"n1"}) == {}


def test_node_that_does_not_match_names_the_plugin(
    node: Node, pool: Pool, report: Report, now: float
) -> None:
    name = "kube-system/nvidia-device-plugin-daemonset"
    mismatch = replace(report, verdict="Mismatch", reason="WrongResources", message="8 whole GPUs.")
    assessment = assess(node, pool, mismatch, now, other_plugin=name)
    assert assessment.message == f"8 whole GPUs; {NAMED}"
    assert (assessment.status, assessment.reason) == ("False", "WrongResources")
    shared = replace(pool, shares=PoolShares(engine="hami", namespace="hami-system"))
    said = assess(node, shared, mismatch, now, other_plugin=name)
    assert said.message == "8 whole GPUs.", "the engine's own plugin serves the pool"
    matching = assess(node, pool, report, now)
    assert assess(node, pool, report, now, other_plugin=name) == matching


def test_the_name_reaches_the_pool(node: Node, pool: Pool, report: Report, now: float) -> None:
    mismatch = replace(report, verdict="Mismatch", reason="WrongResources", message="8 whole GPUs.")
    plugins = {node.name: "kube-system/nvidia-device-plugin-daemonset"}
    decision = decide([pool], [node], {node.name: mismatch}, {}, {}, now, other_plugins=plugins)
    assert NAMED in str(decision.actions)


def test_name_of_a_plugin_cannot_command_a_terminal() -> None:
    wild: Any = plugin()
    wild["metadata"]["ownerReferences"][0]["name"] = "p\x1b[2J"
    assert "\x1b" not in str(others(wild))
