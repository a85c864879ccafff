"""A pool whose nodes have pods, a driver pod, mig-manager, agents and a disruption budget, all
simulated; the controller's actions as an API server takes them, and what must hold at each. A
cluster of several pools is one `World` for each, with other names of nodes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.apis.names import BUSY_STATES, DEPLOY_LABEL_PREFIX, POOL_LABEL, ZONE_LABEL
from slicewright.apis.names import MIG_CONFIG_LABEL as CONFIG
from slicewright.apis.names import MIG_STATE_LABEL as STATE
from slicewright.apis.names import STARTUP_TAINT_KEY as TAINT
from slicewright.apis.reasons.troubles import MIG_MANAGER, MOST_TRIES, PAUSES_S
from slicewright.fleet_controller.cluster.bound_pods import is_relevant, must_list
from slicewright.fleet_controller.decision.actions import (
    Action,
    AddStartupTaint,
    ClearReportsAfter,
    EmitEvent,
    EndUndo,
    RecordBoot,
    RemoveStartupTaint,
    RetractEvent,
    SetDesiredState,
    SetMigConfig,
    SetNodeCondition,
    SetPoolStatus,
)
from slicewright.fleet_controller.decision.decide import Decision, decide
from slicewright.fleet_controller.decision.inspection import to_inspect
from slicewright.fleet_controller.nodes.assess import REPORT_AGE_LIMIT_S
from slicewright.fleet_controller.nodes.watchdog import RestartOperand
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.known_layouts import KnownLayout
from slicewright.fleet_controller.objects.layout_change import change_of
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.node_pods import NodePod
from slicewright.fleet_controller.objects.pool import Pool, obeying
from slicewright.fleet_controller.objects.report import Report
from slicewright.fleet_controller.objects.warning_event import WarningEvent
from slicewright.fleet_controller.pools.quarantine import EndQuarantine, QuarantineNode
from slicewright.fleet_controller.rollout.change_actions import (
    ApplyLayout,
    CordonNode,
    EvictPod,
    FinishChange,
    NoteChange,
    UpgradeDriver,
)
from slicewright.fleet_controller.rollout.drain import Refusal

START = 1_800_000_000.0
PAUSED = "paused-for-mig-change"
BAD_DRIVER = "9.9.9"
"""One that no node can load."""


BY_HAND = "by hand"
"""A layout that somebody has made."""


def known(layout: str) -> KnownLayout:
    """A layout as a pool's spec declares it."""
    desired = json.dumps({"pool": "p", "gpus": layout})
    digest = hashlib.sha256(desired.encode()).hexdigest()
    return KnownLayout(mig_config=layout, layout_hash=digest, desired=desired)


class Conflict(Exception):
    """The object has changed since the decision, or is gone."""


