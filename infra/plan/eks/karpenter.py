"""Karpenter in a new EKS cluster, and which of a fleet's pools it makes the nodes of."""

from __future__ import annotations

from typing import Final

from infra import catalog, spec
from infra.plan.findings import Checked, refuse
from infra.plan.model.clusters import KarpenterPlan
from infra.plan.model.fleets import EksFleetPlan

NO_WHOLE_GPU: Final = "slicewright.io/no-whole-gpu"
"""Key of the taint on Karpenter's nodes that offer partitions or shares, and no nvidia.com/gpu. A
NodeOverlay cannot take the machine type's GPUs away (sigs.k8s.io/karpenter
pkg/apis/v1alpha1/nodeoverlay_validation.go), and a node never becomes ready for a pod that waits
for a resource that it lacks (pkg/controllers/nodeclaim/lifecycle/initialization.go): without the
taint it would stay, empty, for good.
"""
_AT: Final = ("cluster", "autoscaler")
_COMPATIBILITY: Final = "karpenter.sh docs, compatibility"


def by_karpenter(fleet: spec.EksFleet, pool: spec.EksPool) -> spec.Karpenter | None:
    """Karpenter's settings if the pool is a NodePool and not a managed node group, else None.

    A NodePool's number of nodes follows the pods. A fixed number takes a node group.
    """
    asked = fleet.cluster.autoscaler
    scaled = isinstance(pool.nodes, spec.Autoscaled)
    return asked if scaled and isinstance(asked, spec.Karpenter) else None


def karpenter_of(asked: spec.Karpenter, version: str | None) -> Checked[KarpenterPlan]:
    """version: of Kubernetes. None if the file does not say."""
    known = catalog.karpenter_release()
    if asked.chart_version is not None and _order(asked.chart_version) < _order(known.oldest_chart):
        yield refuse(
            (*_AT, "chart_version"),
            f"NodeOverlays and reservations are not the same in Karpenter {asked.chart_version}",
            f"write {known.oldest_chart} or later, or leave it out",
            "aws/karpenter-provider-aws, pkg/apis/crds",
        )
    if (
        version is not None
        and asked.chart_version is None
        and _order(version) > _order(known.newest_kubernetes)
    ):
        yield refuse(
            ("cluster", "version"),
            f"Karpenter {known.chart} knows Kubernetes up to {known.newest_kubernetes}",
            f"write {known.newest_kubernetes} or older, or a later chart_version of the autoscaler",
            _COMPATIBILITY,
        )
    return KarpenterPlan(
        repository=asked.repository,
        chart_version=asked.chart_version or known.chart,
        interruption_queue=asked.interruption_queue,
        consolidation=asked.consolidation,
        empty_minutes=asked.empty_minutes,
    )


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def karpenter_notes(fleet: EksFleetPlan, karpenter: KarpenterPlan) -> list[str]:
    """Notes on the differences from node groups, and on nodes that Karpenter does not scale."""
    found = []
    if fleet.system.nodes.autoscaled:
        found.append(
            f"system pool: Karpenter does not scale node groups: it keeps {fleet.system.nodes.min} "
            f"node{'s' if fleet.system.nodes.min > 1 else ''}"
        )
    made = [pool for pool in fleet.pools if pool.settings.karpenter is not None]
    if not made:
        found.append(
            f"cluster {fleet.cluster.name}: Karpenter has no GPU pool to make nodes of; write "
            "nodes: {min: 0, max: …}"
        )
    if any(
        pool.settings.karpenter is not None and pool.settings.karpenter.overlay for pool in made
    ):
        found.append(
            f"cluster {fleet.cluster.name}: Karpenter knows partitions by NodeOverlays, which are "
            "alpha in it (feature gate NodeOverlay)"
        )
    for pool in made:
        if pool.settings.karpenter is not None and pool.settings.karpenter.overlay:
            found.append(
                f"pool {pool.name}: pods on it must tolerate {NO_WHOLE_GPU} too: Karpenter counts "
                "the machine's whole GPUs, and would make a node of partitions for a pod that asks "
                "for nvidia.com/gpu"
            )
        if pool.settings.spot:
            found.append(
                f"pool {pool.name}: the account must have the role AWSServiceRoleForEC2Spot, which "
                "Karpenter may not make: aws iam create-service-linked-role --aws-service-name "
                "spot.amazonaws.com"
            )
        if karpenter.consolidation == "underutilized":
            found.append(
                f"pool {pool.name}: Karpenter evicts pods from nodes whose pods fit elsewhere, "
                'those that use GPUs too; the annotation karpenter.sh/do-not-disrupt: "true" keeps '
                "a pod"
            )
    return found
