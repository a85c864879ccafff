"""What of a GKE cluster that exists keeps it from having a plan's pools."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from infra.plan import GkeClusterPlan, offers_dranet, offers_gpu_direct

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
    """Every reason with its remedy, one a line; empty where it is fit.

    version: of the control plane, as `1.34.1-gke.1431000`. workload_pool: None without one.
    gpu_networks: the kinds of networks that pools have between their GPUs. dataplane_v2,
    multi_networking: whether the cluster has them. managed_prometheus: whether the fleet's metrics
    go to Managed Service for Prometheus. collectors: whether the cluster has those of it.
    """
    reasons = []
    if autopilot:
        reasons.append(
            "it is an Autopilot cluster, in which GKE makes all node pools itself: write "
            "`existing: false` for a cluster of the stack's own"
        )
    minor = re.match(r"(\d+)\.(\d+)", version)
    if minor is not None and (int(minor[1]), int(minor[2])) < OLDEST_KUBERNETES:
        reasons.append(
            f"its control plane is {version}, and the admission policies that guard the nodes need "
            f"{OLDEST_KUBERNETES[0]}.{OLDEST_KUBERNETES[1]}: upgrade it"
        )
    if gpu_networks and not dataplane_v2:
        reasons.append(
            "it has no GKE Dataplane V2, which gpu_network needs and which no cluster gets later: "
            "leave gpu_network out"
        )
    if "dranet" in gpu_networks and not offers_dranet(version):
        reasons.append(
            f"its control plane is {version}, and gpu_network: dranet needs 1.34.1-gke.1829001: "
            "upgrade it"
        )
    direct = sorted({*gpu_networks} - {"dranet"})
    if direct and not multi_networking:
        reasons.append(
            f"it has no multi-networking, which gpu_network: {direct[0]} needs: let whoever "
            "manages it enable that (desiredEnableMultiNetworking of GKE's API), or leave "
            "gpu_network out"
        )
    for mode in direct:
        if not offers_gpu_direct(mode, version):
            reasons.append(
                f"its control plane is {version}, which is too old for gpu_network: {mode}: "
                "upgrade it"
            )
    update = (
        f"gcloud container clusters update {cluster.name} --location {cluster.location} --project "
        f"{project}"
    )
    if managed_prometheus and not collectors:
        reasons.append(
            "its managed collection is off, and monitoring.prometheus is managed: "
            f"{update} --enable-managed-prometheus"
        )
    wanted = f"{project}.svc.id.goog"
    if workload_pool != wanted and not autopilot:
        has = (
            f"its workload pool is {workload_pool}" if workload_pool else "it has no workload pool"
        )
        reasons.append(
            f"{has}, and the pools' nodes need Workload Identity (GKE_METADATA): {update} "
            f"--workload-pool={wanted}"
        )
    if not reasons:
        return ""
    lines = "\n".join(f"  - {reason}" for reason in reasons)
    return (
        f"cluster {cluster.name} in {cluster.location} exists, but cannot have the pools:\n{lines}"
    )