@dataclass
class World:
    pool: Pool
    """As the controller reads it: with what people ask of it."""
    asked: str = ""
    """The annotation by which they do."""
    now: float = START
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, list[NodePod]] = field(default_factory=dict)
    cut: dict[str, str] = field(default_factory=dict)
    """The layout that a node's GPUs have."""
    broken: set[str] = field(default_factory=set)
    """Nodes on which mig-manager fails."""
    by_admin: set[str] = field(default_factory=set)
    """Nodes that somebody else has cordoned while we did nothing with them."""
    reports: dict[str, Report] = field(default_factory=dict)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    """In the controller's memory."""
    warnings: dict[str, WarningEvent] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
    """Nodes that have booted, and no pass has seen it. Their plugin has not registered: that takes
    seconds, a pass a fraction of one.
    """
    disruptions: int = 0
    """How many evictions the budget still allows."""
    cursed: set[str] = field(default_factory=set)
    """Nodes on which mig-manager hangs again after every start."""
    relabelled: set[str] = field(default_factory=set)
    """Nodes whose layout somebody else has asked for."""
    hung: set[str] = field(default_factory=set)
    """Nodes on which mig-manager has stopped in the middle, and will do nothing more."""
    tries: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """By a node's uid and layout since it was last verified with it: when an operand was restarted
    there.
    """
    view: dict[str, Node] | None = None
    """The nodes as the controller knows them while its watch is lost; None: as they are."""
    unanswered: bool = False
    """Whether the answer to a write was lost: nodes are listed before the next decision."""
    pods_view: dict[str, tuple[NodePod, ...]] | None = None
    """The pods as its watch of pods has shown them, by node; None: as they are."""
    was_open: set[str] = field(default_factory=set)
    """Uids of the nodes that this controller has seen without the taint."""
    proven_before: set[str] = field(default_factory=set)
    """Uids of the nodes that were proven, or were verified in their boot, when the pass began."""
    made: int = 0
    """Numbers of uids that are used; of two worlds, they must not overlap."""
    taken: dict[str, str] = field(default_factory=dict)
    """The layout that a node's mig-manager has read from the label, and is about to make."""
    behind: set[str] = field(default_factory=set)
    """Nodes on which mig-manager has made another layout than the label asks for by now."""
    offered: str = ""
    """The driver in the DaemonSet of the GPU operator; without one, no driver pod is simulated."""
    drivers: dict[str, NodePod] = field(default_factory=dict)
    """The driver pod of a node."""
    unloads_by_itself: bool = False
    """Whether nothing uses the driver when its container ends, which unloads it then: the driver
    manager leaves the operands alone.
    """
    mig_managers: dict[str, float] = field(default_factory=dict)
    """When the mig-manager pod of a node was made."""
    loaded: dict[str, str] = field(default_factory=dict)
    """The driver that is loaded on a node; none while its pod is replaced."""
    read: dict[str, str] = field(default_factory=dict)
    """What the agent of a node has last read there in place of its file."""

    def __post_init__(self) -> None:
        if self.pool.declared is None and self.pool.mig_config:
            self.pool = replace(self.pool, declared=known(self.pool.mig_config))
            self.asks(self.asked)

    # What others do.

    def make_node(self, name: str, *, zone: str = "a", in_service: bool = True) -> None:
        """In service with the layout `old`, or as a cloud makes it."""
        self.made += 1
        labels = {POOL_LABEL: self.pool.name, ZONE_LABEL: zone}
        if in_service:
            labels |= {CONFIG: "old", STATE: "success"}
        uid = f"uid-{self.made}"
        self.nodes[name] = Node(
            name=name,
            uid=uid,
            # Versions are of the whole API server: what is known of an earlier node of this name
            # never fits this one.
            version=str(self.made * 1_000_000),
            created=self.now,
            boot_id=f"boot-{self.made}",
            verified_boot=f"boot-{self.made}" if in_service else "",
            verified_layout="old" if in_service else "",
            ready=True,
            labels=labels,
            taint_keys=() if in_service else (TAINT,),
            condition=None,
            leaving=False,
        )
        self.cut[name] = "old" if in_service else "none"
        self.reports.pop(name, None)
        self.broken.discard(name)
        self.hung.discard(name)
        self.cursed.discard(name)
        self.relabelled.discard(name)
        self.by_admin.discard(name)
        self.read.pop(name, None)
        self._mig_manager_forgets(name)
        self.pods[name] = []
        self.drivers.pop(name, None)
        self.loaded.pop(name, None)
        self.driver_pod_works(name)
        self.driver_pod_works(name)
        if in_service:
            self.agent_reports(name)

    def delete_node(self, name: str) -> None:
        for known in (self.nodes, self.pods, self.cut, self.reports):
            known.pop(name, None)
        self.by_admin.discard(name)

    def wants(self, layout: str) -> None:
        """Another stack file is brought up."""
        generation = self.pool.generation + 1
        self.pool = replace(self.pool, declared=known(layout), generation=generation)
        self.asks(self.asked)

    def wants_driver(self, version: str) -> None:
        """Another stack file is brought up. The operator changes its DaemonSet a while later."""
        self.pool = replace(self.pool, driver=version, generation=self.pool.generation + 1)

    def driver_pod_works(self, name: str) -> None:
        """It is made by its DaemonSet; then it loads its driver, and mig-manager starts again."""
        if not self.offered or self.loaded.get(name):
            return
        if name not in self.drivers:
            self.made += 1
            self.drivers[name] = NodePod(
                namespace="gpu-operator",
                name="nvidia-driver",
                uid=f"driver-{self.made}",
                gpus=False,
                daemon_set=True,
                driver=f"{self.offered}-ubuntu22.04",
                owner="nvidia-driver-daemonset",
                node=name,
                created=self.now,
            )
        elif not self.drivers[name].driver.startswith(BAD_DRIVER):
            self.loaded[name] = self.drivers[name].driver.partition("-")[0]
            if CONFIG in self.nodes[name].labels and not self.unloads_by_itself:
                self.mig_manager_starts(name)

    def asks(self, asked: str) -> None:
        before = self.pool.mig_config
        self.asked, self.pool = asked, obeying(self.pool, asked)
        if self.pool.mig_config != before:
            # Another layout is a new beginning.
            self.tries.clear()

    def bind(self, node: str, **facts: bool) -> None:
        """A pod, where the scheduler may bind one."""
        there = self.nodes[node]
        open_to_pods = there.ready and not there.held and not there.unschedulable
        if open_to_pods and node not in self.unseen:
            self.made += 1
            name = f"pod-{self.made}"
            pod = NodePod(
                namespace="ai", name=name, uid=name, **{"gpus": True, "controlled": True, **facts}
            )
            self.pods[node].append(pod)

    def pods_end(self) -> None:
        """Those that were asked to leave are gone."""
        for node, there in self.pods.items():
            self.pods[node] = [pod for pod in there if not pod.leaving]

    def mig_manager_works(self, name: str) -> None:
        node = self.nodes[name]
        wanted, state = node.labels.get(CONFIG), node.labels.get(STATE)
        if wanted is None or name in self.hung or (self.offered and not self.loaded.get(name)):
            return
        if state in ("success", "failed") and name not in self.behind:
            return
        if state in ("success", "failed", None):
            if state is not None or name not in self.taken:
                self.taken[name] = wanted
            self.behind.discard(name)
            self.change(name, labels={**node.labels, STATE: "pending"})
            return
        making = self.taken.pop(name, wanted)
        if making != wanted:
            self.behind.add(name)
        in_use = any(pod.gpus for pod in self.pods[name])
        if in_use and name in self.relabelled:
            # The driver refuses to destroy partitions that are in use.
            self.change(name, labels={**node.labels, STATE: "failed"})
            return
        assert not in_use, "GPUs are cut under a running pod"
        if name in self.broken or making == "bad":
            self.change(name, labels={**node.labels, STATE: "failed"})
            return
        self.cut[name] = making
        self.change(name, labels={**node.labels, STATE: "success"})

    def mig_manager_takes_up(self, name: str) -> None:
        """It has read the label, and not yet said so."""
        labels = self.nodes[name].labels
        if CONFIG in labels and STATE not in labels and name not in self.relabelled:
            self.taken[name] = labels[CONFIG]

    def mig_manager_starts(self, name: str) -> None:
        """Its pod is recreated: it looks at the label, whatever it was in the middle of."""
        node = self.nodes[name]
        self._mig_manager_forgets(name)
        self.mig_managers[name] = self.now
        if name not in self.cursed:
            self.hung.discard(name)
        labels = {k: v for k, v in node.labels.items() if not k.startswith(DEPLOY_LABEL_PREFIX)}
        wanted = node.labels.get(CONFIG)
        if wanted is not None and wanted == self.cut[name] and name not in self.hung:
            self.change(name, labels={**labels, STATE: "success"})
        else:
            in_use = any(pod.gpus for pod in self.pods[name])
            # Where they match, one that hangs cuts nothing either.
            assert wanted == self.cut[name] or not in_use, "GPUs are cut under a running pod"
            self.change(name, labels={**labels, STATE: "pending"})

    def mig_manager_restarts_before_the_reboot(self, name: str) -> None:
        """It has asked for the reboot: the new one takes the mode as it is for a failure."""
        self._mig_manager_forgets(name)
        labels = self.nodes[name].labels
        assert labels[STATE] == "rebooting"
        self.change(name, labels={**labels, STATE: "failed"})

    def _mig_manager_forgets(self, name: str) -> None:
        self.taken.pop(name, None)
        self.behind.discard(name)

    def somebody_relabels(self, name: str, layout: str) -> None:
        node = self.nodes[name]
        self._mig_manager_forgets(name)
        if node.labels.get(CONFIG) not in (None, layout):
            labels = {k: v for k, v in node.labels.items() if k != STATE}
            self.change(name, labels={**labels, CONFIG: layout})
            self.relabelled.add(name)

    def gpus_are_cut_by_hand(self, name: str) -> None:
        """Where no pod uses them; its agent finds it at once."""
        if self.cut[name] != "none" and not any(pod.gpus for pod in self.pods[name]):
            self.cut[name] = BY_HAND
            self.agent_reports(name)

    def operands_stay_paused(self, name: str) -> None:
        """mig-manager ends well, and forgets to resume them."""
        labels = self.nodes[name].labels
        if labels.get(STATE) == "success":
            self.change(name, labels={**labels, f"{DEPLOY_LABEL_PREFIX}device-plugin": PAUSED})

    def agent_reports(self, name: str, *, reads: bool = True) -> None:
        """reads: whether it reads its Node before."""
        node = self.nodes[name]
        declared = self.pool.declared or known("none")
        if reads:
            self.read[name] = node.desired_state_annotation
        desired = self.read.get(name) or declared.desired
        wanted = json.loads(desired)["gpus"]
        verdict, reason = "Mismatch", "WrongLayout"
        if self.offered and not self.loaded.get(name):
            verdict, reason = "Unknown", "DriverNotLoaded"
        elif self.cut[name] == wanted:
            verdict, reason = "Match", "PartitionsMatch"
        self.reports[name] = Report(
            name=name,
            owner_uid=node.uid,
            verdict=verdict,
            reason=reason,
            message=f"has {self.cut[name]}, wanted {wanted}",
            pool=self.pool.name,
            layout_hash=hashlib.sha256(desired.encode()).hexdigest(),
            boot_id=node.boot_id,
            time=self.now,
            driver=self.loaded.get(name, ""),
        )

    def reboot(self, name: str) -> None:
        """The partitions are gone, and mig-manager makes those of the label again."""
        self.made += 1
        node = self.nodes[name]
        labels = {k: v for k, v in node.labels.items() if k != STATE}
        self.change(name, boot_id=f"boot-{self.made}", labels=labels)
        self.unseen.add(name)
        self.pods[name] = []
        self.loaded.pop(name, None)
        self.hung.discard(name)
        self._mig_manager_forgets(name)

    def change(self, name: str, **facts: object) -> None:
        node = self.nodes[name]
        self.nodes[name] = replace(node, version=str(int(node.version) + 1), **facts)  # type: ignore[arg-type]

    # What the controller does.

    def lose_watch(self) -> None:
        """From now on the controller knows of nodes what it knew, and the answers to its writes."""
        if self.view is None:
            self.view = dict(self.nodes)

    def lose_watch_of_pods(self) -> None:
        if self.pods_view is None:
            self.pods_view = {name: tuple(there) for name, there in self.pods.items()}

    def passes(
        self,
        *,
        killed_after: int | None = None,
        conflicts: Collection[str] = (),
        refused: Collection[int] = (),
        unanswered: Collection[int] = (),
    ) -> Decision:
        """One pass over this pool alone; see `pass_over`."""
        return pass_over(
            [self],
            killed_after=killed_after,
            conflicts=conflicts,
            refused=refused,
            unanswered=unanswered,
        )

    def seen(self) -> dict[str, Node]:
        """Its nodes as the controller knows them."""
        return self.nodes if self.view is None else self.view

    def is_about(self, action: Action) -> bool:
        """Whether it is about this pool or one of its nodes."""
        match action:
            case SetPoolStatus(pool=pool) | EndUndo(pool=pool) | EmitEvent(pool=pool):
                return pool == self.pool.name
            case RetractEvent(name=name):
                return name in self.warnings
            case _:
                return getattr(action, "node", "") in {*self.nodes, *self.seen()}

    def carry_out(self, action: Action, limit: int) -> None:
        """limit: nodes in a change, as the policy allowed them at the decision."""
        # One that somebody has uncordoned in the middle of its change is no new one.
        begun = isinstance(action, CordonNode) and not self._changes(action.node)
        self._do(action)
        if begun:
            noted = [node for node in self.nodes.values() if node.change]
            assert len(noted) <= limit, "more nodes in a change than the policy allows"

    def known_pods(self, node: Node) -> tuple[NodePod, ...]:
        """As `Cluster.pods`."""
        there = self.pods if self.pods_view is None else self.pods_view
        watched = tuple(pod for pod in there.get(node.name, ()) if is_relevant(pod))
        if must_list(node, watched, was_open=node.uid in self.was_open):
            return self._pods_of(node.name)
        return (*watched, *self._driver_pod_of(node.name))

    def _pods_of(self, name: str) -> tuple[NodePod, ...]:
        if name not in self.nodes:
            return ()
        return (*self.pods[name], *self._driver_pod_of(name), self._mig_manager_of(name))

    def _driver_pod_of(self, name: str) -> tuple[NodePod, ...]:
        if name not in self.drivers:
            return ()
        return (replace(self.drivers[name], next_driver=f"{self.offered}-ubuntu22.04"),)

    def _mig_manager_of(self, name: str) -> NodePod:
        return NodePod(
            namespace="gpu-operator",
            name="nvidia-mig-manager",
            uid=f"mig-manager-of-{self.nodes[name].uid}",
            gpus=False,
            daemon_set=True,
            app=MIG_MANAGER,
            created=self.mig_managers.get(name, 0.0),
        )

    def proven(self, node: Node) -> bool:
        """Whether its agent has found what is wanted, in this boot and since its layout was set."""
        return self._says(node, "Match") and (
            node.ready
            and self.pool.driver in (None, self.reports[node.name].driver)
            and self.pool.mig_config in (None, node.mig_config)
            and (self.pool.mig_config is None or node.mig_state == "success")
            and not (self.pool.mig_config and node.paused)
        )

    def _says(self, node: Node, verdict: str) -> bool:
        """Whether its agent's verdict is this, of the node as it is and of what is wanted of it."""
        report = self.reports.get(node.name)
        return (
            report is not None
            and report.verdict == verdict
            and (report.owner_uid, report.boot_id) == (node.uid, node.boot_id)
            and report.layout_hash == self.pool.layout_hash
            and report.time > node.reports_after
            and self.now < report.time + REPORT_AGE_LIMIT_S
        )

    def out(self, known: Mapping[str, Node]) -> set[str]:
        """Nodes that take no pods, or of which nobody knows that they are right."""
        return {
            node.name
            for node in known.values()
            if node.held
            or node.unschedulable
            or not node.ready
            or node.change
            or (self._has_the_layout(node) and not self.proven(node))
        }

    def _has_the_layout(self, node: Node) -> bool:
        """And nothing else is wanted of it."""
        return self.pool.driver is None and node.mig_config == self.pool.mig_config is not None

    def holds_what_is_not_right(self, spared: Collection[str]) -> None:
        """After a pass, no node is open to pods of which that pass could see that it is not right.
        spared: nodes of which not all could be done.
        """
        for name, node in self.nodes.items():
            if node.held or name in spared or POOL_LABEL not in node.labels:
                continue
            assert node.ready, "a node that is not Ready is open to pods"
            assert node.verified_boot in ("", node.boot_id), "it has booted, and is open to pods"
            busy = self.pool.mig_config and node.mig_state in BUSY_STATES
            assert not busy, "mig-manager is at work on a node that is open to pods"
            # With another driver to come, too; in a change, the cordon keeps pods away.
            has = node.mig_config == self.pool.mig_config is not None and not node.change
            wrong = has and self._says(node, "Mismatch")
            assert not wrong, "a node that its agent has found wrong is open to pods"

    @property
    def policy(self) -> RolloutPolicy:
        return self.pool.policy

    def stays_within_its_budget(self, actions: Sequence[Action]) -> None:
        """actions: those of a decision that are about this pool."""
        known = {name: node for name, node in self.seen().items() if POOL_LABEL in node.labels}
        limit = self.policy.limit(len(known))
        emptied = {a.node for a in actions if isinstance(a, QuarantineNode)}
        if emptied:
            emptied |= {node.name for node in known.values() if node.quarantine_at is not None}
            assert len(emptied) <= limit, "more nodes are emptied than the policy allows"
        # Whoever is held by this very decision is out, too, but for nodes of the rollout itself.
        held = {a.node for a in actions if isinstance(a, AddStartupTaint)}
        out = self.out(known) | held
        begin = {
            action.node
            for action in actions
            if isinstance(action, CordonNode) and not known[action.node].change
        }
        if not begin:
            return
        assert not self.pool.suspended
        noted = {node.name for node in known.values() if node.change}
        assert len(noted | begin) <= limit
        if begin - out:
            assert len(out | begin) <= limit, "more nodes out than the policy allows"
        failed = [n for n in known.values() if (c := change_of(n)) and c.phase == "Failed"]
        assert len(failed) < self.policy.failures(len(known)), "it goes on after a failure"
        good = [node for node in known.values() if not node.change and self.proven(node)]
        lacking = min(self.policy.canary, len(known)) - len(good)
        assert lacking <= 0 or len(noted | begin) <= lacking, "it does not wait for the canary"
        if self.policy.max_failures_in_a_row is not None:
            times = [c.since for n in failed if (c := change_of(n))]
            later = [at for at in times if at >= self._last_proof(known)]
            assert len(later) < self.policy.max_failures_in_a_row, "it goes on after as many"
        if self.policy.one_zone_at_a_time:
            assert len({known[name].zone for name in noted | begin}) == 1

    def _versioned(self, name: str, version: str) -> Node:
        if name not in self.nodes or self.nodes[name].version != version:
            raise Conflict
        return self.nodes[name]

    def _do(self, action: Action) -> None:
        match action:
            case SetNodeCondition():
                self._exists(action.node)
                if action.layout:
                    self._do(action.layout)
                said = Condition(
                    status=action.status,
                    reason=action.reason,
                    message=action.message,
                    changed=action.changed,
                    written=action.now,
                )
                self.change(action.node, condition=said)
                if action.boot:
                    self._do(action.boot)
                if said.status == "True":
                    self.tries.pop((self.nodes[action.node].uid, self.pool.mig_config or ""), None)
            case RecordBoot(node=name, boot_id=boot_id, layout=layout):
                self._exists(name)
                self.change(name, verified_boot=boot_id, verified_layout=layout or "")
            case ClearReportsAfter(node=name, version=version):
                node = self._versioned(name, version)
                assert self._says(node, "Match"), "an earlier report would count"
                self.change(name, reports_after=0.0)
            case RestartOperand():
                self._heal(action)
            case RemoveStartupTaint(node=name, boot_id=boot_id, layout=layout):
                self._exists(name)
                node = self.nodes[name]
                if (node.boot_id, node.mig_config) != (boot_id, layout) or not node.held:
                    raise Conflict
                # As it was proven, where it waits for its turn.
                wanted = self.pool.mig_config or "none"
                right = self.cut[name] in (wanted, node.verified_layout)
                # What its agent finds meanwhile is compared with the wanted layout only, so that
                # nobody can tell it from the layout that it had.
                right = right or (self.cut[name] == BY_HAND and node.mig_config != wanted)
                assert right, "released with a wrong layout"
                assert not self.offered or self.loaded.get(name), "released without a driver"
                assert node.uid in self.proven_before, "released, and nobody has found it right"
                # One taint a request; of the two, the one of the quarantine first.
                at = node.taint_keys.index(TAINT)
                place = at if node.quarantine_at is None else node.quarantine_at
                kept = (*node.taint_keys[:place], *node.taint_keys[place + 1 :])
                self.change(name, taint_keys=kept, quarantine_at=None)
            case AddStartupTaint(node=name, version=version):
                node = self._versioned(name, version)
                self.change(name, taint_keys=(*node.taint_keys, TAINT))
            case QuarantineNode():
                self._quarantine(action)
            case EndQuarantine(node=name, version=version, position=position):
                node = self._versioned(name, version)
                assert position == node.quarantine_at
                kept = (*node.taint_keys[:position], *node.taint_keys[position + 1 :])
                assert TAINT in kept, "it is let go, too"
                self.change(name, taint_keys=kept, quarantine_at=None)
            case SetMigConfig(node=name, version=version, value=value):
                node = self._versioned(name, version)
                assert not node.verified_boot, "a node in service needs a rollout"
                self._label(name, value, action)
            case SetDesiredState(node=name, desired_state_annotation=told):
                self._exists(name)
                self.change(name, desired_state_annotation=told)
            case CordonNode(node=name, version=version, change=change):
                node = self._versioned(name, version)
                assert change.cordoned != node.unschedulable
                self.change(name, unschedulable=True, change=change.dump())
            case NoteChange(node=name, version=version, change=change):
                self._versioned(name, version)
                self.change(name, change=change.dump())
            case UpgradeDriver(node=name, version=version, change=change):
                node = self._versioned(name, version)
                begun = change_of(node)
                if begun and begun.phase not in ("Upgrading", "Failed"):
                    assert node.unschedulable
                    assert node.held
                after = action.reports_after
                self.change(name, change=change.dump(), reports_after=after)
            case ApplyLayout(node=name, version=version, change=change):
                node = self._versioned(name, version)
                assert node.unschedulable
                assert not self.pool.suspended, "a layout changes though the rollout is paused"
                self._label(name, change.target, action)
                self.change(name, change=change.dump())
            case FinishChange(node=name, version=version, uncordon=uncordon):
                node = self._versioned(name, version)
                assert not (uncordon and name in self.by_admin), "an admin's cordon is taken away"
                begun = change_of(node)
                upgrades = bool(self.pool.driver and begun and begun.phase == "Upgrading")
                if upgrades and POOL_LABEL in node.labels:
                    assert self.loaded.get(name), "it goes back into service without a driver"
                at = node.changed_at if action.verified_at is None else action.verified_at
                open_again = node.unschedulable and not uncordon
                after = node.reports_after if action.verified_at is None else 0.0
                self.change(
                    name,
                    change="",
                    unschedulable=open_again,
                    changed_at=at,
                    reports_after=after,
                )
            case EvictPod():
                self._evict(action)
            case SetPoolStatus(status=status):
                merged = {key: value for key, value in status.items() if value is not None}
                self.pool = replace(self.pool, status=merged)
                self.asks(self.asked)
            case EndUndo(old_request=asked, new_request=left):
                if self.asked != asked:
                    raise Conflict
                self.asks(left)
            case EmitEvent(name=name, now=now):
                self.warnings[name] = WarningEvent(name=name, last_seen=now)
            case RetractEvent(name=name):
                self.warnings.pop(name, None)

    def _last_proof(self, known: Mapping[str, Node]) -> float:
        """When the change of a node to the layout that is wanted has last ended well."""
        proofs = [
            node.changed_at
            for node in known.values()
            if not node.change and node.mig_config == self.pool.mig_config
        ]
        return max(proofs, default=0.0)

    def _quarantine(self, action: QuarantineNode) -> None:
        """Kubernetes ends the pods that do not tolerate the taint."""
        node = self._versioned(action.node, action.version)
        assert self.policy.quarantine
        assert node.held
        assert node.quarantine_at is None
        report = self.reports[action.node]
        assert report.verdict == "Mismatch", "pods end on a node that nobody has found wrong"
        assert (report.owner_uid, report.boot_id) == (node.uid, node.boot_id)
        taints = (*node.taint_keys, TAINT)
        self.change(action.node, taint_keys=taints, quarantine_at=len(taints) - 1)
        self.pods[action.node] = []

    def _heal(self, action: RestartOperand) -> None:
        node = self._versioned(action.node, action.version)
        stuck = action.stuck.dump() if action.stuck else ""
        self.change(action.node, stuck=stuck, labels={**node.labels, **action.labels})
        if action.restart is None:
            return
        assert action.stuck is not None
        tries = self.tries.setdefault((node.uid, self.pool.mig_config or ""), [])
        tries.append(self.now)
        assert len(tries) <= MOST_TRIES, "it tries without end"
        assert len(tries) == 1 or tries[-1] - tries[-2] >= PAUSES_S[0]
        if action.restart.app == MIG_MANAGER:
            self.mig_manager_starts(action.node)

    def _changes(self, name: str) -> bool:
        return name in self.nodes and bool(self.nodes[name].change)

    def _exists(self, name: str) -> None:
        if name not in self.nodes:
            raise Conflict

    def _label(self, name: str, value: str, action: SetMigConfig | ApplyLayout) -> None:
        node = self.nodes[name]
        assert node.held
        assert not any(pod.gpus for pod in self.pods[name]), "a layout changes under a pod"
        assert node.labels.get(STATE) not in ("pending", "rebooting")
        assert node.labels.get(CONFIG) != value
        labels = {key: one for key, one in node.labels.items() if key != STATE}
        self.change(
            name,
            labels={**labels, CONFIG: value},
            desired_state_annotation=action.desired_state_annotation,
            reports_after=action.reports_after,
        )
        self.relabelled.discard(name)

    def _evict(self, action: EvictPod) -> None:
        driver = self.drivers.get(action.node)
        if driver is not None and driver.uid == action.uid:
            self._evict_driver(action.node)
            return
        if action.node in self.nodes and action.uid == self._mig_manager_of(action.node).uid:
            assert self.loaded.get(action.node) == self.pool.driver
            assert self.nodes[action.node].held
            self.mig_manager_starts(action.node)
            return
        there = self.pods.get(action.node, [])
        pod = next((one for one in there if one.uid == action.uid), None)
        if pod is None:
            raise Conflict
        # As far as is known: an eviction names its pod, and no version of the node.
        assert self.seen()[action.node].unschedulable, "a pod is evicted from an open node"
        assert not self.pool.suspended, "a pod is evicted though the rollout is paused"
        assert not pod.daemon_set
        assert not pod.static
        if pod.leaving:
            # It is asked again, and nothing comes of it. Source: kubernetes/kubernetes,
            # pkg/registry/core/pod/storage/eviction.go (canIgnorePDB).
            assert self.pods_view is not None, "it is known that it leaves"
            return
        assert pod.gpus or self.policy.drain.pods == "All"
        assert self.policy.drain.pods != "None"
        if self.policy.drain.on_timeout == "Stop":
            assert pod.controlled
            assert not pod.local_data or self.policy.drain.delete_local_data
        if self.disruptions <= 0:
            self.refusals[pod.uid] = Refusal(why="the budget is used up", retry_at=self.now + 5)
            return
        self.disruptions -= 1
        there[there.index(pod)] = replace(pod, leaving=True)

    def _evict_driver(self, name: str) -> None:
        node = self.nodes[name]
        # As far as is known: an eviction names its pod, and no version of the node.
        assert self.seen()[name].unschedulable
        assert node.held
        assert not any(pod.gpus for pod in self.pods[name]), "a driver changes under a pod"
        assert not self.drivers[name].driver.startswith(f"{self.pool.driver}-"), "it has it already"
        assert self.offered == self.pool.driver, "the next pod would bring another driver, too"
        assert self.seen()[name].mig_state != "pending", "mig-manager is at work"
        del self.drivers[name]
        self.loaded.pop(name, None)
        self.cut[name] = "none"


