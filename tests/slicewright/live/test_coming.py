"""What a stack file would do to nodes in service."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis.gpu_pool.rollout_policy import DrainPolicy, RolloutPolicy
from slicewright.apis.names import MIG_CONFIG_LABEL as CONFIG
from slicewright.apis.names import MIG_STATE_LABEL as STATE
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.infra import plan
from slicewright.live.coming import Coming, End, affected, coming, longest_turn_s
from slicewright.live.objects import UnreadObject
from slicewright.live.reading import ClusterObjects
from slicewright.preview.living import section, span
from tests.fleet_controller.rollout_world import START, World

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def planned() -> plan.PoolPlan:
    """eks-a100's pool, of up to three nodes."""
    (pool,) = plan.read_file(ROOT / "stacks" / "Pulumi.eks-a100.yaml").pools
    assert pool.offer.mig_config is not None
    return replace(pool, nodes=plan.NodeCount(min=3, max=3, autoscaled=False))


@pytest.fixture
def world(planned: plan.PoolPlan) -> World:
    pool = Pool(
        name=planned.name,
        uid="pool",
        generation=1,
        created=START,
        selector={"slicewright.io/pool": planned.name},
        layout_hash="hash-old",
        fewest=3,
        mig_config="old",
        status={},
    )
    world = World(pool)
    for name in ("n0", "n1", "n2"):
        world.make_node(name)
    return world


def _pod(name: str, node: str, *, owner: bool = True) -> dict[str, Any]:
    owners = [{"kind": "ReplicaSet", "controller": True}] if owner else []
    resources = {"requests": {"nvidia.com/mig-1g.5gb": "1"}}
    return {
        "metadata": {"namespace": "ai", "name": name, "uid": name, "ownerReferences": owners},
        "spec": {"nodeName": node, "containers": [{"resources": resources}]},
    }


def _found(world: World, pods: dict[str, tuple[Any, ...]]) -> ClusterObjects:
    return ClusterObjects(
        pools=(world.pool,),
        most={world.pool.name: 3},
        nodes=tuple(world.nodes.values()),
        reports=world.reports,
        gpus={},
        pods=pods,
        budgets=(),
        controller=1,
        unread=(),
    )


def test_a_new_layout_shows_the_order_the_pods_and_the_duration(
    planned: plan.PoolPlan, world: World
) -> None:
    pods = {
        "n0": (_pod("a", "n0"), _pod("b", "n0")),
        "n1": (_pod("c", "n1", owner=False),),
        "n2": (),
    }
    ahead = coming([planned], _found(world, pods), world.now)
    (rolling,) = ahead.rolling
    assert ahead == Coming(rolling=(rolling,))
    assert rolling.waves == (("n0",), ("n1",), ("n2",))
    assert (rolling.before, rolling.after) == ("old", planned.offer.mig_config)
    assert rolling.evicted == 2
    assert [(node, one.pod) for node, one in rolling.unevictable] == [("n1", "ai/c")]
    assert rolling.at_most_s == 3 * (3600 + 1800)
    shown = section(ahead, [])
    assert "3 nodes roll from `old` to" in shown
    assert "1. `n0`\n2. `n1`\n3. `n2`" in shown
    assert "2 pods are evicted, and 1 pod cannot be evicted now" in shown
    assert "- on `n1`: `ai/c`: no controller would recreate it" in shown
    assert "at most 4 h 30 min" in shown


def test_the_policy_is_the_one_that_comes(planned: plan.PoolPlan, world: World) -> None:
    rollout = planned.rollout.model_copy(update={"max_unavailable": 3, "canary": 1})
    ahead = coming([replace(planned, rollout=rollout)], _found(world, {}), world.now)
    (rolling,) = ahead.rolling
    assert rolling.waves == (("n0",), ("n1", "n2"))
    assert not rolling.pods_known
    assert "could not be listed" in section(ahead, [])


def test_the_same_layout_is_nothing(planned: plan.PoolPlan, world: World) -> None:
    world.pool = replace(world.pool, mig_config=planned.offer.mig_config)
    assert coming([planned], _found(world, {}), world.now) == Coming()
    assert affected([planned], [world.pool], list(world.nodes.values())) == []
    assert section(Coming(), ["unread"]) == ""


