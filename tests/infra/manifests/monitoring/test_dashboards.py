"""Dashboards and rules ask for metrics that exist, in queries that Prometheus can read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as grafana

from slicewright.infra import manifests
from slicewright.infra.manifests.monitoring.cards_dashboard import SHARED_CARDS
from slicewright.infra.manifests.monitoring.chart import NODE_LABELS
from slicewright.infra.manifests.monitoring.dashboards import DASHBOARDS
from slicewright.infra.manifests.monitoring.grafana import Dashboard, as_json
from slicewright.infra.manifests.monitoring.objects import rule_groups
from slicewright.infra.manifests.monitoring.rules import Record
from tests.infra.manifests.monitoring.promtool import check
from tests.infra.manifests.monitoring.test_objects import SERVERS
from tests.infra.manifests.monitoring.test_settings import STACK, planned

REFERENCE = Path(__file__).parents[4] / "docs" / "reference"
RULES = [rule for group in rule_groups(planned(STACK, workloads=SERVERS)) for rule in group.rules]
OF_PROMQL = frozenset(
    {
        *("and", "avg", "bool", "by", "clamp_min", "count", "group_left", "histogram_quantile"),
        *("increase", "max", "on", "or", "rate", "sum", "time", "unless", "vector"),
    }
)
IDS = [one.uid for one in DASHBOARDS]
ALL = (*DASHBOARDS, SHARED_CARDS)


def catalogue() -> frozenset[str]:
    """The metrics of our own pages, those of others that are listed there, and recorded ones."""
    found: set[str] = set()
    of_metrics: frozenset[str] = frozenset()
    for page in ("metrics.md", "controller.md"):
        for line in (REFERENCE / page).read_text(encoding="utf-8").splitlines():
            if line.startswith("| `"):
                found |= set(re.findall(r"`([A-Za-z_:][A-Za-z0-9_:]*)`", line.split("|")[1]))
        if page == "controller.md":  # it has tables of other things, too
            found = {name for name in found if name.startswith("slicewright_")} | of_metrics
        of_metrics = frozenset(found)
    return frozenset(found | {rule.name for rule in RULES if isinstance(rule, Record)})


def asked(expr: str) -> set[str]:
    """The metrics of an expression: names outside of matchers, groupings and ranges."""
    plain = re.sub(r'"[^"]*"', '""', expr)
    plain = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", plain)
    plain = re.sub(r"\b(by|on|group_left)\s*\([^)]*\)", " ", plain)
    return set(re.findall(r"(?<![\w:.])[A-Za-z_:][\w:]*", plain)) - OF_PROMQL


def queries(dashboard: Dashboard) -> Iterator[str]:
    for panel in dashboard.panels:
        for query in panel.queries:
            yield query.expr
    for variable in dashboard.variables:
        yield variable.metric


def test_metric_names_are_extracted_from_queries() -> None:
    expr = 'sum by (a, b) (rate(m:x{c="d e",f=~"g"}[5m])) / on (h) group_left () (n_total > 1e6)'
    assert asked(expr) == {"m:x", "n_total"}


@pytest.mark.parametrize("dashboard", ALL, ids=lambda one: one.uid)
def test_every_metric_of_a_dashboard_is_in_the_reference(dashboard: Dashboard) -> None:
    wanted = {name for expr in queries(dashboard) for name in asked(expr)}
    assert wanted
    assert wanted <= catalogue()


def test_every_metric_of_a_rule_is_in_the_reference_and_every_documented_foreign_one_is_used() -> (
    None
):
    wanted = {name for rule in RULES for name in asked(rule.expr)}
    assert wanted <= catalogue()
    everything = wanted | {n for one in DASHBOARDS for e in queries(one) for n in asked(e)}
    ours = ("slicewright_", "pool:", "node_resource:", "gpu:", "workload")
    assert {name for name in catalogue() if not name.startswith(ours)} <= everything
    assert {rule.name for rule in RULES if isinstance(rule, Record)} <= everything | {
        "node_resource:slicewright_devices_requested:ratio"
    }


def test_no_query_uses_a_metric_that_is_empty_under_mig() -> None:
    """NVIDIA/dcgm-exporter #105, #216: neither exists on a GPU in MIG mode."""
    empty = {
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "slicewright_gpu_utilization_ratio",
    }
    exprs = [rule.expr for rule in RULES] + [e for one in DASHBOARDS for e in queries(one)]
    assert not empty & {name for expr in exprs for name in asked(expr)}


