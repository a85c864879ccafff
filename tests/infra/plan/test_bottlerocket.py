"""EKS pools with Bottlerocket: their user data, what their nodes offer, and what is refused."""

from __future__ import annotations

import base64
import json
import tomllib
from typing import Any

import pytest

from slicewright.infra import catalog, geometry, manifests, plan, stack_file

IMAGE = "BOTTLEROCKET_x86_64_NVIDIA"
MIG = catalog.bottlerocket_mig()
KNOWN = [gpu for gpu in catalog.load().gpus.values() if gpu.name in MIG.models]


def fleet(**pool: Any) -> dict[str, Any]:
    return {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-east-1"},
        "node_pools": [
            {
                "name": "a",
                "machine_type": "p4d.24xlarge",
                "ami_type": IMAGE,
                "nodes": {"count": 1},
                **pool,
            }
        ],
    }


def planned(**pool: Any) -> plan.EksFleetPlan:
    raw = fleet(**pool)
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.EksFleetPlan)
    return found


def refusal(**pool: Any) -> stack_file.Problem:
    with pytest.raises(stack_file.SpecError) as refused:
        planned(**pool)
    (problem,) = refused.value.problems
    return problem


def user_data(**pool: Any) -> dict[str, Any]:
    """The settings of the GPUs that a node boots with."""
    template = planned(**pool).pools[0].settings.template
    assert template is not None
    text = manifests.eks_user_data(template)
    assert text is not None
    found: dict[str, Any] = tomllib.loads(base64.b64decode(text).decode())
    return dict(found["settings"]["kubelet-device-plugins"]["nvidia"])


def native(profile: str) -> dict[str, str]:
    return {"mode": "native", "profile": profile}


@pytest.mark.parametrize("gpu", KNOWN, ids=lambda gpu: gpu.name)
def test_bottlerocket_creates_as_many_partitions_as_fit(gpu: catalog.Gpu) -> None:
    profiles = MIG.profiles(gpu)
    assert len(profiles) == len(MIG.partitions)
    for profile in profiles:
        most = geometry.max_instances(gpu, profile.name)
        assert MIG.partitions[profile.kind.kind] == most


def test_every_model_that_it_names_is_in_the_catalog() -> None:
    assert {gpu.name for gpu in KNOWN} == set(MIG.models)


def test_partitions_are_requested_by_number_and_offered_as_gpus() -> None:
    (pool,) = planned(partition=native("1g.5gb")).pools
    assert pool.offer.resources == {"nvidia.com/gpu": 56}
    assert pool.offer.layouts == ({"1g.5gb": 7},) * 8
    assert pool.offer.mig_config is None
    assert json.loads(pool.offer.desired)["partitioner"] == "bottlerocket"
    assert user_data(partition=native("1g.5gb")) == {
        "device-partitioning-strategy": "mig",
        "device-sharing-strategy": "none",
        "mig": {"profile": {"a100.40gb": "7"}},
    }


def test_whole_gpus_turn_mig_off() -> None:
    assert user_data()["device-partitioning-strategy"] == "none"
    assert planned().pools[0].offer.resources == {"nvidia.com/gpu": 8}


@pytest.mark.parametrize("rename", [True, False])
def test_time_slicing_is_its_device_plugins(rename: bool) -> None:
    sharing = {"mode": "time-slicing", "replicas": 4, "rename_by_default": rename}
    pool = {"partition": native("3g.20gb"), "sharing": sharing}
    assert user_data(**pool)["time-slicing"] == {
        "replicas": 4,
        "rename-by-default": rename,
        "fail-requests-greater-than-one": True,
    }
    name = "nvidia.com/gpu.shared" if rename else "nvidia.com/gpu"
    assert planned(**pool).pools[0].offer.resources[name] == 64


def test_the_operator_is_kept_off_its_nodes_and_not_installed_for_them_alone() -> None:
    alone = planned(partition=native("1g.5gb"))
    assert alone.operator is None
    assert alone.pools[0].labels["nvidia.com/gpu.deploy.operands"] == "false"
    assert "labels" not in json.loads(alone.pools[0].offer.desired), (
        "nothing discovers features there"
    )


