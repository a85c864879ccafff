"""The Node objects of an existing cluster, as kubelets without a cloud provider register them.

GPU model and number of GPUs and nodes are those that the stack file's pools name. Driver, runtime
and system are those of a GPU image for Kubernetes: driver and container toolkit are installed, and
containerd knows the runtime `nvidia` beside its default one. Where the stack's GPU operator brings
the driver, the nodes have a plain image without either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from slicewright.infra.catalog import Gpu
from slicewright.infra.plan import ExistingFleetPlan, ExistingPoolPlan
from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.machines import reserved_cpu_millis
from slicewright.rehearsal.clouds.core.node_object import KUBERNETES, NodeDetails, node_object

_SYSTEM_NODES: Final = 2
"""For the GPU operator, NFD's master and the fleet controller."""
_DRIVER: Final = "580.159.03"
"""Of the nodes' image; the same as on the simulated EKS nodes."""
_FAKE_KEYS: Final[Mapping[str, str]] = {"H100-94": "H100-NVL"}
"""Catalog's name -> the fake's key, where they differ: NVIDIA sells that one as H100 NVL."""


@dataclass(frozen=True, kw_only=True)
class _Size:
    """Of a node. Nothing in a fleet depends on it: it only has to be enough for the pods."""

    vcpu: int
    ram_gib: int


_SYSTEM: Final = _Size(vcpu=8, ram_gib=32)
_GPU: Final = _Size(vcpu=32, ram_gib=256)


def node_objects(fleet: ExistingFleetPlan) -> Iterator[JsonObject]:
    """Every node: those without GPUs first, then pool by pool."""
    for number in range(1, _SYSTEM_NODES + 1):
        yield _node(f"system-{number}", _SYSTEM)
    for pool in fleet.pools:
        for number in range(1, pool.nodes.min + 1):
            machine = _machine(pool, "" if fleet.operator.driver.enabled else _DRIVER)
            yield _node(f"{pool.name}-{number}", _GPU, pool.settings.select, machine)


def fake_key(gpu: Gpu) -> str:
    """Its key in slicewright.rehearsal.cluster.silicon.models, which need not have it."""
    return _FAKE_KEYS.get(gpu.name, gpu.name)


def _node(
    name: str,
    size: _Size,
    labels: Mapping[str, str] | None = None,
    machine: Mapping[str, object] | None = None,
) -> JsonObject:
    memory_ki = size.ram_gib * 1024 * 1024 * 97 // 100
    return node_object(
        NodeDetails(
            name=name,
            # Those that a kubelet registers itself with, and those that its owner gave it. Source:
            # Kubernetes docs, "Well-Known Labels".
            labels={
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                **(labels or {}),
            },
            taints=(),
            provider_id="",
            vcpu=size.vcpu,
            reserved_cpu_millis=reserved_cpu_millis(size.vcpu),
            memory_ki=memory_ki,
            reserved_memory_ki=1024 * 1024,
            disk_gb=200,
            pods=110,
            kubelet_version=f"v{KUBERNETES}",
            os_image="Ubuntu 22.04.5 LTS",
            kernel="5.15.0-139-generic",
            runtime="containerd://2.1.5",
            machine=machine,
        )
    )


def _machine(pool: ExistingPoolPlan, driver: str) -> Mapping[str, object]:
    """What the machine annotation says of the node's GPUs. driver: empty for none."""
    return {
        "cloud": "byo",
        "gpu_model": fake_key(pool.gpu),
        "gpu_count": pool.gpu_count,
        "driver_version": driver,
    }
