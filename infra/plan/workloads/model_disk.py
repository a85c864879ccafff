"""Whether the models that replicas download fit on the disk of their node."""

from __future__ import annotations

from typing import Final

from slicewright.infra.plan.model.deployments import DeploymentPlan
from slicewright.infra.plan.model.pools import EksSettings, GkeSettings, PoolPlan
from slicewright.infra.plan.workloads.model_memory import parameters
from slicewright.infra.stack_file import VllmWorkload

_LOCAL_SSD_GB: Final = 375
_EVICTED_ABOVE_PERCENT: Final = 90
"""The kubelet's default: it evicts pods below 10 % free of nodefs. Source: Kubernetes docs,
node-pressure eviction.
"""


def download_gb(workload: VllmWorkload) -> float:
    """Size of one copy: two bytes for a parameter, for any format it is loaded in."""
    return parameters(workload.model.parameters) * 2 / 1e9


def disk_note(plan: DeploymentPlan, workload: VllmWorkload, pool: PoolPlan) -> list[str]:
    """A note if replicas without a cache nearly fill the node's disk.

    Each of them keeps its own copy of the model in a directory of the pod, on the node.
    """
    has = _disk_gb(pool)
    if workload.cache is not None or has is None:
        return []
    on_one = min(plan.most, pool.offer.resources[plan.resource] // plan.devices)
    keeps = on_one * download_gb(workload)
    if keeps <= has * _EVICTED_ABOVE_PERCENT / 100:
        return []
    who = "1 replica keeps" if on_one == 1 else f"{on_one} replicas on one node keep"
    instead = "write cache, or a larger disk.size_gb"
    return [
        f"workload {plan.name}: {who} {keeps:.0f} GB of models on its disk of {has} GB, and the "
        f"kubelet evicts pods of a node whose disk is nearly full: {instead}"
    ]


def _disk_gb(pool: PoolPlan) -> int | None:
    """Size of the disk that holds the directories of pods. None: unknown."""
    match pool.settings:
        case GkeSettings(local_ssd=local_ssd, disk=disk):
            return local_ssd.ephemeral * _LOCAL_SSD_GB or disk.size_gb
        case EksSettings(template=None, disk_size_gb=disk_size_gb):
            return disk_size_gb
        case EksSettings(template=template):
            return template.disk_gb if template and template.instance_store is None else None
        case _:
            return None
