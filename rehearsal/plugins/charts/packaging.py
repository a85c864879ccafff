"""A stand-in for a chart as a directory that Helm itself installs, for one release with one set of
values: what it renders, and the hooks, are written out. A chart that is a part of it may be the
publisher's own.

For Pulumi's own kubernetes provider, which reads charts by Helm's code.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.charts import Chart

_TEMPLATE: Final = """\
{{- range $path, $_ := .Files.Glob "manifests/*.json" }}
---
{{ $.Files.Get $path }}
{{- end }}
"""
"""Helm evaluates templates, and not the files that they read: manifests may contain {{."""
_NAME: Final = "app.kubernetes.io/name"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A chart inside the chart, in place of the objects that carry its name."""

    name: str
    chart: Path
    """The directory of it."""
    version: str
    """Of its Chart.yaml."""
    enabled_by: str
    """The value that turns it on: `nfd.enabled`."""
    settings: Mapping[str, Any]
    """What the chart around it sets for it by default."""


def write(
    chart: Chart,
    values: Mapping[str, Any],
    *,
    release: str,
    namespace: str,
    directory: Path,
    part: Part | None = None,
) -> None:
    """The values must have passed the chart's `check`."""
    assert not chart.removed_crds(values), "no Job deletes them before the release"
    described: JsonObject = {
        "apiVersion": "v2",
        "name": chart.name,
        "version": chart.version,
        "appVersion": chart.app_version,
    }
    if part is not None:
        dependency = {"name": part.name, "version": part.version, "condition": part.enabled_by}
        described["dependencies"] = [{**dependency, "repository": ""}]
        _write(directory / "values.yaml", {part.name: part.settings})
        copy = directory / "charts" / part.name
        shutil.copytree(part.chart, copy)
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)  # in Go's module cache all is read-only
    _write(directory / "Chart.yaml", described)
    _write_all(directory / "crds", chart.crds())
    (directory / "templates").mkdir()
    (directory / "templates" / "all.yaml").write_text(_TEMPLATE)
    _write_all(
        directory / "manifests",
        [
            manifest
            for manifest in (
                *chart.render(values, release, namespace),
                *chart.before_upgrade(values, namespace),
                *chart.after_delete(values, release, namespace),
            )
            if part is None or (manifest["metadata"].get("labels") or {}).get(_NAME) != part.name
        ],
    )


def _write_all(directory: Path, manifests: Iterable[JsonObject]) -> None:
    for number, manifest in enumerate(manifests):
        _write(directory / f"{number:03}-{manifest['kind'].lower()}.json", manifest)


def _write(path: Path, content: JsonObject) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1))
