"""The plans of the committed stack files have the numbers of the published walkthroughs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.apis import desired_state
from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.plan import ExistingFleetPlan, PoolPlan

ROOT = Path(__file__).resolve().parents[3]


def written(stack: str) -> dict[str, Any]:
    raw: dict[str, Any] = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())[
        "config"
    ]["slicewright:fleet"]
    return raw


def planned(raw: Mapping[str, Any]) -> plan.FleetPlan:
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def pools(stack: str, **changed: Any) -> dict[str, PoolPlan]:
    return {p.name: p for p in planned({**written(stack), **changed}).pools}


def refusal(raw: Mapping[str, Any]) -> str:
    with pytest.raises(stack_file.SpecError) as refused:
        planned(raw)
    return str(refused.value)


def test_s0_is_8_gpus_with_2_partitions_of_half_a_gpu() -> None:
    (pool,) = pools("gke-h100").values()
    assert (pool.gpu_count, pool.offer.layout, pool.offer.resources) == (
        8,
        {"3g.40gb": 2},
        {"nvidia.com/gpu": 16},
    )  # S0-12, -13, -35
    assert pool.gpu.profiles["3g.40gb"].sms == 60


@pytest.mark.parametrize(
    ("size", "partitions"),
    [("1g.10gb", 56), ("1g.20gb", 32), ("2g.20gb", 24), ("3g.40gb", 16), ("7g.80gb", 8)],
)
def test_s0_every_size_of_the_walkthrough(size: str, partitions: int) -> None:  # S0-06
    raw = written("gke-h100")
    raw["node_pools"][0] |= {
        "partition": {"mode": "native", "profile": size},
        "max_pods_per_node": 110,
    }
    (pool,) = planned(raw).pools
    assert pool.offer.resources == {"nvidia.com/gpu": partitions}


@pytest.mark.parametrize(
    ("machine", "sizes"),
    [
        ("a2-highgpu-1g", {"1g.5gb": 7, "2g.10gb": 3, "3g.20gb": 2, "7g.40gb": 1}),
        ("a2-ultragpu-1g", {"1g.10gb": 7, "2g.20gb": 3, "3g.40gb": 2, "7g.80gb": 1}),
    ],
)
def test_s0_sizes_of_the_other_gpus(machine: str, sizes: dict[str, int]) -> None:
    """S0-04, -05"""
    raw = written("gke-h100")
    pool = {"name": "a", "machine_type": machine, "zones": ["us-central1-c"], "nodes": {"count": 1}}
    for size, partitions in sizes.items():
        raw["node_pools"] = [pool | {"partition": {"mode": "native", "profile": size}}]
        assert planned(raw).pools[0].offer.resources == {"nvidia.com/gpu": partitions}, size


def test_s0_4g_is_refused_at_plan() -> None:
    raw = written("gke-h100")
    raw["node_pools"][0]["partition"]["profile"] = "4g.40gb"
    assert "GKE does not partition nvidia-h100-80gb into 4g.40gb" in refusal(raw)


@pytest.mark.parametrize(
    ("config", "strategy", "resources"),
    [
        ("all-1g.5gb", "mixed", {"mig-1g.5gb": 56}),  # S1-29
        ("all-balanced", "mixed", {"mig-1g.5gb": 16, "mig-2g.10gb": 8, "mig-3g.20gb": 8}),  # S1-38
        ("all-2g.10gb", "mixed", {"mig-2g.10gb": 24}),
        ("all-3g.20gb", "mixed", {"mig-3g.20gb": 16}),
        ("all-7g.40gb", "mixed", {"mig-7g.40gb": 8}),
        ("all-1g.5gb", "single", {"gpu": 56}),
    ],
)
def test_s1_layouts(config: str, strategy: str, resources: dict[str, int]) -> None:
    raw = written("eks-a100")
    raw["node_pools"][0]["partition"] = {"mode": "operator", "config": config}
    raw["gpu_operator"]["mig_strategy"] = strategy
    (pool,) = planned(raw).pools
    assert pool.offer.resources == {
        f"nvidia.com/{name}": count for name, count in resources.items()
    }


def test_s1_before_mig_a_node_has_8_gpus() -> None:  # S1-22
    raw = written("eks-a100")
    raw["node_pools"][0]["partition"] = "none"
    assert planned(raw).pools[0].offer.resources == {"nvidia.com/gpu": 8}


def test_s1_versions_of_plugin_and_feature_discovery_can_be_pinned() -> None:  # S1-10, -14, -20
    raw = written("eks-a100")
    raw["gpu_operator"] |= {
        "release": "gpuo",
        "device_plugin": {"version": "v0.13.0"},
        "gfd": {"version": "v0.8.0"},
    }
    fleet = planned(raw)
    assert isinstance(fleet, plan.EksFleetPlan)
    given = manifests.operator_values(fleet, manifests.operator_files(fleet))
    assert fleet.operator.release == "gpuo"
    assert (given["devicePlugin"]["version"], given["gfd"]["version"]) == ("v0.13.0", "v0.8.0")


@pytest.mark.parametrize("part", ["driver", "toolkit"])
def test_s1_components_of_the_machine_image_cannot_be_installed(part: str) -> None:
    """S1-04, -11, -18"""
    raw = written("eks-a100")
    raw["gpu_operator"][part] = {"enabled": True}
    assert f"EKS's machine images contain their own {part}" in refusal(raw)


def test_s1_layouts_are_the_published_ones() -> None:  # S1-34 to -36
    raw = written("eks-a100")
    raw["node_pools"][0]["partition"] = {"mode": "operator", "config": "all-balanced"}
    configs = manifests.mig_parted_config(planned(raw).pools)["mig-configs"]
    entry = {
        "device-filter": ["0x20B010DE", "0x20B110DE", "0x20F110DE", "0x20F610DE"],
        "devices": "all",
        "mig-enabled": True,
    }
    assert configs["all-balanced"] == [
        {**entry, "mig-devices": {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}}
    ]
    assert configs["all-1g.5gb"] == [{**entry, "mig-devices": {"1g.5gb": 7}}]


def test_s2_partitions_one_gpu_of_six_at_the_published_starts() -> None:
    fleet = planned(written("hosts-a100"))
    assert isinstance(fleet, ExistingFleetPlan)
    (host,) = fleet.hosts
    assert (host.gpu.name, host.gpu_count, host.wait_minutes) == ("A100-40", 6, None)
    (gpu,) = host.gpus
    assert (gpu.index, gpu.mig, gpu.persistence) == (2, True, True)  # S2-05, -07, -08
    assert [(p.profile, p.start, p.size) for p in gpu.instances] == [
        ("3g.20gb", 0, 4),
        ("3g.20gb", 4, 4),
    ]  # S2-12


@pytest.mark.parametrize(
    ("instances", "said"),
    [
        ([{"profile": "4g.20gb"}] * 2, "8 of 7 compute slices"),
        ([{"profile": "3g.20gb"}] * 3, "at most 2 fit"),
        ([{"profile": "3g.20gb", "start": 2}], "cannot start at slot 2; write one of 0, 4"),
        (
            [{"profile": "3g.20gb", "start": 4}, {"profile": "2g.10gb", "start": 4}],
            "overlap those of instances[0]",
        ),
        (
            [{"profile": "3g.20gb", "start": 4}, {"profile": "2g.10gb"}],
            "has no start, but other instances on this GPU have",
        ),
    ],
)
def test_s2_refusals(instances: list[dict[str, Any]], said: str) -> None:
    raw = written("hosts-a100")
    raw["hosts"][0]["gpus"][0]["instances"] = instances
    assert said in refusal(raw)


def test_s2_without_starts_gets_disjoint_placements() -> None:
    raw = written("hosts-a100")
    raw["hosts"][0]["gpus"][0]["instances"] = [
        {"profile": "3g.20gb"},
        {"profile": "1g.5gb"},
        {"profile": "1g.5gb"},
    ]
    fleet = planned(raw)
    assert isinstance(fleet, ExistingFleetPlan)
    taken = [set(range(p.start, p.start + p.size)) for p in fleet.hosts[0].gpus[0].instances]
    assert len(taken) == 3
    assert len(set().union(*taken)) == sum(map(len, taken))


def test_s3_requests_are_totals_over_cards() -> None:
    fleet = planned(written("fractional"))
    (share,) = fleet.workloads
    assert (share.cards, share.memory_mib_per_card, share.compute_percent_per_card) == (
        3,
        6144,
        80,
    )  # S3-19
    assert share.requests == {
        "nvidia.com/gpu": 3,
        "nvidia.com/gpumem": 6144,
        "nvidia.com/gpucores": 80,
    }
    assert share.annotations == {
        "hami.io/node-scheduler-policy": "binpack",
        "hami.io/gpu-scheduler-policy": "spread",
    }  # S3-16


@pytest.mark.parametrize("node", ["binpack", "spread"])
@pytest.mark.parametrize("gpu", ["binpack", "spread"])
def test_s3_nodes_and_cards_have_separate_policies(node: str, gpu: str) -> None:
    """S3-14 to -16"""
    fractional = {"provider": "hami", "node_policy": node, "gpu_policy": gpu}
    (share,) = planned({**written("fractional"), "fractional": fractional}).workloads
    assert share.annotations == {
        "hami.io/node-scheduler-policy": node,
        "hami.io/gpu-scheduler-policy": gpu,
    }


def test_s3_volcengine_reads_totals() -> None:
    (share,) = planned({**written("fractional"), "fractional": {"provider": "vke"}}).workloads
    assert share.requests == {
        "vke.volcengine.com/mgpu-core": 240,
        "vke.volcengine.com/mgpu-memory": 18432,
    }
    assert share.annotations == {
        "vke.volcengine.com/container-multiple-gpu": "3",
        "vke.volcengine.com/mgpu-compute-policy": "native-burst-share",
    }


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (
            {"memory": "18Gi", "compute_percent": 240, "cards": 1},
            "240 % on 1 card is 240 % of each; a card has 100; write cards: 3",
        ),
        (
            {"memory": "18Gi", "compute_percent": 100, "cards": 3},
            "100 % cannot be divided evenly among 3 cards; write 102",
        ),
        ({"memory": "128Mi", "compute_percent": 10}, "below the minimum of 256"),
        ({"memory": "20Gi", "compute_percent": 10, "cards": 1}, "the largest card has 15360 MiB"),
        (
            {"memory": "1000Mi", "compute_percent": 30, "cards": 3},
            "1000 MiB cannot be divided evenly among 3 cards; write 1002Mi",
        ),
        ({"memory": "8Gi", "compute_percent": 80, "cards": 8}, "no node has more than 4"),
        ({"memory": "0Gi", "compute_percent": 80}, "is not an amount of memory"),
        ({"memory": "1Gi", "compute_percent": 0}, "compute_percent"),
    ],
)
def test_s3_refusals(share: dict[str, Any], said: str) -> None:
    assert said in refusal(
        {**written("fractional"), "workloads": [{"name": "app-a", "gpu_share": share}]}
    )


def test_s3_mig_and_fractional_sharing_are_refused_together() -> None:
    raw = written("fractional")
    raw["node_pools"][0] |= {
        "gpu": {"model": "A100-40", "count": 1},
        "partition": {"mode": "operator", "config": "all-1g.5gb"},
    }
    assert "fractional sharing and MIG cannot be combined" in refusal(raw)


def test_s4_partitions_times_slices() -> None:
    made = pools("existing-a100-t4")
    assert made["a100-40gb"].offer.resources == {  # S4-62
        "nvidia.com/mig-1g.5gb": 8,
        "nvidia.com/mig-2g.10gb": 3,
        "nvidia.com/mig-3g.20gb": 4,
    }
    assert made["a100-40gb"].offer.devices == {
        "nvidia.com/mig-1g.5gb": 2,
        "nvidia.com/mig-2g.10gb": 1,
        "nvidia.com/mig-3g.20gb": 1,
    }
    assert made["tesla-t4"].offer.resources == {"nvidia.com/gpu": 14}  # S4-55


def test_s4_pods_choose_nodes_by_these_labels() -> None:
    a100, t4 = (
        desired_state.parse(pool.offer.desired).labels
        for pool in planned(written("existing-a100-t4")).pools
    )
    assert t4["nvidia.com/gpu.product"] == ("Tesla-T4-SHARED",)  # S4-56
    assert t4["nvidia.com/gpu.replicas"] == ("14",)
    one, two, three = "mig-1g.5gb", "mig-2g.10gb", "mig-3g.20gb"
    assert [
        (a100[f"nvidia.com/{name}.count"], a100[f"nvidia.com/{name}.replicas"])
        for name in (one, two, three)
    ] == [(("2",), ("4",)), (("1",), ("3",)), (("1",), ("4",))]  # S4-59
    assert "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED" in a100[f"nvidia.com/{one}.product"]


def test_labels_are_expected_only_with_feature_discovery() -> None:
    """GKE's nodes have no GPU feature discovery; HAMi's have another device plugin."""
    for stack in ("gke-h100", "fractional"):
        for pool in planned(written(stack)).pools:
            assert desired_state.parse(pool.offer.desired).labels == {}


def test_s4_single_strategy_gives_seven() -> None:  # S4-23
    raw = written("existing-a100-t4")
    raw["gpu_operator"]["mig_strategy"] = "single"
    raw["node_pools"][0] |= {
        "partition": {"mode": "operator", "config": "all-1g.5gb"},
        "sharing": "none",
    }
    assert planned(raw).pools[0].offer.resources == {"nvidia.com/gpu": 7}


def test_s4_is_scaled_to_as_many_as_its_gpu_has_partitions() -> None:  # S4-23, -45, -46
    (one,) = planned(written("existing-a100-t4-autoscaling")).deployments
    assert one.autoscaling is not None
    assert (one.resource, one.offered) == ("nvidia.com/gpu", 7)
    assert (one.at_first, one.most, one.autoscaling.target) == (1, 7, 50)
    assert one.awaited
    raw = written("existing-a100-t4-autoscaling")
    raw["workloads"][0]["autoscaling"]["max"] = 8
    assert "8 replicas never fit: pool a100-40gb has 7 nvidia.com/gpu" in refusal(raw)


def test_s4_both_pools_are_keys_of_one_config() -> None:  # S4-51, -58, -60
    configs = manifests.plugin_configs(planned(written("existing-a100-t4")).pools)
    assert set(configs) == {"a100-40gb", "tesla-t4", manifests.NOT_SHARED}
    assert configs["tesla-t4"]["sharing"]["timeSlicing"]["resources"] == [
        {"name": "nvidia.com/gpu", "replicas": 14}
    ]
    for pool in planned(written("existing-a100-t4")).pools:
        assert pool.labels["nvidia.com/device-plugin.config"] == pool.name  # S4-53


def test_s4_a_resource_that_the_nodes_lack_is_refused() -> None:  # of S4-59 two lines had no effect
    raw = written("existing-a100-t4")
    raw["node_pools"][0]["sharing"]["replicas"] = {"gpu": 3, "mig-1g.5gb": 4, "mig-7g.40gb": 7}
    said = refusal(raw)
    assert "have no nvidia.com/gpu;" in said
    assert "have no nvidia.com/mig-7g.40gb;" in said
