"""What is said and written where people ask for an undo, or take it back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slicewright.commands.status import exit_code
from slicewright.exit_codes import NOT_VERIFIED
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.live.annotation_change import Refused, derive_annotation
from slicewright.live.fleet import fleet_of
from slicewright.live.output.fleet_json import as_json
from slicewright.live.reading import ClusterObjects
from slicewright.live.views import Fleet, PoolView, State
from tests.fleet_controller.rollout_world import START, World


@pytest.fixture
def world() -> World:
    """Three nodes, verified with `old`; `new` is wanted."""
    pool = Pool(
        name="p",
        uid="pool",
        generation=1,
        created=START,
        selector={"slicewright.io/pool": "p"},
        layout_hash="",
        fewest=3,
        mig_config="old",
        status={},
    )
    world = World(pool, disruptions=9)
    for name in ("n0", "n1", "n2"):
        world.make_node(name)
    world.passes()
    world.wants("new")
    world.passes()
    return world


def minutes(world: World, count: int) -> None:
    for _ in range(count):
        world.now += 60
        for name in world.nodes:
            world.mig_manager_works(name)
            world.agent_reports(name)
        world.passes()


def fleet(world: World) -> Fleet:
    found = ClusterObjects(
        pools=(world.pool,),
        most={"p": 3},
        nodes=tuple(world.nodes.values()),
        reports=world.reports,
        gpus={},
        pods={},
        budgets=(),
        controller=1,
        unread=(),
    )
    return fleet_of(found, None, world.now)


def view(world: World) -> PoolView:
    (pool,) = fleet(world).pools
    return pool


def test_before_any_node_has_changed_it_says_so(world: World) -> None:
    said = derive_annotation("undo", replace(view(world), nodes=()), "")
    assert said.value == "undo:new"
    assert said.messages[0] == "the change of pool p to layout new is undone"
    assert "no node has begun to change: all keep layout old" in said.messages


def test_a_node_that_is_drained_goes_back_into_service(world: World) -> None:
    assert "back into service unchanged: n0" in derive_annotation("undo", view(world), "").messages


def test_nodes_that_have_changed_change_back_and_the_stack_file_is_named(world: World) -> None:
    minutes(world, 4)
    said = derive_annotation("undo", view(world), "").messages
    assert any(line.startswith("change back to old, a few at a time: n0") for line in said)
    assert said[-1].startswith(
        "the stack file still declares new: `pulumi up` fails until it declares old"
    )
    assert said[-1].endswith("slicewright rollout resume p")


def test_a_rollout_that_has_ended_can_be_undone(world: World) -> None:
    minutes(world, 20)
    assert view(world).state is State.VERIFIED
    said = derive_annotation("undo", view(world), "")
    assert said.value == "undo:new"
    assert "change back to old, a few at a time: n0, n1, n2" in said.messages


def test_twice_is_once(world: World) -> None:
    assert derive_annotation("undo", view(world), "undo:new").value is None


def test_an_undo_ends_a_pause_and_reports_that(world: World) -> None:
    said = derive_annotation("undo", view(world), "paused")
    assert said.value == "undo:new"
    assert "the rollout is no longer paused" in said.messages


def test_with_one_known_layout_it_is_refused(world: World) -> None:
    world.pool = replace(world.pool, status={**world.pool.status, "provenLayouts": []})
    with pytest.raises(Refused, match="verified with no layout other than new"):
        derive_annotation("undo", view(world), "")


def test_undo_is_refused_for_a_pool_that_mig_manager_does_not_partition(world: World) -> None:
    world.pool = replace(world.pool, declared=None, mig_config=None)
    with pytest.raises(Refused, match="another layout needs new nodes: write the old layout into"):
        derive_annotation("undo", view(world), "")


class TestUndone:
    @pytest.fixture
    def undone(self, world: World) -> World:
        minutes(world, 4)
        world.asks("undo:new")
        minutes(world, 20)
        return world

    def test_status_shows_the_declared_and_the_current_layout(self, undone: World) -> None:
        pool = view(undone)
        assert (pool.state, pool.reason) == (State.UNDONE, "RolloutUndone")
        assert (pool.layout, pool.declared) == ("old", "new")
        assert "The stack file still declares new" in pool.message
        assert "slicewright rollout resume p" in pool.next[0]
        assert exit_code(fleet(undone)) == NOT_VERIFIED
        assert not pool.state.waits
        (shown,) = as_json(fleet(undone), context="c", server="s", now=undone.now)["pools"]
        assert (shown["state"], shown["layout"], shown["declared"]) == ("undone", "old", "new")

    def test_resume_goes_forward(self, undone: World) -> None:
        said = derive_annotation("resume", view(undone), "undo:new")
        assert said.value == ""
        assert said.messages == (
            "the undo is reverted: pool p changes to layout new",
            "nodes to change: n0, n1, n2",
        )

    def test_pause_is_refused_without_a_rollout(self, undone: World) -> None:
        with pytest.raises(Refused, match="no node waits for layout old"):
            derive_annotation("pause", view(undone), "undo:new")

    def test_after_another_stack_file_its_rest_is_removed(self, undone: World) -> None:
        undone.wants("other")
        minutes(undone, 20)
        assert view(undone).state is State.VERIFIED
        said = derive_annotation("resume", view(undone), "undo:new")
        assert said.value == ""
        assert said.messages[0].startswith("the undo of layout new had ended")


def test_on_its_way_it_can_be_paused_and_resumed_and_then_taken_back(world: World) -> None:
    minutes(world, 20)
    world.asks("undo:new")
    minutes(world, 1)
    pool = view(world)
    assert pool.state is State.CHANGING
    paused = derive_annotation("pause", pool, "undo:new").value
    assert paused == "undo:new,paused"
    assert derive_annotation("resume", pool, paused).value == "undo:new"
    assert derive_annotation("resume", pool, "undo:new").value == ""