def test_a_new_driver_names_the_nodes_without_it(planned: plan.PoolPlan, world: World) -> None:
    world.pool = replace(world.pool, mig_config=planned.offer.mig_config, driver="1.0.0")
    world.offered = "1.0.0"
    labels = {CONFIG: planned.offer.mig_config or "", STATE: "success"}
    for name in world.nodes:
        world.loaded[name] = "2.0.0" if name == "n1" else "1.0.0"
        world.change(name, labels={**world.nodes[name].labels, **labels})
        world.cut[name] = "old"
        world.agent_reports(name)
        world.reports[name] = replace(world.reports[name], layout_hash=planned.offer.layout_hash)
    pinned = replace(planned, driver_version="2.0.0")
    assert affected([pinned], [world.pool], list(world.nodes.values())) == ["n0", "n1", "n2"]
    ahead = coming([pinned], _found(world, {}), world.now)
    (rolling,) = ahead.rolling
    assert rolling.waves == (("n0",), ("n2",))
    assert rolling.at_most_s == 2 * (3600 + 1800 + 1800)
    assert "2 nodes roll to driver `2.0.0`, in this order:" in section(ahead, [])
    world.pool = replace(world.pool, driver="2.0.0")
    assert coming([pinned], _found(world, {}), world.now) == Coming()


def test_only_a_third_layout_rolls_a_pool_whose_change_is_undone(
    planned: plan.PoolPlan, world: World
) -> None:
    """With the file as it is nothing changes, and with the old layout in it no node does."""
    assert planned.offer.mig_config is not None
    for _ in range(2):
        world.passes()
    world.wants(planned.offer.mig_config)
    world.asks(f"undo:{planned.offer.mig_config}")
    assert (world.pool.undone, world.pool.mig_config) == (True, "old")
    assert coming([planned], _found(world, {}), world.now) == Coming()
    back = replace(planned, offer=replace(planned.offer, mig_config="old"))
    assert coming([back], _found(world, {}), world.now) == Coming()
    third = replace(planned, offer=replace(planned.offer, mig_config="third"))
    (rolling,) = coming([third], _found(world, {}), world.now).rolling
    assert (rolling.before, rolling.after) == ("old", "third")
    assert rolling.waves == (("n0",), ("n1",), ("n2",))


def test_fewer_nodes_say_how_many_pods_end_whichever_the_cloud_takes(
    planned: plan.PoolPlan, world: World
) -> None:
    world.pool = replace(world.pool, mig_config=planned.offer.mig_config)
    fewer = replace(planned, nodes=plan.NodeCount(min=1, max=1, autoscaled=False))
    counts = {"n0": 4, "n1": 1, "n2": 2}
    pods = {node: tuple(_pod(f"p{n}", node) for n in range(c)) for node, c in counts.items()}
    ahead = coming([fewer], _found(world, pods), world.now)
    (shrinking,) = ahead.shrinking
    assert ahead == Coming(shrinking=(shrinking,))
    assert affected([fewer], [world.pool], list(world.nodes.values())) == ["n0", "n1", "n2"]
    assert (shrinking.going, shrinking.pods_that_end) == (2, (3, 6))
    shown = section(ahead, [])
    assert (
        "has 3 nodes and may have 1: the cloud ends 2 nodes of its choice without a drain" in shown
    )
    assert "3 to 6 pods with GPUs end with them" in shown


def test_no_node_ends_in_a_cloud_that_keeps_surplus_nodes(
    planned: plan.PoolPlan, world: World
) -> None:
    (existing,) = plan.read_file(ROOT / "stacks" / "Pulumi.existing-a100-t4.yaml").pools[:1]
    fewer = replace(
        existing,
        name=planned.name,
        offer=replace(existing.offer, mig_config="old"),
        nodes=plan.NodeCount(min=1, max=1, autoscaled=False),
    )
    assert coming([fewer], _found(world, {}), world.now) == Coming()
    assert affected([fewer], [world.pool], list(world.nodes.values())) == []


