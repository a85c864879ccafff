"""Charts of engines for fractions, beside what the golden files hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests, plan

GOLDEN = Path(__file__).parents[1] / "golden"


def charts(engine: str) -> dict[str, Any]:
    fleet = plan.read_file(GOLDEN / f"fractional-{engine}.yaml")
    return {chart.release: chart for chart in manifests.engine_charts(fleet)}


def test_volcanos_scheduler_places_by_both_policies() -> None:
    values = charts("volcano")["volcano"].values
    config = yaml.safe_load(values["custom"]["scheduler_config_override"])
    plugins = {
        one["name"]: one.get("arguments", {}) for tier in config["tiers"] for one in tier["plugins"]
    }
    assert plugins["deviceshare"] == {
        "deviceshare.VGPUEnable": True,
        "deviceshare.SchedulePolicy": "binpack",
        "deviceshare.ScheduleWeight": 0,
    }
    assert plugins["resource-strategy-fit"]["resources"] == {
        "volcano.sh/vgpu-memory": {"type": "MostAllocated", "weight": 1}
    }
    # It would choose nodes by processor and memory, whatever the policy.
    assert "binpack" not in plugins


def test_no_node_port_is_opened_and_no_third_party_mirror_is_used() -> None:
    values = charts("hami")["hami"].values
    assert values["scheduler"]["service"]["type"] == "ClusterIP"
    assert values["devicePlugin"]["service"]["type"] == "ClusterIP"
    assert values["scheduler"]["kubeScheduler"]["image"]["registry"] == "registry.k8s.io"


def test_hamis_scheduler_runs_on_system_nodes_and_knows_those_with_cards() -> None:
    scheduler = charts("hami")["hami"].values["scheduler"]
    assert scheduler["nodeSelector"] == {"slicewright.io/role": "system"}
    assert "nodeLabelSelector" not in scheduler


def test_no_engine_has_no_chart() -> None:
    assert manifests.engine_charts(plan.read_file(GOLDEN / "vllm.yaml")) == ()


@pytest.mark.parametrize("engine", ["hami", "volcano"])
def test_the_operators_device_plugin_is_off_beside_an_engine(engine: str) -> None:
    fleet = plan.read_file(GOLDEN / f"fractional-{engine}.yaml")
    values = manifests.operator_values(fleet, manifests.operator_files(fleet))
    assert values["devicePlugin"] == {"enabled": False}
