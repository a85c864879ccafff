"""The autoscaler of a new EKS cluster, by cluster-autoscaler's rules."""

from __future__ import annotations

from typing import Final

from slicewright.infra import catalog, stack_file
from slicewright.infra.plan.eks.karpenter import karpenter_notes, karpenter_of
from slicewright.infra.plan.findings import CATALOG, Checked, refuse, rule
from slicewright.infra.plan.model.clusters import EksAutoscalerPlan, KarpenterPlan
from slicewright.infra.plan.model.fleets import EksFleetPlan
from slicewright.infra.plan.model.pools import EksPoolPlan

_AT: Final = ("cluster", "autoscaler")
_RELEASES: Final = "kubernetes/autoscaler, cluster-autoscaler/README.md, Releases"
_REGISTRY: Final = "registry.k8s.io/autoscaling/cluster-autoscaler"
_UNREADY_MINUTES: Final = 20
"""cluster-autoscaler's own default of scale-down-unready-time (FAQ.md)."""


def autoscaler_of(
    fleet: stack_file.EksFleet,
) -> Checked[EksAutoscalerPlan | KarpenterPlan | None]:
    """None without one, and of an existing cluster, which keeps its own."""
    autoscaler = fleet.cluster.autoscaler
    if autoscaler is None or fleet.cluster.existing:
        return None
    if isinstance(autoscaler, stack_file.Karpenter):
        return (yield from karpenter_of(autoscaler, fleet.cluster.version))
    releases = catalog.autoscaler_releases()
    yield from _check_chart(autoscaler.chart_version, fleet.cluster.version, releases)
    image = yield from _image(autoscaler, fleet.cluster.version, releases)
    if image is None:
        return None
    repository, _, tag = image.partition(":v")
    return EksAutoscalerPlan(
        repository=autoscaler.repository,
        chart_version=autoscaler.chart_version or releases.chart,
        image=repository,
        tag=f"v{tag}",
        expander=autoscaler.expander,
        scale_down=autoscaler.scale_down,
        # A node holds its startup taint as long as it may take to be verified.
        unready_minutes=max(_UNREADY_MINUTES, fleet.verify_timeout_minutes),
    )


@rule("cluster-autoscaler-chart")
def _check_chart(
    chart: str | None, version: str | None, releases: catalog.AutoscalerReleases
) -> Checked[None]:
    """An older chart gives its pod fewer rights in the cluster than the release needs."""
    oldest = releases.charts.get(version or "")
    if chart is not None and oldest is not None and _order(chart) < _order(oldest):
        yield refuse(
            (*_AT, "chart_version"),
            f"chart {chart} is older than those for Kubernetes {version}",
            f"write {oldest} or later, or leave it out",
            _RELEASES,
        )


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@rule("cluster-autoscaler-image")
def _image(
    autoscaler: stack_file.ClusterAutoscaler,
    version: str | None,
    releases: catalog.AutoscalerReleases,
) -> Checked[str | None]:
    """It simulates the scheduler, so it needs the minor version of the cluster's Kubernetes."""
    if version is None:
        yield refuse(
            _AT,
            "each release of cluster-autoscaler is for one minor version of Kubernetes, and the "
            "file does not say which one the cluster has",
            f'write cluster.version, like "{max(releases.images)}"',
            _RELEASES,
        )
        return None
    if autoscaler.image is None:
        if version not in releases.images:
            yield refuse(
                _AT,
                f"the catalog has no release of cluster-autoscaler for Kubernetes {version}",
                f"write image: {_REGISTRY}:v{version}.<patch>, or a version of "
                f"{', '.join(releases.images)}",
                CATALOG,
            )
            return None
        return f"{_REGISTRY}:{releases.images[version]}"
    of_image = ".".join(autoscaler.image.partition(":v")[2].split(".")[:2])
    if of_image != version:
        yield refuse(
            (*_AT, "image"),
            f"it is cluster-autoscaler {of_image}, and the cluster has Kubernetes {version}",
            f"write a release of {version}, or leave it out",
            _RELEASES,
        )
    return autoscaler.image


def autoscaler_notes(fleet: EksFleetPlan) -> list[str]:
    """Notes on the autoscaler of the pools that may grow, and on the nodes it removes as unused."""
    autoscaler = fleet.cluster.autoscaler
    scaled = [pool for pool in fleet.pools if pool.nodes.autoscaled]
    if autoscaler is None:
        return [_unscaled(pool, existing=fleet.cluster.existing) for pool in scaled]
    if isinstance(autoscaler, KarpenterPlan):
        return karpenter_notes(fleet, autoscaler)
    if not scaled:
        return [
            f"cluster {fleet.cluster.name}: its autoscaler has no GPU pool to scale; write nodes: "
            "{min: …, max: …}"
        ]
    if not autoscaler.scale_down.enabled:
        return []
    # kubernetes/autoscaler, simulator/utilization: GPUs count on nodes with the provider's
    # accelerator label, which would make a node of partitions unready (autoscaler #8095).
    percent = autoscaler.scale_down.utilization_percent
    return [
        f"pool {pool.name}: cluster-autoscaler counts CPUs and memory, not partitions: pods that "
        f"request less than {percent} % of a node's are evicted where others have room for them; "
        'the annotation cluster-autoscaler.kubernetes.io/safe-to-evict: "false" keeps a pod'
        for pool in scaled
        if pool.nodes.max > 1
    ]


def _unscaled(pool: EksPoolPlan, *, existing: bool) -> str:
    instead = (
        "cluster-autoscaler, if the cluster has it, learns from its tags what its nodes will offer"
        if existing
        else "write cluster.autoscaler: cluster-autoscaler, or karpenter"
    )
    return (
        f"pool {pool.name}: nothing adds or removes its nodes between {pool.nodes.min} and "
        f"{pool.nodes.max}: {instead}"
    )
