"""Node pools that exist become a stack's: preview, import, and nothing is replaced."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import manifests, plan, stack_file
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import CloudEngine, cloud_engine

GKE: dict[str, Any] = {
    "cloud": "gke",
    "cluster": {"name": "main", "location": "us-central1"},
    "node_pools": [
        {
            "name": name,
            "machine_type": "a2-highgpu-1g",
            "zones": [f"us-central1-{zone}"],
            "nodes": nodes,
            "partition": {"mode": "native", "profile": "1g.5gb"},
            "taints": [{"key": "team", "value": "vision", "effect": "NoSchedule"}],
        }
        for name, zone, nodes in (("one", "c", {"count": 1}), ("two", "f", {"min": 1, "max": 3}))
    ],
}
EKS: dict[str, Any] = {
    "cloud": "eks",
    "cluster": {"name": "main", "region": "us-west-2", "zones": ["us-west-2a", "us-west-2b"]},
    "node_pools": [
        {
            "name": name,
            "machine_type": "p4d.24xlarge",
            "nodes": nodes,
            "partition": {"mode": "operator", "layout": {"1g.5gb": 7}},
            "taints": [{"key": "team", "value": "vision", "effect": "NoSchedule"}],
        }
        for name, nodes in (("one", {"count": 1}), ("two", {"min": 1, "max": 3}))
    ],
}


@pytest.fixture(
    params=[
        pytest.param(
            GKE, marks=pytest.mark.long("on EKS: tests/infra/on_engine/test_adoption.py"), id="gke"
        ),
        pytest.param(EKS, id="eks"),
    ]
)
def stack(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    toolchain: Toolchain,
) -> Iterator[tuple[CloudEngine, dict[str, Any]]]:
    fleet = request.param
    with cloud_engine(tmp_path_factory.mktemp(fleet["cloud"]), toolchain) as engine:
        engine.deploy(fleet)
        yield engine, fleet


def adopting(fleet: dict[str, Any], preview: Path, *names: str) -> dict[str, Any]:
    planned = plan.read(json.dumps(fleet), stack_file.Source("fleet.json", fleet))
    assert not isinstance(planned, plan.ExistingFleetPlan)
    text = preview.read_text()
    return manifests.import_file(planned, "slicewright-test", json.loads(text), names)


def test_pools_that_the_state_does_not_have_are_adopted_as_they_are(
    stack: tuple[CloudEngine, dict[str, Any]], tmp_path: Path
) -> None:
    engine, fleet = stack
    before = engine.nodes("main")
    for name in ("one", "two"):
        engine.forget(f"{fleet['cloud']}-{name}")
    seen = tmp_path / "preview.json"
    preview = engine.preview(fleet, "--import-file", str(seen))
    assert preview.code == 0, preview.output
    file = tmp_path / "import.json"
    file.write_text(json.dumps(adopting(fleet, seen)))
    imported = engine.import_resources(file)
    assert imported.code == 0, imported.output
    wanted = engine.preview(fleet)
    assert wanted.code == 0, wanted.output
    assert "replace" not in wanted.output
    assert "create" not in wanted.output
    # GKE's taints are not read by an import, and are written again.
    engine.deploy_and_settle(fleet)
    assert engine.nodes("main") == before
