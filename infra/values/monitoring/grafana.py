"""Dashboards as typed data, and Grafana's JSON for them.

Source: Grafana docs, dashboard JSON model; kube-prometheus-stack, values.yaml: grafana.sidecar.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from infra.values.text import JsonObject

Unit = Literal["short", "percentunit", "bytes", "s", "reqps", "watt", "celsius", "none"]
"""Grafana's names of units."""
_COLUMNS: Final = 24
_HEIGHT: Final = 8
_SCHEMA: Final = 39
"""The JSON schema version of Grafana 11, which later versions read."""
_LABEL: Final = {"grafana_dashboard": "1"}
"""The label of dashboards, for the chart's sidecar."""
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, kw_only=True)
class Query:
    expr: str
    legend: str = ""
    """The legend's template; labels are written as `{{pool}}`."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    title: str
    queries: tuple[Query, ...]
    what: str = ""
    """How it is read, where the title does not say it."""
    unit: Unit = "short"
    kind: Literal["timeseries", "stat", "table", "bargauge"] = "timeseries"
    most: float | None = None
    """The end of its scale; None: as the values are."""
    width: int = 12
    """The number of columns, of 24."""


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A viewer's choice: the values of a label."""

    name: str
    metric: str
    """The metric, with matchers if the values depend on an earlier variable."""
    several: bool = True


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    uid: str
    title: str
    variables: tuple[Variable, ...] = ()
    panels: tuple[Panel, ...]


def config_map(dashboard: Dashboard, *, namespace: str) -> JsonObject:
    """What Grafana's sidecar loads."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": dashboard.uid, "namespace": namespace, "labels": dict(_LABEL)},
        "data": {f"{dashboard.uid}.json": json.dumps(as_json(dashboard), indent=1)},
    }


def as_json(dashboard: Dashboard) -> JsonObject:
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["slicewright"],
        "schemaVersion": _SCHEMA,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                *map(_variable, dashboard.variables),
            ]
        },
        "panels": list(_placed(dashboard.panels)),
    }


def _variable(variable: Variable) -> JsonObject:
    query = f"label_values({variable.metric}, {variable.name})"
    chosen: JsonObject = {"text": "All", "value": "$__all"} if variable.several else {}
    return {
        "name": variable.name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": variable.several,
        "includeAll": variable.several,
        "current": chosen,
    }


def _placed(panels: Sequence[Panel]) -> Iterator[JsonObject]:
    """Places panels from left to right, and starts a new row when a row is full."""
    x = y = 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > _COLUMNS:
            x, y = 0, y + _HEIGHT
        yield _panel(panel, number) | {"gridPos": {"x": x, "y": y, "w": panel.width, "h": _HEIGHT}}
        x += panel.width


def _panel(panel: Panel, number: int) -> JsonObject:
    limits = {"min": 0, **({"max": panel.most} if panel.most is not None else {})}
    tabular = panel.kind == "table"
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.what,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, **limits}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + i),
                "datasource": _SOURCE,
                "expr": query.expr,
                "legendFormat": query.legend or "__auto",
                "instant": panel.kind != "timeseries",
                "range": panel.kind == "timeseries",
                "format": "table" if tabular else "time_series",
            }
            for i, query in enumerate(panel.queries)
        ],
        **({"transformations": [{"id": "merge", "options": {}}]} if tabular else {}),
    }
