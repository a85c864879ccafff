"""Regional quotas of the simulated Compute Engine, as GKE counts a request against them.

The account file gives the project's limits; a fault `quota` goes before it. Names: Compute Engine's
`regions.get`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kubeapi import JsonObject
from rehearsal.clouds.core.context import Context
from rehearsal.clouds.core.errors import CloudError
from rehearsal.clouds.gcp.account import account_of
from rehearsal.clouds.gcp.errors import google_error
from rehearsal.clouds.gcp.gke.affinity import ANY_OR_FAIL, BY_NAME, kind_of
from rehearsal.clouds.gcp.gke.defaults import fill_node_config, region_of
from rehearsal.clouds.gcp.gke.nodes import counts_of
from rehearsal.clouds.gcp.models import document
from rehearsal.clouds.gcp.state import NODE_POOLS

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
NAMES = frozenset(
    {
        "DISKS_TOTAL_GB",
        *_DISKS.values(),
        *(prefix + name for name in _GPUS.values() for prefix in ("", "PREEMPTIBLE_")),
    }
)
"""Those that a request is counted against."""
EMPTY: Mapping[str, object] = {
    "quotas": {
        "SSD_TOTAL_GB": 250,
        **{prefix + name: 0 for name in _GPUS.values() for prefix in ("", "PREEMPTIBLE_")},
    }
}
"""A new project: no GPUs, and less SSD than the default pool of a regional cluster takes.

Source: terraform-google-modules/terraform-google-kubernetes-engine #1795 and kubeflow/pipelines
#10907 (SSD_TOTAL_GB 250); Google Cloud's "GPU quota": 0 until it is asked for.
"""


def check_quotas(
    context: Context, project: str, location: str, asked: Iterable[tuple[JsonObject, int]]
) -> None:
    """Raises CloudError 403 with every quota of the region that the request would exceed.

    asked: node configs, and how many nodes are added of each.
    """
    request: Counter[str] = Counter()
    for config, nodes in asked:
        request.update({k: v * nodes for k, v in _per_node(config).items()})
    limits = {name: _limit(context, name) for name in request}
    if not any(limit is not None for limit in limits.values()):
        return
    used = _used(context, project, region_of(location))
    short = [
        f"resource \"{name}\": request requires '{request[name]:.1f}' and is short "
        f"'{request[name] - (limit - used[name]):.1f}'. project has a quota of '{limit:.1f}' with "
        f"'{max(limit - used[name], 0):.1f}' available"
        for name, limit in sorted(limits.items())
        if limit is not None and request[name] > 0 and request[name] + used[name] > limit
    ]
    if short:
        raise _refusal(project, short)


def shown(context: Context, project: str, region: str) -> list[JsonObject]:
    """The quotas of a region that Compute Engine shows: those that its API has a name for."""
    known = document("compute")["schemas"]["Quota"]["properties"]["metric"]["enum"]
    used = _used(context, project, region)
    found = []
    for name in sorted({*NAMES, "CPUS"} & set(known)):
        limit = _limit(context, name)
        found.append(
            {
                "metric": name,
                "limit": _UNLIMITED if limit is None else float(limit),
                "usage": float(used[name]),
            }
        )
    return found


def _refusal(project: str, short: list[str]) -> CloudError:
    """In GKE's words: kubernetes-hy/kubernetes-hy.github.io #166; several: googlecodelabs #950."""
    lines = [f"Insufficient regional quota to satisfy request: {line}." for line in short]
    text = (
        lines[0] if len(lines) == 1 else "".join(f"\n\t({i}) {x}" for i, x in enumerate(lines, 1))
    )
    return google_error(
        403,
        f"{text} View and manage quotas at "
        f"https://console.cloud.google.com/iam-admin/quotas?usage=USED&project={project}.",
    )


def _per_node(config: JsonObject) -> dict[str, int]:
    filled = fill_node_config(config)
    disk = config.get("bootDisk") or {}
    kind = str(disk.get("diskType") or filled["diskType"])
    found = {_DISKS.get(kind, "DISKS_TOTAL_GB"): int(disk.get("sizeGb") or filled["diskSizeGb"])}
    if kind_of(filled) in (BY_NAME, ANY_OR_FAIL):
        # The reservation has counted its machines already: Compute Engine, "How reservations work".
        return found
    for gpu in filled.get("accelerators", []):
        # Flex-start too: Compute Engine, "Flex-start VMs", quota.
        preemptible = any(config.get(key) for key in ("spot", "preemptible", "flexStart"))
        spot = "PREEMPTIBLE_" if preemptible else ""
        found[spot + _GPUS[gpu["acceleratorType"]]] = int(gpu["acceleratorCount"])
    return found


def _used(context: Context, project: str, region: str) -> Counter[str]:
    used: Counter[str] = Counter()
    for key, item in context.store.items(NODE_POOLS, prefix=f"projects/{project}/"):
        if region_of(key.split("/")[3]) == region:
            nodes = max(len(item["nodes"]), sum(counts_of(item).values()))
            per_node = _per_node(item["pool"]["config"])
            used.update({k: v * nodes for k, v in per_node.items()})
    return used


def _limit(context: Context, name: str) -> float | None:
    injected = context.faults.quota(name)
    if injected is not None:
        return injected
    return account_of(context).quotas.get(name)
