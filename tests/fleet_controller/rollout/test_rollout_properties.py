"""For any history: a rollout hurts nobody on its way, and ends settled or says why not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from slicewright.apis.gpu_pool.rollout_policy import DrainPolicy, RolloutPolicy
from slicewright.apis.gpu_pool.rollout_request import RolloutRequest
from slicewright.apis.names import POOL_LABEL
from slicewright.fleet_controller.decision.actions import EmitEvent, RetractEvent, SetPoolStatus
from slicewright.fleet_controller.nodes.watchdog import RestartOperand
from slicewright.fleet_controller.objects.layout_change import change_of
from slicewright.fleet_controller.pools.status import UNDONE
from tests.fleet_controller.builders import build_pool
from tests.fleet_controller.rollout_world import BAD_DRIVER, START, World, pass_over
from tests.fleet_controller.rollout_world import known as layout_of
from tests.properties import examples

policies = st.builds(
    RolloutPolicy,
    max_unavailable=st.sampled_from([1, 2, 3, "50%"]),
    canary=st.integers(0, 2),
    one_zone_at_a_time=st.booleans(),
    drain=st.builds(
        DrainPolicy,
        timeout_s=st.just(600.0),
        on_timeout=st.sampled_from(["Stop", "Force"]),
        pods=st.sampled_from(["GPU", "GPU", "All", "None"]),
        delete_local_data=st.booleans(),
        # The API server refuses it otherwise.
    ).filter(lambda drain: drain.pods != "None" or drain.on_timeout == "Stop"),
    max_failures=st.sampled_from([1, 2, "50%", "100%"]),
    max_failures_in_a_row=st.sampled_from([None, None, 1, 2]),
    max_unverified=st.sampled_from([0, 0, 1, "50%"]),
    quarantine=st.booleans(),
)
names = st.sampled_from([*(f"n{i}" for i in range(6)), *(f"m{i}" for i in range(3))])
"""Of nodes, which begin with the name of their pool."""
pools = st.sampled_from(["n", "n", "m"])
kinds = st.sampled_from(["job", "job", "job", "bare", "data", "cpu", "daemon"])
"""Of pods."""
suspensions = st.sampled_from(["paused", "aborted"])
FAULTS = ("reboots", "not Ready", "cut by hand", "silent", "breaks")
drivers = st.sampled_from([None, "1.0.0", "1.0.0"])


class AnyHistory(RuleBasedStateMachine):
    @initialize(
        policy=policies,
        count=st.sampled_from([1, 2, 3, 4, 5, 5, 5]),
        fewest=st.sampled_from([0, 0, 1, 3]),
        driver=drivers,
        unloads_by_itself=st.booleans(),
    )
    def a_pool_in_service(
        self,
        policy: RolloutPolicy,
        count: int,
        fewest: int,
        driver: str | None,
        unloads_by_itself: bool,
    ) -> None:
        self.world = _world("n", policy, driver, fewest=fewest, unloads_by_itself=unloads_by_itself)
        for i in range(count):
            self.world.make_node(f"n{i}", zone="ab"[i % 2])
        self.world.passes()

    @initialize(policy=policies, count=st.integers(0, 3), driver=drivers, mig=st.booleans())
    def another_pool_is_there(
        self, policy: RolloutPolicy, count: int, driver: str | None, mig: bool
    ) -> None:
        """mig: whether mig-manager partitions its GPUs; otherwise it has whole ones."""
        self.other = _world("m", policy, driver, layout="old" if mig else None)
        for i in range(count):
            self.other.make_node(f"m{i}", zone="ab"[i % 2], in_service=mig)
        self.other.passes()

    @property
    def worlds(self) -> tuple[World, World]:
        return self.world, self.other

    def _of(self, name: str) -> World:
        """name: of a pool, or of a node."""
        return self.other if name.startswith("m") else self.world

    def _there(self, name: str) -> bool:
        return name in self._of(name).nodes

    @rule(
        killed_after=st.none() | st.integers(0, 30),
        conflicts=st.sets(names, max_size=2),
        refused=st.sets(st.integers(0, 12), max_size=2),
        unanswered=st.sets(st.integers(0, 12), max_size=2),
    )
    def controller_passes(
        self,
        killed_after: int | None,
        conflicts: set[str],
        refused: set[int],
        unanswered: set[int],
    ) -> None:
        pass_over(
            self.worlds,
            killed_after=killed_after,
            conflicts=conflicts,
            refused=refused,
            unanswered=unanswered,
        )

    @rule()
    def the_watch_is_lost(self) -> None:
        for world in self.worlds:
            world.lose_watch()

    @rule()
    def the_watch_is_there_again(self) -> None:
        for world in self.worlds:
            world.view = None

    @rule()
    def the_watch_of_pods_is_there_again(self) -> None:
        for world in self.worlds:
            world.pods_view = None

    @rule()
    def all_is_well_for_a_while(self) -> None:
        for _ in range(4):
            self._minute(5.0)

    @rule(pool=pools, layout=st.sampled_from(["old", "new", "new", "other", "bad"]))
    def another_layout_is_wanted(self, pool: str, layout: str) -> None:
        self._wants(pool, layout)

    def _wants(self, pool: str, layout: str) -> None:
        declared = self._of(pool).pool.declared
        if declared is not None and layout != declared.mig_config:
            self._of(pool).wants(layout)

    @rule(pool=pools, version=st.sampled_from(["1.0.0", "2.0.0", "2.0.0", BAD_DRIVER]))
    def another_driver_is_wanted(self, pool: str, version: str) -> None:
        if self._of(pool).pool.driver not in (None, version):
            self._of(pool).wants_driver(version)

    @rule(pool=pools, version=st.sampled_from(["1.0.0", "2.0.0", "3.0.0"]), late=st.booleans())
    def a_driver_rolls(self, pool: str, version: str, late: bool) -> None:
        """late: whether the operator changes its DaemonSet when the first nodes are drained."""
        world = self._of(pool)
        if world.pool.driver is None:
            return
        world.asks("")
        self.another_driver_is_wanted(pool, version)
        for known in (not late, True):
            if known:
                self.the_operators_daemonset_has_the_driver(pool)
            self._passes_with_room()
        for name in (*world.nodes, *world.nodes):
            world.driver_pod_works(name)
        self._passes_with_room()

    @rule(pool=pools)
    def the_operators_daemonset_has_the_driver(self, pool: str) -> None:
        self._of(pool).offered = self._of(pool).pool.driver or ""

    @rule(name=names)
    def a_driver_pod_works(self, name: str) -> None:
        if self._there(name):
            self._of(name).driver_pod_works(name)

    @rule(pool=pools, asked=st.sampled_from(["", "", "paused", "aborted"]))
    def people_ask(self, pool: str, asked: str) -> None:
        self._of(pool).asks(asked)

    @rule(pool=pools, then=st.sampled_from(["", "", "", "paused", "aborted"]))
    def people_undo(self, pool: str, then: str) -> None:
        """Of whatever is declared, as far as it is gone, and whether or not it can be undone."""
        declared = self._of(pool).pool.declared
        if declared is not None:
            self._of(pool).asks(RolloutRequest(undoes=declared.mig_config, suspended=then).dump())

    @rule(layout=st.sampled_from(["new", "other"]))
    def a_change_is_undone_while_agents_are_silent(self, layout: str) -> None:
        """What they have said last is of before it, and may be a match with the layout of then;
        mig-manager makes what it has read before the undo.
        """
        world = self.world
        world.asks("")
        self._wants("n", layout)
        self._passes_with_room()
        for name in world.nodes:
            world.mig_manager_takes_up(name)
        world.asks(RolloutRequest(undoes=layout).dump())
        self._passes_with_room()
        for name in (*world.nodes, *world.nodes):
            world.mig_manager_works(name)
            pass_over(self.worlds)

    @rule(
        pool=pools,
        layout=st.sampled_from(["old", "new", "other", "bad"]),
        kind=kinds,
        which=st.integers(0, 5),
        fault=st.sampled_from(["", *FAULTS]),
        at=st.integers(0, 12),
    )
    def a_layout_rolls_and_a_node_fails(
        self, pool: str, layout: str, kind: str, which: int, fault: str, at: int
    ) -> None:
        """In the middle of it, and of the pods on all its nodes."""
        world = self._of(pool)
        world.asks("")
        for name in world.nodes:
            self.a_pod_is_bound(name, kind)
        self._wants(pool, layout)
        there = sorted(world.nodes)
        hit = there[which % len(there)] if there else ""
        for step in range(15):
            if step == at and fault:
                self.a_node_fails(hit, fault)
            self.time_passes(30.0)
            world.disruptions = 9
            world.pods_end()
            pass_over(self.worlds)
            for name in world.nodes:
                world.mig_manager_works(name)
                world.mig_manager_works(name)
                if name != hit or fault not in ("silent", "reboots"):
                    world.agent_reports(name)

    @rule(name=names, fault=st.sampled_from(FAULTS))
    def a_node_fails(self, name: str, fault: str) -> None:
        if not self._there(name):
            return
        world = self._of(name)
        match fault:
            case "reboots":
                world.reboot(name)
            case "not Ready":
                world.change(name, ready=False)
            case "cut by hand":
                world.gpus_are_cut_by_hand(name)
            case "breaks":
                world.broken.add(name)
            case "silent":
                self.time_passes(1000.0)
                for other in sorted({*self.world.nodes, *self.other.nodes} - {name}):
                    self._of(other).agent_reports(other)
            case _:
                raise AssertionError(fault)

    @rule(hit=st.sets(names, min_size=2, max_size=3))
    def gpus_are_cut_by_hand_and_nobody_looks(self, hit: set[str]) -> None:
        for name in sorted(hit):
            self.a_node_fails(name, "cut by hand")
        for _ in range(3):
            self.time_passes(60.0)
            pass_over(self.worlds)

    @rule(pool=pools)
    def a_layout_cannot_be_made(self, pool: str) -> None:
        self._of(pool).asks("")
        self._wants(pool, "bad")
        for _ in range(8):
            self._minute()

    @rule(pool=pools, layout=st.sampled_from(["new", "other"]), kind=kinds, asked=suspensions)
    def a_drain_is_stopped(self, pool: str, layout: str, kind: str, asked: str) -> None:
        world = self._of(pool)
        world.asks("")
        for name in world.nodes:
            self.a_pod_is_bound(name, kind)
        self._wants(pool, layout)
        world.disruptions = 0
        pass_over(self.worlds)
        world.asks(asked)
        world.disruptions = 9
        for _ in range(3):
            self.time_passes(30.0)
            pass_over(self.worlds)
            world.pods_end()

    def _passes_with_room(self) -> None:
        for _ in range(4):
            for world in self.worlds:
                world.disruptions = 9
                world.pods_end()
            pass_over(self.worlds)

    @rule(name=names)
    def mig_manager_takes_up_a_layout(self, name: str) -> None:
        if self._there(name):
            self._of(name).mig_manager_takes_up(name)

    @rule(name=names)
    def an_agent_reports_that_has_not_read_its_node(self, name: str) -> None:
        if self._there(name):
            self._of(name).agent_reports(name, reads=False)

    @rule(pool=pools, policy=policies)
    def another_policy(self, pool: str, policy: RolloutPolicy) -> None:
        self._of(pool).pool = replace(self._of(pool).pool, policy=policy)

    @rule(name=names, kind=kinds)
    def a_pod_is_bound(self, name: str, kind: str) -> None:
        facts = {
            "job": {},
            "bare": {"controlled": False},
            "data": {"local_data": True},
            "cpu": {"gpus": False},
            "daemon": {"daemon_set": True},
        }[kind]
        if self._there(name):
            self._of(name).bind(name, **facts)

    @rule(name=names, layout=st.sampled_from(["old", "new"]))
    def a_pod_comes_that_no_watch_shows(self, name: str, layout: str) -> None:
        """Just before the node's layout is to change."""
        for world in self.worlds:
            world.lose_watch_of_pods()
        if self._there(name):
            self._of(name).bind(name)
        self._wants(name, layout)
        for _ in range(4):
            self._minute(5.0)

    @rule()
    def pods_end(self) -> None:
        for world in self.worlds:
            world.pods_end()

    @rule(name=names)
    def a_job_ends(self, name: str) -> None:
        if self._there(name):
            self._of(name).pods[name] = []

    @rule(pool=pools, count=st.integers(0, 3))
    def the_budget_allows(self, pool: str, count: int) -> None:
        self._of(pool).disruptions = count

    @rule(name=names)
    def mig_manager_works(self, name: str) -> None:
        if self._there(name):
            self._of(name).mig_manager_works(name)

    @rule(name=names)
    def an_agent_reports(self, name: str) -> None:
        if self._there(name):
            self._of(name).agent_reports(name)

    @rule(name=names, zone=st.sampled_from("ab"))
    def a_node_joins_or_is_made_anew(self, name: str, zone: str) -> None:
        self._of(name).make_node(name, zone=zone, in_service=False)

    @rule(name=names)
    def a_node_is_lost(self, name: str) -> None:
        self._of(name).delete_node(name)

    @rule(name=names)
    def a_node_leaves_its_pool(self, name: str) -> None:
        """Somebody has taken its label away."""
        if not self._there(name):
            return
        self.the_watch_is_there_again()
        world = self._of(name)
        labels = dict(world.nodes[name].labels)
        del labels[POOL_LABEL]
        world.change(name, labels=labels)
        pass_over(self.worlds)
        node = world.nodes[name]
        assert not node.change, "it is left in the middle of a change"
        assert not node.unschedulable or name in world.by_admin, "a cordon of ours is left behind"
        world.delete_node(name)

    @rule(name=names)
    def a_node_reboots(self, name: str) -> None:
        if self._there(name):
            self._of(name).reboot(name)

    @rule(name=names, ready=st.booleans())
    def a_kubelet_is_heard_or_not(self, name: str, ready: bool) -> None:
        if self._there(name):
            self._of(name).change(name, ready=ready)

    @rule(name=names)
    def a_node_breaks(self, name: str) -> None:
        self._of(name).broken.add(name)

    @rule(name=names, for_good=st.booleans())
    def mig_manager_hangs(self, name: str, for_good: bool) -> None:
        if self._there(name):
            self._of(name).hung.add(name)
            if for_good:
                self._of(name).cursed.add(name)

    @rule(name=names, layout=st.sampled_from(["old", "new", "other", "bad"]))
    def somebody_relabels_a_node(self, name: str, layout: str) -> None:
        if self._there(name):
            self._of(name).somebody_relabels(name, layout)

    @rule(name=names)
    def operands_stay_paused(self, name: str) -> None:
        if self._there(name):
            self._of(name).operands_stay_paused(name)

    @rule(name=names)
    def an_admin_cordons(self, name: str) -> None:
        if self._there(name) and not self._of(name).nodes[name].unschedulable:
            change = change_of(self._of(name).nodes[name])
            self._of(name).change(name, unschedulable=True)
            if change is None or not change.cordoned:
                self._of(name).by_admin.add(name)

    @rule(name=names)
    def an_admin_uncordons(self, name: str) -> None:
        if self._there(name) and self._of(name).nodes[name].unschedulable:
            self._of(name).change(name, unschedulable=False)
            self._of(name).by_admin.discard(name)

    @rule(seconds=st.sampled_from([5.0, 60.0, 700.0, 2000.0]))
    def time_passes(self, seconds: float) -> None:
        for world in self.worlds:
            world.now += seconds

    def teardown(self) -> None:
        if hasattr(self, "world") and hasattr(self, "other"):
            self.settle()

    def _minute(self, seconds: float = 60.0) -> None:
        for world in self.worlds:
            world.now += seconds
            world.disruptions = max(1, world.disruptions)
            world.pods_end()
            world.offered = world.pool.driver or ""
            for name in list(world.nodes):
                world.driver_pod_works(name)
                world.mig_manager_works(name)
                world.agent_reports(name)
        decision = pass_over(self.worlds)
        # Reports grow old and `up` is told something, however quiet it is; and where pods keep a
        # stuck node from being healed, that is looked at again for ever.
        self.acted = any(
            not isinstance(a, SetPoolStatus | EmitEvent | RetractEvent)
            and not (
                isinstance(a, RestartOperand) and a.stuck and a.stuck.held_by and not a.restart
            )
            for a in decision.actions
        )

    def settle(self) -> None:
        """Everybody does his part for hours, and nothing else happens."""
        for world in self.worlds:
            world.view = world.pods_view = None
            for name, node in list(world.nodes.items()):
                if not node.ready:
                    world.change(name, ready=True)
        quiet = 0
        for _ in range(90):
            # Where nothing happens any more, all deadlines pass.
            self._minute(60.0 if quiet < 2 else 1900.0)
            quiet = quiet + 1 if not self.acted else 0
            if quiet == 4:
                break
        assert quiet == 4, "it does not come to rest"
        for world in self.worlds:
            _ended_well(world)


