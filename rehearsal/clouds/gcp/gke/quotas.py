"""Quotas of the simulated Compute Engine, as GKE counts a request against them.

The account file gives the project's limits; a fault `quota` goes before it. Names: Compute Engine's
`regions.get`, and of quotas of all regions together `projects.get`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.account import account_of
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.gke.affinity import ANY_OR_FAIL, BY_NAME, kind_of
from slicewright.rehearsal.clouds.gcp.gke.defaults import fill_node_config, region_of
from slicewright.rehearsal.clouds.gcp.gke.nodes import counts_of
from slicewright.rehearsal.clouds.gcp.machines import machines
from slicewright.rehearsal.clouds.gcp.models import document
from slicewright.rehearsal.clouds.gcp.state import NETWORKS, NODE_POOLS

_GPUS: Mapping[str, str] = {
    "nvidia-tesla-t4": "NVIDIA_T4_GPUS",
    "nvidia-tesla-p4": "NVIDIA_P4_GPUS",
    "nvidia-tesla-p100": "NVIDIA_P100_GPUS",
    "nvidia-tesla-v100": "NVIDIA_V100_GPUS",
    "nvidia-l4": "NVIDIA_L4_GPUS",
    "nvidia-tesla-a100": "NVIDIA_A100_GPUS",
    "nvidia-a100-80gb": "NVIDIA_A100_80GB_GPUS",
    "nvidia-h100-80gb": "NVIDIA_H100_GPUS",
    "nvidia-h100-mega-80gb": "NVIDIA_H100_MEGA_GPUS",
    "nvidia-h200-141gb": "NVIDIA_H200_GPUS",
    "nvidia-b200": "NVIDIA_B200_GPUS",
    "nvidia-gb200": "NVIDIA_GB200_GPUS",
    "nvidia-rtx-pro-6000": "NVIDIA_RTX_PRO_6000_GPUS",
}
_DISKS: Mapping[str, str] = {
    "pd-standard": "DISKS_TOTAL_GB",
    "pd-balanced": "SSD_TOTAL_GB",
    "pd-ssd": "SSD_TOTAL_GB",
    "hyperdisk-balanced": "HDB_TOTAL_GB",
}
_UNLIMITED = 9223372036854775807.0
"""As Compute Engine writes it: the largest int64."""
_SHARED_CPUS = ("e2-", "n1-")
"""Series whose vCPU count against CPUS. Source: Compute Engine docs, "CPU quota"."""
_OF_PROJECT = frozenset({"CPUS_ALL_REGIONS", "GPUS_ALL_REGIONS", "NETWORKS"})
NAMES = frozenset(
    {
        "CPUS",
        "DISKS_TOTAL_GB",
        "IN_USE_ADDRESSES",
        *_DISKS.values(),
        *(prefix + name for name in _GPUS.values() for prefix in ("", "PREEMPTIBLE_")),
    }
)
"""Those of a region that a request is counted against."""
EMPTY: Mapping[str, object] = {
    "quotas": {
        "SSD_TOTAL_GB": 250,
        "GPUS_ALL_REGIONS": 0,
        **{prefix + name: 0 for name in _GPUS.values() for prefix in ("", "PREEMPTIBLE_")},
    }
}
"""A new project: no GPUs, and less SSD than the default pool of a regional cluster takes.

