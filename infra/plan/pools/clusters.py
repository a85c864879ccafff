"""The common part of both clouds' clusters: a system pool, and a cluster that may exist already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.machines.machine_types import system_machine
from slicewright.infra.plan.model.pools import SystemPoolPlan
from slicewright.infra.plan.pools.nodes import count_of

SYSTEM_POOL = "system"
_SYSTEM_MACHINE: Mapping[str, str] = {"gke": "e2-standard-4", "eks": "m7i.large"}
_NOT_OF_EXISTING = (
    *("version", "release_channel", "network", "private_nodes", "control_plane", "maintenance"),
    *("monitoring", "logging", "endpoint", "logs", "addons", "autoscaler", "kms_key"),
    *("secrets_key", "resource_labels"),
)


@rule("system-pool-nodes")
def system_pool(
    settings: stack_file.SystemPool, cloud: Literal["gke", "eks"], zones: tuple[str, ...]
) -> Checked[SystemPoolPlan | None]:
    machine = yield from system_machine(settings.machine_type or _SYSTEM_MACHINE[cloud], cloud)
    nodes = yield from count_of(settings.nodes, ("system_pool", "nodes"))
    if nodes.min < 1:
        yield refuse(
            ("system_pool", "nodes", "min"),
            "must be at least 1: the fleet controller and the GPU Operator always need a node",
            "write 1 or more",
        )
    if machine is None or not zones:
        return None
    return SystemPoolPlan(name=SYSTEM_POOL, machine=machine, zones=zones, nodes=nodes)


@rule("existing-cluster-setting")
def check_existing(cluster: stack_file.GkeCluster | stack_file.EksCluster) -> Checked[None]:
    """The settings of an existing cluster are not changed. Nodes may be in other subnets."""
    for name in _NOT_OF_EXISTING:
        if (
            cluster.existing
            and name in cluster.model_fields_set
            and not isinstance(getattr(cluster, name), stack_file.ExistingNetwork)
        ):
            yield refuse(
                ("cluster", name),
                "the cluster exists already, and slicewright does not change it",
                "leave it out",
                in_key=True,
            )
