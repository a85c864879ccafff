"""Karpenter in a new EKS cluster, and which of a fleet's pools it makes the nodes of."""

from __future__ import annotations

from typing import Final

from slicewright.infra import catalog, stack_file
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.model.clusters import KarpenterPlan
from slicewright.infra.plan.model.fleets import EksFleetPlan

NO_WHOLE_GPU: Final = "slicewright.io/no-whole-gpu"
"""Key of the taint on Karpenter's nodes that offer partitions or shares, and no nvidia.com/gpu. A
NodeOverlay cannot take the machine type's GPUs away (sigs.k8s.io/karpenter
pkg/apis/v1alpha1/nodeoverlay_validation.go), and a node never becomes ready for a pod that waits
for a resource that it lacks (pkg/controllers/nodeclaim/lifecycle/initialization.go): without the
taint it would stay, empty, for good.
"""
_AT: Final = ("cluster", "autoscaler")
_COMPATIBILITY: Final = "karpenter.sh docs, compatibility"


def by_karpenter(
    fleet: stack_file.EksFleet, pool: stack_file.EksPool
) -> stack_file.Karpenter | None:
    """Karpenter's settings if the pool is a NodePool and not a managed node group, else None.

    A NodePool's number of nodes follows the pods. A fixed number takes a node group.
    """
    autoscaler = fleet.cluster.autoscaler
    scaled = isinstance(pool.nodes, stack_file.Autoscaled)
    return autoscaler if scaled and isinstance(autoscaler, stack_file.Karpenter) else None


@rule("karpenter-version")
def karpenter_of(settings: stack_file.Karpenter, version: str | None) -> Checked[KarpenterPlan]:
    """version: of Kubernetes. None if the file does not say."""
    release = catalog.karpenter_release()
    if settings.chart_version is not None and _order(settings.chart_version) < _order(
        release.oldest_chart
    ):
        yield refuse(
            (*_AT, "chart_version"),
            f"Karpenter {settings.chart_version} has an older form of NodeOverlays and "
            "reservations",
            f"write {release.oldest_chart} or later, or leave it out",
            "aws/karpenter-provider-aws, pkg/apis/crds",
        )
    if (
        version is not None
        and settings.chart_version is None
        and _order(version) > _order(release.newest_kubernetes)
    ):
        yield refuse(
            ("cluster", "version"),
            f"Karpenter {release.chart} knows Kubernetes up to {release.newest_kubernetes}",
            f"write {release.newest_kubernetes} or older, or a later chart_version of the "
            "autoscaler",
            _COMPATIBILITY,
        )
    return KarpenterPlan(
        repository=settings.repository,
        chart_version=settings.chart_version or release.chart,
        interruption_queue=settings.interruption_queue,
        consolidation=settings.consolidation,
        empty_minutes=settings.empty_minutes,
    )


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def karpenter_notes(fleet: EksFleetPlan, karpenter: KarpenterPlan) -> list[str]:
    """Notes on the differences from node groups, and on nodes that Karpenter does not scale."""
    notes = []
    if fleet.system.nodes.autoscaled:
        notes.append(
            f"system pool: Karpenter does not scale node groups: it keeps {fleet.system.nodes.min} "
            f"node{'s' if fleet.system.nodes.min > 1 else ''}"
        )
    pools = [pool for pool in fleet.pools if pool.settings.karpenter is not None]
    if not pools:
        notes.append(
            f"cluster {fleet.cluster.name}: Karpenter has no GPU pool to make nodes of; write "
            "nodes: {min: 0, max: …}"
        )
    if any(
        pool.settings.karpenter is not None and pool.settings.karpenter.overlay for pool in pools
    ):
        notes.append(
            f"cluster {fleet.cluster.name}: Karpenter knows partitions by NodeOverlays, which are "
            "alpha in it (feature gate NodeOverlay)"
        )
    for pool in pools:
        if pool.settings.karpenter is not None and pool.settings.karpenter.overlay:
            notes.append(
                f"pool {pool.name}: pods on it must tolerate {NO_WHOLE_GPU} too: Karpenter counts "
                "the machine's whole GPUs, and would make a node of partitions for a pod that asks "
                "for nvidia.com/gpu"
            )
        if pool.settings.spot:
            notes.append(
                f"pool {pool.name}: the account must have the role AWSServiceRoleForEC2Spot, which "
                "Karpenter may not make: aws iam create-service-linked-role --aws-service-name "
                "spot.amazonaws.com"
            )
        if karpenter.consolidation == "underutilized":
            notes.append(
                f"pool {pool.name}: Karpenter evicts pods from nodes whose pods fit elsewhere, "
                'those that use GPUs too; the annotation karpenter.sh/do-not-disrupt: "true" keeps '
                "a pod"
            )
    return notes
