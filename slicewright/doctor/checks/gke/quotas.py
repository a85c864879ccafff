"""Checks whether a GKE plan stays within the quotas of a Google Cloud project. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from slicewright.doctor.findings import (
    Answer,
    Finding,
    NotAnswered,
    Owned,
    checks,
    fails,
    not_asked,
    ok,
)
from slicewright.infra.catalog import Machine
from slicewright.infra.plan import GkeFleetPlan
from slicewright.infra.stack_file import FlexStart, Queued, Reservation, Spot

_GPUS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
        "nvidia-l4": "NVIDIA_L4_GPUS",
        "nvidia-tesla-a100": "NVIDIA_A100_GPUS",
        "nvidia-a100-80gb": "NVIDIA_A100_80GB_GPUS",
        "nvidia-h100-80gb": "NVIDIA_H100_GPUS",
    }
)
"""Accelerator type -> metric in a region's quotas. Other types have no such metric.

Source: Compute Engine API v1, enum of Quota.metric. It has NVIDIA_H100_GPUS with the prefixes
COMMITTED_ and PREEMPTIBLE_ only; on demand, and for newer GPUs, Cloud Quotas answers.
"""
_DISKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pd-standard": "DISKS_TOTAL_GB",
        "pd-balanced": "SSD_TOTAL_GB",
        "pd-ssd": "SSD_TOTAL_GB",
        "hyperdisk-balanced": "HDB_TOTAL_GB",
    }
)
_SYSTEM_DISK_GB: Final = 100
"""The size of the pd-balanced disk that GKE gives a node whose pool states no boot disk."""
_SHARED_CPUS: Final = ("e2-", "n1-")
"""Series whose vCPU count against CPUS. Other series have quotas of their own. Source: Compute
Engine docs, "CPU quota".
"""


@dataclass(frozen=True, kw_only=True)
class Quota:
    limit: float
    usage: float


def quotas_needed(fleet: GkeFleetPlan) -> Mapping[str, int]:
    """Metric of the region -> GPUs, GB, vCPU or addresses of all pools at their maximum size.

    Reserved machines are counted with the reservation, whether or not they run.
    """
    needed: Counter[str] = Counter()
    if (system := fleet.system) is not None:
        needed["SSD_TOTAL_GB"] += _SYSTEM_DISK_GB * system.nodes.max
        if system.machine_type.startswith(_SHARED_CPUS) and isinstance(system.machine, Machine):
            needed["CPUS"] += system.machine.vcpus * system.nodes.max
    for pool in fleet.pools:
        nodes = pool.nodes.max
        needed[_DISKS[pool.settings.disk.type]] += pool.settings.disk.size_gb * nodes
        if isinstance(pool.settings.capacity, Reservation):
            continue
        preemptible = isinstance(pool.settings.capacity, Spot | FlexStart | Queued)
        metric = _GPUS.get(pool.settings.accelerator, pool.settings.accelerator)
        needed[f"PREEMPTIBLE_{metric}" if preemptible else metric] += pool.gpu_count * nodes
        if pool.settings.machine.name.startswith(_SHARED_CPUS) and not preemptible:
            needed["CPUS"] += pool.settings.machine.vcpus * nodes
    if not fleet.cluster.existing and not fleet.cluster.private_nodes:
        needed["IN_USE_ADDRESSES"] += _nodes(fleet)
    return {metric: n for metric, n in needed.items() if n}


def project_quotas_needed(fleet: GkeFleetPlan) -> Mapping[str, int]:
    """Metric of the project -> GPUs and vCPU of all pools at their maximum size, and networks."""
    needed: Counter[str] = Counter()
    machines: list[tuple[Machine, int]] = []
    if (system := fleet.system) is not None and isinstance(system.machine, Machine):
        machines.append((system.machine, system.nodes.max))
    for pool in fleet.pools:
        if isinstance(pool.settings.capacity, Reservation):
            continue
        machines.append((pool.settings.machine, pool.nodes.max))
        needed["GPUS_ALL_REGIONS"] += pool.gpu_count * pool.nodes.max
    needed["CPUS_ALL_REGIONS"] = sum(machine.vcpus * nodes for machine, nodes in machines)
    creates_network = not fleet.cluster.existing and fleet.cluster.network is None
    for_gpus = [network for network in fleet.cluster.gpu_networks if network.vpc is None]
    needed["NETWORKS"] = int(creates_network) + len(for_gpus)
    return {metric: n for metric, n in needed.items() if n}


def _nodes(fleet: GkeFleetPlan) -> int:
    system = fleet.system.nodes.max if fleet.system else 0
    return system + sum(pool.nodes.max for pool in fleet.pools)


def quota_findings(
    fleet: GkeFleetPlan,
    of_project: Answer[Mapping[str, Quota]],
    of_region: Answer[Mapping[str, Quota]],
    owned: Owned,
    *,
    project: str,
) -> Iterator[Finding]:
    """owned: whether this stack created the cluster, if it exists."""
    region = fleet.cluster.region
    yield from _compared(
        project_quotas_needed(fleet),
        of_project,
        owned,
        f"project {project}",
        "gcloud beta quotas preferences create --service=compute.googleapis.com "
        "--quota-id={}-per-project --preferred-value={} "
        f"--project={project}",
        project,
    )
    yield from _compared(
        quotas_needed(fleet),
        of_region,
        owned,
        region,
        "gcloud beta quotas preferences create --service=compute.googleapis.com "
        "--quota-id={}-per-project-region --preferred-value={} "
        f"--dimensions=region={region} --project={project}",
        project,
    )


@checks("gcp-quota")
def _compared(
    needs: Mapping[str, int],
    answer: Answer[Mapping[str, Quota]],
    owned: Owned,
    where: str,
    raise_by: str,
    project: str,
) -> Iterator[Finding]:
    """raise_by: a command with placeholders for the quota's ID and its new value."""
    if isinstance(answer, NotAnswered):
        yield not_asked(f"quotas of {where}", answer)
        return
    for metric, needed in sorted(needs.items()):
        subject = f"quota {metric} in {where}"
        quota = answer.get(metric)
        if quota is None:
            refusal = NotAnswered(
                why="Compute Engine does not list this quota there",
                remedy="gcloud beta quotas info list --service=compute.googleapis.com "
                f"--project={project}",
            )
            yield not_asked(subject, refusal)
            continue
        # Resources of this stack are both part of the usage and part of the need.
        used = 0.0 if owned == "yes" else quota.usage
        detail = f"{_limit_text(quota.limit)}, {used:.0f} in use; the stack needs {needed}"
        if used + needed <= quota.limit:
            yield ok(subject, detail)
            continue
        yield fails(
            subject, detail, raise_by.format(metric.replace("_", "-"), f"{used + needed:.0f}")
        )


def _limit_text(limit: float) -> str:
    """Compute Engine writes the largest int64 for "no limit"."""
    return "no limit" if limit >= 2**62 else f"{limit:.0f}"
