"""The reasons why an existing GKE cluster cannot have a plan's pools."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from slicewright.infra.plan import GkeClusterPlan, offers_dranet, offers_gpu_direct

OLDEST_KUBERNETES: Final = (1, 30)
"""The oldest version of an existing cluster. Since then ValidatingAdmissionPolicy, which guards the
nodes, is stable. Source: Kubernetes docs, validating admission policy.
"""


def unfit_gke_cluster(
    cluster: GkeClusterPlan,
    *,
    project: str,
    version: str,
    autopilot: bool,
    workload_pool: str | None,
    gpu_networks: Collection[str],
    dataplane_v2: bool,
    multi_networking: bool,
    managed_prometheus: bool,
    collectors: bool,
) -> str:
    """Every reason with its remedy, one a line. Empty if the cluster can have the pools.

    version: the control plane's, such as `1.34.1-gke.1431000`. workload_pool: None if the cluster
    has no workload pool. gpu_networks: the kinds of networks between the GPUs of the pools.
    dataplane_v2, multi_networking: True if the cluster has them. managed_prometheus: True if the
    fleet's metrics go to Managed Service for Prometheus. collectors: True if the cluster has the
    collectors of that service.
    """
    reasons = [
        *_control_plane_reasons(version, autopilot=autopilot),
        *_network_reasons(
            version, gpu_networks, dataplane_v2=dataplane_v2, multi_networking=multi_networking
        ),
    ]
    update = (
        f"gcloud container clusters update {cluster.name} --location {cluster.location} --project "
        f"{project}"
    )
    if managed_prometheus and not collectors:
        reasons.append(
            "its managed collection is off, but monitoring.prometheus is managed: "
            f"{update} --enable-managed-prometheus"
        )
    if not autopilot:
        reasons += _identity_reasons(workload_pool, f"{project}.svc.id.goog", update)
    if not reasons:
        return ""
    lines = "\n".join(f"  - {reason}" for reason in reasons)
    return (
        f"cluster {cluster.name} in {cluster.location} exists, but cannot have the pools:\n{lines}"
    )


def _identity_reasons(workload_pool: str | None, required_pool: str, update: str) -> Iterator[str]:
    if workload_pool != required_pool:
        current = (
            f"its workload pool is {workload_pool}" if workload_pool else "it has no workload pool"
        )
        yield (
            f"{current}, but the pools' nodes need Workload Identity (GKE_METADATA): {update} "
            f"--workload-pool={required_pool}"
        )


def _control_plane_reasons(version: str, *, autopilot: bool) -> Iterator[str]:
    if autopilot:
        yield (
            "it is an Autopilot cluster, where GKE creates all node pools itself: write "
            "`existing: false` to create a Standard cluster"
        )
    minor = re.match(r"(\d+)\.(\d+)", version)
    if minor is not None and (int(minor[1]), int(minor[2])) < OLDEST_KUBERNETES:
        yield (
            f"its control plane is {version}, but the admission policies that guard the nodes need "
            f"{OLDEST_KUBERNETES[0]}.{OLDEST_KUBERNETES[1]} or later: upgrade it"
        )


def _network_reasons(
    version: str, gpu_networks: Collection[str], *, dataplane_v2: bool, multi_networking: bool
) -> Iterator[str]:
    if gpu_networks and not dataplane_v2:
        yield (
            "it has no GKE Dataplane V2, which gpu_network needs and which cannot be enabled on an "
            "existing cluster: leave gpu_network out"
        )
    if "dranet" in gpu_networks and not offers_dranet(version):
        yield (
            f"its control plane is {version}, but gpu_network dranet needs 1.34.1-gke.1829001 or "
            "later: upgrade it"
        )
    gpu_direct = sorted({*gpu_networks} - {"dranet"})
    if gpu_direct and not multi_networking:
        yield (
            f"it has no multi-networking, which gpu_network {gpu_direct[0]} needs: ask the "
            "cluster's administrator to enable it (desiredEnableMultiNetworking in GKE's API), or "
            "leave gpu_network out"
        )
    for mode in gpu_direct:
        if not offers_gpu_direct(mode, version):
            yield (
                f"its control plane is {version}, which is too old for gpu_network {mode}: "
                "upgrade it"
            )
