"""The plans of the committed stack files, against the numbers of the published systems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slicewright.apis import desired_state
from slicewright.apis.names import MIG_CONFIG_LABEL, STARTUP_TAINT_KEY
from slicewright.infra import plan, stack_file
from slicewright.infra.plan import EksFleetPlan, GkeFleetPlan
from tests.repository_stacks import STACKS


def planned(name: str) -> plan.FleetPlan:
    return plan.read_file(next(s for s in STACKS if s.name == f"Pulumi.{name}.yaml"))


def test_the_repository_has_stacks() -> None:
    assert {s.name for s in STACKS} >= {
        f"Pulumi.{name}.yaml"
        for name in ("gke-h100", "eks-a100", "hosts-a100", "fractional", "existing-a100-t4")
    }


def test_s0_is_sixteen_partitions_advertised_as_gpus() -> None:
    fleet = planned("gke-h100")
    assert isinstance(fleet, GkeFleetPlan)
    (pool,) = fleet.pools
    assert pool.offer.layout == {"3g.40gb": 2}
    assert pool.offer.resources == {"nvidia.com/gpu": 16}
    assert pool.offer.partitions == 16
    assert pool.offer.mig_config is None


def test_s1_is_56_partitions_advertised_by_profile() -> None:
    fleet = planned("eks-a100")
    assert isinstance(fleet, EksFleetPlan)
    (pool,) = fleet.pools
    assert pool.offer.layout == {"1g.5gb": 7}
    assert pool.offer.resources == {"nvidia.com/mig-1g.5gb": 56}
    assert pool.offer.mig_config == "all-1g.5gb"


def eks(partition: str, strategy: str = "mixed", machine: str = "p4d.24xlarge") -> EksFleetPlan:
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "eu-west-1"},
        "gpu_operator": {"mig_strategy": strategy},
        "node_pools": [
            {
                "name": "a",
                "machine_type": machine,
                "nodes": {"count": 1},
                "partition": json.loads(partition),
            }
        ],
    }
    made = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(made, EksFleetPlan)
    return made


@pytest.mark.parametrize(
    ("partition", "strategy", "machine", "resources"),
    [
        # S1-38, S1-24, S1-22; T4 has no MIG.
        (
            '{"mode": "operator", "config": "all-balanced"}',
            "mixed",
            "p4d.24xlarge",
            {"nvidia.com/mig-1g.5gb": 16, "nvidia.com/mig-2g.10gb": 8, "nvidia.com/mig-3g.20gb": 8},
        ),
        (
            '{"mode": "operator", "config": "all-1g.5gb"}',
            "single",
            "p4d.24xlarge",
            {"nvidia.com/gpu": 56},
        ),
        (
            '{"mode": "operator", "layout": {"1g.5gb+me": 1}}',
            "mixed",
            "p4d.24xlarge",
            {"nvidia.com/mig-1g.5gb.me": 8},
        ),
        ('"none"', "mixed", "p4d.24xlarge", {"nvidia.com/gpu": 8}),
        ('"none"', "mixed", "g4dn.xlarge", {"nvidia.com/gpu": 1}),
    ],
)
def test_resources_follow_layout_and_strategy(
    partition: str, strategy: str, machine: str, resources: dict[str, int]
) -> None:
    assert eks(partition, strategy, machine).pools[0].offer.resources == resources


def test_the_mig_config_name_changes_with_the_layout_and_with_nothing_else() -> None:
    named = eks('{"mode": "operator", "config": "all-1g.5gb"}').pools[0].offer.mig_config
    assert (
        named
        == eks('{"mode": "operator", "layout": {"1g.5gb": 7}}', "single").pools[0].offer.mig_config
    )
    assert named != eks('{"mode": "operator", "layout": {"1g.5gb": 6}}').pools[0].offer.mig_config


@pytest.mark.parametrize("partition", ['"none"', '{"mode": "operator", "config": "all-disabled"}'])
@pytest.mark.parametrize("strategy", ["none", "single", "mixed"])
def test_mig_manager_turns_mig_off_on_whole_gpus_that_have_mig(
    partition: str, strategy: str
) -> None:
    """A node that was partitioned before must become whole again."""
    (pool,) = eks(partition, strategy).pools
    assert (pool.offer.mig_config, pool.offer.layout) == ("all-disabled", {})
    assert pool.offer.resources == {"nvidia.com/gpu": 8}
    assert desired_state.parse(pool.offer.desired).partitioner == "mig-manager"
    (without_mig,) = eks('"none"', strategy, machine="g4dn.xlarge").pools
    assert without_mig.offer.mig_config is None


@pytest.mark.parametrize("stack", STACKS, ids=lambda s: s.name)
def test_the_agent_reads_the_desired_state_that_infra_writes(stack: Path) -> None:
    for pool in plan.read_file(stack).pools:
        read = desired_state.parse(pool.offer.desired)
        assert desired_state.hash_of(read) == pool.offer.layout_hash
        assert read.pool == pool.name
        assert read.gpu_count == pool.gpu_count
        assert dict(read.resources) == dict(pool.offer.resources)


@pytest.mark.parametrize("stack", STACKS, ids=lambda s: s.name)
def test_every_pool_has_the_startup_taint_and_no_layout_label(stack: Path) -> None:
    for pool in plan.read_file(stack).pools:
        assert pool.taints[-1].key == STARTUP_TAINT_KEY
        assert pool.labels["slicewright.io/pool"] == pool.name
        assert MIG_CONFIG_LABEL not in pool.labels


@pytest.mark.parametrize("stack", STACKS, ids=lambda s: s.name)
def test_the_same_file_gives_the_same_plan(stack: Path) -> None:
    assert plan.read_file(stack) == plan.read_file(stack)


def test_eks_pools_have_the_same_gpu_taint_as_gke_pools() -> None:
    assert [(t.key, t.value, t.cloud_effect) for t in planned("eks-a100").pools[0].taints][:1] == [
        ("nvidia.com/gpu", "present", "NO_SCHEDULE")
    ]
    assert "nvidia.com/gpu" not in {t.key for t in planned("gke-h100").pools[0].taints}


def test_taint_keys_on_eks_are_no_longer_than_its_api_allows() -> None:
    # botocore's model of EKS: taintKey max 63.
    assert {t.key: len(t.key) for t in planned("eks-a100").pools[0].taints if len(t.key) > 63} == {}


def test_the_system_pool_has_no_gpu_and_at_least_one_node() -> None:
    for name in ("gke-h100", "eks-a100"):
        assert planned(name).system.nodes.min >= 1
        assert planned(name).system.zones


def test_the_node_account_is_valid_for_any_cluster_name() -> None:
    for name in ("m", "main", "a" * 40, "a" * 14 + "-" + "b" * 20):
        raw = {
            "cloud": "gke",
            "cluster": {"name": name, "location": "us-central1-c"},
            "node_pools": [{"name": "a", "machine_type": "a2-highgpu-1g", "nodes": {"count": 1}}],
        }
        made = plan.read(json.dumps(raw), stack_file.Source("test", raw))
        assert isinstance(made, GkeFleetPlan)
        assert 6 <= len(made.cluster.node_account_id) <= 30
