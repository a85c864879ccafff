"""Sharing by GKE's device plugin and by NVIDIA's, and what each of them refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from slicewright.apis import desired_state
from slicewright.infra import manifests, plan, stack_file


def pool(
    partition: Any,
    sharing: Any,
    *,
    cloud: str = "eks",
    machine: str = "p4d.24xlarge",
    strategy: str = "mixed",
) -> plan.PoolPlan:
    raw: dict[str, Any] = {
        "cloud": cloud,
        "cluster": {"name": "c", "region": "eu-west-1"}
        if cloud == "eks"
        else {"name": "c", "location": "us-central1-a"},
        "node_pools": [
            {
                "name": "a",
                "machine_type": machine,
                "nodes": {"count": 1},
                "partition": partition,
                "sharing": sharing,
            }
        ],
    }
    if cloud == "eks" or (isinstance(partition, dict) and partition["mode"] == "operator"):
        # A plugin that is not known to starve MPS.
        raw["gpu_operator"] = {"mig_strategy": strategy, "device_plugin": {"version": "v0.20.2"}}
    return plan.read(json.dumps(raw), stack_file.Source("test", raw)).pools[0]


@pytest.fixture
def refused() -> Callable[..., str]:
    def refuse(*args: Any, **kwargs: Any) -> str:
        with pytest.raises(stack_file.SpecError) as error:
            pool(*args, **kwargs)
        return str(error.value)

    return refuse


SLICED = {"mode": "time-slicing", "replicas": 4}
MPS = {"mode": "mps", "replicas": 4}
ALL_1G = {"mode": "operator", "config": "all-1g.5gb"}


@pytest.mark.parametrize(
    ("partition", "sharing", "strategy", "resources"),
    [
        ("none", SLICED, "mixed", {"nvidia.com/gpu": 32}),
        ("none", {**SLICED, "rename_by_default": True}, "mixed", {"nvidia.com/gpu.shared": 32}),
        (ALL_1G, SLICED, "mixed", {"nvidia.com/mig-1g.5gb": 224}),
        (ALL_1G, SLICED, "single", {"nvidia.com/gpu": 224}),
        (
            ALL_1G,
            {**SLICED, "rename_by_default": True},
            "mixed",
            {"nvidia.com/mig-1g.5gb.shared": 224},
        ),
        ("none", MPS, "single", {"nvidia.com/gpu": 32}),
        ("none", MPS, "none", {"nvidia.com/gpu": 32}),
    ],
)
def test_nvidias_plugin_advertises_replicas(
    partition: Any, sharing: Any, strategy: str, resources: dict[str, int]
) -> None:
    made = pool(partition, sharing, strategy=strategy)
    assert made.offer.resources == resources
    read = desired_state.parse(made.offer.desired)
    assert dict(read.resources) == resources
    assert [(s.resource, s.replicas) for s in read.sharing] == [(name, 4) for name in resources]


@pytest.mark.parametrize(
    ("partition", "sharing", "resources"),
    [
        ({"mode": "native", "profile": "3g.20gb"}, SLICED, {"nvidia.com/gpu": 8}),
        ({"mode": "native", "profile": "3g.20gb"}, MPS, {"nvidia.com/gpu": 8}),
        ("none", {"mode": "mps", "replicas": {"gpu": 48}}, {"nvidia.com/gpu": 48}),
    ],
)
def test_gke_advertises_replicas_by_mps_also_on_partitions(
    partition: Any, sharing: Any, resources: dict[str, int]
) -> None:
    assert (
        pool(partition, sharing, cloud="gke", machine="a2-highgpu-1g").offer.resources == resources
    )


@pytest.mark.parametrize(
    ("partition", "sharing", "strategy", "said"),
    [
        (ALL_1G, MPS, "single", "has no MPS on MIG devices"),
        ("none", MPS, "mixed", "refuses MPS and does not start"),
        ("none", {**MPS, "replicas": 49}, "single", "MPS has at most 48 clients"),
        ("none", {**SLICED, "replicas": 1}, "mixed", "sharing.replicas"),
        ("none", {**SLICED, "replicas": {}}, "mixed", "nothing would be shared"),
        (
            "none",
            {**SLICED, "replicas": {"mig-1g.5gb": 2}},
            "mixed",
            "no nvidia.com/mig-1g.5gb; the device plugin would ignore it",
        ),
        ("none", {**SLICED, "replicas": {"mig-1g.5gb+me": 2}}, "mixed", "with '.' for '+'"),
        ("none", {**SLICED, "replicas": {"amd.com/gpu": 2}}, "mixed", "is not a GPU resource"),
        ("none", {**SLICED, "replica": 2}, "mixed", "did you mean replicas?"),
        (
            "none",
            {**SLICED, "replicas": {"gpu": 4, "nvidia.com/gpu": 2}},
            "mixed",
            "is the same resource as gpu; remove one",
        ),
        ("none", "time-slicing", "mixed", "sharing.replicas (pool a): is missing"),
        ("none", {"replicas": 2}, "mixed", "time-slicing, mps, fractional, or none"),
        ("none", "fractional", "mixed", "has no scheduler"),
        (ALL_1G, "none", "none", "partitions are never advertised"),
    ],
)
def test_sharing_that_nvidias_plugin_lacks_is_refused(
    refused: Callable[..., str], partition: Any, sharing: Any, strategy: str, said: str
) -> None:
    assert said in refused(partition, sharing, strategy=strategy)


@pytest.mark.parametrize(
    ("operator", "refused"),
    [
        ({}, True),
        ({"chart_version": "v26.7.1"}, True),
        ({"chart_version": "v26.7.2"}, False),
        ({"chart_version": "v26.3.0"}, True),
        ({"chart_version": "v25.10.1"}, False),
        ({"device_plugin": {"version": "v0.20.1"}}, True),
        ({"device_plugin": {"version": "v0.20.2"}}, False),
        ({"device_plugin": {"version": "v0.18.1"}}, False),
        ({"device_plugin": {"version": "ours"}}, False),
        ({"chart_version": "v26.7.2", "device_plugin": {"version": "v0.20.0"}}, True),
    ],
)
@pytest.mark.parametrize(("cloud", "mode"), [("eks", "mps"), ("byo", "mps"), ("eks", "sliced")])
def test_mps_is_refused_under_versions_known_to_starve_it(
    operator: dict[str, Any], refused: bool, cloud: str, mode: str
) -> None:
    machine: dict[str, Any] = {"machine_type": "g4dn.xlarge"}
    cluster: dict[str, Any] = {"name": "c", "region": "eu-west-1"}
    if cloud == "byo":
        machine, cluster = {"gpu": {"model": "T4", "count": 1}}, {"name": "c", "context": "c"}
    sharing = MPS if mode == "mps" else SLICED
    raw: dict[str, Any] = {
        "cloud": cloud,
        "cluster": cluster,
        "gpu_operator": {"mig_strategy": "single", **operator},
        "node_pools": [
            {"name": "a", **machine, "nodes": {"count": 1}, "sharing": sharing},
            {"name": "whole", **machine, "nodes": {"count": 1}},
        ],
    }
    if cloud == "byo":
        for pool in raw["node_pools"]:
            pool["select"] = {"rack": pool["name"]}
    if not refused or mode != "mps":
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
        return
    with pytest.raises(stack_file.SpecError) as caught:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
    said = str(caught.value)
    assert "the nodes of pool a would offer no GPU" in said
    assert "pool whole does not share like it" in said


ALIKE: dict[str, list[Any]] = {
    "one pool": [MPS],
    "two pools that share alike": [MPS, MPS],
    "two ways to write the same": [MPS, {"mode": "mps", "replicas": {"gpu": 4}}],
}
APART: dict[str, list[Any]] = {
    "one that does not share": [MPS, "none"],
    "another number": [MPS, {**MPS, "replicas": 2}],
    "another name": [MPS, {**MPS, "rename_by_default": True}],
    "time-slicing": [MPS, SLICED],
}


def sharing_fleet(sharing: list[Any], cloud: str = "eks", **fleet: Any) -> plan.FleetPlan:
    """A pool with each of these, under the newest chart that is known to starve MPS."""
    own: dict[str, Any] = {"machine_type": "g5.xlarge"}
    cluster: dict[str, Any] = {"name": "c", "region": "us-east-1"}
    if cloud == "byo":
        own, cluster = {"gpu": {"model": "T4", "count": 1}}, {"name": "c", "context": "c"}
    pools = [
        {"name": f"p{i}", **own, "nodes": {"count": 1}, "sharing": one}
        | ({"select": {"rack": f"p{i}"}} if cloud == "byo" else {})
        for i, one in enumerate(sharing)
    ]
    raw = {
        "cloud": cloud,
        "cluster": cluster,
        "gpu_operator": {"mig_strategy": "single"},
        "node_pools": pools,
        **fleet,
    }
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


@pytest.mark.parametrize("cloud", ["eks", "byo"])
@pytest.mark.parametrize("sharing", ALIKE.values(), ids=ALIKE.keys())
def test_one_mps_config_of_all_pools_is_the_default(sharing: list[Any], cloud: str) -> None:
    """NVIDIA's daemon gets the default config, whatever the node's label."""
    fleet = sharing_fleet(sharing, cloud)
    files = manifests.operator_files(fleet)
    assert files.plugin_configs is not None
    chosen = manifests.operator_values(fleet, files)["devicePlugin"]["config"]
    assert chosen == {"name": files.plugin_configs.name, "default": "p0"}
    # A label with another key would have config-manager signal a daemon that it does not find.
    labels = [pool.labels["nvidia.com/device-plugin.config"] for pool in fleet.pools]
    assert labels == ["p0"] * len(sharing)
    assert not any("not known whether" in note for note in plan.notes(fleet))


@pytest.mark.parametrize("sharing", APART.values(), ids=APART.keys())
def test_mps_is_refused_if_pools_share_differently(sharing: list[Any]) -> None:
    with pytest.raises(stack_file.SpecError, match="pool p1 does not share like it"):
        sharing_fleet(sharing)


def test_a_pool_with_bottlerocket_is_none_of_the_operators() -> None:
    own = {"name": "p0", "machine_type": "g5.xlarge", "nodes": {"count": 1}}
    pools = [own | {"sharing": MPS}, own | {"name": "b", "ami_type": "BOTTLEROCKET_x86_64_NVIDIA"}]
    fleet = sharing_fleet([], node_pools=pools)
    files = manifests.operator_files(fleet)
    assert manifests.operator_values(fleet, files)["devicePlugin"]["config"]["default"] == "p0"


@pytest.mark.parametrize(
    ("cloud", "cluster", "noted"),
    [
        ("byo", {"name": "c", "context": "c"}, True),
        ("eks", {"name": "c", "region": "us-east-1", "existing": True}, True),
        ("eks", {"name": "c", "region": "us-east-1"}, False),
    ],
)
def test_a_note_says_that_mps_also_shares_other_nodes_of_an_existing_cluster(
    cloud: str, cluster: dict[str, Any], noted: bool
) -> None:
    def said(sharing: list[Any]) -> bool:
        notes = plan.notes(sharing_fleet(sharing, cloud, cluster=cluster))
        return any("GPU nodes that are in no pool" in note for note in notes)

    assert said([MPS]) is noted
    assert not said([SLICED])


@pytest.mark.parametrize(("runs", "refused"), [({}, False), ({"chart_version": "v26.7.1"}, True)])
def test_mps_is_refused_if_the_stated_version_of_an_adopted_operator_starves_it(
    runs: dict[str, str], refused: bool
) -> None:
    raw: dict[str, Any] = {
        "cloud": "byo",
        "cluster": {"name": "c", "context": "c"},
        "gpu_operator": {"mig_strategy": "single", "existing": True, **runs},
        "node_pools": [
            {
                "name": "a",
                "gpu": {"model": "T4", "count": 1},
                "nodes": {"count": 1},
                "select": {"rack": "a"},
                "sharing": MPS,
            },
            {
                "name": "whole",
                "gpu": {"model": "T4", "count": 1},
                "nodes": {"count": 1},
                "select": {"rack": "whole"},
            },
        ],
    }
    if refused:
        with pytest.raises(stack_file.SpecError, match="would offer no GPU"):
            plan.read(json.dumps(raw), stack_file.Source("test", raw))
        return
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert any("not known whether its nodes offer GPUs" in note for note in plan.notes(fleet))


@pytest.mark.parametrize(
    ("operator", "refused"),
    [
        ({"device_plugin": {"version": "v0.20.2"}}, False),
        ({"chart_version": "v25.10.1"}, True),
        ({"chart_version": "v25.10.1", "device_plugin": {"version": "v0.20.2"}}, False),
        ({"device_plugin": {"version": "v0.18.1"}}, True),
    ],
)
def test_an_older_plugin_always_rejects_mps_pods_that_request_several_replicas(
    operator: dict[str, Any], refused: bool
) -> None:
    sharing = {**MPS, "fail_requests_greater_than_one": False}
    raw: dict[str, Any] = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "eu-west-1"},
        "gpu_operator": {"mig_strategy": "single", **operator},
        "node_pools": [
            {"name": "a", "machine_type": "g4dn.xlarge", "nodes": {"count": 1}, "sharing": sharing}
        ],
    }
    if not refused:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
        return
    with pytest.raises(stack_file.SpecError, match="MPS always rejects"):
        plan.read(json.dumps(raw), stack_file.Source("test", raw))


@pytest.mark.parametrize(
    ("sharing", "said"),
    [
        ({**SLICED, "replicas": 49}, "GKE allows 2 to 48 clients"),
        (
            {**SLICED, "rename_by_default": False},
            "rename_by_default (pool a): cannot be chosen with GKE's own device plugin",
        ),
        ({**SLICED, "fail_requests_greater_than_one": False}, "cannot be chosen"),
        ({**SLICED, "replicas": {"mig-1g.5gb": 4}}, "GKE advertises every device"),
        ("fractional", "engines for fractions do not run on COS_CONTAINERD"),
    ],
)
def test_sharing_that_gke_lacks_is_refused(
    refused: Callable[..., str], sharing: Any, said: str
) -> None:
    assert said in refused("none", sharing, cloud="gke", machine="a2-highgpu-1g")


def test_mps_with_the_operator_on_gke_is_refused(refused: Callable[..., str]) -> None:
    assert "does not run on GKE" in refused(ALL_1G, MPS, cloud="gke", machine="a2-highgpu-1g")


def test_the_operator_on_gke_replaces_gkes_driver_and_plugin() -> None:
    made = pool(ALL_1G, SLICED, cloud="gke", machine="a2-highgpu-1g")
    assert isinstance(made.settings, plan.GkeSettings)
    assert (made.settings.driver, made.settings.partition_size, made.settings.sharing_strategy) == (
        "INSTALLATION_DISABLED",
        None,
        None,
    )
    assert made.labels["gke-no-default-nvidia-gpu-device-plugin"] == "true"
    assert made.offer.resources == {"nvidia.com/mig-1g.5gb": 28}


def test_one_file_has_the_sharing_of_all_pools_but_not_the_strategy() -> None:
    configs = manifests.plugin_configs(
        [pool(ALL_1G, {**SLICED, "fail_requests_greater_than_one": False})]
    )
    assert configs == {
        "not.shared": {"version": "v1"},
        "a": {
            "version": "v1",
            "sharing": {
                "timeSlicing": {
                    "renameByDefault": False,
                    "failRequestsGreaterThanOne": False,
                    "resources": [{"name": "nvidia.com/mig-1g.5gb", "replicas": 4}],
                }
            },
        },
    }
