"""Rendered files: NVIDIA's own parser accepts the layouts, and the chart has every key."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fleet_controller.api import STARTUP_TAINT_KEY
from infra import plan, values
from infra.plan import EksFleetPlan, Taint

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def fleet() -> EksFleetPlan:
    made = plan.read_file(ROOT / "stacks" / "Pulumi.s1.yaml")
    assert isinstance(made, EksFleetPlan)
    return made


@pytest.mark.toolchain
def test_nvidias_parser_accepts_every_layout(
    fleet: EksFleetPlan, check_config: Callable[[Any], None]
) -> None:
    """One name at a time is slow: of each number of instances on a GPU, one."""
    configs = values.mig_parted_config(fleet.pools)["mig-configs"]
    sample = {sum(es[0].get("mig-devices", {}).values()): name for name, es in configs.items()}
    assert set(sample) == set(range(8))
    chosen = {fleet.pools[0].mig_config, *sample.values()}
    check_config({"version": "v1", "mig-configs": {name: configs[name] for name in chosen}})


def test_layouts_only_match_the_pools_own_gpu(fleet: EksFleetPlan) -> None:
    (entry,) = values.mig_parted_config(fleet.pools)["mig-configs"][fleet.pools[0].mig_config]
    assert entry == {
        "device-filter": ["0x20B010DE", "0x20B110DE", "0x20F110DE", "0x20F610DE"],
        "devices": "all",
        "mig-enabled": True,
        "mig-devices": {"1g.5gb": 7},
    }


# Keys of the chart's values.yaml, v26.7.0, as far as slicewright sets them. Helm ignores the others
# without a word.
CHART_KEYS: Mapping[str, Any] = {
    "mig": {"strategy": None},
    "operator": {"nodeSelector": None},
    "daemonsets": {"tolerations": None},
    "driver": {"enabled": None, "version": None},
    "toolkit": {"enabled": None, "version": None},
    "devicePlugin": {"enabled": None, "version": None, "config": {"name": None, "default": None}},
    "gfd": {"enabled": None, "version": None},
    "dcgmExporter": {"enabled": None, "version": None, "serviceMonitor": {"enabled": None}},
    "migManager": {
        "enabled": None,
        "version": None,
        "env": None,
        "config": {"name": None, "default": None, "create": None, "data": None},
    },
    "node-feature-discovery": {"worker": {"tolerations": None}},
}


def unknown_keys(given: Mapping[str, Any], known: Mapping[str, Any], at: str = "") -> Iterator[str]:
    for key, value in given.items():
        if key not in known:
            yield f"{at}{key}"
        elif known[key] is not None:
            yield from unknown_keys(value, known[key], f"{at}{key}.")


def test_the_chart_has_every_key(fleet: EksFleetPlan) -> None:
    given = values.operator_values(fleet, mig_config_map="x", plugin_config_map="y")
    assert list(unknown_keys(given, CHART_KEYS)) == []


def test_s1_settings_are_the_ones_that_the_chart_obeys(fleet: EksFleetPlan) -> None:
    given = values.operator_values(fleet, mig_config_map="mig-layouts-1")
    assert given["mig"] == {"strategy": "mixed"}  # S1-12
    assert given["devicePlugin"]["enabled"] is True  # S1-13
    assert given["migManager"]["enabled"] is True  # S1-15
    assert given["migManager"]["env"] == [
        {"name": "WITH_REBOOT", "value": "true"}
    ]  # S1-16, where the chart reads it
    assert given["migManager"]["config"] == {
        "name": "mig-layouts-1",
        "default": "all-disabled",
    }  # S1-17
    assert given["driver"]["enabled"] is False  # S1-11, corrected: the image has one
    assert given["toolkit"]["enabled"] is False


def test_operands_tolerate_the_taints_of_the_pools_nodes(fleet: EksFleetPlan) -> None:
    given = values.operator_values(fleet, mig_config_map="x")
    for tolerations in (
        given["daemonsets"]["tolerations"],
        given["node-feature-discovery"]["worker"]["tolerations"],
    ):
        for taint in fleet.pools[0].taints:
            assert any(
                t["key"] == taint.key
                and t["effect"] == taint.effect
                and (t["operator"] == "Exists" or t["value"] == taint.value)
                for t in tolerations
            ), taint


def test_the_same_plan_gives_the_same_text(fleet: EksFleetPlan) -> None:
    assert values.as_yaml(values.mig_parted_config(fleet.pools)) == values.as_yaml(
        values.mig_parted_config(tuple(fleet.pools))
    )


def test_a_kubeconfig_has_no_secret_and_asks_the_clouds_own_command() -> None:
    config = values.kubeconfig(
        cluster="c",
        server="https://h",
        ca_data="Q0E=",
        command="aws",
        arguments=["eks", "get-token"],
    )
    (user,) = config["users"]
    assert set(user["user"]) == {"exec"}
    assert user["user"]["exec"]["args"] == ["eks", "get-token"]


def test_a_pod_tolerates_the_pools_taints_but_not_the_startup_taint(fleet: EksFleetPlan) -> None:
    mine = Taint(key="team", value="a", effect="NoExecute")
    pool = dataclasses.replace(fleet.pools[0], taints=(mine, *fleet.pools[0].taints))
    request = values.pod_request(pool, ())
    assert STARTUP_TAINT_KEY in {taint.key for taint in pool.taints}
    assert request["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "a", "effect": "NoExecute"},
    ]
