"""Where pods without GPUs run: on the system pool where the stack has one, else on any node."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slicewright.infra import manifests, plan
from slicewright.infra.manifests.text import JsonObject
from tests.infra.plan.test_workloads import planned, stack

SYSTEM = {"slicewright.io/role": "system"}
GKE = {"name": "c", "location": "us-central1-a"}
EKS = {"name": "c", "region": "us-east-1"}
CUT = {"mode": "operator", "config": "all-1g.5gb"}
POOLS: dict[str, dict[str, Any]] = {
    "gke": {"name": "a", "machine_type": "a2-highgpu-1g", "partition": CUT, "nodes": {"count": 1}},
    "eks": {"name": "a", "machine_type": "p4d.24xlarge", "partition": CUT, "nodes": {"count": 1}},
}
WITH_SYSTEM_NODES: dict[str, dict[str, Any]] = {
    "a new GKE cluster": {"cloud": "gke", "cluster": GKE},
    "a GKE cluster that exists, with a system pool": {
        "cloud": "gke",
        "cluster": GKE | {"existing": True},
        "system_pool": {"nodes": {"count": 1}},
    },
    "a new EKS cluster": {"cloud": "eks", "cluster": EKS},
    "an EKS cluster that exists": {"cloud": "eks", "cluster": EKS | {"existing": True}},
}
WITHOUT: dict[str, dict[str, Any]] = {
    "a GKE cluster that exists": {"cloud": "gke", "cluster": GKE | {"existing": True}},
    "a cluster that was made elsewhere": {"cloud": "byo"},
}


def fleet_of(cluster: dict[str, Any]) -> plan.FleetPlan:
    """With the operator, and Prometheus by its chart."""
    own = {"monitoring": {"prometheus": "stack"}, **cluster}
    if cluster["cloud"] == "byo":
        pool = {"name": "a", "gpu": {"model": "T4", "count": 1}, "nodes": {"count": 1}}
        return planned(own | {"cluster": {"name": "c", "context": "c"}, "node_pools": [pool]})
    return planned(own | {"node_pools": [POOLS[cluster["cloud"]]]})


def scaled_fleet(cluster: dict[str, Any], golden: str) -> plan.FleetPlan:
    """With the first workload of a golden render, which is scaled."""
    raw = copy.deepcopy(stack(golden))
    if cluster["cloud"] == "byo":
        return planned(raw)
    workload = raw["workloads"][0] | {"pool": "a"}
    fleet = {key: raw[key] for key in ("monitoring", "pod_autoscaling") if key in raw} | cluster
    return planned(fleet | {"node_pools": [POOLS[cluster["cloud"]]], "workloads": [workload]})


def operator(cluster: dict[str, Any]) -> JsonObject:
    fleet = fleet_of(cluster)
    made: JsonObject = manifests.operator_values(fleet, manifests.operator_files(fleet))["operator"]
    return made


def keda(cluster: dict[str, Any]) -> JsonObject:
    return manifests.keda_values(scaled_fleet(cluster, "autoscaling"))


def adapter(cluster: dict[str, Any]) -> JsonObject:
    made = manifests.adapter_objects(scaled_fleet(cluster, "prometheus-adapter"))
    (deployment,) = (one for one in made if one["kind"] == "Deployment")
    pod: JsonObject = deployment["spec"]["template"]["spec"]
    return pod


def prometheus(cluster: dict[str, Any]) -> JsonObject:
    pod: JsonObject = manifests.monitoring_values(fleet_of(cluster))["prometheus"]["prometheusSpec"]
    return pod


PARTS = (operator, keda, adapter, prometheus)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("cluster", WITH_SYSTEM_NODES.values(), ids=WITH_SYSTEM_NODES.keys())
def test_pods_without_gpus_run_on_the_system_pool(part: Any, cluster: dict[str, Any]) -> None:
    assert part(cluster)["nodeSelector"] == SYSTEM


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("cluster", WITHOUT.values(), ids=WITHOUT.keys())
def test_no_pod_selects_the_nodes_of_a_system_pool_that_is_not_declared(
    part: Any, cluster: dict[str, Any]
) -> None:
    assert "nodeSelector" not in part(cluster)
