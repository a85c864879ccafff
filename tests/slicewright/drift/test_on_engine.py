"""`slicewright drift` with the real engine and the simulated GKE, without an API server."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright import cli
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import PROJECT, CloudEngine, cloud_engine

POOL: dict[str, Any] = {
    "name": "a100",
    "machine_type": "a2-highgpu-1g",
    "zones": ["us-central1-c"],
    "partition": {"mode": "native", "profile": "1g.5gb"},
    "nodes": {"count": 2},
}
GROUP = f"projects/{PROJECT}/locations/us-central1/clusters/main/nodePools/a100"
WHERE = "gcp:container/nodePool:NodePool gke-a100"


def fleet(**more: Any) -> dict[str, Any]:
    cluster = {"name": "main", "location": "us-central1"}
    return {"cloud": "gke", "cluster": cluster, "node_pools": [{**POOL, **more}]}


@pytest.fixture
def engine(
    tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CloudEngine]:
    """A stack that is up, in whose project the command is run as a user would."""
    with cloud_engine(tmp_path_factory.mktemp("engine"), toolchain) as engine:
        up = engine.up(fleet())
        assert up.code == 0, up.output
        programs = engine.directory.parent / "bin"
        programs.mkdir()
        (programs / "pulumi").symlink_to(engine.pulumi)
        for name, value in engine.variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PATH", f"{programs}:{engine.variables['PATH']}")
        monkeypatch.chdir(engine.directory)
        declare(engine, fleet())
        yield engine


def declare(engine: CloudEngine, asked: dict[str, Any]) -> None:
    """The engine keeps its own settings in the stack's file."""
    file = engine.directory / "Pulumi.dev.yaml"
    settings = (yaml.safe_load(file.read_text()) if file.exists() else None) or {}
    (engine.directory / "fleet.json").write_text(json.dumps(asked))
    config = {**settings.get("config", {}), "slicewright:fleet": asked}
    file.write_text(json.dumps({**settings, "config": config}))  # JSON is YAML


def drift(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = cli.main(["drift", "-s", "dev", "--json"])
    return code, json.loads(capsys.readouterr().out)


def resize_by_hand(engine: CloudEngine, count: int) -> None:
    operation = "projects.locations.clusters.nodePools.setSize"
    engine.cloud.call("container", operation, {"name": GROUP}, {"nodeCount": count})
    deadline = time.monotonic() + 120
    label = "cloud.google.com/gke-nodepool"
    while sum(n["metadata"]["labels"][label] == "a100" for n in engine.nodes("main")) != count:
        assert time.monotonic() < deadline
        engine.cloud.look_around()
        time.sleep(0.02)


def test_drift_of_program_and_cloud_is_reported_beside_unseen_resources_and_repaired(
    engine: CloudEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    # Without an API server the GPUs cannot be seen: that is not "no drift".
    code, said = drift(capsys)
    assert (code, said["state"], said["findings"]) == (cli.CANNOT_RUN, "unseen", [])
    (unseen,) = said["unseen"]
    assert unseen["between"] == "layout and silicon"
    assert "no readable kubeconfig" in unseen["why"]

    resize_by_hand(engine, 1)
    declare(engine, fleet(resource_labels={"owner": "ml"}))
    before = engine._pulumi("stack", "export", "--stack", "dev").output
    code, said = drift(capsys)
    assert code == cli.NOT_VERIFIED
    found = {(f["between"], f["where"]): f for f in said["findings"]}
    assert set(found) == {("program and state", WHERE), ("state and cloud", WHERE)}
    cloud = found["state and cloud", WHERE]
    assert cloud["what"] == "nodeCount: 2 → 1"
    assert "esourceLabels" in found["program and state", WHERE]["what"]
    assert cloud["heal"] == "pulumi up --refresh --stack dev"
    assert engine._pulumi("stack", "export", "--stack", "dev").output == before, "only looked"
    assert len(engine.nodes("main")) == 2, "one of the pool, one of the system's"

    healed = engine.up(fleet(resource_labels={"owner": "ml"}), "--refresh")
    assert healed.code == 0, healed.output
    code, said = drift(capsys)
    assert (code, said["findings"]) == (cli.CANNOT_RUN, [])


def test_a_program_that_fails_is_not_compared_and_the_rest_is(
    engine: CloudEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    resize_by_hand(engine, 1)
    (engine.directory / "__main__.py").write_text("raise SystemExit('the program is broken')\n")
    code, said = drift(capsys)
    assert code == cli.NOT_VERIFIED
    assert {f["between"] for f in said["findings"]} == {"state and cloud"}
    assert "program and state" in {u["between"] for u in said["unseen"]}


def test_a_missing_pulumi_or_stack_is_one_line(
    engine: CloudEngine,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    capsys.readouterr()
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    assert cli.main(["drift", "-s", "dev"]) == cli.CANNOT_RUN
    assert "stack dev does not exist" in capsys.readouterr().err
    monkeypatch.setenv("PATH", "/nonexistent")
    assert cli.main(["drift", "-s", "dev"]) == cli.CANNOT_RUN
    assert "cannot start pulumi" in capsys.readouterr().err