def pass_over(
    worlds: Sequence[World],
    *,
    killed_after: int | None = None,
    conflicts: Collection[str] = (),
    refused: Collection[int] = (),
    unanswered: Collection[int] = (),
) -> Decision:
    """One pass over the pools of a cluster. conflicts: nodes that somebody else writes after the
    decision. refused: places of the actions that the API server answers with 429 or 500.
    unanswered: of those that it carries out, and whose answer is lost.
    """
    if any(world.unanswered for world in worlds):
        for world in worlds:
            world.unanswered = False
            world.view = None if world.view is None else dict(world.nodes)
    for world in worlds:
        known = world.seen().values()
        world.was_open |= {node.uid for node in known if not node.held}
        world.proven_before = {
            node.uid for node in known if world.proven(node) or node.verified_boot == node.boot_id
        }
    decision = _decided(worlds)
    limits = {}
    for world in worlds:
        own = [action for action in decision.actions if world.is_about(action)]
        world.stays_within_its_budget(own)
        limits[world.pool.name] = world.policy.limit(len(world.seen()))
        if len(worlds) > 1:
            alone = _decided([world]).actions
            # Not in the assertion: pytest would take minutes to show how the two differ.
            as_if_alone = _without_events(own) == _without_events(alone)
            assert as_if_alone, "another pool matters to it"
        for name in conflicts:
            if name in world.nodes:
                world.change(name)
    failed = set()
    spared = set(conflicts)
    for place, action in enumerate(decision.actions[:killed_after]):
        if action.subject in failed:
            continue
        (world,) = (one for one in worlds if one.is_about(action))
        try:
            if place not in refused:
                world.carry_out(action, limits[world.pool.name])
        except Conflict:
            failed.add(action.subject)
            spared.add(getattr(action, "node", ""))
            continue
        world.unanswered |= place in unanswered and place not in refused
        if place in refused or place in unanswered:
            failed.add(action.subject)
            spared.add(getattr(action, "node", ""))
            continue
        if isinstance(action, RestartOperand) and action.restart:
            # Its labels may be others at once.
            spared.add(action.node)
        if world.view is not None and (name := getattr(action, "node", "")) in world.nodes:
            world.view[name] = world.nodes[name]
    for world in worlds:
        if killed_after is not None:
            # The next one lists everything before it acts.
            world.view = world.pods_view = None
            world.was_open.clear()
            world.refusals.clear()
        elif world.view is None:
            world.holds_what_is_not_right(spared)
            # It is held before its device plugin is up: what is refused is tried again in seconds.
            meant = {
                action.node for action in decision.actions if isinstance(action, AddStartupTaint)
            }
            open_still = {name for name in meant & set(world.nodes) if not world.nodes[name].held}
            world.unseen &= {*conflicts, *open_still}
    return decision


def _decided(worlds: Sequence[World]) -> Decision:
    now = worlds[0].now
    assert all(world.now == now for world in worlds), "they have one clock"
    pools = [world.pool for world in worlds]
    nodes = [node for world in worlds for node in world.seen().values()]
    inspected = set(to_inspect(pools, nodes, now))
    reports: dict[str, Report] = {}
    warnings: dict[str, WarningEvent] = {}
    refusals: dict[str, Refusal] = {}
    pods: dict[str, tuple[NodePod, ...]] = {}
    for world in worlds:
        reports |= world.reports
        warnings |= world.warnings
        refusals |= world.refusals
        known = world.seen()
        pods |= {name: world.known_pods(known[name]) for name in inspected & known.keys()}
    return decide(pools, nodes, reports, pods, warnings, now, refusals=refusals)


def _without_events(actions: Sequence[Action]) -> list[Action]:
    """Of many pools that wait, each says so less often."""
    return [action for action in actions if not isinstance(action, EmitEvent | RetractEvent)]
