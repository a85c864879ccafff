"""A stand-in for a chart, written out as a chart of Helm's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.plugins.charts import find, packaging
from slicewright.rehearsal.plugins.charts.gpu_operator import VERSION

CHART = find("gpu-operator", repository="https://helm.ngc.nvidia.com/nvidia", version=None)
HOOK = "helm.sh/hook"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("chart")
    packaging.write(CHART, {}, release="ours", namespace="gpus", directory=directory)
    return directory


def read(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(directory.iterdir())]


def test_helm_reads_its_name_and_version(directory: Path) -> None:
    described = json.loads((directory / "Chart.yaml").read_text())
    assert (described["name"], described["version"]) == ("gpu-operator", VERSION)
    assert described["apiVersion"] == "v2"


def test_it_installs_what_the_stand_in_renders_for_these_values(directory: Path) -> None:
    written = read(directory / "manifests")
    installed = [one for one in written if HOOK not in one["metadata"].get("annotations", {})]
    assert installed == CHART.render({}, "ours", "gpus")
    assert read(directory / "crds") == CHART.crds()


def test_its_hooks_are_helms(directory: Path) -> None:
    hooks = {
        one["metadata"]["annotations"][HOOK]
        for one in read(directory / "manifests")
        if HOOK in one["metadata"].get("annotations", {})
    }
    assert hooks == {"pre-upgrade", "post-delete"}


def test_manifests_are_not_evaluated_as_templates(directory: Path) -> None:
    (template,) = (directory / "templates").iterdir()
    assert ".Files.Get" in template.read_text()
    assert "nvidia" not in template.read_text()
