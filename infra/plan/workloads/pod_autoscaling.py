"""Who changes the replicas of workloads with `autoscaling`, and whom that asks."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.infra import stack_file
from slicewright.infra.plan.findings import Checked, Finding, Stated, refuse, rule
from slicewright.infra.plan.model.deployments import DeploymentPlan
from slicewright.infra.plan.model.monitoring import MonitoringPlan
from slicewright.infra.plan.model.scaling import AdapterPlan, KedaPlan, PodAutoscalingPlan
from slicewright.infra.plan.workloads.autoscaling import KEDA_POLL_S


@rule("autoscaling-prometheus")
def plan_pod_autoscaling(
    fleet: stack_file.Fleet,
    deployments: Sequence[DeploymentPlan],
    monitoring: MonitoringPlan | None,
    stated: Stated,
) -> Checked[PodAutoscalingPlan | None]:
    """None if no workload is scaled."""
    settings = fleet.pod_autoscaling
    has_adapter = isinstance(settings, stack_file.PrometheusAdapter) and settings.existing
    url = (settings.prometheus_url or "").rstrip("/")
    url = url or (monitoring.prometheus_url if monitoring is not None else "")
    scaled = [
        (("workloads", i, "autoscaling"), workload.autoscaling)
        for i, workload in enumerate(fleet.workloads)
        if not isinstance(workload, stack_file.Workload) and workload.autoscaling is not None
    ]
    for at, autoscaling in scaled:
        if not url and not has_adapter and stated.has(at, ("pod_autoscaling",), ("monitoring",)):
            yield _without_prometheus(at, monitoring)
        if monitoring is not None and settings.prometheus_url is None and stated.has(at):
            yield from _check_window(autoscaling, (*at, "window"), monitoring)
        if isinstance(settings, stack_file.PrometheusAdapter) and stated.has(at):
            yield from _check_for_adapter(autoscaling, at)
    if has_adapter:
        yield from _check_adapter_keys(settings, stated)
    if scaled and not settings.existing:
        yield from _check_namespace(settings, deployments, monitoring)
    if not scaled or not (url or has_adapter):
        return None
    if isinstance(settings, stack_file.PrometheusAdapter):
        return AdapterPlan(
            existing=settings.existing,
            namespace=settings.namespace,
            image=settings.image,
            prometheus_url="" if settings.existing else url,
        )
    watched = {deployment.namespace for deployment in deployments if deployment.autoscaling}
    return KedaPlan(
        existing=settings.existing,
        namespace=settings.namespace,
        release=settings.release,
        repository=settings.repository,
        chart_version=settings.chart_version,
        prometheus_url=url,
        watched=tuple(sorted(watched)),
    )


@rule("pod-autoscaling-existing")
def _check_adapter_keys(
    settings: stack_file.Keda | stack_file.PrometheusAdapter, stated: Stated
) -> Checked[None]:
    """Refuses keys that an adapter of the cluster ignores."""
    for key in ("namespace", "image", "prometheus_url"):
        if key in settings.model_fields_set and stated.has(("pod_autoscaling", key)):
            yield refuse(
                ("pod_autoscaling", key),
                "is for an adapter that the stack installs, and the cluster already has one",
                "leave it out, or write existing: false",
                in_key=True,
            )


@rule("pod-autoscaling-namespace")
def _check_namespace(
    settings: stack_file.Keda | stack_file.PrometheusAdapter,
    deployments: Sequence[DeploymentPlan],
    monitoring: MonitoringPlan | None,
) -> Checked[None]:
    reserved = {deployment.namespace for deployment in deployments} | {"default"}
    if monitoring is not None and monitoring.namespace is not None:
        reserved.add(monitoring.namespace)
    if settings.namespace in reserved:
        yield refuse(
            ("pod_autoscaling", "namespace"),
            f"{settings.namespace} is in use: the autoscaler's namespace is created and deleted "
            "with it",
            f"write another, for example {settings.by}",
        )


def _without_prometheus(at: stack_file.Path, monitoring: MonitoringPlan | None) -> Finding:
    if monitoring is None:
        return refuse(
            at,
            "needs a Prometheus whose metrics the number of replicas can follow",
            "add monitoring: {prometheus: stack}, or an existing one: monitoring: {prometheus: "
            "existing, url: …}",
            in_key=True,
        )
    return refuse(
        at,
        "nothing in the cluster answers for Google's managed Prometheus",
        "run its frontend, and add monitoring.url",
        "Google Cloud docs, Managed Service for Prometheus: querying using PromQL",
        in_key=True,
    )


@rule("prometheus-adapter")
def _check_for_adapter(scaled: stack_file.Autoscaling, at: stack_file.Path) -> Checked[None]:
    """Refuses settings that Kubernetes' own autoscaler does not support."""
    if scaled.min == 0:
        yield refuse(
            (*at, "min"),
            "with prometheus-adapter replicas cannot go to zero and back",
            "write 1 or more, or pod_autoscaling: {by: keda}",
            "Kubernetes docs, feature gate HPAScaleToZero",
        )
    if scaled.metric == "query":
        yield refuse(
            (*at, "metric"),
            "prometheus-adapter reads metrics per pod, and a query covers all of them",
            "write queue-time, requests-waiting or cache-usage, or pod_autoscaling: {by: keda}",
            "kubernetes-sigs/prometheus-adapter, docs/config.md",
        )
    if "fallback" in scaled.model_fields_set:
        yield refuse(
            (*at, "fallback"),
            "applies to KEDA only: without an answer, Kubernetes' own autoscaler changes nothing",
            "leave it out, or write pod_autoscaling: {by: keda}",
            in_key=True,
        )


@rule("autoscaling-window")
def _check_window(
    scaled: stack_file.Autoscaling, at: stack_file.Path, monitoring: MonitoringPlan
) -> Checked[None]:
    """Refuses a short window: a rate takes at least two samples, and one of them may come late."""
    window, interval = stack_file.seconds(scaled.window), monitoring.interval_s
    if scaled.metric == "query" or window >= 2 * interval:
        return
    yield refuse(
        at,
        f"{scaled.window} is too short for two samples: metrics are read every {interval} seconds",
        f"write {4 * interval}s or more, or a shorter monitoring.scrape_interval",
        "Prometheus docs, rate()",
    )


def pod_autoscaling_notes(
    deployments: Sequence[DeploymentPlan], monitoring: MonitoringPlan | None
) -> list[str]:
    """One sentence each, starting with the workload's name."""
    return [note for deployment in deployments for note in _scaling_notes(deployment, monitoring)]


def _scaling_notes(plan: DeploymentPlan, monitoring: MonitoringPlan | None) -> list[str]:
    scaling, at, notes = plan.autoscaling, f"workload {plan.name}:", []
    if scaling is None:
        return []
    if scaling.min == scaling.max:
        notes.append(
            f"{at} autoscaling between {scaling.min} and {scaling.max} replicas changes nothing"
        )
    if scaling.settings.metric == "query":
        notes.append(
            f"{at} whether its query has one value, and what of, is not known before Prometheus "
            "is asked; without a value the replicas stay as they are"
        )
    down = scaling.settings.scale_down.stabilization
    if down is not None and monitoring is not None:
        # Of servers that Prometheus loses together, each ends at its own scrape.
        least = monitoring.interval_s + KEDA_POLL_S
        if stack_file.seconds(down) < least:
            notes.append(
                f"{at} scale_down.stabilization {down} is shorter than a scrape and a decision, "
                f"{least}s: where Prometheus loses the servers, replicas may go while it still "
                "knows some of them"
            )
    return notes
