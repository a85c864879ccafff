"""NVIDIA's device plugin reads the rendered sharing as it is meant, and knows all of its keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests, plan, stack_file

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.toolchain
MIXED = """\
cloud: eks
cluster: {name: c, region: eu-west-1}
node_pools:
- {name: a, machine_type: p4d.24xlarge, nodes: {count: 1}, partition: {mode: operator,
    config: all-1g.5gb},
   sharing: {mode: time-slicing, replicas: 4, rename_by_default: true,
       fail_requests_greater_than_one: false}}
- {name: media, machine_type: p4d.24xlarge, nodes: {count: 1}, partition: {mode: operator,
    layout: {1g.5gb+me: 1, 1g.5gb: 6}},
   sharing: {mode: time-slicing, replicas: {mig-1g.5gb.me: 2}}}
"""
SINGLE = """\
cloud: eks
cluster: {name: c, region: eu-west-1}
gpu_operator: {mig_strategy: single, device_plugin: {version: v0.20.2}}
node_pools:
- {name: mps, machine_type: g4dn.xlarge, nodes: {count: 1}, sharing: {mode: mps, replicas: 12}}
"""


def fleets() -> list[plan.FleetPlan]:
    raws = [yaml.safe_load(text) for text in (MIXED, SINGLE)]
    raws.append(
        yaml.safe_load((ROOT / "stacks" / "Pulumi.existing-a100-t4.yaml").read_text())["config"][
            "slicewright:fleet"
        ]
    )
    return [plan.read(json.dumps(raw), stack_file.Source("test", raw)) for raw in raws]


def test_nvidias_plugin_parses_each_config_as_planned(
    cross_check: Callable[..., str], tmp_path: Path
) -> None:
    meant: dict[str, plan.PoolPlan] = {}
    for fleet in fleets():
        for name, config in manifests.plugin_configs(fleet.pools).items():
            if name == manifests.NOT_SHARED:
                continue
            file = tmp_path / f"{name}.yaml"
            file.write_text(manifests.as_yaml(config))
            meant[str(file)] = next(p for p in fleet.pools if p.name == name)
    read: dict[str, Any] = json.loads(cross_check("pluginconfig", *map(Path, meant)))
    assert set(read) == set(meant)
    assert len(meant) == 5
    for file, verdict in read.items():
        assert (verdict["Error"], verdict["Unknown"]) == ("", "")
        pool, sharing = meant[file], verdict["Config"]["sharing"]
        kind = "mps" if pool.offer.sharing[0].strategy == "mps" else "timeSlicing"
        found = {
            r["name"]: (r["replicas"], r.get("rename", r["name"]))
            for r in sharing[kind]["resources"]
        }
        assert found == {
            share.resource: (share.replicas, share.advertised) for share in pool.offer.sharing
        }
        assert (
            sharing[kind].get("failRequestsGreaterThanOne", False)
            == pool.offer.sharing[0].fail_requests_greater_than_one
        )


def test_nodes_without_sharing_have_a_config_too(
    cross_check: Callable[..., str], tmp_path: Path
) -> None:
    raw = yaml.safe_load(SINGLE)
    whole = {"name": "whole", "machine_type": "g4dn.xlarge", "nodes": {"count": 1}}
    raw["node_pools"].append(whole)
    configs = manifests.plugin_configs(
        plan.read(json.dumps(raw), stack_file.Source("test", raw)).pools
    )
    assert set(configs) == {manifests.NOT_SHARED, "mps", "whole"}
    for name in ("whole", manifests.NOT_SHARED):
        file = tmp_path / f"{name}.yaml"
        file.write_text(manifests.as_yaml(configs[name]))
        verdict = json.loads(cross_check("pluginconfig", file))[str(file)]
        assert (verdict["Error"], verdict["Unknown"]) == ("", "")
        assert not verdict["Config"]["sharing"].get("timeSlicing", {}).get("resources")
