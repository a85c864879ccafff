"""What is said of pools and nodes, by what their objects hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from slicewright.apis.gpu_pool.rollout_policy import DrainPolicy, RolloutPolicy
from slicewright.apis.names import MIG_CONFIG_LABEL as CONFIG
from slicewright.apis.names import MIG_STATE_LABEL as STATE
from slicewright.commands.status import exit_code
from slicewright.exit_codes import DEGRADED, NOT_VERIFIED, VERIFIED
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.rollout.applying import FAILED_S
from slicewright.fleet_controller.rollout.drain import Refusal
from slicewright.live.annotation_change import Refused, derive_annotation
from slicewright.live.fleet import fleet_of
from slicewright.live.output.fleet_json import as_json
from slicewright.live.output.text import lines, log_lines
from slicewright.live.reading import ClusterObjects
from slicewright.live.views import Fleet, PoolView, State
from tests.fleet_controller.rollout_world import START, World
from tests.slicewright.live.hostile import budget, pod


@pytest.fixture
def world() -> World:
    """Three nodes in service, verified by the controller."""
    pool = Pool(
        name="p",
        uid="pool",
        generation=1,
        created=START,
        selector={"slicewright.io/pool": "p"},
        layout_hash="hash-old",
        fewest=3,
        mig_config="old",
        status={},
        policy=RolloutPolicy(drain=DrainPolicy(timeout_s=600)),
    )
    world = World(pool)
    for name in ("n0", "n1", "n2"):
        world.make_node(name)
    _settle(world)
    return world


def _settle(world: World, passes: int = 3) -> None:
    for _ in range(passes):
        world.passes()
        world.now += 1


def _found(world: World, **more: Any) -> ClusterObjects:
    facts: dict[str, Any] = {
        "pools": (world.pool,),
        "most": {world.pool.name: 3},
        "nodes": tuple(world.nodes.values()),
        "reports": world.reports,
        "gpus": {},
        "pods": {},
        "budgets": (),
        "controller": 1,
        "unread": (),
    }
    return ClusterObjects(**{**facts, **more})


def _seen(world: World, **more: Any) -> Fleet:
    return fleet_of(_found(world, **more), None, world.now)


def _pool(world: World, **more: Any) -> PoolView:
    (pool,) = _seen(world, **more).pools
    return pool


def _text(fleet: Fleet, now: float, *, every_node: bool = False) -> str:
    shown = lines(fleet, where="here", now=now, width=100, every_node=every_node)
    return "\n".join(line.plain for line in shown)


class TestStates:
    def test_verified(self, world: World) -> None:
        assert _pool(world).state is State.VERIFIED
        assert exit_code(_seen(world)) == VERIFIED

    def test_a_new_generation_that_the_controller_has_not_seen_is_not_verified(
        self, world: World
    ) -> None:
        world.wants("new")
        pool = _pool(world)
        assert (pool.state, pool.reason) == (State.SETTING_UP, "NotSeenYet")
        assert exit_code(_seen(world)) == NOT_VERIFIED

    def test_a_changing_node_is_shown_with_its_next_step(self, world: World) -> None:
        world.wants("new")
        _settle(world, 1)
        pool = _pool(world)
        assert (pool.state, pool.reason) == (State.CHANGING, "RollingOut")
        assert pool.rollout is not None
        assert pool.rollout.waves == (("n0",), ("n1",), ("n2",))
        assert exit_code(_seen(world)) == NOT_VERIFIED

    def test_paused_is_stopped_and_names_the_way_on(self, world: World) -> None:
        world.wants("new")
        world.asks("paused")
        _settle(world, 1)
        pool = _pool(world)
        assert pool.state is State.STOPPED
        assert pool.next == ("`slicewright rollout resume p`",)
        assert "after a resume (now paused): n0, then n1, then n2" in _text(_seen(world), world.now)

    def test_a_failed_node_is_first_with_its_remedy(self, world: World) -> None:
        world.wants("new")
        world.broken.add("n0")
        for _ in range(30):
            world.mig_manager_works("n0")
            _settle(world, 1)
            world.now += FAILED_S / 10
        pool = _pool(world)
        assert pool.state is State.DEGRADED
        assert exit_code(_seen(world)) == DEGRADED
        first = pool.nodes[0]
        assert (first.name, first.phase, first.reason) == ("n0", "Failed", "ChangeFailed")
        assert pool.rollout is not None
        assert pool.rollout.blocked == ("n0", "n1", "n2")
        shown = _text(_seen(world), world.now)
        assert "→ repair the node" in shown
        assert "node n1" not in shown, "it waits in service: nothing to do there"

    def test_too_few_nodes_has_a_way_out(self, world: World) -> None:
        world.delete_node("n2")
        _settle(world)
        pool = _pool(world)
        assert (pool.state, pool.reason) == (State.SETTING_UP, "TooFewNodes")
        assert "check why no node joins" in pool.next[0]

    def test_a_pool_of_the_file_that_the_cluster_lacks_is_missing(self, world: World) -> None:
        fleet = fleet_of(_found(world), {"p", "q"}, world.now)
        assert [pool.state for pool in fleet.pools] == [State.VERIFIED, State.MISSING]
        assert exit_code(fleet) == DEGRADED

    def test_a_node_whose_pods_are_ended_says_so(self, world: World) -> None:
        policy = replace(world.pool.policy, quarantine=True, max_unverified=1)
        world.pool = replace(world.pool, policy=policy)
        world.bind("n0")
        world.cut["n0"] = "other"
        world.agent_reports("n0")
        _settle(world)
        assert [node.quarantined for node in _pool(world).nodes] == [False] * 3
        world.now += 11
        _settle(world)
        assert world.pods["n0"] == []
        pool = _pool(world)
        assert {node.name for node in pool.nodes if node.quarantined} == {"n0"}
        assert "node n0  not verified, quarantined: its pods end" in _text(_seen(world), world.now)
        assert (pool.state, pool.reason) == (State.VERIFIED, "EnoughNodesProven")

    def test_a_cluster_without_a_pool_is_not_verified(self) -> None:
        assert exit_code(Fleet(pools=(), notes=())) == NOT_VERIFIED

    def test_a_controller_that_does_not_run_is_reported(self, world: World) -> None:
        assert "does not run" in _seen(world, controller=0).notes[0]
        assert _seen(world, controller=None).notes == ()
        waits = "pod fleet-controller-x: ImagePullBackOff: docker.io answers 429"
        assert waits in _seen(world, controller=0, controller_waits=waits).notes[0]
        first_up = _seen(world, pools=(), controller=0, controller_waits=waits)
        assert waits in first_up.notes[0]
        assert _seen(world, pools=(), controller=0).notes == ()


class TestOneTruthOfADrain:
    @pytest.fixture
    def held(self, world: World) -> World:
        """n0 is drained, and a disruption budget has refused its pod."""
        world.wants("new")
        world.bind("n0")
        _settle(world, 1)
        for _ in range(2):
            world.refusals = {
                pod.uid: Refusal(
                    why="The disruption budget infer needs 4 healthy pods and has 4 currently",
                    retry_at=world.now + 60,
                )
                for pod in world.pods["n0"]
            }
            _settle(world, 1)
        assert world.nodes["n0"].condition is not None
        assert world.nodes["n0"].condition.reason == "ChangeHeldByPods"
        return world

    def _raw(self, world: World) -> Mapping[str, Any]:
        (known,) = world.pods["n0"]
        raw = pod(known.name, "n0")
        raw["metadata"] |= {"namespace": known.namespace, "uid": known.uid}
        return {"n0": (raw,)}

    def _budget(self, world: World, allowed: int) -> dict[str, Any]:
        (known,) = world.pods["n0"]
        one = budget("infer", allowed=allowed, needs=4, pods=6)
        one["metadata"]["namespace"] = known.namespace
        return one

    def test_while_the_budget_holds_pool_and_node_and_pod_say_so(self, held: World) -> None:
        fleet = _seen(held, pods=self._raw(held), budgets=(self._budget(held, 0),))
        shown = _text(fleet, held.now)
        assert "ChangeHeldByPods" in shown
        assert "allows no eviction now: it needs 4 healthy pods and has 4" in shown
        assert "will be evicted" not in shown
        assert shown.count(held.pods["n0"][0].path) == 1, "each pod is named once"

    def test_once_it_allows_an_eviction_nobody_says_that_it_holds(self, held: World) -> None:
        fleet = _seen(held, pods=self._raw(held), budgets=(self._budget(held, 1),))
        (pool,) = fleet.pools
        (node,) = [node for node in pool.nodes if node.name == "n0"]
        assert node.reason == "Draining"
        shown = _text(fleet, held.now)
        assert "will be evicted" in shown
        assert "healthy pods" not in shown
        assert "raise their disruption budget" not in shown

    def test_no_pod_is_listed_for_eviction_after_the_drain(self, held: World) -> None:
        held.now += 700
        _settle(held, 2)
        fleet = _seen(held, pods=self._raw(held), budgets=(self._budget(held, 1),))
        shown = _text(fleet, held.now)
        assert "DrainTimedOut" in shown
        assert "will be evicted" not in shown
        assert "not evicted again" in shown


class TestUndoIsOffered:
    def test_not_where_somebody_has_changed_a_label(self, world: World) -> None:
        world.wants("new")
        for _ in range(60):
            for name in world.nodes:
                world.mig_manager_works(name)
                world.agent_reports(name)
            _settle(world, 1)
        pool = _pool(world)
        assert (pool.state, pool.earlier) == (State.VERIFIED, "old"), "an undo is possible"
        world.change("n0", labels={**world.nodes["n0"].labels, CONFIG: "other", STATE: "pending"})
        _settle(world, 1)
        pool = _pool(world)
        assert pool.state is not State.VERIFIED
        assert not pool.undo_helps
        assert "undo" not in _text(_seen(world), world.now)
        going = world.pool.condition("Progressing")
        assert going is not None
        assert (going.status, going.reason) == ("True", "RollingOut"), "it begins by itself"

    def test_failed_change_has_a_way_back(self, world: World) -> None:
        world.wants("new")
        world.broken.add("n0")
        for _ in range(30):
            world.mig_manager_works("n0")
            _settle(world, 1)
            world.now += FAILED_S / 10
        assert _pool(world).undo_helps
        assert "rollout undo p" in _text(_seen(world), world.now)

    def test_not_where_the_pool_was_never_verified_with_another_layout(self, world: World) -> None:
        world.pool = replace(world.pool, status={**world.pool.status, "provenLayouts": []})
        world.wants("new")
        world.broken.add("n0")
        for _ in range(30):
            world.mig_manager_works("n0")
            _settle(world, 1)
            world.now += FAILED_S / 10
            world.pool = replace(world.pool, status={**world.pool.status, "provenLayouts": []})
        assert _pool(world).state is State.DEGRADED
        assert "rollout undo" not in _text(_seen(world), world.now)


def test_words_of_nodes_reach_a_terminal_without_control_characters(world: World) -> None:
    said = world.nodes["n0"].condition
    assert said is not None
    evil = replace(said, status="False", message="\x1b[2Jgone\u202e")
    world.change("n0", condition=evil)
    shown = _text(_seen(world), world.now)
    assert "\\x1b[2Jgone\\u202e" in shown
    assert "\x1b" not in shown


def test_the_proofs_of_a_pool_are_summed_up_and_failing_devices_named(world: World) -> None:
    world.pool = replace(world.pool, computes=True)
    computed = {
        "outcome": "computed",
        "deviceCount": 7,
        "devices": [
            {"uuid": "MIG-1", "outcome": "computed", "readGBps": 355},
            {"uuid": "MIG-2", "outcome": "computed", "readGBps": 320},
        ],
    }
    failed = {
        "outcome": "failed",
        "deviceCount": 7,
        "devices": [
            {"uuid": "MIG-9", "outcome": "failed", "error": "CUDA_ERROR_LAUNCH_FAILED (719)"}
        ],
    }
    fleet = _seen(world, gpus={"n0": {"compute": computed}, "n1": {"compute": failed}})
    text = _text(fleet, world.now)
    assert (
        "CUDA has computed on 7 devices of 1 node, reading 320 to 355 GB/s; no proof yet: n2"
        in text
    )
    assert "node n1: MIG-9 failed: CUDA_ERROR_LAUNCH_FAILED (719)" in text
    (pool,) = as_json(fleet, context="c", server="s", now=world.now)["pools"]
    assert pool["compute"] == {
        "nodes": 1,
        "devices": 7,
        "read_gb_s": [320, 355],
        "without": ["n2"],
        "failed": [
            {
                "node": "n1",
                "uuid": "MIG-9",
                "outcome": "failed",
                "error": "CUDA_ERROR_LAUNCH_FAILED (719)",
            }
        ],
    }


def test_a_pool_that_is_listed_only_says_nothing_about_cuda(world: World) -> None:
    assert "CUDA" not in _text(_seen(world), world.now)
    (pool,) = as_json(_seen(world), context="c", server="s", now=world.now)["pools"]
    assert pool["compute"] is None


def test_equal_gpus_of_many_nodes_are_drawn_once(world: World) -> None:
    entry = {"indexes": list(range(8)), "mig": "enabled", "instances": {"1g.5gb": 7}}
    report = {"models": ["NVIDIA A100-SXM4-40GB"], "gpus": [entry]}
    whole = {"models": ["Tesla T4"], "gpus": [{"indexes": [0], "mig": "unsupported"}]}
    lost = {"models": ["Tesla T4"], "gpus": [{"indexes": [0, 1]}]}
    fleet = _seen(world, gpus={"n0": report, "n1": report, "n2": whole})
    shown = _text(fleet, world.now)
    assert "16 x NVIDIA A100-SXM4-40GB, each 7 x 1g.5gb: on n0, n1" in shown
    assert shown.count("memory") == 1
    assert "1 x Tesla T4, whole: on n2" in shown
    assert "2 x Tesla T4, state unknown" in _text(_seen(world, gpus={"n0": lost}), world.now)


class TestLog:
    def test_a_line_for_every_change_and_none_without(self, world: World) -> None:
        before = _seen(world)
        assert log_lines(None, before) == ["pool p: verified: AllNodesProven: 3 nodes verified"]
        assert log_lines(before, before) == []
        world.wants("new")
        _settle(world, 1)
        after = log_lines(before, _seen(world))
        assert any(line.startswith("pool p: changing: RollingOut") for line in after)
        assert any(line.startswith("pool p: node n0: draining, cordoned") for line in after)

    def test_missing_pools_and_nodes_are_logged(self, world: World) -> None:
        before = _seen(world)
        world.delete_node("n1")
        assert "pool p: node n1: gone" in log_lines(before, _seen(world))
        assert log_lines(before, Fleet(pools=(), notes=())) == ["pool p: gone"]


class TestAsks:
    @pytest.fixture
    def rolling(self, world: World) -> PoolView:
        """n0 is cut, n1 is drained."""
        world.pool = replace(world.pool, policy=RolloutPolicy(max_unavailable=2, canary=0))
        world.wants("new")
        world.bind("n1", controlled=False)
        _settle(world, 4)
        return _pool(world)

    def test_a_pause_says_what_is_finished_and_what_stays(self, rolling: PoolView) -> None:
        asked = derive_annotation("pause", rolling, "")
        assert asked.value == "paused"
        assert "being partitioned, will finish: n0" in asked.messages
        assert "drained, stay cordoned: n1" in asked.messages

    def test_an_abort_follows_a_pause(self, rolling: PoolView) -> None:
        asked = derive_annotation("abort", rolling, "paused")
        assert asked.value == "aborted"
        assert "back into service unchanged: n1" in asked.messages

    @pytest.mark.parametrize(("verb", "now"), [("pause", "paused"), ("abort", "aborted")])
    def test_an_annotation_that_is_already_set_is_not_written(
        self, verb: Any, now: str, rolling: PoolView
    ) -> None:
        assert derive_annotation(verb, rolling, now).value is None

    def test_a_resume_says_the_order(self, rolling: PoolView) -> None:
        asked = derive_annotation("resume", rolling, "paused")
        assert asked.value == ""
        assert asked.messages[1] == "nodes to change, in this order: n0, n1, n2"

    def test_an_annotation_that_means_nothing_is_not_overwritten(self, rolling: PoolView) -> None:
        with pytest.raises(Refused, match="'stop', which is invalid"):
            derive_annotation("pause", rolling, "stop")

    def test_a_pool_without_a_rollout_is_refused(self, world: World) -> None:
        with pytest.raises(Refused, match="has no rollout"):
            derive_annotation("abort", _pool(world), "")
        by_gke: Mapping[str, Any] = {"layout": ""}
        with pytest.raises(Refused, match="another layout needs new nodes"):
            derive_annotation("abort", replace(_pool(world), **by_gke), "")
