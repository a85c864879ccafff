"""How EKS recreates and repairs the nodes of a pool, as the stack file says it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, stack_file
from slicewright.rehearsal.clouds.aws.eks.checks import check_repair_config, check_update_config
from tests.recorder import Made

FLEET = """\
cloud: eks
cluster: {{name: c, region: us-west-2}}
node_pools:
- {{name: a, machine_type: p4d.24xlarge, nodes: {{count: 4}}, {pool}}}
"""
RULE = "{condition: KernelReady, reason: SoftLockup, wait_minutes: 9, action: none}"


def notes(pool: str) -> str:
    raw = yaml.safe_load(FLEET.format(pool=pool))
    return "\n".join(plan.notes(plan.read(json.dumps(raw), stack_file.Source("test", raw))))


def group(record_cloud: Callable[..., list[Made]], pool: str) -> Mapping[str, Any]:
    (found,) = (
        m.inputs
        for m in record_cloud("test", fleet=FLEET.format(pool=pool))
        if m.type.endswith(":NodeGroup") and m.name == "eks-a"
    )
    return found


@pytest.mark.parametrize(
    ("pool", "config"),
    [
        ("labels: {}", {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}),
        ("rollout: {max_unavailable: 3}", {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}),
        ("update: {strategy: default}", {"maxUnavailable": 1, "updateStrategy": "DEFAULT"}),
        ("update: {max_unavailable: 2}", {"maxUnavailable": 2, "updateStrategy": "MINIMAL"}),
        (
            "update: {max_unavailable: 50%}",
            {"maxUnavailablePercentage": 50, "updateStrategy": "MINIMAL"},
        ),
        (
            "update: {max_unavailable: 3}, rollout: {max_unavailable: 3}",
            {"maxUnavailable": 3, "updateStrategy": "MINIMAL"},
        ),
    ],
)
def test_the_update_config_has_the_limit_of_the_stack_file(
    record_cloud: Callable[..., list[Made]], pool: str, config: dict[str, Any]
) -> None:
    found = group(record_cloud, pool)
    assert found["updateConfig"] == config
    check_update_config(found["updateConfig"])
    assert "nodeRepairConfig" not in found


def test_repair_is_sent_only_if_declared(record_cloud: Callable[..., list[Made]]) -> None:
    found = group(record_cloud, "repair: {}")["nodeRepairConfig"]
    assert found == {"enabled": True}
    assert group(record_cloud, "repair: {enabled: false}")["nodeRepairConfig"] == {"enabled": False}
    full = group(record_cloud, f"repair: {{max_unhealthy: 20%, max_parallel: 1, rules: [{RULE}]}}")[
        "nodeRepairConfig"
    ]
    check_repair_config(full)
    assert full == {
        "enabled": True,
        "maxUnhealthyNodeThresholdPercentage": 20,
        "maxParallelNodesRepairedCount": 1,
        "nodeRepairConfigOverrides": [
            {
                "nodeMonitoringCondition": "KernelReady",
                "nodeUnhealthyReason": "SoftLockup",
                "minRepairWaitTimeMins": 9,
                "repairAction": "NoAction",
            }
        ],
    }


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (
            "update: {max_unavailable: 2, max_unavailable_percent: 50}",
            "max_unavailable_percent is now max_unavailable: 50%",
        ),
        (
            "update: {max_unavailable: 2}, rollout: {max_unavailable: 1}",
            "EKS would replace 2 nodes at a time, and rollout allows 1",
        ),
        (
            "repair: {max_parallel_percent: 50}",
            "max_parallel_percent is now max_parallel: 50%",
        ),
        (
            "repair: {max_unhealthy_percent: 50}",
            "max_unhealthy_percent is now max_unhealthy: 50%",
        ),
        ("update: {max_unavailable: 0%}", "must be at least 1%"),
        ('update: {max_unavailable: "2"}', "write 2 without quotes for nodes, or 2%"),
        ("repair: {max_unhealthy: 101%}", "must be at most 100%"),
        ("repair: {max_parallel: 12.5%}", "is not a whole percentage"),
        (f"repair: {{rules: [{RULE}, {RULE}]}}", "a rule for KernelReady with SoftLockup already"),
        ("update: {max_unavailable: 101}", "must be at most 100 nodes"),
        ("update: {strategy: surge}", "strategy"),
    ],
)
def test_contradictory_update_settings_are_refused(
    broken: Callable[[str], str], pool: str, said: str
) -> None:
    refused = broken(FLEET.format(pool=pool))
    assert said in refused
    assert " 1 problem," in refused


def test_notes_name_the_cost_of_updates_and_repairs() -> None:
    cut = "partition: {mode: operator, layout: {1g.5gb: 7}}"
    assert "starts new nodes before old ones end" in notes("update: {strategy: default}")
    assert "loses its partitions" in notes(f"repair: {{}}, {cut}")
    for quiet in ("repair: {}", f"repair: {{enabled: false}}, {cut}", cut):
        assert "loses its partitions" not in notes(quiet)
        assert "starts new nodes" not in notes(quiet)
