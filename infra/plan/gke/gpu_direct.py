"""Networks between the GPUs of a GKE pool's nodes for GPUDirect-TCPX and -TCPXO: a VPC for each
interface beyond the first, by GKE's and Compute Engine's rules.

Source of all facts without another one: GKE docs, maximize GPU network bandwidth in Standard mode
clusters. The numbers are also in GoogleCloudPlatform/cluster-toolkit, gke-node-pool/gpu_direct.tf.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from slicewright.infra import stack_file
from slicewright.infra.catalog import Machine
from slicewright.infra.plan.findings import Checked, Stated, refuse, rule
from slicewright.infra.plan.model.clusters import GpuNetwork
from slicewright.infra.plan.model.fleets import GkeFleetPlan

_DOCS: Final = "GKE docs, maximize GPU network bandwidth in Standard mode clusters"
_MULTI: Final = "GKE docs, set up multi-network support for Pods"
GPU_MTU: Final = 8244
"""The MTU of the VPCs that the stack makes. Source: the same page; cluster-toolkit #3192."""
_RANGE: Final = ipaddress.ip_network("172.20.0.0/16")
_PREFIX: Final = 20
_ROOM: Final = 2 ** (32 - _PREFIX) - 4
"""Nodes that fit into a subnet. Google Cloud reserves four addresses."""
_VERSION: Final = re.compile(r"1\.(\d+)(?:\.(\d+)(?:-gke\.(\d+))?)?")


GPU_NETWORK_LABEL: Final = "slicewright.io/gpu-network"
"""Label of nodes with an interface for GPUs in each of their networks: `tcpx` or `tcpxo`."""


@dataclass(frozen=True, kw_only=True)
class _GpuDirect:
    interconnect: str
    machine: str
    networks: int
    oldest: Mapping[int, tuple[int, int]]
    """Minor version of Kubernetes -> patch and GKE's number. Later minors have it from the start.
    """


_MODES: Final[Mapping[str, _GpuDirect]] = {
    "tcpx": _GpuDirect(
        interconnect="GPUDirect-TCPX",
        machine="a3-highgpu-8g",
        networks=4,
        oldest={27: (7, 1121000), 28: (8, 1095000), 29: (3, 1093000), 30: (2, 1023000)},
    ),
    "tcpxo": _GpuDirect(
        interconnect="GPUDirect-TCPXO",
        machine="a3-megagpu-8g",
        networks=8,
        oldest={
            28: (9, 1250000),
            29: (4, 1542000),
            30: (4, 1129000),
            31: (1, 2008000),
            32: (2, 1489001),
        },
    ),
}
MODE_OF: Final[Mapping[str, str]] = {mode.interconnect: name for name, mode in _MODES.items()}
"""Interconnect of a machine type -> the gpu_network that is for it."""


def gpu_networks(
    mode: Literal["dranet", "tcpx", "tcpxo"] | None,
    stated_networks: Sequence[stack_file.GpuNetwork],
) -> tuple[GpuNetwork, ...]:
    """The networks, named as in Google's own workloads.

    stated_networks: existing networks. Empty: the stack makes them.
    """
    if mode is None or mode not in _MODES:
        return ()
    blocks = islice(_RANGE.subnets(new_prefix=_PREFIX), _MODES[mode].networks)
    return tuple(
        GpuNetwork(
            name=f"vpc{i + 1}",
            vpc=stated_networks[i].vpc if i < len(stated_networks) else None,
            subnet=stated_networks[i].subnet if i < len(stated_networks) else None,
            addresses=None if stated_networks else str(block),
        )
        for i, block in enumerate(blocks)
    )


@rule("gke-gpu-direct")
def check_gpu_direct(
    pool: stack_file.GkePool, path: stack_file.Path, machine: Machine
) -> Checked[None]:
    mode = _MODES.get(pool.gpu_network or "")
    if mode is None:
        return
    if machine.interconnect != mode.interconnect:
        fits = MODE_OF.get(machine.interconnect or "")
        hardware = (
            f"connects its GPUs by {machine.interconnect}"
            if machine.interconnect
            else "has no network interfaces for its GPUs"
        )
        yield refuse(
            (*path, "gpu_network"),
            f"{machine.name} {hardware}, and {pool.gpu_network} is {mode.interconnect}",
            (f"write {fits}, or leave it out" if fits else "leave it out")
            + f", or choose {mode.machine}",
            _DOCS,
        )
    if pool.image_type != "COS_CONTAINERD":
        yield refuse(
            (*path, "image_type"),
            f"{mode.interconnect} needs COS_CONTAINERD, and the pool has {pool.image_type}",
            "write COS_CONTAINERD, or leave gpu_network out",
            _MULTI,
        )


