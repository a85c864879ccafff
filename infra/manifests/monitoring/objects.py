"""Everything that the stack creates for a fleet's Prometheus besides its chart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slicewright.infra.manifests.monitoring.alerts import alerts
from slicewright.infra.manifests.monitoring.cards_dashboard import SHARED_CARDS
from slicewright.infra.manifests.monitoring.dashboards import DASHBOARDS
from slicewright.infra.manifests.monitoring.grafana import Dashboard, config_map
from slicewright.infra.manifests.monitoring.recording import recording
from slicewright.infra.manifests.monitoring.rules import Group, Record, Source, as_groups, available
from slicewright.infra.manifests.monitoring.scrapes import DCGM, monitors, scraped_jobs, scrapes
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import FleetPlan
from slicewright.infra.stack_file import TritonWorkload, VllmWorkload

OPERATOR_GROUP: Final = "monitoring.coreos.com"
OPERATOR_KINDS: Final = ("podmonitors", "prometheusrules")
"""The kinds of the objects below that a Prometheus operator reads."""
_RULES: Final = "slicewright"


def monitoring_objects(fleet: FleetPlan) -> list[JsonObject]:
    """Manifests, each with a name that no other of its kind has in its namespace."""
    plan = fleet.monitoring
    assert plan is not None
    manifests = monitors(fleet)
    if plan.settings.alerts:
        manifests.append(_rule_object(fleet))
    if plan.namespace is not None and plan.dashboards:
        manifests += [config_map(board, namespace=plan.namespace) for board in dashboards_of(fleet)]
    return manifests


def dashboards_of(fleet: FleetPlan) -> tuple[Dashboard, ...]:
    return DASHBOARDS if fleet.engine is None else (*DASHBOARDS, SHARED_CARDS)


def rule_groups(fleet: FleetPlan) -> list[Group]:
    """Recording rules and alerts for the fleet's sources of metrics."""
    plan = fleet.monitoring
    assert plan is not None
    groups = [
        *recording(fleet.pools, window_s=plan.window_s),
        *alerts(
            fleet.deployments,
            jobs=scraped_jobs(fleet),
            interval_s=plan.interval_s,
            shares=fleet.engine is not None,
        ),
    ]
    return available(groups, sources(fleet))


def rule_counts(fleet: FleetPlan) -> tuple[int, int]:
    """The numbers of recording rules and alerts that the stack creates."""
    assert fleet.monitoring is not None
    groups = rule_groups(fleet) if fleet.monitoring.settings.alerts else []
    rules = [rule for group in groups for rule in group.rules]
    records = sum(isinstance(rule, Record) for rule in rules)
    return records, len(rules) - records


def scraped(fleet: FleetPlan) -> list[tuple[str, int]]:
    """The name of each scrape and its interval in seconds."""
    return [(scrape.name, scrape.endpoints[0].interval_s) for scrape in scrapes(fleet)]


def sources(fleet: FleetPlan) -> frozenset[Source]:
    """The sources whose metrics the fleet's Prometheus has."""
    plan = fleet.monitoring
    assert plan is not None
    names = {scrape.name for scrape in scrapes(fleet)}
    kinds = {type(deployment.workload) for deployment in fleet.deployments}
    exists: Mapping[Source, bool] = {
        Source.AGENT: True,
        Source.CONTROLLER: True,
        Source.DCGM: DCGM in names,
        # GKE's managed collection has no labels of nodes (GKE docs, kube state metrics).
        Source.OBJECTS: plan.namespace is not None,
        Source.TRITON: TritonWorkload in kinds,
        Source.VLLM: VllmWorkload in kinds,
    }
    return frozenset(source for source in exists if exists[source])


def _rule_object(fleet: FleetPlan) -> JsonObject:
    """Source: monitoring.coreos.com/v1; GoogleCloudPlatform/prometheus-engine, doc/api.md."""
    plan = fleet.monitoring
    assert plan is not None
    groups = as_groups(rule_groups(fleet), runbooks=plan.settings.runbooks or "")
    if plan.namespace is None:
        # Google's kind requires the interval of evaluation, and has no default.
        paced = [{"interval": f"{plan.interval_s}s", **group} for group in groups]
        return {
            "apiVersion": "monitoring.googleapis.com/v1",
            "kind": "ClusterRules",
            "metadata": {"name": _RULES},
            "spec": {"groups": paced},
        }
    return {
        "apiVersion": f"{OPERATOR_GROUP}/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": _RULES,
            "namespace": plan.namespace,
            "labels": dict(plan.selector_labels),
        },
        "spec": {"groups": groups},
    }
