"""`slicewright import-file`: what it keeps of a preview's import file, and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli

ROOT = Path(__file__).resolve().parents[2]
PROVIDER = {"type": "pulumi:providers:gcp", "name": "gcp", "inputs": {"region": "us-central1"}}
PARENT = {"type": "slicewright:index:GkeCluster", "name": "gke", "component": True}
CLUSTER = {
    "type": "gcp:container/cluster:Cluster",
    "name": "gkeCluster",
    "logicalName": "gke",
    "id": "<PLACEHOLDER>",
    "parent": "gke",
    "provider": "gcp",
}
POOL = {
    "type": "gcp:container/nodePool:NodePool",
    "name": "gke-h100-partition-3g",
    "id": "<PLACEHOLDER>",
    "parent": "gke",
    "provider": "gcp",
}
ID = "projects/slicewright-gke-h100/locations/us-central1/clusters/main/nodePools/h100-partition-3g"
URN = "urn:pulumi:s0::slicewright::slicewright:index:GkeCluster::gke"


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def written(directory: Path, preview: Any) -> str:
    file = directory / "preview.json"
    file.write_text(preview if isinstance(preview, str) else json.dumps(preview))
    return str(file)


def test_a_pool_gets_its_id_and_comes_with_its_parent_and_provider(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preview = written(tmp_path, {"resources": [PROVIDER, PARENT, CLUSTER, POOL]})
    assert cli.main(["import-file", "-s", "gke-h100", preview]) == cli.VERIFIED
    found = json.loads(capsys.readouterr().out)
    assert found == {"nameTable": {}, "resources": [PROVIDER, PARENT, {**POOL, "id": ID}]}


def test_names_in_the_state_that_pools_use_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = {"gke": URN, "gcp": "urn:gcp", "kubernetes": "urn:kubernetes"}
    preview = written(tmp_path, {"nameTable": table, "resources": [POOL]})
    assert cli.main(["import-file", "-s", "gke-h100", preview, "h100-partition-3g"]) == cli.VERIFIED
    found = json.loads(capsys.readouterr().out)
    assert found["nameTable"] == {"gke": URN, "gcp": "urn:gcp"}


@pytest.mark.parametrize(
    ("stack", "preview", "pools", "said"),
    [
        ("gke-h100", {"resources": [POOL]}, ["a100"], "the stack has no pool a100, only h100-"),
        ("gke-h100", {"resources": [POOL]}, ["system"], "the preview does not create pool system"),
        ("gke-h100", {"resources": [CLUSTER]}, [], "the preview creates none of the stack's pools"),
        ("gke-h100", {"nameTable": {}}, [], "it has no list `resources`"),
        ("gke-h100", {"resources": [1]}, [], "it has no list `resources`"),
        ("gke-h100", "{", [], "is not a JSON object"),
        ("gke-h100", "[]", [], "is not a JSON object"),
        ("existing-a100-t4", {"resources": []}, [], "existing-a100-t4 has cloud: byo"),
        ("missing", {"resources": []}, [], "Pulumi.missing.yaml"),
    ],
)
def test_wrong_use_leaves_stdout_empty(
    stack: str,
    preview: Any,
    pools: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = written(tmp_path, preview)
    assert cli.main(["import-file", "-s", stack, file, *pools]) == cli.BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_a_missing_preview_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["import-file", "-s", "gke-h100", "/nonexistent"]) == cli.BAD_INPUT
    assert "/nonexistent: No such file or directory" in capsys.readouterr().err


def test_the_id_is_unknown_without_a_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "stacks" / "Pulumi.gke-h100.yaml").read_text()
    file = tmp_path / "Pulumi.gke-h100.yaml"
    file.write_text(text.replace("  gcp:project: slicewright-gke-h100\n", ""))
    preview = written(tmp_path, {"resources": [POOL]})
    assert cli.main(["import-file", "-s", str(file), preview]) == cli.BAD_INPUT
    assert "has no gcp:project" in capsys.readouterr().err