@rule("gke-gpu-direct-cluster")
def check_gpu_networks(fleet: stack_file.GkeFleet, stated: Stated) -> Checked[None]:
    """Checks that the cluster meets the needs of the pools with such networks."""
    pools = [pool for pool in fleet.node_pools if pool.gpu_network in _MODES]
    if stated.has_for_all(fleet.node_pools, "gpu_network"):
        yield from _check_named(fleet.cluster, pools)
    for mode in sorted({pool.gpu_network for pool in pools if pool.gpu_network is not None}):
        version = fleet.cluster.version
        if version is not None and not offers_gpu_direct(mode, version):
            yield refuse(
                ("cluster", "version"),
                f"{version} is too old for gpu_network: {mode}",
                "write a later version",
                _DOCS,
            )
    nodes = sum(
        pool.nodes.count if isinstance(pool.nodes, stack_file.Fixed) else pool.nodes.max
        for pool in pools
    )
    if nodes > _ROOM and not fleet.cluster.gpu_networks and stated.has(("node_pools",)):
        yield refuse(
            ("node_pools",),
            f"{nodes} nodes with gpu_network at their most: the subnets that the stack makes for "
            f"it have {_ROOM} addresses each",
            "lower nodes, or name larger subnets in cluster.gpu_networks",
            "VPC docs, subnets: unusable addresses",
        )


@rule("gke-gpu-networks")
def _check_named(
    cluster: stack_file.GkeCluster, pools: Sequence[stack_file.GkePool]
) -> Checked[None]:
    at, named = ("cluster", "gpu_networks"), cluster.gpu_networks
    if not named:
        return
    needed = max((_MODES[pool.gpu_network or ""].networks for pool in pools), default=0)
    if needed == 0:
        yield refuse(
            at,
            "no pool uses them: they are for pools with gpu_network: tcpx or tcpxo",
            "leave them out",
            in_key=True,
        )
    elif len(named) != needed:
        yield refuse(
            at,
            f"there are {len(named)}, and the pools' machines have {needed} interfaces for GPUs",
            f"name {needed}, or leave the key out",
            _DOCS,
            in_key=True,
        )
    # A VPC with a path is in another project: its name means nothing here.
    vpcs = {cluster.network.vpc} if cluster.network else set()
    for i, network in enumerate(named):
        if network.vpc in vpcs:
            yield refuse(
                (*at, i, "vpc"),
                f"{network.vpc} is the network of another interface, and each needs its own VPC",
                "name another VPC",
                "Compute Engine docs, multiple network interfaces",
            )
        vpcs.add(network.vpc)


def offers_gpu_direct(mode: str, version: str) -> bool:
    """Whether the Kubernetes version has the mode. True if that is unknown.

    A version that is cut short counts as the newest that it can mean.
    """
    match = _VERSION.match(version)
    if match is None:
        return True
    newest = 10**9
    minor, patch, gke = (newest if part is None else int(part) for part in match.groups())
    oldest = _MODES[mode].oldest
    if minor in oldest:
        return (patch, gke) >= oldest[minor]
    return minor > min(oldest)


def gpu_direct_notes(fleet: GkeFleetPlan) -> list[str]:
    """Source of the peer-to-peer: NVIDIA MIG user guide."""
    return [
        f"pool {pool.name}: pods get the interfaces of {pool.settings.gpu_networks[0].name} to "
        f"{pool.settings.gpu_networks[-1].name} by the annotation networking.gke.io/interfaces; "
        f"NCCL's plugin for {_MODES[pool.settings.gpu_network or ''].interconnect} and the device "
        "injector are Google's DaemonSets, which slicewright does not install "
        "(GoogleCloudPlatform/container-engine-accelerators)"
        + ("; partitions do not use them" if pool.offer.partitioned else "")
        for pool in fleet.pools
        if pool.settings.gpu_networks
    ]
