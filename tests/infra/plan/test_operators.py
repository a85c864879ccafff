"""Settings of the GPU operator that contradict each other or name what does not exist."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.infra import plan, stack_file

POOLS: dict[str, Any] = {
    "eks": {
        "cluster": {"name": "c", "region": "us-east-1"},
        "node_pools": [{"name": "a", "machine_type": "g4dn.xlarge", "nodes": {"count": 1}}],
    },
    "gke": {
        "cluster": {"name": "c", "location": "us-central1-a"},
        "node_pools": [
            {
                "name": "a",
                "machine_type": "a2-highgpu-1g",
                "nodes": {"count": 1},
                "partition": {"mode": "operator", "config": "all-1g.5gb"},
            }
        ],
    },
    "byo": {
        "cluster": {"name": "c", "context": "c"},
        "node_pools": [
            {"name": "a", "gpu": {"model": "T4", "count": 1}, "nodes": {"count": 1}},
        ],
    },
}


def planned(cloud: str, operator: dict[str, Any], **fleet: Any) -> plan.FleetPlan:
    raw = {"cloud": cloud, **POOLS[cloud], "gpu_operator": operator, **fleet}
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


@pytest.mark.parametrize("cloud", POOLS)
@pytest.mark.parametrize(
    ("operator", "path", "said"),
    [
        (
            {"dcgm_exporter": {"metrics": ["DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USE"]}},
            ("dcgm_exporter", "metrics", 1),
            "did you mean DCGM_FI_DEV_FB_USED?",
        ),
        (
            {"dcgm_exporter": {"enabled": False, "service_monitor": {"enabled": True}}},
            ("dcgm_exporter", "service_monitor", "enabled"),
            "there is nothing to monitor",
        ),
        (
            {"chart_path": "x.tgz", "repository": "https://example.com/charts"},
            ("repository",),
            "chart_path names the chart",
        ),
    ],
)
def test_a_setting_without_effect_is_refused(
    cloud: str, operator: dict[str, Any], path: tuple[object, ...], said: str
) -> None:
    with pytest.raises(stack_file.SpecError) as refused:
        planned(cloud, operator)
    assert ("gpu_operator", *path) in [problem.path for problem in refused.value.problems]
    assert said in str(refused.value)


@pytest.mark.parametrize("cloud", POOLS)
def test_an_exporter_with_chosen_metrics_is_planned(cloud: str) -> None:
    metrics = ["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]
    made = planned(cloud, {"dcgm_exporter": {"metrics": metrics}})
    assert made.operator is not None
    assert made.operator.dcgm_exporter.metrics == tuple(metrics)


@pytest.mark.parametrize(
    "operator",
    [
        {"registry": "https://registry.example.com"},
        {"registry": "registry.example.com/"},
        {"mig_manager": {"host_services": ["nvidia-persistenced"]}},
        {"dcgm_exporter": {"metrics": ["gpu_util"]}},
        {"dcgm_exporter": {"service_monitor": {"interval_seconds": 0}}},
        {"image_pull_secrets": ["Not A Name"]},
    ],
    ids=str,
)
def test_a_misspelt_operator_key_is_refused(operator: dict[str, Any]) -> None:
    with pytest.raises(stack_file.SpecError):
        planned("eks", operator)


@pytest.mark.parametrize(("cloud", "toolkit"), [("eks", False), ("gke", True), ("byo", False)])
def test_the_toolkit_is_installed_on_nodes_without_one(cloud: str, toolkit: bool) -> None:
    made = planned(cloud, {}).operator
    assert made is not None
    assert (made.driver.enabled, made.toolkit.enabled) == (False, toolkit)


@pytest.mark.parametrize("driver", [False, True])
def test_existing_nodes_without_a_driver_are_taken_to_have_no_toolkit(driver: bool) -> None:
    made = planned("byo", {"driver": {"enabled": driver}}).operator
    assert made is not None
    assert made.toolkit.enabled is driver
    other = {"driver": {"enabled": driver}, "toolkit": {"enabled": not driver}}
    stated = planned("byo", other).operator
    assert stated is not None
    assert stated.toolkit.enabled is not driver


def test_gke_nodes_are_not_left_without_a_toolkit() -> None:
    """Without its runtime class no operand's pod would start."""
    with pytest.raises(stack_file.SpecError, match="have no container toolkit"):
        planned("gke", {"toolkit": {"enabled": False}})
    assert planned("gke", {"toolkit": {"enabled": True}}).operator is not None


@pytest.mark.parametrize("cloud", ["eks", "gke"])
def test_a_new_cluster_is_not_left_without_node_feature_discovery(cloud: str) -> None:
    """The operator ignores a node without its labels, and `up` would wait for an agent."""
    with pytest.raises(stack_file.SpecError) as refused:
        planned(cloud, {"nfd": {"enabled": False}})
    (problem,) = refused.value.problems
    assert problem.path == ("gpu_operator", "nfd", "enabled")
    assert planned(cloud, {"nfd": {"enabled": True}}).operator is not None