def test_beside_another_pool_the_operator_has_only_that_one() -> None:
    raw = fleet(partition=native("1g.5gb"))
    raw["node_pools"].append(
        {"name": "b", "machine_type": "g6.xlarge", "nodes": {"count": 1}},
    )
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.EksFleetPlan)
    assert found.operator is not None
    assert [pool.name for pool in found.operated] == ["b"]


def test_the_disk_of_the_stack_file_is_the_one_with_the_containers() -> None:
    (pool,) = planned(disk={"size_gb": 300}).pools
    assert pool.settings.disk_size_gb is None
    assert pool.settings.template is not None
    assert pool.settings.template.disk_gb == 300


@pytest.mark.parametrize(
    ("pool", "key", "says"),
    [
        (
            {"partition": {"mode": "operator", "config": "all-1g.5gb"}},
            ("partition", "mode"),
            "partitions GPUs itself",
        ),
        ({"partition": native("4g.20gb")}, ("partition", "profile"), "one 7g instance"),
        ({"partition": native("1g.10gb+me")}, ("partition", "profile"), "one 7g instance"),
        (
            {"machine_type": "p6-b300.48xlarge", "partition": native("1g.34gb")},
            ("partition",),
            "does not know how to partition B300",
        ),
        (
            {"machine_type": "g6.xlarge", "partition": native("1g.5gb")},
            ("partition",),
            "has no MIG",
        ),
        ({"sharing": {"mode": "mps", "replicas": 4}}, ("sharing", "mode"), "not supported"),
        (
            {"sharing": {"mode": "time-slicing", "replicas": {"mig-1g.5gb": 4}}},
            ("sharing", "replicas"),
            "one number",
        ),
        ({"instance_store": "raid0"}, ("instance_store",), "nodeadm"),
        ({"release_version": "1.34.0-20260714"}, ("release_version",), "Amazon Linux"),
        (
            {"ami_type": "BOTTLEROCKET_ARM_64_NVIDIA"},
            ("ami_type",),
            "EKS's image for them is BOTTLEROCKET_x86_64_NVIDIA",
        ),
        (
            {"ami_type": "AL2023_x86_64_NVIDIA", "partition": native("1g.5gb")},
            ("partition", "mode"),
            "does not partition GPUs itself",
        ),
        (
            {"ami_type": "AL2023_x86_64_NVIDIA", "release_version": "1.54.0-5ed15786"},
            ("release_version",),
            "does not end in the release date",
        ),
    ],
)
def test_settings_that_bottlerocket_lacks_are_refused(
    pool: dict[str, Any], key: tuple[str, ...], says: str
) -> None:
    problem = refusal(**pool)
    assert problem.path == ("node_pools", 0, *key)
    assert says in problem.reason


def test_a_release_of_bottlerocket_is_pinned_by_its_commit() -> None:
    assert (
        planned(release_version="1.54.0-5ed15786").pools[0].settings.release_version
        == "1.54.0-5ed15786"
    )


def test_releases_of_bottlerocket_say_nothing_of_kubernetes() -> None:
    raw = fleet(release_version="1.54.0-5ed15786")
    (pool,) = raw["node_pools"]
    amazon = {"ami_type": "AL2023_x86_64_NVIDIA", "release_version": "1.35.0-20260714"}
    raw["node_pools"] += [
        pool | {"name": "b", "release_version": "1.53.0-5ed15786"},
        pool | {"name": "c"} | amazon,
    ]
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    said = [note for note in plan.notes(found) if "takes release" in note]
    assert len(said) == 1
    assert said[0].startswith("pool c: ")


def test_karpenter_makes_no_bottlerocket_nodes() -> None:
    raw = fleet(nodes={"min": 0, "max": 2}, release_version="1.54.0-5ed15786")
    raw["cluster"] |= {"autoscaler": "karpenter", "version": "1.34"}
    with pytest.raises(stack_file.SpecError) as refused:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert ("node_pools", 0, "ami_type") in {p.path for p in refused.value.problems}
