"""A stand-in for a chart as a directory that Helm itself installs, for one release with one set of
values: what it renders, and the hooks, are written out.

For Pulumi's own kubernetes provider, which reads charts by Helm's code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from kubeapi import JsonObject
from rehearsal.plugins.charts import Chart

_TEMPLATE: Final = """\
{{- range $path, $_ := .Files.Glob "manifests/*.json" }}
---
{{ $.Files.Get $path }}
{{- end }}
"""
"""Helm evaluates templates, and not the files that they read: manifests may contain {{."""


def write(
    chart: Chart, values: Mapping[str, Any], *, release: str, namespace: str, directory: Path
) -> None:
    """The values must have passed the chart's `check`."""
    assert not chart.removed_crds(values), "no Job deletes them before the release"
    _write(
        directory / "Chart.yaml",
        {
            "apiVersion": "v2",
            "name": chart.name,
            "version": chart.version,
            "appVersion": chart.app_version,
        },
    )
    _write_all(directory / "crds", chart.crds())
    (directory / "templates").mkdir()
    (directory / "templates" / "all.yaml").write_text(_TEMPLATE)
    _write_all(
        directory / "manifests",
        [
            *chart.render(values, release, namespace),
            *chart.before_upgrade(values, namespace),
            *chart.after_delete(values, release, namespace),
        ],
    )


def _write_all(directory: Path, made: Iterable[JsonObject]) -> None:
    for number, one in enumerate(made):
        _write(directory / f"{number:03}-{one['kind'].lower()}.json", one)


def _write(path: Path, content: JsonObject) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1))
