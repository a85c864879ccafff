"""Networks between the GPUs of a GKE pool's nodes, which GKE makes and its DRANET hands to pods, by
GKE's rules for them.

Source of all facts without another one: GKE docs, allocate network resources by using GKE managed
DRANET, and configure automated networking for accelerator VMs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from slicewright.infra import stack_file
from slicewright.infra.catalog import Machine
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.gke.gpu_direct import MODE_OF
from slicewright.infra.plan.model.fleets import GkeFleetPlan

_DOCS: Final = "GKE docs, GKE managed DRANET"
_RDMA: Final = "GPUDirect-RDMA"
_OLDEST: Final = (34, 1, 1829001)
"""Kubernetes 1.34.1-gke.1829001."""
_VERSION: Final = re.compile(r"1\.(\d+)(?:\.(\d+)(?:-gke\.(\d+))?)?")
NETWORK_PROFILE_LABEL: Final = "gke.networks.io/accelerator-network-profile"
DRANET_LABELS: Final[Mapping[str, str]] = {
    # It starts GKE's driver of Dynamic Resource Allocation for network interfaces.
    "cloud.google.com/gke-networking-dra-driver": "true",
    # GKE adds it to the pool's labels by itself. Without it here, the program would differ.
    NETWORK_PROFILE_LABEL: "auto",
}


@rule("gke-dranet")
def check_dranet(
    pool: stack_file.GkePool, path: stack_file.Path, machine: Machine, zones: Sequence[str]
) -> Checked[None]:
    """path, zones: of the pool."""
    if pool.gpu_network != "dranet":
        return
    at = (*path, "gpu_network")
    if machine.interconnect != _RDMA:
        hardware = (
            f"connects its GPUs by {machine.interconnect}"
            if machine.interconnect
            else "has no network interfaces for its GPUs"
        )
        yield refuse(
            at,
            f"{machine.name} {hardware}, and GKE managed DRANET is for GPUDirect-RDMA",
            _instead(machine),
            _DOCS,
        )
    if len(zones) > 1:
        yield refuse(
            (*path, "zones"),
            "a network between GPUs is in one zone",
            "name one zone, and make a pool for each other one",
            "VPC docs, RDMA network profiles",
        )


def _instead(machine: Machine) -> str:
    if (fits := MODE_OF.get(machine.interconnect or "")) is not None:
        return f"write {fits}, or leave it out"
    return "leave it out, or choose a3-ultragpu-8g or a4-highgpu-8g"


@rule("gke-dranet-version")
def check_dranet_version(fleet: stack_file.GkeFleet) -> Checked[None]:
    uses_dranet = any(pool.gpu_network == "dranet" for pool in fleet.node_pools)
    version = fleet.cluster.version
    if uses_dranet and version is not None and not offers_dranet(version):
        yield refuse(
            ("cluster", "version"),
            f"{version} is too old for gpu_network: dranet, which needs 1.34.1-gke.1829001",
            "write a later version",
            _DOCS,
        )


def offers_dranet(version: str) -> bool:
    """Whether the Kubernetes version has managed DRANET. True if that is unknown.

    A version that is cut short counts as the newest that it can mean.
    """
    match = _VERSION.match(version)
    if match is None:
        return True
    newest = 10**9
    return tuple(newest if part is None else int(part) for part in match.groups()) >= _OLDEST


def dranet_notes(fleet: GkeFleetPlan) -> list[str]:
    """Sources: NVIDIA/aicr, docs/integrator/gke-a4x-max-networking.md (the role); NVIDIA MIG user
    guide (peer-to-peer).
    """
    pools = [pool for pool in fleet.pools if pool.settings.gpu_network == "dranet"]
    if not pools:
        return []
    notes = [
        f"cluster {fleet.cluster.name}: GKE makes the networks of gpu_network itself: its service "
        "agent, service-PROJECT_NUMBER@container-engine-robot.iam.gserviceaccount.com, needs "
        "roles/compute.networkAdmin, and the networks stay when the pools go"
    ]
    notes += [
        f"pool {pool.name}: pods get network interfaces by a ResourceClaim of the device class "
        "mrdma.google.com, which slicewright does not make"
        + ("; partitions do not use them" if pool.offer.partitioned else "")
        for pool in pools
    ]
    return notes
