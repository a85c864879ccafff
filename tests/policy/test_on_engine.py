"""The pack as people run it: `--policy-pack`, with the real engine and the simulated clouds."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.plugins.engine import language_host
from tests.infra.cloud_engine import CloudEngine, cloud_engine

PACK = Path(__file__).resolve().parents[2] / "policy"
GKE_POOL = {
    "name": "a",
    "machine_type": "a2-highgpu-1g",
    "zones": ["us-central1-c"],
    "partition": {"mode": "native", "profile": "1g.5gb"},
    "nodes": {"count": 2},
}
NETWORKS = {
    "control_plane": {"authorized_networks": [{"cidr": "203.0.113.0/24", "name": "office"}]}
}
GKE = {"cloud": "gke", "cluster": {"name": "main", "location": "us-central1"}}
EKS = {
    "cloud": "eks",
    "cluster": {"name": "main", "region": "eu-west-1", "zones": ["eu-west-1a", "eu-west-1b"]},
    "node_pools": [
        {
            "name": "a",
            "machine_type": "p4d.24xlarge",
            "partition": {"mode": "operator", "config": "all-1g.5gb"},
            "nodes": {"min": 0, "max": 9},
        }
    ],
}


@pytest.fixture(scope="module")
def engine(
    tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain, policy_environment: Path
) -> Iterator[CloudEngine]:
    with cloud_engine(tmp_path_factory.mktemp("engine"), toolchain) as engine:
        # The engine runs a pack by the language host, of which it wants to see a program first.
        host = engine.directory.parent / "bin" / "pulumi-language-python"
        host.parent.mkdir()
        host.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m {language_host.__name__} \"$@\"\n")
        host.chmod(0o755)
        path = f"{host.parent}:{engine.variables['PATH']}"
        yield replace(engine, variables={**engine.variables, "PATH": path})


def gke(cluster: Mapping[str, Any], **pool: Any) -> Mapping[str, Any]:
    return {**GKE, "cluster": {**GKE["cluster"], **cluster}, "node_pools": [{**GKE_POOL, **pool}]}  # type: ignore[dict-item]


def with_pack(directory: Path, **settings: Any) -> tuple[str, ...]:
    config = directory / "policy.json"
    config.write_text(json.dumps({name.replace("_", "-"): s for name, s in settings.items()}))
    return ("--policy-pack", str(PACK), "--policy-pack-config", str(config))


def violated(output: str) -> set[str]:
    """Names of mandatory rules that the engine says are broken."""
    return set(re.findall(r"\[mandatory\] +([\w-]+)", output))


def test_a_preview_fails_until_the_stack_keeps_to_the_pack(
    engine: CloudEngine, tmp_path: Path
) -> None:
    flags = with_pack(tmp_path, pool_size={"most_nodes": 2})
    refused = engine.preview(gke({}, nodes={"count": 3}), *flags)
    assert refused.code != 0
    assert violated(refused.output) == {"cluster-endpoint", "pool-size"}, refused.output
    assert "pool 'a' may have 3 nodes, and most_nodes is 2" in refused.output

    kept = engine.preview(gke(NETWORKS), *flags)
    assert (kept.code, violated(kept.output)) == (0, set()), kept.output
    assert "cluster-protected" in kept.output, "an advisory rule is told of, and stops nothing"
    assert "can't run policy" not in kept.output


def test_an_up_makes_nothing_that_a_rule_refuses(engine: CloudEngine, tmp_path: Path) -> None:
    asked = gke(NETWORKS, capacity="spot")
    up = engine.up(asked, *with_pack(tmp_path, pool_spot={"allowed": ["batch-*"]}))
    assert up.code != 0
    assert "pool-spot" in violated(up.output), up.output
    assert "gke-a" not in up.steps
    assert engine.up(asked, *with_pack(tmp_path)).code == 0
    assert engine.destroy().code == 0


def test_the_config_files_that_come_with_the_pack_are_accepted(engine: CloudEngine) -> None:
    def refused_by(config: str) -> set[str]:
        file = PACK / "config" / f"{config}.json"
        ran = engine.preview(EKS, "--policy-pack", str(PACK), "--policy-pack-config", str(file))
        assert "invalid policy configuration" not in ran.output.lower()
        assert (ran.code != 0) == bool(violated(ran.output)), ran.output
        return violated(ran.output)

    assert refused_by("development") == {"fleet-size"}
    assert refused_by("production") == {
        *("cluster-endpoint", "fleet-size", "pool-labelled", "pool-size", "resource-labelled"),
    }


def test_a_setting_of_a_wrong_kind_is_refused_by_name(engine: CloudEngine, tmp_path: Path) -> None:
    ran = engine.preview(gke(NETWORKS), *with_pack(tmp_path, pool_size={"most_nodes": "many"}))
    assert ran.code != 0
    assert "most_nodes" in ran.output


def test_the_stack_itself_is_judged_by_its_file(engine: CloudEngine, tmp_path: Path) -> None:
    """The checkout of the pack has no file of this test's stack."""
    flags = with_pack(tmp_path, stack_secrets={"allowed": ["awskms://*"]})
    ran = engine.preview(gke(NETWORKS), *flags)
    assert (ran.code != 0, violated(ran.output)) == (True, {"stack-secrets"}), ran.output
    assert "its stack file cannot be read" in ran.output
