"""Who shares what with how many, by the rules of the plugin that does it: GKE's own, or
NVIDIA's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from infra import spec
from infra.plan.findings import Findings, listed
from infra.plan.fleet import Share
from infra.spec import Path

_GKE_CLIENTS = (2, 48)
_MPS_CLIENTS = 48
_GKE = "GoogleCloudPlatform/container-engine-accelerators, pkg/gpu/nvidia/gpusharing"
_PLUGIN = "NVIDIA/k8s-device-plugin, internal/plugin and README"
Replicated = spec.TimeSlicing | spec.Mps


def gke_shares(
    sharing: Replicated, path: Path, devices: Mapping[str, int] | None, findings: Findings
) -> tuple[Share, ...] | None:
    """GKE's plugin: one number for all devices of a node, with or without partitions. devices: None
    where they are not known.
    """
    before = len(findings.problems)
    fewest, most = _GKE_CLIENTS
    replicas = sharing.replicas if isinstance(sharing.replicas, int) else dict(sharing.replicas)
    if isinstance(replicas, Mapping):
        if set(replicas) - {"gpu", "nvidia.com/gpu"} or len(replicas) != 1:
            findings.refuse(
                (*path, "replicas"),
                "GKE advertises everything as nvidia.com/gpu and shares it alike",
                "write one number",
                _GKE,
            )
            return None
        replicas = next(iter(replicas.values()))
    if not fewest <= replicas <= most:
        findings.refuse(
            (*path, "replicas"),
            f"{replicas}: GKE allows {fewest} to {most} clients",
            f"write {most} or less",
            _GKE,
        )
    for name in ("rename_by_default", "fail_requests_greater_than_one"):
        if name in sharing.model_fields_set:
            findings.refuse(
                (*path, name),
                "is no choice with GKE's own device plugin",
                "leave it out",
                _GKE,
                in_key=True,
            )
    if len(findings.problems) > before or devices is None:
        return None
    (name,) = devices
    return (
        Share(
            resource=name,
            advertised=name,
            strategy=sharing.mode,
            replicas=replicas,
            fail_requests_greater_than_one=True,
        ),
    )


def plugin_shares(
    sharing: Replicated,
    path: Path,
    devices: Mapping[str, int] | None,
    *,
    partitioned: bool,
    strategy: Literal["none", "single", "mixed"],
    cloud: Literal["gke", "eks", "byo"],
    findings: Findings,
) -> tuple[Share, ...] | None:
    """NVIDIA's device plugin, by its config file. devices: None where they are not known."""
    before = len(findings.problems)
    strategy_known = findings.knows(("gpu_operator", "mig_strategy"))
    if isinstance(sharing, spec.Mps):
        _check_mps(
            path,
            partitioned=partitioned,
            strategy=strategy if strategy_known else "none",
            cloud=cloud,
            findings=findings,
        )
    each = (
        dict.fromkeys(devices or ("nvidia.com/gpu",), sharing.replicas)
        if isinstance(sharing.replicas, int)
        else _by_full_name(sharing.replicas)
    )
    for written in () if isinstance(sharing.replicas, int) else sharing.replicas:
        if devices is not None and strategy_known and _full(written) not in devices:
            findings.refuse(
                (*path, "replicas", written),
                f"the pool's nodes have no {_full(written)}; the device plugin would "
                "ignore it without a word",
                f"they have: {listed(sorted(devices))}",
                _PLUGIN,
                in_key=True,
            )
    for name, replicas in each.items():
        if isinstance(sharing, spec.Mps) and replicas > _MPS_CLIENTS:
            findings.refuse(
                (*path, "replicas"),
                f"{replicas}: MPS has at most {_MPS_CLIENTS} clients per GPU",
                f"write {_MPS_CLIENTS}",
                _PLUGIN,
            )
        if len(name) + len(".shared") * sharing.rename_by_default > 63:
            findings.refuse(
                (*path, "replicas"),
                f"{name}.shared is longer than the 63 characters of a resource's name",
                "write rename_by_default: false",
                "Kubernetes docs, extended resources",
            )
    if len(findings.problems) > before or devices is None or not strategy_known:
        return None
    return tuple(
        Share(
            resource=name,
            advertised=f"{name}.shared" if sharing.rename_by_default else name,
            strategy=sharing.mode,
            replicas=replicas,
            fail_requests_greater_than_one=sharing.fail_requests_greater_than_one,
        )
        for name, replicas in sorted(each.items())
    )


def shared(devices: Mapping[str, int], shares: tuple[Share, ...]) -> Mapping[str, int]:
    """Allocatable per node: devices times replicas, under the names that pods ask for."""
    by_name = {share.resource: share for share in shares}
    return {
        (by_name[name].advertised if name in by_name else name): count
        * (by_name[name].replicas if name in by_name else 1)
        for name, count in devices.items()
    }


def _check_mps(
    path: Path, *, partitioned: bool, strategy: str, cloud: str, findings: Findings
) -> None:
    if cloud == "gke":
        findings.refuse(
            (*path, "mode"),
            "MPS with NVIDIA's operator does not run on GKE",
            "write partition: {mode: native, …} or none, which GKE shares itself, or time-slicing",
            "GKE docs, NVIDIA GPU operator",
        )
    elif partitioned:
        findings.refuse(
            (*path, "mode"),
            "NVIDIA's device plugin has no MPS on MIG devices; only GKE's own has",
            "write time-slicing",
            _PLUGIN,
        )
    elif strategy == "mixed":
        findings.refuse(
            (*path, "mode"),
            "with gpu_operator.mig_strategy: mixed the device plugin refuses MPS and does "
            "not start",
            "write mig_strategy: single or none, or time-slicing",
            "NVIDIA/k8s-device-plugin cmd/nvidia-device-plugin",
        )


def _full(name: str) -> str:
    return name if "/" in name else f"nvidia.com/{name}"


def _by_full_name(replicas: Mapping[str, int]) -> dict[str, int]:
    return {_full(name): count for name, count in replicas.items()}