def test_every_node_label_in_a_query_is_in_the_allowlist() -> None:
    exprs = [rule.expr for rule in RULES] + [e for one in DASHBOARDS for e in queries(one)]
    wanted = {name for expr in exprs for name in re.findall(r"\blabel_\w+", expr)} - {
        "label_values"
    }
    assert wanted <= {"label_" + re.sub(r"\W", "_", label) for label in NODE_LABELS}
    page = (REFERENCE / "metrics.md").read_text(encoding="utf-8")
    assert f"nodes=[{','.join(NODE_LABELS)}]" in page


def test_prometheus_can_read_every_query(one_tool: Callable[[str], Path], tmp_path: Path) -> None:
    exprs = [expr for one in ALL for expr in queries(one)]
    rules = [{"record": f"query_{i}", "expr": expr} for i, expr in enumerate(exprs)]
    promtool = one_tool("promtool")
    assert check(promtool, tmp_path, [{"name": "queries", "rules": rules}]) == ""
    broken = [{"record": "query", "expr": "sum by (pool) (slicewright_pool_nodes"}]
    assert check(promtool, tmp_path, [{"name": "queries", "rules": broken}]) != ""


@pytest.mark.parametrize("dashboard", ALL, ids=lambda one: one.uid)
def test_panels_do_not_overlap_and_have_a_number_each(dashboard: Dashboard) -> None:
    panels = as_json(dashboard)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) == len(dashboard.panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken
        taken |= cells


@pytest.mark.parametrize("dashboard", ALL, ids=lambda one: one.uid)
def test_every_variable_in_a_query_is_declared(dashboard: Dashboard) -> None:
    known = {"datasource"} | {variable.name for variable in dashboard.variables}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(as_json(dashboard)))) <= known | {"__all"}


def test_dashboards_are_config_maps_with_the_sidecars_label() -> None:
    def config_maps(monitoring: dict[str, Any]) -> dict[str, Any]:
        objects = manifests.monitoring_objects(planned(monitoring))
        return {one["metadata"]["name"]: one for one in objects if one["kind"] == "ConfigMap"}

    found = config_maps(STACK | {"namespace": "m"})
    assert set(found) == set(IDS)
    for uid, one in found.items():
        assert one["metadata"]["labels"] == {"grafana_dashboard": "1"}
        assert one["metadata"]["namespace"] == "m"
        (content,) = one["data"].values()
        assert json.loads(content)["uid"] == uid
        assert len(content) < 900_000, "a ConfigMap holds a mebibyte"
    assert config_maps(STACK | {"dashboards": False}) == {}


@pytest.mark.parametrize("dashboard", ALL, ids=lambda one: one.uid)
def test_every_dashboard_field_is_in_grafanas_types(dashboard: Dashboard) -> None:
    """What they do not know they drop, and what they read otherwise they write otherwise."""
    plugins.register_default_plugins()
    written = json.loads(json.dumps(as_json(dashboard)))
    read = json.loads(JSONEncoder().encode(grafana.Dashboard.from_json(written)))
    assert _within(written, read) == written
    # That it is noticed: of a field with another name nothing is left.
    written["panels"][0]["titel"] = "a"
    again = json.loads(JSONEncoder().encode(grafana.Dashboard.from_json(written)))
    assert _within(written, again) != written


def _within(wanted: Any, found: Any) -> Any:
    """found, without the defaults that it has besides."""
    match wanted, found:
        case dict(), dict():
            return {key: _within(wanted[key], found[key]) for key in wanted if key in found}
        case list(), list() if len(wanted) == len(found):
            return [_within(*pair) for pair in zip(wanted, found, strict=True)]
        case _:
            return found