@pytest.mark.parametrize("end", ["replaced", "deleted"])
def test_a_pool_that_is_replaced_names_the_pods_that_end_and_nothing_else(
    planned: plan.PoolPlan, world: World, end: End
) -> None:
    """Though its layout changes, too: no node rolls there."""
    fewer = replace(planned, nodes=plan.NodeCount(min=1, max=1, autoscaled=False))
    pods = {"n0": (_pod("a", "n0"), _pod("b", "n0")), "n1": (), "n2": (_pod("c", "n2"),)}
    pods["n1"] = ({**_pod("cpu", "n1"), "spec": {"nodeName": "n1", "containers": [{}]}},)
    wanted = [fewer] if end == "replaced" else []
    nodes = list(world.nodes.values())
    assert affected(wanted, [world.pool], nodes, [planned.name]) == ["n0", "n1", "n2"]
    ahead = coming(wanted, _found(world, pods), world.now, {planned.name: end})
    (ending,) = ahead.ending
    assert ahead == Coming(ending=(ending,))
    assert ending.pods == (("n0", "ai/a"), ("n0", "ai/b"), ("n2", "ai/c"))
    shown = section(ahead, [])
    assert f"is {end}, with 3 nodes, and 3 pods with GPUs end." in shown
    assert "- on `n2`: `ai/c`" in shown
    assert "cpu" not in shown


def test_a_drained_pool_may_go_and_of_unread_pods_nothing_is_promised(
    planned: plan.PoolPlan, world: World
) -> None:
    ends: dict[str, End] = {planned.name: "deleted"}
    nothing: dict[str, tuple[Any, ...]] = {"n0": (), "n1": (), "n2": ()}
    assert "no pod with GPUs runs there" in section(
        coming([], _found(world, nothing), world.now, ends), []
    )
    assert "they could not be listed" in section(coming([], _found(world, {}), world.now, ends), [])


def test_a_forced_drain_has_the_time_twice() -> None:
    drain = DrainPolicy(timeout_s=600, on_timeout="Force")
    assert longest_turn_s(RolloutPolicy(drain=drain)) == 2 * 600 + 1800


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(30, "1 min"), (3600, "1 h"), (5400, "1 h 30 min"), (0, "0 min"), (5401, "1 h 31 min")],
)
def test_spans_are_rounded_up(seconds: float, said: str) -> None:
    assert span(seconds) == said


def _shared_budget(*, allowed: int) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ai", "name": "infer"},
        "spec": {"minAvailable": 4, "selector": {}},
        "status": {
            "disruptionsAllowed": allowed,
            "currentHealthy": 6,
            "desiredHealthy": 4,
            "expectedPods": 6,
        },
    }


def test_evictions_of_one_node_are_counted_together_and_those_that_wait_are_named(
    planned: plan.PoolPlan, world: World
) -> None:
    """One node, six pods, a budget that needs four of them."""
    for name in ("n1", "n2"):
        world.delete_node(name)
    pods = {"n0": tuple(_pod(f"p{n}", "n0") for n in range(6))}
    found = replace(_found(world, pods), budgets=(_shared_budget(allowed=2),))
    ahead = coming([planned], found, world.now)
    (rolling,) = ahead.rolling
    assert rolling.evicted == 2
    assert [one.pod for _, one in rolling.unevictable] == ["ai/p2", "ai/p3", "ai/p4", "ai/p5"]
    shown = section(ahead, [])
    assert "2 pods are evicted, and 4 pods cannot be evicted now and would block it" in shown
    assert "- on `n0`: `ai/p2`: disruption budget infer allows 2 evictions at a time" in shown


def test_nodes_drained_together_share_a_budget_that_later_nodes_have_again(
    planned: plan.PoolPlan, world: World
) -> None:
    pods = {name: (_pod(f"p-{name}", name),) for name in ("n0", "n1", "n2")}
    found = replace(_found(world, pods), budgets=(_shared_budget(allowed=1),))
    (one_by_one,) = coming([planned], found, world.now).rolling
    assert (one_by_one.evicted, one_by_one.unevictable) == (3, ())
    rollout = planned.rollout.model_copy(update={"max_unavailable": 3, "canary": 1})
    (together,) = coming([replace(planned, rollout=rollout)], found, world.now).rolling
    assert together.waves == (("n0",), ("n1", "n2"))
    assert together.evicted == 2
    assert [node for node, _ in together.unevictable] == ["n2"]


def test_an_object_that_cannot_be_read_is_in_the_section_though_nothing_changes() -> None:
    odd = UnreadObject(kind="Node", name="n9", why="metadata.uid is missing")
    assert "Node n9 cannot be read: metadata.uid is missing" in section(Coming(), [], [odd])
