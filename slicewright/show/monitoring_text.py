"""Describes the path of a fleet's metrics, for people."""

from __future__ import annotations

from slicewright.infra import manifests, plan
from slicewright.infra.stack_file import ExistingPrometheus, ManagedPrometheus, PrometheusStack


def monitoring_lines(fleet: plan.FleetPlan) -> list[str]:
    """Returns lines on the Prometheus, its targets, intervals and rules. Empty without any."""
    monitoring = fleet.monitoring
    if monitoring is None:
        return []
    lines = [f"monitoring: {whose(monitoring)}"]
    every = [f"{name} every {seconds} s" for name, seconds in manifests.scraped(fleet)]
    lines.append(f"  scrapes         {', '.join(every)}")
    records, alerts = manifests.rule_counts(fleet)
    if records or alerts:
        lines.append(f"  rules           {records} recorded, {alerts} alerts")
    if monitoring.dashboards:
        count = len(manifests.dashboards_of(fleet))
        lines.append(f"  dashboards      {count}, in {monitoring.namespace}")
    lines.append(f"  answers at      {monitoring.prometheus_url or 'no address in the cluster'}")
    return lines


def whose(monitoring: plan.MonitoringPlan) -> str:
    """Describes the Prometheus in one phrase."""
    match monitoring.settings:
        case PrometheusStack() as asked:
            alerts = " with Alertmanager" if asked.alertmanager else ""
            return f"kube-prometheus-stack {asked.chart_version}{alerts} in {asked.namespace}"
        case ExistingPrometheus() as asked:
            return f"the cluster's Prometheus in {asked.namespace}"
        case ManagedPrometheus():
            return "Managed Service for Prometheus"
