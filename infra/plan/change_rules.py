"""What a change of a pool does to its nodes, field by field, as data with the source of each row.

Sources, short: "google-beta" = hashicorp/terraform-provider-google-beta services/container/node_config.go and
resource_container_node_pool.go (2026-08-21), the code under pulumi-gcp; "aws" = hashicorp/terraform-provider-aws
internal/service/eks/node_group.go, the code under pulumi-aws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class Effect(IntEnum):
    """Ordered: the worst of a pool's changes is the pool's."""

    NONE = 0
    IN_PLACE = 1
    ROLL = 2
    REPLACE = 3

    @property
    def text(self) -> str:
        return {0: "unchanged", 1: "in place", 2: "roll", 3: "replace"}[self.value]


@dataclass(frozen=True, kw_only=True)
class Rule:
    field: str
    """Of the plan, dotted."""
    cloud_field: str
    """Of the cloud's resource, or of the cluster."""
    effect: Effect
    why: str
    source: str


def _rules(effect: Effect, why: str, source: str, fields: Mapping[str, str]) -> tuple[Rule, ...]:
    return tuple(Rule(field=f, cloud_field=c, effect=effect, why=why, source=source) for f, c in fields.items())


_ALL_GO = "all nodes of the pool go, then new ones come; pods on them are ended without regard to disruption budgets"
_ONE_BY_ONE = "the cloud makes every node anew, one after the other"
_LIVE = "nodes and pods stay"

IN_CLUSTER: Final[tuple[Rule, ...]] = (
    *_rules(
        Effect.ROLL,
        "mig-manager cuts the GPUs anew, node by node: pods on them must go first, and an A100 node may reboot",
        "NVIDIA/mig-parted, NVIDIA/gpu-operator docs",
        {"mig_config": "GPUPool.spec.migConfig"},
    ),
    *_rules(
        Effect.IN_PLACE,
        "the device plugin starts again with its new config; running pods keep what they have",
        "NVIDIA/k8s-device-plugin README, gpu-operator docs gpu-sharing",
        {"shares": "ConfigMap of the device plugin"},
    ),
    *_rules(
        Effect.IN_PLACE,
        "new pods must ask for what the nodes offer then; the agents start again and compare with it",
        "Kubernetes device plugins",
        {"resources": "Node.status.allocatable"},
    ),
    *_rules(Effect.IN_PLACE, "it counts from the next change of a layout on", "slicewright", {"rollout": "rollout policy"}),
)
GKE: Final[tuple[Rule, ...]] = (
    *_rules(
        Effect.REPLACE,
        _ALL_GO,
        "google-beta: ForceNew",
        {
            "accelerator": "node_config.guest_accelerators.type",
            "gpu_count": "node_config.guest_accelerators.count",
            "partition_size": "node_config.guest_accelerators.gpu_partition_size",
            "sharing_strategy": "node_config.guest_accelerators.gpu_sharing_config.gpu_sharing_strategy",
            "shared_clients": "node_config.guest_accelerators.gpu_sharing_config.max_shared_clients_per_gpu",
            "driver": "node_config.guest_accelerators.gpu_driver_installation_config",
            "capacity": "node_config.spot, flex_start, max_run_duration, reservation_affinity; queued_provisioning",
            "local_ssd": "node_config.ephemeral_storage_local_ssd_config, local_nvme_ssd_block_config",
            "max_pods_per_node": "max_pods_per_node",
        },
    ),
    *_rules(
        Effect.ROLL,
        _ONE_BY_ONE,
        "google-beta: updated in place, GKE recreates the nodes",
        {
            "machine.name": "node_config.machine_type",
            "disk": "node_config.disk_type, disk_size_gb",
            "image_type": "node_config.image_type",
            "features": "node_config.gvnic, gcfs_config, fast_socket, logging_variant",
        },
    ),
    *_rules(
        Effect.IN_PLACE,
        _LIVE,
        "google-beta: updated in place",
        {
            "labels": "node_config.labels",
            "taints": "node_config.taints",
            "resource_labels": "node_config.resource_labels",
            "management": "management",
        },
    ),
    *_rules(
        Effect.IN_PLACE,
        "nodes are added or taken away; the others stay",
        "google-beta: updated in place",
        {"nodes": "node_count, autoscaling", "zones": "node_locations"},
    ),
)
EKS: Final[tuple[Rule, ...]] = (
    *_rules(
        Effect.REPLACE,
        _ALL_GO,
        "aws: ForceNew",
        {
            "machine.name": "instance_types",
            "capacity": "capacity_type, launch_template",
            "ami_type": "ami_type",
            "disk_size_gb": "disk_size",
            "zones": "subnet_ids",
        },
    ),
    *_rules(Effect.ROLL, _ONE_BY_ONE, "aws: UpdateNodegroupVersion", {"release_version": "release_version"}),
    *_rules(
        Effect.IN_PLACE,
        _LIVE,
        "aws: UpdateNodegroupConfig, TagResource",
        {"labels": "labels", "taints": "taints", "tags": "tags"},
    ),
    *_rules(
        Effect.IN_PLACE,
        "nodes are added or taken away; the others stay",
        "aws: UpdateNodegroupConfig",
        {"nodes": "scaling_config"},
    ),
)
BYO: Final[tuple[Rule, ...]] = (
    *_rules(
        Effect.IN_PLACE,
        "the nodes exist already; only what is expected of them changes",
        "slicewright",
        {
            "gpu.name": "expected GPU",
            "gpu_count": "expected GPUs",
            "nodes": "expected nodes",
            "select": "node selector",
            "labels": "Node.metadata.labels",
            "taints": "Node.spec.taints",
        },
    ),
)
FLEET: Final[tuple[Rule, ...]] = (
    *_rules(
        Effect.REPLACE,
        "the cluster goes with all that is in it, then a new one comes",
        "google-beta resource_container_cluster.go; terraform-provider-aws eks/cluster.go: ForceNew",
        {
            "cluster.name": "cluster name",
            "cluster.location": "cluster location",
            "cluster.region": "cluster region",
            "cluster.existing": "whose the cluster is",
            "cluster.context": "kubeconfig context",
        },
    ),
    *_rules(
        Effect.IN_PLACE,
        "the control plane is upgraded; nodes stay on their version",
        "google-beta, terraform-provider-aws: updated in place",
        {"cluster.version": "cluster version", "cluster.release_channel": "release channel"},
    ),
    *_rules(
        Effect.IN_PLACE,
        "Helm upgrade: the operator's pods start again, and device plugins with them",
        "NVIDIA/gpu-operator chart",
        {"operator": "release gpu-operator"},
    ),
    *_rules(Effect.IN_PLACE, "controller and agents start again", "slicewright", {"image": "image of controller and agents"}),
    *_rules(Effect.IN_PLACE, "nothing runs anew", "slicewright", {"verify_timeout_minutes": "how long up waits"}),
    *_rules(
        Effect.ROLL,
        "controller and add-ons move to new nodes",
        "google-beta, terraform-provider-aws",
        {"system": "system pool"},
    ),
    *_rules(Effect.IN_PLACE, "the scheduler's settings change", "Project-HAMi/HAMi docs", {"fractional": "fractional scheduler"}),
)
