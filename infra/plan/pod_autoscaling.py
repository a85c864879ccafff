"""Who changes the replicas of workloads with `autoscaling`, and whom that asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from infra import spec
from infra.plan.deployments import DeploymentPlan
from infra.plan.findings import Checked, Stated, refuse


@dataclass(frozen=True, kw_only=True)
class KedaPlan:
    """KEDA, and the Prometheus that it asks."""

    existing: bool
    """The cluster has it: only its ScaledObjects are made."""
    namespace: str
    release: str
    repository: str
    chart_version: str
    prometheus_url: str
    watched: tuple[str, ...]
    """Namespaces of the workloads that it scales; it may read and change nothing in others."""


def plan_pod_autoscaling(
    fleet: spec.Fleet, deployments: Sequence[DeploymentPlan], stated: Stated
) -> Checked[KedaPlan | None]:
    """None where no workload is scaled."""
    asked, scaled = fleet.pod_autoscaling, False
    url = prometheus_url(fleet)
    for i, workload in enumerate(fleet.workloads):
        at = ("workloads", i, "autoscaling")
        if isinstance(workload, spec.Workload) or workload.autoscaling is None:
            continue
        scaled = True
        if url is None and stated.has(at, ("pod_autoscaling",)):
            yield refuse(
                at,
                "no Prometheus is stated that could tell how many replicas it takes",
                "add pod_autoscaling: {prometheus_url: …}, or leave it out",
                in_key=True,
            )
    taken = {one.namespace for one in deployments} | {"default"}
    if scaled and not asked.existing and asked.namespace in taken:
        yield refuse(
            ("pod_autoscaling", "namespace"),
            f"{asked.namespace} is a namespace of workloads, and KEDA's own objects are made and "
            "deleted with its namespace",
            "write another, for example keda",
        )
    if not scaled or url is None:
        return None
    return KedaPlan(
        existing=asked.existing,
        namespace=asked.namespace,
        release=asked.release,
        repository=asked.repository,
        chart_version=asked.chart_version,
        prometheus_url=url,
        watched=tuple(sorted({one.namespace for one in deployments if one.autoscaling})),
    )


def prometheus_url(fleet: spec.Fleet) -> str | None:
    """Of the Prometheus that has the workloads' metrics, without a slash at its end."""
    url = fleet.pod_autoscaling.prometheus_url
    return url.rstrip("/") if url is not None else None


def pod_autoscaling_notes(deployments: Sequence[DeploymentPlan]) -> list[str]:
    """One sentence each, starting with the workload's name."""
    return [note for one in deployments for note in _of(one)]


def _of(plan: DeploymentPlan) -> list[str]:
    scaling, at, found = plan.autoscaling, f"workload {plan.name}:", []
    if scaling is None:
        return []
    if scaling.min == scaling.max:
        found.append(
            f"{at} autoscaling between {scaling.min} and {scaling.max} replicas changes nothing"
        )
    if scaling.asked.metric == "query":
        found.append(
            f"{at} whether its query has one value, and what of, is not known before Prometheus "
            "is asked; without a value the replicas stay as they are"
        )
    return found
