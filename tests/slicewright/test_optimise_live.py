"""`slicewright optimise --current --live`: the nodes that the pools have in the cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.cli import main
from slicewright.exit_codes import CANNOT_RUN, VERIFIED
from slicewright.kubeapi import ApiError
from slicewright.live.access import Access
from tests.slicewright.live.hostile import NODES, POOLS, REPORTS, Server

STACK = """
config:
  slicewright:fleet:
    cloud: eks
    cluster: { name: demand, region: us-east-1 }
    node_pools:
      - name: p
        machine_type: p5.48xlarge
        nodes: { min: 0, max: 9 }
        partition: { mode: operator, layout: { 1g.10gb: 7 } }
      - name: q
        machine_type: p5.48xlarge
        nodes: { count: 5 }
        partition: { mode: operator, layout: { 3g.40gb: 2 } }
      - name: not-created-yet
        machine_type: p5.48xlarge
        nodes: { count: 1 }
        partition: { mode: operator, layout: { 2g.20gb: 3 } }
    demand:
      machine_types: [p5.48xlarge]
      classes:
        - { name: embed, replicas: 112, profiles: [1g.10gb] }
        - { name: chat, replicas: 32, profiles: [3g.40gb] }
"""
Optimise = Callable[..., int]


@pytest.fixture
def server() -> Server:
    """The pools p and q with two nodes each."""
    return Server()


@pytest.fixture
def optimise(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Optimise:
    kubeconfig = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://c"}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    (tmp_path / "Pulumi.demand.yaml").write_text(STACK)
    monkeypatch.setattr(Access, "client", lambda _: server)

    def run(*words: str) -> int:
        named = [str(tmp_path / "Pulumi.demand.yaml"), "--kubeconfig", str(tmp_path / "kubeconfig")]
        return main(["optimise", *named, "--current", "--live", *words])

    return run


def _changes(answer: dict[str, Any]) -> dict[str, tuple[str, int, int]]:
    return {
        entry["pool"]: (entry["change"], entry["nodes_before"], entry["nodes_after"])
        for entry in answer["changes"]
    }


def test_pools_count_with_the_nodes_of_the_cluster(
    optimise: Optimise, tmp_path: Path, capsys: pytest.CaptureFixture[str], server: Server
) -> None:
    """The autoscaled pool keeps its bounds. The fixed one has fewer nodes than stated, and needs no
    more: the number is written.
    """
    pools = tmp_path / "pools.yaml"
    assert optimise("--json", "-o", str(pools)) == VERIFIED
    answer = json.loads(capsys.readouterr().out)
    assert _changes(answer) == {
        "p": ("stays", 2, 2),
        "q": ("stays", 2, 2),
        "not-created-yet": ("goes", 0, 0),
    }
    assert answer["usd_per_hour_today"] == answer["usd_per_hour"]
    written = yaml.safe_load(pools.read_text())["node_pools"]
    assert {pool["name"]: pool["nodes"] for pool in written} == {
        "p": {"min": 0, "max": 9},
        "q": {"count": 2},
    }
    assert server.patched == []


def test_a_pool_that_grows_beyond_its_bounds_gets_a_fixed_number(
    optimise: Optimise, tmp_path: Path, server: Server
) -> None:
    file, pools = tmp_path / "Pulumi.demand.yaml", tmp_path / "pools.yaml"
    file.write_text(STACK.replace("max: 9", "max: 1"))
    assert optimise("-o", str(pools)) == VERIFIED
    assert yaml.safe_load(pools.read_text())["node_pools"][0]["nodes"] == {"count": 2}


@pytest.mark.parametrize("path", [POOLS, NODES])
def test_a_cluster_that_refuses_is_one_message(
    optimise: Optimise,
    server: Server,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    get = server.get

    def refuse(asked: str, **query: str) -> Any:
        if asked == path:
            raise ApiError(403, {"message": "it is forbidden"})
        return get(asked, **query)

    monkeypatch.setattr(server, "get", refuse)
    assert optimise() == CANNOT_RUN
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("slicewright optimise: context test (https://c): HTTP 403")


def test_an_object_that_cannot_be_read_is_named(
    optimise: Optimise, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its pool would seem to have no nodes. A report that cannot be read counts no nodes."""
    server.items[REPORTS][0]["report"]["time"] = "a while ago"
    assert optimise() == VERIFIED
    capsys.readouterr()
    server.items[POOLS][0]["spec"]["layoutHash"] = None
    assert optimise() == CANNOT_RUN
    assert "GPUPool p cannot be read: spec.layoutHash is missing" in capsys.readouterr().err