def _world(
    name: str,
    policy: RolloutPolicy,
    driver: str | None,
    *,
    layout: str | None = "old",
    fewest: int = 0,
    unloads_by_itself: bool = False,
) -> World:
    """A pool without nodes. layout: None for whole GPUs."""
    pool = build_pool(
        name=name,
        uid=f"pool-{name}",
        created=START,
        selector={"slicewright.io/pool": name},
        layout_hash=layout_of(layout or "none").layout_hash,
        fewest=fewest,
        mig_config=layout,
        policy=policy,
        driver=driver,
    )
    return World(
        pool,
        offered=driver or "",
        unloads_by_itself=unloads_by_itself,
        # Uids are those of one cluster.
        made=0 if name == "n" else 1000,
    )


def _ended_well(world: World) -> None:
    status = {c["type"]: c for c in world.pool.status["conditions"]}
    noted = {n.name: c for n in world.nodes.values() if (c := change_of(n))}
    for name, change in noted.items():
        if change.phase == "Paused":
            assert world.pool.suspended == "paused"
        elif change.phase == "Draining" and world.nodes[name].mig_state == "pending":
            # mig-manager hangs for good, and nothing may be asked of it. The node says so.
            said = world.nodes[name].condition
            assert said is not None
            assert (said.status, said.reason) == ("False", "PartitioningStuck")
            assert status["Degraded"]["status"] == "True"
        else:
            assert change.phase == "Failed", (name, change)
    for node in world.nodes.values():
        if node.unschedulable and node.name not in noted:
            assert node.name in world.by_admin, "a cordon of ours is left behind"
        assert node.name not in world.by_admin or node.unschedulable
    assert world.pool.request_after_undo is None, "it would undo the next change, too"
    if all(node.mig_state != "pending" for node in world.nodes.values()):
        # Nothing ever ends what a mig-manager that hangs for good is in the middle of.
        assert status["Progressing"]["status"] == "False", "it waits for nothing"
    if not world.policy.quarantine:
        assert all(node.quarantine_at is None for node in world.nodes.values())
    if status["Verified"]["reason"] == "EnoughNodesProven":
        told = {one["name"] for one in world.pool.status["failingNodes"]}
        assert 0 < len(told) <= world.policy.tolerated(len(world.nodes))
        for name, node in world.nodes.items():
            if name not in told:
                assert world.cut[name] == (world.pool.mig_config or "none")
                assert world.loaded.get(name) == world.pool.driver
                assert not node.held
        assert status["Degraded"]["status"] == "True"
    elif status["Verified"]["status"] == "True" or status["Verified"]["reason"] == UNDONE:
        assert (status["Verified"]["status"] == "False") == world.pool.undone
        assert status["Settled"]["status"] == "True"
        # Of an undone pool, too, some may stay wrong.
        failing = {one["name"] for one in world.pool.status.get("failingNodes") or ()}
        assert len(failing) <= (world.policy.tolerated(len(world.nodes)) if failing else 0)
        assert not failing or world.pool.undone
        assert noted.keys() <= failing
        for name, node in world.nodes.items():
            if name not in failing:
                assert world.cut[name] == (world.pool.mig_config or "none")
                assert world.loaded.get(name) == world.pool.driver
                assert not node.held
    elif status["Verified"]["reason"] in ("RolloutPaused", "RolloutAborted"):
        assert world.pool.suspended
        assert status["Settled"]["status"] == "True"
    else:
        assert status["Degraded"]["status"] == "True", status
        if status["Degraded"]["reason"] == "TooFewNodes":
            assert len(world.nodes) < world.pool.fewest
        else:
            assert world.pool.status["failingNodes"][0]["reason"]


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(
    max_examples=examples(200),
    stateful_step_count=25,
    deadline=None,
)


class ManyHistories(AnyHistory):
    """What `make test` tries a few of."""


TestManyHistories = pytest.mark.soak(pytest.mark.timeout(3600)(ManyHistories.TestCase))
TestManyHistories.settings = settings(
    max_examples=5000,
    stateful_step_count=25,
    deadline=None,
)
