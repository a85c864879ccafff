"""Wrong requests to the simulated Google Cloud, each with Google's own code and status.

The source of a rule stands at its group. Refusals by the API's own model (unknown fields, wrong
types, wrong enums) follow Google's discovery documents; their words are those of Google's REST
front end (googleapis, google.rpc.BadRequest).
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fake_control_planes import FakeControlPlanes
from slicewright.rehearsal.clouds.service import Cloud
from tests.rehearsal.clouds.conftest import Gcp

_POOLS, _CLUSTERS = "projects.locations.clusters.nodePools", "projects.locations.clusters"
_PARENT = "projects/acme/locations/us-central1"
_CLUSTER = f"{_PARENT}/clusters/main"
_A100 = {"acceleratorType": "nvidia-tesla-a100", "acceleratorCount": "1"}
_H100 = {"acceleratorType": "nvidia-h100-80gb", "acceleratorCount": "8"}
_A2 = {"machineType": "a2-highgpu-1g", "accelerators": [_A100]}
_A3 = {"machineType": "a3-highgpu-8g", "accelerators": [_H100]}
_T4 = {"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": "1"}
_BASES: dict[str, tuple[str, str, JsonObject, JsonObject]] = {
    "pool": (
        "container",
        f"{_POOLS}.create",
        {"parent": _CLUSTER},
        {
            "nodePool": {
                "name": "x",
                "initialNodeCount": 1,
                "locations": ["us-central1-c"],
                "config": {"machineType": "e2-standard-4"},
            }
        },
    ),
    "cluster": (
        "container",
        f"{_CLUSTERS}.create",
        {"parent": _PARENT},
        {"cluster": {"name": "new", "initialNodeCount": 1, "network": "net"}},
    ),
    "update": ("container", f"{_POOLS}.update", {"name": f"{_CLUSTER}/nodePools/pool"}, {}),
    "size": ("container", f"{_POOLS}.setSize", {"name": f"{_CLUSTER}/nodePools/pool"}, {}),
    "scale": ("container", f"{_POOLS}.setAutoscaling", {"name": f"{_CLUSTER}/nodePools/pool"}, {}),
    "manage": ("container", f"{_POOLS}.setManagement", {"name": f"{_CLUSTER}/nodePools/pool"}, {}),
    "upgrade": ("container", f"{_CLUSTERS}.update", {"name": _CLUSTER}, {}),
    "get": ("container", f"{_POOLS}.get", {"name": f"{_CLUSTER}/nodePools/pool"}, {}),
    "network": ("compute", "networks.insert", {"project": "acme"}, {"name": "n"}),
    "unnetwork": ("compute", "networks.delete", {"project": "acme", "network": "net"}, {}),
    "subnetwork": (
        "compute",
        "subnetworks.insert",
        {"project": "acme", "region": "us-central1"},
        {"name": "s", "network": "projects/acme/global/networks/net", "ipCidrRange": "10.9.0.0/20"},
    ),
    "unsubnetwork": (
        "compute",
        "subnetworks.delete",
        {"project": "acme", "region": "us-central1", "subnetwork": "sub"},
        {},
    ),
    "expand": (
        "compute",
        "subnetworks.expandIpCidrRange",
        {"project": "acme", "region": "us-central1", "subnetwork": "sub"},
        {},
    ),
    "account": (
        "iam",
        "projects.serviceAccounts.create",
        {"name": "projects/acme"},
        {"accountId": "gpu-nodes"},
    ),
    "policy": ("cloudresourcemanager", "projects.setIamPolicy", {"resource": "acme"}, {}),
}


class Wrong(NamedTuple):
    request: str
    changes: dict[str, Any]
    """Path in params or body -> value."""
    words: str
    code: int = 400
    status: str = "INVALID_ARGUMENT"


def _pool(config: dict[str, Any] | None = None, words: str = "", **fields: Any) -> Wrong:
    changes: dict[str, Any] = {f"nodePool.config.{k}": v for k, v in (config or {}).items()}
    changes |= {f"nodePool.{k}": v for k, v in fields.items()}
    return Wrong("pool", changes, words)


def _gpu(words: str, machine: str = "a2-highgpu-1g", **fields: Any) -> Wrong:
    return _pool({"machineType": machine, "accelerators": [{**_A100, **fields}]}, words)


def _bind(role: str, member: str) -> dict[str, Any]:
    return {"policy.bindings": [{"role": role, "members": [member]}]}


_SSD = "ephemeralStorageLocalSsdConfig"
_LABEL, _TAINT = "Invalid label", "Invalid taint key"
_TAINTED = {"key": "a", "value": "b", "effect": "NO_SCHEDULE"}
WRONG = [
    # Machine types and accelerators: Compute Engine, "GPU machine types"; GKE, "Run GPUs".
    _pool({"machineType": "a9-hypergpu"}, "does not exist"),
    _pool({"machineType": "p4d.24xlarge"}, "does not exist"),
    _pool({"machineType": "a2-highgpu-1g"}, "accelerators must be specified"),
    _pool({"machineType": "g2-standard-4"}, "accelerators must be specified"),
    _pool({"machineType": "e2-standard-4", "accelerators": [_A100]}, "cannot be attached"),
    _pool({"machineType": "n2-standard-4", "accelerators": [_T4]}, "cannot be attached"),
    _gpu("exactly 1 x", acceleratorCount="2"),
    _gpu("exactly 1 x", acceleratorCount="0"),
    _gpu("exactly 1 x", acceleratorType="nvidia-a100-80gb"),
    _gpu("exactly 1 x", acceleratorType="A100"),
    _gpu("exactly 8 x", machine="a2-highgpu-8g"),
    _pool({**_A3, "accelerators": [{**_H100, "acceleratorCount": "4"}]}, "exactly 8 x"),
    _pool({**_A2, "accelerators": [_A100, _A100]}, "At most one accelerator type"),
    _pool(
        {"machineType": "n1-standard-4", "accelerators": [{**_T4, "acceleratorCount": "3"}]},
        "1/2/4",
    ),
    _pool({"machineType": "n1-standard-64", "accelerators": [_T4]}, "cannot be attached"),
    # Partition sizes and sharing: GKE, "Run multi-instance GPUs", "GPU time-sharing".
    _gpu("Invalid GPU partition size", gpuPartitionSize="small"),
    _gpu("Invalid GPU partition size", gpuPartitionSize="1g"),
    _gpu("Invalid GPU partition size", gpuPartitionSize="MIG 1g.5gb"),
    _pool(
        {
            "machineType": "g2-standard-4",
            "accelerators": [
                {
                    "acceleratorType": "nvidia-l4",
                    "acceleratorCount": "1",
                    "gpuPartitionSize": "1g.5gb",
                }
            ],
        },
        "not supported on accelerator type nvidia-l4",
    ),
    _pool(
        {
            "machineType": "n1-standard-4",
            "accelerators": [{**_T4, "gpuPartitionSize": "1g.5gb"}],
        },
        "not supported on accelerator type nvidia-tesla-t4",
    ),
    *(
        _gpu(
            "2 to 48",
            gpuSharingConfig={"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": n},
        )
        for n in ("0", "1", "49", "1000")
    ),
    _gpu("must be TIME_SHARING or MPS", gpuSharingConfig={"maxSharedClientsPerGpu": "2"}),
    _gpu(
        "accelerators[0].gpu_sharing_config.gpu_sharing_strategy",
        gpuSharingConfig={"gpuSharingStrategy": "time-slicing", "maxSharedClientsPerGpu": "2"},
    ),
    _gpu(
        "gpu_driver_version", gpuDriverInstallationConfig={"gpuDriverVersion": "550.90.07"}
    ),
    # Zones and regions: Compute Engine, "Regions and zones", "GPU locations".
    _pool(words="not in the region", locations=["europe-west4-a"]),
    _pool(words="not in the region", locations=["us-central1-z"]),
    _pool(words="not in the region", locations=["us-central1"]),
    _pool(_A3, "does not exist in zone 'us-central1-f'", locations=["us-central1-f"]),
    _pool(
        {
            "machineType": "a4-highgpu-8g",
            "accelerators": [{"acceleratorType": "nvidia-b200", "acceleratorCount": "8"}],
        },
        "does not exist in zone 'us-central1-c'",
    ),
    # Disks: NVIDIA/aicr #2338; skypilot-org/skypilot #5351; Compute Engine, "Add Local SSD".
    _pool({**_A3, "diskType": "pd-standard"}, "disk type cannot be used by a3-highgpu-8g"),
    _pool({**_A2, "diskType": "hyperdisk-balanced"}, "cannot be used by a2-highgpu-1g"),
    _pool({"diskType": "hyperdisk-balanced"}, "cannot be used by e2-standard-4"),
    _pool({"diskType": "ssd"}, "cannot be used by e2-standard-4"),
    _pool({"bootDisk": {"diskType": "hyperdisk-balanced"}}, "cannot be used by e2-standard-4"),
    _pool({**_A3, _SSD: {"localSsdCount": 4}}, "exactly 16 local SSDs"),
    _pool({**_A3, "localNvmeSsdBlockConfig": {"localSsdCount": 8}}, "exactly 16 local SSDs"),
    _pool({**_A2, _SSD: {"localSsdCount": 3}}, "1/2/4/8 local SSDs"),
    _pool({_SSD: {"localSsdCount": 1}}, "cannot be attached"),
    _pool(
        {**_A3, _SSD: {"localSsdCount": 16}, "localNvmeSsdBlockConfig": {"localSsdCount": 16}},
        "Only one of",
    ),
    # Node options: GKE, "NCCL Fast Socket", "Image streaming", "Flex-start", "Spot VMs".
    _pool({"fastSocket": {"enabled": True}}, "gVNIC"),
    _pool(
        {"gcfsConfig": {"enabled": True}, "imageType": "UBUNTU_CONTAINERD"}, "COS_CONTAINERD"
    ),
    _pool({"spot": True, "preemptible": True}, "Only one of spot and preemptible"),
    _pool(
        {
            "machineType": "g4-standard-48",
            "accelerators": [{"acceleratorType": "nvidia-rtx-pro-6000", "acceleratorCount": "1"}],
            "flexStart": True,
        },
        "Flex-start is not supported on machine type g4-standard-48",
    ),
    _pool({"serviceAccount": "nobody@acme.iam.gserviceaccount.com"}, "does not exist"),
    # Labels and taints: GKE API, NodeConfig; Kubernetes, "Labels and Selectors".
    *(_pool({"labels": {k: "v"}}, "reserved prefix") for k in ("kubernetes.io/x", "k8s.io/x")),
    _pool({"labels": {"cloud.google.com/gke-nodepool": "x"}}, "reserved prefix"),
    _pool({"labels": {"node.kubernetes.io/x": "y"}}, "reserved prefix"),
    _pool({"labels": {"bad key": "y"}}, f"{_LABEL} key"),
    _pool({"labels": {"-a": "y"}}, f"{_LABEL} key"),
    _pool({"labels": {"": "y"}}, f"{_LABEL} key"),
    _pool({"labels": {"k" * 64: "y"}}, f"{_LABEL} key"),
    _pool({"labels": {"UPPER.example/x/y": "y"}}, f"{_LABEL} key"),
    _pool({"labels": {"a": "v" * 64}}, f"{_LABEL} value"),
    _pool({"labels": {"a": "-v"}}, f"{_LABEL} value"),
    _pool({"labels": {f"k{i}": "v" * 60 for i in range(20)}}, "1024"),
    _pool({"resourceLabels": {f"k{i}": "v" for i in range(65)}}, "at most 64"),
    _pool({"taints": [_TAINTED, {**_TAINTED, "value": "c"}]}, "more than one taint"),
    _pool({"taints": [{"key": "a", "value": "b"}]}, "has no effect"),
    _pool({"taints": [{**_TAINTED, "key": "a b"}]}, _TAINT),
    _pool({"taints": [{**_TAINTED, "key": "/a"}]}, _TAINT),
    _pool({"taints": [{**_TAINTED, "effect": "NoSchedule"}]}, "taints[0].effect"),
    _pool(
        {**_A2, "taints": [{**_TAINTED, "key": "nvidia.com/gpu"}]},
        "more than one taint with key nvidia.com/gpu",
    ),
    # Pools: GKE API, NodePool; rancher/rancher #32282.
    _pool(words="at most 40", name="p" * 41),
    *(_pool(words="lower case", name=n) for n in ("Pool", "9pool", "pool-", "my_pool", "")),
    Wrong("pool", {"nodePool.name": "pool"}, "Already exists", 409, "ALREADY_EXISTS"),
    _pool(words="0 to 1000", initialNodeCount=1001),
    _pool(
        words="makes 3 nodes: autoscaling.totalMaxNodeCount is below",
        autoscaling={"enabled": True, "totalMinNodeCount": 1, "totalMaxNodeCount": 2},
        initialNodeCount=1,
        locations=["us-central1-a", "us-central1-b", "us-central1-c"],
    ),
    _pool(words="8 to 256", maxPodsConstraint={"maxPodsPerNode": "300"}),
    _pool(words="8 to 256", maxPodsConstraint={"maxPodsPerNode": "4"}),
    _pool(words="1 to 20", upgradeSettings={"maxSurge": 0, "maxUnavailable": 0}),
    _pool(words="1 to 20", upgradeSettings={"maxSurge": 21}),
    _pool(words="release_channel REGULAR", management={"autoUpgrade": False, "autoRepair": True}),
    _pool(words="Unknown name", nodeCount=3),
    _pool(words="output only", status="RUNNING"),
    _pool(words="TYPE_INT32", initialNodeCount="many"),
    _pool({"spot": "yes"}, "TYPE_BOOL"),
    _pool({"guestAccelerators": []}, "Unknown name"),
    Wrong("pool", {"parent": f"{_PARENT}/clusters/none"}, "Not found", 404, "NOT_FOUND"),
    # Changes of pools: GKE API, nodePools.update and its siblings.
    Wrong("update", {"accelerators": [_A100]}, "not supported"),
    Wrong("update", {"diskType": "hyperdisk-balanced"}, "cannot be used by"),
    Wrong("update", {"fastSocket": {"enabled": True}}, "gVNIC"),
    Wrong("update", {"labels": {"labels": {"kubernetes.io/x": "y"}}}, "reserved prefix"),
    Wrong("update", {"taints": {"taints": [_TAINTED, _TAINTED]}}, "more than one taint"),
    Wrong("update", {"upgradeSettings": {"maxSurge": -1}}, "1 to 20"),
    Wrong("size", {"nodeCount": 1001}, "0 to 1000"),
    Wrong("size", {"nodeCount": -1}, "0 to 1000"),
    Wrong("size", {"nodeCount": 2.5}, "TYPE_INT32"),
    Wrong(
        "scale", {"autoscaling": {"enabled": True, "minNodeCount": 3, "maxNodeCount": 1}}, "needs 0"
    ),
    Wrong("scale", {"autoscaling": {"enabled": True, "maxNodeCount": 0}}, "needs 0"),
    Wrong("manage", {"management": {"autoRepair": True}}, "release_channel REGULAR"),
    Wrong("get", {"name": f"{_CLUSTER}/nodePools/none"}, "Not found", 404, "NOT_FOUND"),
    # Clusters: GKE API, Cluster; "About GKE cluster upgrades".
    Wrong("cluster", {"cluster.name": "main"}, "Already exists", 409, "ALREADY_EXISTS"),
    Wrong("cluster", {"cluster.name": "9main"}, "lower case"),
    Wrong("cluster", {"cluster.name": "c" * 41}, "at most 40"),
    Wrong("cluster", {"cluster.initialNodeCount": 0}, "initial_node_count"),
    Wrong("cluster", {"cluster.network": "none"}, 'Network "none" does not exist'),
    Wrong("cluster", {"cluster.subnetwork": "none"}, 'Subnetwork "none" of network'),
    Wrong("cluster", {"cluster.locations": ["us-east1-b"]}, "not in us-central1"),
    Wrong("cluster", {"cluster.initialClusterVersion": "9.9"}, "unsupported"),
    Wrong("cluster", {"cluster.initialClusterVersion": "v1.36"}, "unsupported"),
    Wrong("cluster", {"cluster.releaseChannel": {"channel": "WEEKLY"}}, "channel"),
    Wrong(
        "cluster",
        {"cluster.ipAllocationPolicy": {"clusterSecondaryRangeName": "pods"}},
        'Secondary range "pods" does not exist',
    ),
    Wrong("cluster", {"cluster.nodeConfig": {"machineType": "none"}}, "does not exist"),
    Wrong("cluster", {"cluster.status": "RUNNING"}, "output only"),
    Wrong("upgrade", {"update.desiredMasterVersion": "1.35"}, "lower than the current"),
    Wrong("upgrade", {"update.desiredMasterVersion": "2.0"}, "unsupported"),
    # Networks: Compute Engine API.
    Wrong("network", {"name": "net"}, "already exists", 409, "ALREADY_EXISTS"),
    Wrong("network", {"name": "Net"}, "Must be a match of regex"),
    Wrong("network", {"name": "n" * 64}, "Must be a match of regex"),
    Wrong(
        "unnetwork", {}, "already being used by", 400, "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"
    ),
    Wrong("unnetwork", {"network": "none"}, "was not found", 404, "NOT_FOUND"),
    Wrong("subnetwork", {"name": "sub"}, "already exists", 409, "ALREADY_EXISTS"),
    Wrong("subnetwork", {"network": "projects/acme/global/networks/none"}, "cannot be found"),
    Wrong("subnetwork", {"ipCidrRange": "10.10.1.0/24"}, "conflicts with existing subnetwork"),
    Wrong("subnetwork", {"ipCidrRange": "10.9.0.1/20"}, "Invalid value for field"),
    Wrong("subnetwork", {"ipCidrRange": "ten"}, "Invalid value for field"),
    Wrong(
        "subnetwork",
        {"secondaryIpRanges": [{"rangeName": "pods", "ipCidrRange": "10.9.0.0/24"}]},
        "conflicts with existing subnetwork",
    ),
    Wrong("expand", {"ipCidrRange": "10.10.0.0/24"}, "must be a superset"),
    Wrong("expand", {"ipCidrRange": "no"}, "Invalid value for field"),
    Wrong(
        "unsubnetwork", {}, "already being used by", 400, "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE"
    ),
    # Identities: IAM API; Resource Manager API, Policy.
    Wrong("account", {"accountId": "short"}, "Invalid account id"),
    Wrong("account", {"accountId": "a" * 31}, "Invalid account id"),
    Wrong("account", {"accountId": "Nodes-gpu"}, "Invalid account id"),
    Wrong("account", {"accountId": "main-nodes"}, "already exists", 409, "ALREADY_EXISTS"),
    Wrong("policy", _bind("viewer", "user:a@example.com"), "is not supported"),
    Wrong("policy", _bind("roles/viewer", "a@example.com"), "Invalid member"),
    Wrong(
        "policy",
        _bind("roles/viewer", "serviceAccount:none@acme.iam.gserviceaccount.com"),
        "does not exist",
    ),
    Wrong("policy", {"policy.etag": "b2xk"}, "concurrent policy changes", 409, "ABORTED"),
]  # fmt: skip


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Cloud:
    """One for all: a refused request changes nothing."""
    environment: Path = tmp_path_factory.mktemp("cloud")
    cloud = Cloud(environment, FakeControlPlanes(environment), ready_timeout_s=0.2)
    gcp = Gcp(cloud, environment)
    gcp.make_cluster()
    gcp.make_pool(config={"machineType": "e2-standard-4"})
    gcp.call(
        "iam",
        "projects.serviceAccounts.create",
        {"name": "projects/acme"},
        accountId="main-nodes",
    )
    return cloud


def _call(cloud: Cloud, request: str, changes: dict[str, Any]) -> JsonObject:
    service, method, params, body = copy.deepcopy(_BASES[request])
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = params if path in params else body
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return cloud.call(service, method, params, body)


def test_at_least_a_hundred_wrong_requests_are_distinct() -> None:
    assert len({repr(wrong) for wrong in WRONG}) == len(WRONG) >= 100


@pytest.mark.parametrize("wrong", WRONG, ids=[f"{i}-{w.request}" for i, w in enumerate(WRONG)])
def test_a_wrong_request_is_refused_as_google_refuses_it(cloud: Cloud, wrong: Wrong) -> None:
    before = cloud.inventory()
    with pytest.raises(CloudError) as caught:
        _call(cloud, wrong.request, wrong.changes)
    error = caught.value
    assert (error.code, error.reason) == (wrong.code, wrong.status), error.message
    assert wrong.words in error.message
    assert cloud.inventory() == before
