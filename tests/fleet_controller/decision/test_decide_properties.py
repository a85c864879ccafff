"""For any cluster: deciding and executing converges, without a forbidden action on the way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from slicewright.apis.names import STARTUP_TAINT_KEY as TAINT
from slicewright.fleet_controller.decision.actions import (
    Action,
    AddStartupTaint,
    ClearReportsAfter,
    EmitEvent,
    NoteGpuPods,
    RecordBoot,
    RemoveStartupTaint,
    RetractEvent,
    SetMigConfig,
    SetNodeCondition,
    SetPoolStatus,
)
from slicewright.fleet_controller.decision.decide import Decision, decide
from slicewright.fleet_controller.decision.inspection import to_inspect
from slicewright.fleet_controller.nodes import assess
from slicewright.fleet_controller.nodes.watchdog import RestartOperand
from slicewright.fleet_controller.objects import bounds
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.objects.warning_event import WarningEvent
from slicewright.fleet_controller.rollout.change_actions import (
    ApplyLayout,
    CordonNode,
    EvictPod,
    FinishChange,
    NoteChange,
)
from tests.fleet_controller.kubernetes_objects import bare
from tests.properties import examples

NOW = 1_800_000_000.0
HASHES = ("a" * 64, "b" * 64)
STATE, CONFIG = "nvidia.com/mig.config.state", "nvidia.com/mig.config"

times = st.sampled_from([NOW - 5000, NOW - 700, NOW - 100, NOW - 5, NOW])
conditions = st.builds(
    Condition,
    status=st.sampled_from(["True", "False", "Unknown"]),
    reason=st.sampled_from(["PartitionsMatch", "WrongLayout", "NoReport"]),
    message=st.sampled_from(["fine", "bad"]),
    changed=times,
    written=times,
)


labels = st.fixed_dictionaries(
    {
        "slicewright.io/pool": st.sampled_from(["p0", "p1"]),
        CONFIG: st.sampled_from([None, "all-disabled", "c0", "c1"]),
        STATE: st.sampled_from([None, "pending", "rebooting", "success", "failed"]),
        "nvidia.com/gpu.deploy.device-plugin": st.sampled_from(
            [None, "true", "paused-for-mig-change"]
        ),
    }
).map(lambda given: {key: value for key, value in given.items() if value is not None})
nodes = st.builds(
    Node,
    name=st.just(""),
    uid=st.just(""),
    version=st.just("1"),
    created=times,
    boot_id=st.just("b1"),
    verified_boot=st.sampled_from(["", "b0", "b1"]),
    verified_layout=st.sampled_from(["", "c0", "c1"]),
    ready=st.sampled_from([True, True, True, False]),
    labels=labels,
    taint_keys=st.sampled_from([(), (TAINT,), ("x", TAINT, "y"), (TAINT, TAINT), ("x",)]),
    condition=st.none() | conditions,
    leaving=st.sampled_from([False, False, False, True]),
    gpu_pods=st.sampled_from(["", "", "1"]),
    has_annotations=st.booleans(),
)
verdicts = st.sampled_from(
    [
        ("Match", "PartitionsMatch"),
        ("Mismatch", "WrongLayout"),
        ("Mismatch", "NotPartitioned"),
        ("Unknown", "DriverHung"),
    ]
)
reports = st.builds(
    lambda of, **facts: Report(name="", pool="", verdict=of[0], reason=of[1], **facts),
    verdicts,
    owner_uid=st.sampled_from(["", "", "", "old"]),
    message=st.sampled_from(["fine", "bad"]),
    layout_hash=st.sampled_from([HASHES[0], HASHES[0], HASHES[1]]),
    boot_id=st.sampled_from(["b1", "b1", "b1", "b0"]),
    computed=st.booleans(),
    time=times,
)
# A node, its report, and the pods that hold its GPUs.
members = st.lists(
    st.tuples(nodes, st.none() | reports, st.sampled_from([(), (), ("ai/a",)])), max_size=5
)
pools = st.lists(
    st.builds(
        Pool,
        name=st.just(""),
        uid=st.just(""),
        generation=st.integers(1, 3),
        created=st.just(NOW - 100),
        selector=st.just({}),
        layout_hash=st.just(HASHES[0]),
        fewest=st.integers(0, 3),
        mig_config=st.sampled_from([None, "c0", "c1"]),
        status=st.just({}),
        computes=st.booleans(),
    ),
    min_size=1,
    max_size=2,
)


@dataclass
class World:
    pools: dict[str, Pool]
    nodes: dict[str, Node]
    reports: dict[str, Report]
    pods: dict[str, tuple[str, ...]]
    warnings: dict[str, WarningEvent] = field(default_factory=dict)

    def decided(self) -> tuple[Action, ...]:
        pools, nodes = list(self.pools.values()), list(self.nodes.values())
        inspected = to_inspect(pools, nodes, NOW)
        pods = {name: tuple(map(bare, self.pods[name])) for name in inspected}
        return decide(
            pools, nodes, self.reports, pods, self.warnings, NOW, gpu_pods=self.gpu_pods()
        ).actions

    def gpu_pods(self) -> dict[str, int]:
        return {name: len(pods) for name, pods in self.pods.items() if pods}

    def do(self, action: Action) -> None:
        """What the API server would make of it, and what must hold at that moment."""
        match action:
            case SetNodeCondition():
                if action.layout:
                    assert action.layout.version == self.nodes[action.node].version
                    self.do(action.layout)
                said = Condition(
                    status=action.status,
                    reason=action.reason,
                    message=action.message,
                    changed=action.changed,
                    written=action.now,
                )
                self._change(action.node, condition=said)
                if action.boot:
                    self.do(action.boot)
            case RecordBoot(node=name, boot_id=boot_id, layout=layout):
                self._change(name, verified_boot=boot_id, verified_layout=layout or "")
            case ClearReportsAfter(node=name, version=version):
                node = self.nodes[name]
                assert node.condition is not None
                assert (node.version, node.condition.status) == (version, "True")
                self._change(name, reports_after=0.0)
            case RestartOperand(node=name, stuck=stuck, restart=None, labels={}):
                # The clock stands still: something is noted, and nothing is tried.
                self._change(name, stuck=stuck.dump() if stuck else "")
            case RemoveStartupTaint(node=name, position=position, boot_id=boot_id):
                node = self.nodes[name]
                assert boot_id == node.boot_id == node.verified_boot
                assert node.condition is not None
                # A node that waits for its turn in a rollout is as it was when it was verified.
                as_proven = node.verified_layout == node.mig_config and node.mig_state == "success"
                released = node.condition.status == "True" or as_proven
                assert released, "released neither proven nor as it was proven"
                report = self.reports.get(name)
                assert (
                    (report is not None and report.computed)
                    or (as_proven and node.condition.status != "True")
                    or not self._pool_of(node).computes
                ), "released without a compute proof"
                assert node.taint_keys[position] == TAINT
                self._change(
                    name, taint_keys=node.taint_keys[:position] + node.taint_keys[position + 1 :]
                )
            case AddStartupTaint(node=name, version=version, gpu_pods=gpu_pods):
                node = self.nodes[name]
                assert TAINT not in node.taint_keys
                assert version == node.version, "another write of this pass hinders it"
                assert gpu_pods == (len(self.pods[name]) if self._computes(node) else 0)
                assert action.has_annotations == node.has_annotations
                noted = str(gpu_pods) if gpu_pods else node.gpu_pods
                self._change(name, taint_keys=(*node.taint_keys, TAINT), gpu_pods=noted)
            case NoteGpuPods(node=name, gpu_pods=gpu_pods):
                assert str(gpu_pods or "") != self.nodes[name].gpu_pods
                self._change(name, gpu_pods=str(gpu_pods or ""))
            case SetMigConfig(node=name, value=value):
                node = self.nodes[name]
                assert node.labels.get(STATE) not in ("pending", "rebooting")
                assert node.labels.get(CONFIG) != value
                assert TAINT in node.taint_keys
                assert not self.pods[name]
                assert value == self._pool_of(node).mig_config
                labels = {k: v for k, v in node.labels.items() if k != STATE} | {CONFIG: value}
                self._change(name, labels=labels)
            case CordonNode(node=name, version=version, change=change):
                assert version == self.nodes[name].version
                assert change.cordoned != self.nodes[name].unschedulable
                self._change(name, unschedulable=True, change=change.dump())
            case NoteChange(node=name, version=version, change=change):
                assert version == self.nodes[name].version
                self._change(name, change=change.dump())
            case ApplyLayout(node=name, version=version, change=change):
                node = self.nodes[name]
                assert version == node.version
                assert node.labels.get(STATE) not in ("pending", "rebooting")
                assert node.labels.get(CONFIG) != change.target
                assert node.unschedulable
                assert TAINT in node.taint_keys
                assert not self.pods[name]
                assert change.target == self._pool_of(node).mig_config
                labels = {k: v for k, v in node.labels.items() if k != STATE}
                labels[CONFIG] = change.target
                self._change(name, labels=labels, change=change.dump())
            case FinishChange(node=name, version=version, uncordon=uncordon):
                node = self.nodes[name]
                assert version == node.version
                self._change(name, change="", unschedulable=node.unschedulable and not uncordon)
            case EvictPod():
                raise AssertionError("nobody may evict a pod without a controller")
            case SetPoolStatus(pool=name, status=status):
                merged = {key: value for key, value in status.items() if value is not None}
                self.pools[name] = replace(self.pools[name], status=merged)
            case EmitEvent(name=name, now=now):
                assert name not in self.warnings
                self.warnings[name] = WarningEvent(name=name, last_seen=now)
            case RetractEvent(name=name):
                del self.warnings[name]

    def _change(self, name: str, **facts: object) -> None:
        node = self.nodes[name]
        self.nodes[name] = replace(node, version=str(int(node.version) + 1), **facts)  # type: ignore[arg-type]

    def _computes(self, node: Node) -> bool:
        return any(pool.computes for pool in self.pools.values() if pool.selects(node))

    def _pool_of(self, node: Node) -> Pool:
        return next(p for p in self.pools.values() if p.selects(node))


def _world(
    some: list[Pool],
    there: list[tuple[Node, Report | None, tuple[str, ...]]],
    warnings: dict[str, WarningEvent],
) -> World:
    """The parts with their names."""
    world = World({}, {}, {}, {}, dict(warnings))
    for i, pool in enumerate(some):
        selector = {"slicewright.io/pool": f"p{i}"}
        world.pools[f"p{i}"] = replace(pool, name=f"p{i}", uid=f"pool-{i}", selector=selector)
    for i, (node, report, pods) in enumerate(there):
        name, uid = f"n{i}", f"u{i}"
        world.nodes[name] = replace(node, name=name, uid=uid)
        world.pods[name] = pods
        if report is not None:
            world.reports[name] = replace(
                report,
                name=name,
                owner_uid=report.owner_uid or uid,
                pool=node.labels["slicewright.io/pool"],
            )
    return world


worlds = st.builds(
    _world,
    pools,
    members,
    st.sampled_from([{}, {"old.1": WarningEvent(name="old.1", last_seen=NOW)}]),
)


@given(worlds)
@settings(max_examples=examples(300), deadline=None)
def test_fleet_converges(world: World) -> None:
    for _ in range(12):
        actions = world.decided()
        if not actions:
            break
        for action in actions:
            world.do(action)
    assert world.decided() == ()


def _matching(world: World) -> World:
    """The same world with held nodes, matching reports, and pools without mig-manager."""
    world.pools = {name: replace(pool, mig_config=None) for name, pool in world.pools.items()}
    for name, node in world.nodes.items():
        world.nodes[name] = replace(node, ready=True, leaving=False, taint_keys=(TAINT,))
        if (report := world.reports.get(name)) is not None:
            world.reports[name] = replace(
                report,
                verdict="Match",
                reason="PartitionsMatch",
                owner_uid=node.uid,
                boot_id=node.boot_id,
                layout_hash=HASHES[0],
                time=NOW - 5,
            )
    return world


@given(worlds.map(_matching))
@settings(max_examples=examples(300), deadline=None)
def test_no_node_of_a_pool_that_computes_is_released_without_a_proof(world: World) -> None:
    while actions := world.decided():
        for action in actions:
            world.do(action)
    for name, node in world.nodes.items():
        report = world.reports.get(name)
        if report is None or not any(pool.selects(node) for pool in world.pools.values()):
            continue
        proven = report.computed or not world._computes(node)
        assert proven == (TAINT not in node.taint_keys)


@given(worlds)
@settings(max_examples=examples(300), deadline=None)
def test_in_the_end_every_held_node_shows_its_agent_the_pods_with_gpus(world: World) -> None:
    while actions := world.decided():
        for action in actions:
            world.do(action)
    for name, node in world.nodes.items():
        if any(pool.selects(node) for pool in world.pools.values()) and not node.leaving:
            shown = len(world.pods[name]) if node.held and world._computes(node) else 0
            assert node.gpu_pods == (str(shown) if shown else "")


@given(worlds, st.lists(st.sampled_from([0.0, 9.0, 200.0, 1000.0]), min_size=2, max_size=4))
@settings(max_examples=examples(150), deadline=None)
def test_what_is_remembered_from_pass_to_pass_changes_no_decision(
    world: World, pauses: list[float]
) -> None:
    """Nodes remember what they were asked, and answers are shared: never beyond their time."""
    now = NOW

    def decided(nodes: list[Node], pools: list[Pool]) -> Decision:
        pods = {name: tuple(map(bare, there)) for name, there in world.pods.items()}
        return decide(pools, nodes, world.reports, pods, world.warnings, now)

    for pause in pauses:
        warm = decided(list(world.nodes.values()), list(world.pools.values()))
        assess._verified.cache_clear()
        bounds.stamp.cache_clear()
        cold = decided(
            [replace(node) for node in world.nodes.values()],
            [replace(pool) for pool in world.pools.values()],
        )
        assert warm == cold
        now += pause


@given(worlds)
@settings(max_examples=examples(300), deadline=None)
def test_the_final_status_is_the_count_of_the_nodes(world: World) -> None:
    while actions := world.decided():
        for action in actions:
            world.do(action)
    for pool in world.pools.values():
        members = [n for n in world.nodes.values() if pool.selects(n) and not n.leaving]
        statuses = [n.condition.status if n.condition else "none" for n in members]
        counts = pool.status["nodes"]
        assert counts["total"] == len(members)
        assert (counts["verified"], counts["failing"]) == (
            statuses.count("True"),
            statuses.count("False"),
        )
        assert counts["unknown"] == statuses.count("Unknown")
        verified = next(c for c in pool.status["conditions"] if c["type"] == "Verified")
        assert (verified["status"] == "True") == (
            len(members) >= pool.fewest and all(s == "True" for s in statuses)
        )
        assert verified["observedGeneration"] == pool.generation
        assert {f["name"] for f in pool.status["failingNodes"]} == {
            n.name for n in members if n.condition and n.condition.status != "True"
        }


@given(worlds)
@settings(max_examples=examples(200), deadline=None)
def test_in_the_end_no_node_is_open_to_pods_that_may_have_lost_what_was_verified(
    world: World,
) -> None:
    while actions := world.decided():
        for action in actions:
            world.do(action)
    for pool in world.pools.values():
        for node in (n for n in world.nodes.values() if pool.selects(n) and not n.leaving):
            if node.held:
                continue
            assert node.ready
            assert node.verified_boot in ("", node.boot_id)
            report = world.reports.get(node.name)
            changing = bool(pool.mig_config) and node.labels.get(CONFIG) != pool.mig_config
            if report and report.owner_uid == node.uid and not changing:
                of_layout = report.layout_hash == pool.layout_hash and NOW - report.time < 900
                assert report.boot_id == node.boot_id or node.verified_boot == node.boot_id
                assert not (
                    of_layout and report.boot_id == node.boot_id and report.verdict == "Mismatch"
                )
            if pool.mig_config:
                assert node.labels.get(STATE) not in ("pending", "rebooting")


@given(worlds)
@settings(max_examples=examples(200), deadline=None)
def test_a_true_condition_has_a_matching_report(world: World) -> None:
    while actions := world.decided():
        for action in actions:
            world.do(action)
    for pool in world.pools.values():
        for node in (n for n in world.nodes.values() if pool.selects(n) and not n.leaving):
            if node.condition is None or node.condition.status != "True":
                continue
            report = world.reports[node.name]
            assert report.verdict == "Match"
            assert (report.owner_uid, report.boot_id, report.layout_hash) == (
                node.uid,
                node.boot_id,
                pool.layout_hash,
            )
            assert NOW - report.time < 900
            if pool.mig_config:
                assert (node.labels[CONFIG], node.labels[STATE]) == (pool.mig_config, "success")
                assert "paused" not in " ".join(node.labels.values())


class OneNodeThatReboots(RuleBasedStateMachine):
    """A released H100 node of mig-manager's, its reboots, and a controller that is killed anywhere.

    A pod that asks for a whole GPU is bound as soon as the plugin advertises one and the scheduler
    may: without the taint, on a Ready node.
    """

    def __init__(self) -> None:
        super().__init__()
        pool = Pool(
            name="p0",
            uid="pool-0",
            generation=1,
            created=NOW,
            selector={"slicewright.io/pool": "p0"},
            layout_hash=HASHES[0],
            fewest=1,
            mig_config="c0",
            status={},
        )
        node = Node(
            name="n0",
            uid="u0",
            version="1",
            created=NOW - 5000,
            boot_id="boot-0",
            verified_boot="",
            ready=True,
            labels={"slicewright.io/pool": "p0", CONFIG: "c0", STATE: "success"},
            taint_keys=(TAINT,),
            condition=None,
            leaving=False,
        )
        self.world = World({"p0": pool}, {"n0": node}, {}, {"n0": ()})
        self.partitioned = True
        self.plugin: str | None = "mig"
        """What the plugin advertises: whole GPUs, partitions; None: it has not registered."""
        self.seen_by_a_pass = False
        """Whether a pass was carried out since the last boot."""
        self.boots = 0
        self.agent_reports(0.0, broken=False)
        self.controller_passes(None)
        assert not self.node.held

    @property
    def node(self) -> Node:
        return self.world.nodes["n0"]

    @rule(ready=st.booleans())
    def reboots(self, ready: bool) -> None:
        self.boots += 1
        self.partitioned, self.plugin, self.seen_by_a_pass = False, None, False
        self.world._change("n0", boot_id=f"boot-{self.boots}", ready=ready)

    @rule(ready=st.booleans())
    def kubelet_is_heard_or_not(self, ready: bool) -> None:
        self.world._change("n0", ready=ready)

    @precondition(lambda self: self.seen_by_a_pass)
    @rule()
    def plugin_registers(self) -> None:
        """Seconds after the kubelet's first status, which a pass takes a fraction of."""
        self.plugin = "mig" if self.partitioned else "whole"

    @rule()
    def mig_manager_applies(self) -> None:
        self.partitioned, self.plugin = True, None

    @rule(age_s=st.sampled_from([0.0, 5000.0]), broken=st.booleans())
    def agent_reports(self, age_s: float, broken: bool) -> None:
        verdict, reason = (
            ("Unknown", "DriverNotLoaded")
            if broken
            else ("Match", "PartitionsMatch")
            if self.partitioned and self.plugin == "mig"
            else ("Mismatch", "NotPartitioned")
        )
        self.world.reports["n0"] = Report(
            name="n0",
            owner_uid="u0",
            verdict=verdict,
            reason=reason,
            message="",
            pool="p0",
            layout_hash=HASHES[0],
            boot_id=self.node.boot_id,
            time=NOW - age_s,
        )

    @rule(killed_after=st.one_of(st.none(), st.integers(1, 3)))
    def controller_passes(self, killed_after: int | None) -> None:
        for action in self.world.decided()[:killed_after]:
            self.world.do(action)
        self.seen_by_a_pass = True

    @invariant()
    def no_whole_gpu_can_be_bound(self) -> None:
        assert not (self.plugin == "whole" and self.node.ready and not self.node.held)

    @rule()
    def controller_passes_twice(self) -> None:
        """What the objects say then decides on the taint, whatever happened before."""
        for _ in range(2):
            self.controller_passes(None)
        report, node = self.world.reports.get("n0"), self.node
        if report and node.ready and report.boot_id == node.boot_id and report.time == NOW:
            if report.verdict == "Match":
                assert not node.held
            elif report.verdict == "Mismatch":
                assert node.held
        if node.verified_boot != node.boot_id or not node.ready:
            assert node.held


TestOneNodeThatReboots = OneNodeThatReboots.TestCase
TestOneNodeThatReboots.settings = settings(
    max_examples=examples(100), stateful_step_count=25, deadline=None
)
