"""The forecast of a rollout against rollouts that take place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.fleet_controller.nodes.assess import assess
from slicewright.fleet_controller.objects.layout_change import change_of
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.applying import FAILED_S
from slicewright.fleet_controller.rollout.change_actions import CordonNode
from slicewright.fleet_controller.rollout.forecast import Forecast, forecast
from tests.fleet_controller.builders import build_pool
from tests.fleet_controller.rollout_world import World
from tests.properties import examples

POLICIES = st.builds(
    RolloutPolicy,
    max_unavailable=st.one_of(st.integers(1, 4), st.sampled_from(["10%", "50%", "100%"])),
    canary=st.integers(0, 3),
    one_zone_at_a_time=st.booleans(),
)
ZONES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=7)


@pytest.fixture
def world(pool: Pool) -> World:
    return _world(pool, RolloutPolicy(), "aaaa")


def _world(pool: Pool, policy: RolloutPolicy, zones: str | list[str]) -> World:
    world = World(pool=replace(pool, mig_config="old", layout_hash="hash-old", policy=policy))
    for n, zone in enumerate(zones):
        world.make_node(f"n{n}", zone=zone)
    world.wants("new")
    return world


def _forecast(world: World, most: int = 99) -> Forecast:
    members = [
        (node, assess(node, world.pool, world.reports.get(node.name), world.now))
        for _, node in sorted(world.nodes.items())
    ]
    return forecast(world.pool, members, most=most)


def _roll(world: World) -> list[str]:
    """The nodes in the order in which they begin, where nothing goes wrong and all are as fast."""
    begun: list[str] = []
    for _ in range(300):
        decision = world.passes()
        begun += sorted(one.node for one in decision.actions if isinstance(one, CordonNode))
        for name in world.nodes:
            world.mig_manager_works(name)
            world.agent_reports(name)
        world.now += 1
        if not any(change_of(node) or node.mig_config != "new" for node in world.nodes.values()):
            return begun
    raise AssertionError("the rollout does not end")


@given(policy=POLICIES, zones=ZONES, most=st.integers(0, 4))
@settings(max_examples=examples(100), deadline=None)
def test_a_forecast_that_is_cut_short_tells_the_rest_and_no_fewer_steps(
    policy: RolloutPolicy, zones: list[str], most: int
) -> None:
    world = _world(_pool(), policy, zones)
    whole, short = _forecast(world), _forecast(world, most)
    assert short.waves == whole.waves[:most]
    assert list(short.later) == sorted(name for wave in whole.waves[most:] for name in wave)
    assert short.steps >= whole.steps == len(whole.waves)


@given(policy=POLICIES, zones=ZONES)
@settings(max_examples=examples(100), deadline=None)
def test_nodes_begin_in_the_order_that_was_forecast(
    policy: RolloutPolicy, zones: list[str]
) -> None:
    world = _world(_pool(), policy, zones)
    told = _forecast(world)
    assert told.blocked == ()
    assert [name for wave in told.waves for name in wave] == _roll(world)
    assert all(len(wave) <= policy.limit(len(zones)) for wave in told.waves)


def _pool() -> Pool:
    return build_pool(
        name="halves",
        uid="pool-uid",
        generation=3,
        created=0.0,
        selector={"slicewright.io/pool": "halves"},
        layout_hash="hash-old",
        mig_config="old",
    )


def test_a_node_in_the_middle_of_its_change_is_in_the_first_wave(world: World) -> None:
    world.passes()
    assert [name for name, node in world.nodes.items() if node.change] == ["n0"]
    assert _forecast(world).waves == (("n0",), ("n1",), ("n2",), ("n3",))


def test_a_node_that_is_not_ready_is_left(world: World) -> None:
    world.change("n2", ready=False)
    told = _forecast(world)
    assert told.blocked == ("n0", "n1", "n2", "n3"), "it takes the one place that the policy has"
    assert told.waves == ()
    world.pool = replace(world.pool, policy=RolloutPolicy(max_unavailable=2))
    assert _forecast(world) == Forecast(
        waves=(("n0",), ("n1",), ("n3",)), later=(), blocked=("n2",), steps=3
    )


def test_a_pool_has_at_most_as_many_canaries_as_nodes(world: World) -> None:
    world.pool = replace(world.pool, policy=RolloutPolicy(canary=100))
    assert _forecast(world, most=0).steps == 4 + 4, "four canaries, then four nodes at worst"


def test_the_cordon_of_somebody_else_counts_before_and_after(world: World) -> None:
    world.change("n3", unschedulable=True)
    # The proof is made on a node in service; but none may go out beside n3.
    assert _forecast(world).waves == (("n3",),)


def test_after_a_failure_no_node_begins(world: World) -> None:
    world.broken.add("n0")
    for _ in range(6):
        world.passes()
        world.mig_manager_works("n0")
        world.now += FAILED_S
    assert [c.phase for node in world.nodes.values() if (c := change_of(node))] == ["Failed"]
    assert _forecast(world).waves == ()
    assert _forecast(world).blocked == ("n0", "n1", "n2", "n3")


def test_a_pause_is_no_end(world: World) -> None:
    world.asks("paused")
    assert len(_forecast(world).waves) == 4