Source: terraform-google-modules/terraform-google-kubernetes-engine #1795 and kubeflow/pipelines
#10907 (SSD_TOTAL_GB 250); Google Cloud's "GPU quota": 0 until it is asked for; fastai/course-v3
#165 (GPUS_ALL_REGIONS 0, which preemptible machines count against as well).
"""


class Added(NamedTuple):
    """Nodes that a request adds."""

    config: JsonObject
    nodes: int
    private: bool
    """Whether they have no external addresses."""


def check_quotas(context: Context, project: str, location: str, additions: Iterable[Added]) -> None:
    """Raises CloudError 403 with every quota that the request would exceed."""
    request: Counter[str] = Counter()
    for added in additions:
        per_node = _per_node(added.config, private=added.private)
        request.update({k: v * added.nodes for k, v in per_node.items()})
    limits = {name: _limit(context, name) for name in request}
    if not any(limit is not None for limit in limits.values()):
        return
    used = _used(context, project, region_of(location))
    short = [
        f"Insufficient {'project' if name in _OF_PROJECT else 'regional'} quota to satisfy "
        f"request: resource \"{name}\": request requires '{request[name]:.1f}' and is short "
        f"'{request[name] - (limit - used[name]):.1f}'. project has a quota of '{limit:.1f}' with "
        f"'{max(limit - used[name], 0):.1f}' available."
        for name, limit in sorted(limits.items())
        if limit is not None and request[name] > 0 and request[name] + used[name] > limit
    ]
    if short:
        raise _refusal(project, short)


def check_networks(context: Context, project: str) -> None:
    """Raises CloudError 403 where the project has as many networks as it may have.

    Source: fastai/course-v3 #165, for the words.
    """
    limit = _limit(context, "NETWORKS")
    if limit is not None and _networks(context, project) >= limit:
        raise google_error(403, f"Quota 'NETWORKS' exceeded.  Limit: {limit:.1f} globally.")


def region_quotas(context: Context, project: str, region: str) -> list[JsonObject]:
    """The quotas of a region that Compute Engine shows: those that its API has a name for."""
    metrics = document("compute")["schemas"]["Quota"]["properties"]["metric"]["enum"]
    used = _used(context, project, region)
    return [_describe_quota(context, name, used[name]) for name in sorted(NAMES & set(metrics))]


def shown_of_project(context: Context, project: str) -> list[JsonObject]:
    used = _used(context, project, region=None)
    used["NETWORKS"] = _networks(context, project)
    return [_describe_quota(context, name, used[name]) for name in sorted(_OF_PROJECT)]


def _describe_quota(context: Context, name: str, used: int) -> JsonObject:
    limit = _limit(context, name)
    return {
        "metric": name,
        "limit": _UNLIMITED if limit is None else float(limit),
        "usage": float(used),
    }


def _networks(context: Context, project: str) -> int:
    return len(context.store.values(NETWORKS, prefix=f"{project}/"))


def _refusal(project: str, lines: list[str]) -> CloudError:
    """In GKE's words: kubernetes-hy/kubernetes-hy.github.io #166; several: googlecodelabs #950."""
    text = (
        lines[0] if len(lines) == 1 else "".join(f"\n\t({i}) {x}" for i, x in enumerate(lines, 1))
    )
    return google_error(
        403,
        f"{text} View and manage quotas at "
        f"https://console.cloud.google.com/iam-admin/quotas?usage=USED&project={project}.",
    )


def _per_node(config: JsonObject, *, private: bool) -> dict[str, int]:
    filled = fill_node_config(config)
    disk = config.get("bootDisk") or {}
    kind = str(disk.get("diskType") or filled["diskType"])
    amounts = {_DISKS.get(kind, "DISKS_TOTAL_GB"): int(disk.get("sizeGb") or filled["diskSizeGb"])}
    if not private:
        amounts["IN_USE_ADDRESSES"] = 1
    if kind_of(filled) in (BY_NAME, ANY_OR_FAIL):
        # The reservation has counted its machines already: Compute Engine, "How reservations work".
        return amounts
    # Flex-start too: Compute Engine, "Flex-start VMs", quota.
    preemptible = any(config.get(key) for key in ("spot", "preemptible", "flexStart"))
    machine = machines()[filled["machineType"]]
    amounts["CPUS_ALL_REGIONS"] = machine.vcpu
    if machine.name.startswith(_SHARED_CPUS) and not preemptible:
        amounts["CPUS"] = machine.vcpu
    for gpu in filled.get("accelerators", []):
        count = int(gpu["acceleratorCount"])
        spot = "PREEMPTIBLE_" if preemptible else ""
        amounts[spot + _GPUS[gpu["acceleratorType"]]] = count
        amounts["GPUS_ALL_REGIONS"] = count
    return amounts


def _used(context: Context, project: str, region: str | None) -> Counter[str]:
    """In the region, and of the project's quotas in all."""
    used: Counter[str] = Counter()
    for key, item in context.store.items(NODE_POOLS, prefix=f"projects/{project}/"):
        in_region = region_of(key.split("/")[3]) == region
        nodes = max(len(item["nodes"]), sum(counts_of(item).values()))
        private = bool(item["pool"]["networkConfig"]["enablePrivateNodes"])
        per_node = _per_node(item["pool"]["config"], private=private)
        used.update({k: v * nodes for k, v in per_node.items() if in_region or k in _OF_PROJECT})
    return used


def _limit(context: Context, name: str) -> float | None:
    injected = context.faults.quota(name)
    if injected is not None:
        return injected
    return account_of(context).quotas.get(name)
