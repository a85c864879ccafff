"""Dashboards as typed data, and Grafana's JSON for them.

Source: Grafana docs, dashboard JSON model; kube-prometheus-stack, values.yaml: grafana.sidecar.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from slicewright.infra.manifests.text import JsonObject

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
    """The legend's template. Labels are written as `{{pool}}`."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    title: str
    queries: tuple[Query, ...]
    description: str = ""
    """Explains the panel, if its title is not enough."""
    unit: Unit = "short"
    kind: Literal["timeseries", "stat", "table", "bargauge"] = "timeseries"
    maximum: float | None = None
    """The end of the scale. None: Grafana chooses it by the values."""
    width: int = 12
    """The number of columns, of 24."""


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A choice of the viewer among the values of a label."""

    name: str
    metric: str
    """The metric, with matchers if the values depend on an earlier variable."""
    multiple: bool = True
    """True if the viewer may choose several values."""


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    uid: str
    title: str
    variables: tuple[Variable, ...] = ()
    panels: tuple[Panel, ...]


def config_map(dashboard: Dashboard, *, namespace: str) -> JsonObject:
    """The JSON that Grafana's sidecar loads."""
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
    chosen: JsonObject = {"text": "All", "value": "$__all"} if variable.multiple else {}
    return {
        "name": variable.name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": variable.name},
        "refresh": 2,
        "sort": 1,
        "multi": variable.multiple,
        "includeAll": variable.multiple,
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
    limits = {"min": 0, **({"max": panel.maximum} if panel.maximum is not None else {})}
    tabular = panel.kind == "table"
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
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
