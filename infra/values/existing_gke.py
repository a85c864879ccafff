"""What of a GKE cluster that exists keeps it from having a plan's pools."""

from __future__ import annotations

import re

from infra.plan import GkeClusterPlan

_OLDEST = (1, 30)
"""From here on ValidatingAdmissionPolicy, which guards the nodes, is stable. Source: Kubernetes
docs, validating admission policy.
"""


def unfit_gke_cluster(
    cluster: GkeClusterPlan,
    *,
    project: str,
    version: str,
    autopilot: bool,
    workload_pool: str | None,
) -> str:
    """Every reason with its remedy, one a line; empty where it is fit.

    version: of the control plane, as `1.34.1-gke.1431000`. workload_pool: None without one.
    """
    reasons = []
    if autopilot:
        reasons.append(
            "it is an Autopilot cluster, in which GKE makes all node pools itself: write "
            "`existing: false` for a cluster of the stack's own"
        )
    minor = re.match(r"(\d+)\.(\d+)", version)
    if minor is not None and (int(minor[1]), int(minor[2])) < _OLDEST:
        reasons.append(
            f"its control plane is {version}, and the admission policies that guard the nodes need "
            f"{_OLDEST[0]}.{_OLDEST[1]}: upgrade it"
        )
    wanted = f"{project}.svc.id.goog"
    if workload_pool != wanted and not autopilot:
        has = (
            f"its workload pool is {workload_pool}" if workload_pool else "it has no workload pool"
        )
        reasons.append(
            f"{has}, and the pools' nodes need Workload Identity (GKE_METADATA): gcloud container "
            f"clusters update {cluster.name} --location {cluster.location} --project {project} "
            f"--workload-pool={wanted}"
        )
    if not reasons:
        return ""
    lines = "\n".join(f"  - {reason}" for reason in reasons)
    return (
        f"cluster {cluster.name} in {cluster.location} exists, but cannot have the pools:\n{lines}"
    )