@pytest.mark.parametrize("cloud", POOLS)
def test_an_existing_cluster_may_have_its_own_operator(cloud: str) -> None:
    existing = {} if cloud == "byo" else {"existing": True}
    cluster = POOLS[cloud]["cluster"] | existing
    made = planned(cloud, {"nfd": {"enabled": False}}, cluster=cluster).operator
    assert made is not None
    assert not made.nfd.enabled


def test_the_operator_installs_no_driver_on_container_optimized_os() -> None:
    with pytest.raises(stack_file.SpecError, match="Google's driver installer"):
        planned("gke", {"driver": {"enabled": True}})


@pytest.mark.parametrize(
    ("cloud", "pool", "operator", "noted"),
    [
        ("eks", {"partition": {"mode": "operator", "config": "all-1g.10gb"}}, {}, True),
        (
            "eks",
            {"partition": {"mode": "operator", "config": "all-1g.10gb"}},
            {"mig_manager": {"host_services": ["nvidia-persistenced.service"]}},
            False,
        ),
        ("eks", {}, {}, False),
        (
            "eks",
            {
                "partition": {"mode": "native", "profile": "1g.10gb"},
                "ami_type": "BOTTLEROCKET_x86_64_NVIDIA",
            },
            {},
            False,
        ),
    ],
    ids=["partitioned", "listed", "whole", "Bottlerocket"],
)
def test_a_service_of_eks_images_that_mig_manager_does_not_stop_is_noted(
    cloud: str, pool: dict[str, Any], operator: dict[str, Any], noted: bool
) -> None:
    own = {"name": "a", "machine_type": "p5.48xlarge", "nodes": {"count": 1}, **pool}
    made = planned(cloud, operator, node_pools=[own])
    assert any("nvidia-persistenced" in note for note in plan.notes(made)) is noted


@pytest.mark.parametrize("existing", [False, True])
def test_a_note_says_that_an_adopted_operator_must_be_set_back(existing: bool) -> None:
    made = planned("byo", {"existing": existing})
    assert any("must be set back" in note for note in plan.notes(made)) is existing


MOUNTS = {"device_list": "volume-mounts"}


@pytest.mark.parametrize(
    ("cloud", "operator", "reason", "remedy"),
    [
        ("eks", {}, "settings of their own, which the GPU operator does not change", "pod_guard"),
        ("eks", {"cdi": False}, "EKS's machine images", "Bottlerocket's nodes take lists by mount"),
        ("byo", {}, "container toolkit is not installed", "write toolkit: {enabled: true}"),
        (
            "byo",
            {"driver": {"enabled": True}, "toolkit": {"enabled": False}},
            "container toolkit is not installed",
            "write pod_guard",
        ),
        (
            "gke",
            {"chart_version": "v25.3.4"},
            "chart v25.3.4 does not obey mounts when it uses CDI",
            "chart_version: v25.10.0 or newer, or cdi: false",
        ),
    ],
)
def test_lists_by_mount_are_refused_once_if_no_runtime_would_obey_them(
    cloud: str, operator: dict[str, Any], reason: str, remedy: str
) -> None:
    with pytest.raises(stack_file.SpecError) as refused:
        planned(cloud, {**operator, **MOUNTS})
    (problem,) = refused.value.problems
    assert problem.path == ("gpu_operator", "device_list")
    assert reason in str(refused.value)
    assert remedy in str(refused.value)
    planned(cloud, {**operator, "device_list": "envvar"})


def test_lists_by_mount_add_no_problem_to_a_toolkit_that_gke_needs() -> None:
    with pytest.raises(stack_file.SpecError) as refused:
        planned("gke", {**MOUNTS, "toolkit": {"enabled": False}})
    (problem,) = refused.value.problems
    assert problem.path == ("gpu_operator", "toolkit", "enabled")


@pytest.mark.parametrize("key", ["toolkit", "driver", "cdi", "chart_version"])
def test_nothing_follows_for_lists_by_mount_from_a_value_that_is_invalid(key: str) -> None:
    """Its default would."""
    with pytest.raises(stack_file.SpecError) as refused:
        planned("byo", {**MOUNTS, key: 7})
    (problem,) = refused.value.problems
    assert problem.path == ("gpu_operator", key)


@pytest.mark.parametrize(
    ("cloud", "operator"),
    [
        ("gke", {}),
        ("gke", {"chart_version": "v25.10.0"}),
        ("gke", {"chart_version": "v25.3.4", "toolkit": {"version": "v1.19.1"}}),
        ("byo", {"toolkit": {"enabled": True}}),
        ("byo", {"driver": {"enabled": True}}),
        ("byo", {"toolkit": {"enabled": True}, "cdi": False, "chart_version": "v25.3.4"}),
    ],
)
def test_lists_by_mount_are_planned_if_the_stack_installs_the_toolkit(
    cloud: str, operator: dict[str, Any]
) -> None:
    made = planned(cloud, {**operator, **MOUNTS})
    assert made.operator is not None
    assert made.operator.device_list == "volume-mounts"
