"""The control loop: on every change, and at set times, observe, decide and execute."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from slicewright.fleet_controller.app.causes import Causes
from slicewright.fleet_controller.app.failures import is_overtaken, is_refused
from slicewright.fleet_controller.app.progress import Progress
from slicewright.fleet_controller.app.proof_pods import ProofPods
from slicewright.fleet_controller.app.share_facts import share_facts
from slicewright.fleet_controller.cluster.action_log import log_action
from slicewright.fleet_controller.cluster.backoff import Refusals
from slicewright.fleet_controller.cluster.collection import error_text
from slicewright.fleet_controller.cluster.execute import execute
from slicewright.fleet_controller.cluster.lanes import LONGEST_SLICE_S, SLICE_S, Lanes, Outcome
from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.fleet_controller.cluster.status_pace import PacedActions, StatusPace
from slicewright.fleet_controller.decision.actions import (
    Action,
    EmitEvent,
    RecordBoot,
    RetractEvent,
    SetNodeCondition,
)
from slicewright.fleet_controller.decision.decide import Decision, decide
from slicewright.fleet_controller.decision.inspection import (
    silent_agents,
    to_inspect,
    to_prove,
    unverified_nodes,
)
from slicewright.fleet_controller.decision.shares import sharing_nodes
from slicewright.fleet_controller.membership.membership import memberships, pool_names
from slicewright.fleet_controller.objects.action import NodeAction
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool, missing_pool
from slicewright.fleet_controller.objects.warning_event import WarningEvent
from slicewright.fleet_controller.rollout.change_actions import EvictPod, FinishChange
from slicewright.kubeapi import ApiError, Unreachable
from slicewright.telemetry import log
from slicewright.telemetry.plain import plain

DEBOUNCE_S = 0.1
"""Pause after a change, because changes come in bursts."""
_DECISIONS_SHARE = 0.03
"""Share of a processor for the loop's decisions while changes come one after the other.

Each decision is about all nodes, and most changes lead to no action. Time spent on actions counts
as rest: if thousands of nodes are released, no decision waits for this.
"""
_SHARE_WHILE_ACTING = 0.01
"""The same share while more actions are left than a pass can carry out: the next decision would be
mostly about the same ones.

A pass goes on that much longer, see `lanes`. Joining then takes no more processor time for each
node in a fleet of thousands than in one of hundreds.
"""
_LONGEST_REST_S = 2.0
"""Longest rest between two decisions, however long one takes."""
RESYNC_S = 30.0
"""Longest time between two passes. It bounds the delay after a missed event."""
_EVENTS_RELISTED_S = 300.0
_BACKOFF_MAX_S = 10.0
_LONGEST_RETRY_AFTER_S = 60.0
_OVERTAKEN_S = 1.0
"""Delay before retrying actions dropped because their object changed."""
_STANDBY_S = 1.0
"""Delay between two checks whether this process leads."""
_LONGEST_FAULT = 500
"""Longest text of an unexpected exception in the log, in characters."""


_NOT_CONFIRMED = "nodes have its label, but the last list of pools did not include it"


class Loop:
    """The control loop.

    cluster: must be followed by its threads.
    clock: returns seconds since the epoch.
    term: returns the current term of this process, or 0 if it may not act and another one may.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        clock: Callable[[], float] = time.time,
        term: Callable[[], int] = lambda: 1,
    ) -> None:
        self.progress = Progress()
        self._may_act: Callable[[], bool] = lambda: term() != 0
        self._term = term
        self._cluster = cluster
        self._clock = clock
        self._warnings: dict[str, WarningEvent] | None = None
        self._proof_pods = ProofPods(cluster)
        self._warnings_listed = float("-inf")
        self._causes = Causes(cluster, partial(self._fault, "question"))
        self._refusals = Refusals()
        self._nodes: Mapping[str, Node] = {}
        self._pools: Mapping[str, Pool] = {}
        """The pools as the last decision knew them."""
        self._lock = threading.Lock()
        """Protects the records about actions: several are carried out at a time."""
        self._statuses = StatusPace()
        self._lanes = Lanes(self._do, go_on=lambda: self._may_act() and not self._retry_after)
        self._overtaken = False
        self._unanswered = False
        """True if a write's result is unknown: it may have succeeded unseen by the watch."""
        self._failures = 0
        self._acted = 0
        """Number of actions that the last pass has carried out."""
        self._decision_s = 0.0
        """Processor time of the last decision."""
        self._decided = float("-inf")
        """Time of the last decision, by the monotonic clock."""
        self._retry_after = 0.0
        """Rest that the API server requested in the last pass, in seconds."""

    def run(self, stop: threading.Event) -> None:
        """Runs until `stop` is set, or the cluster can no longer be followed.

        Errors of the API server are logged and retried, and so is any other exception: an
        unexpected object must not end the controller, which would meet it again at once.
        """
        changed = self._cluster.changed
        caught_up = 0
        # Another process may have acted between two terms, however short the time: a decision of
        # the first term is not carried out in the second.
        self._may_act = lambda: self._term() == caught_up != 0 and not stop.is_set()
        while not stop.is_set() and not self._cluster.ended():
            self.progress.last_turn = time.monotonic()
            term = self._term()
            if self._cluster.incomplete() or not term:
                caught_up, self._failures, self.progress.error = 0, 0, None
                changed.wait(_STANDBY_S)
                changed.clear()
                continue
            if term != caught_up:
                if self._catch_up():
                    caught_up = term
                else:
                    stop.wait(max(_STANDBY_S, self._after_failure_s()))
                continue
            look_again = self.turn()
            pause = (
                RESYNC_S
                if look_again is None
                else min(RESYNC_S, max(0.0, look_again - self._clock()))
            )
            if self._failures:
                stop.wait(self._after_failure_s())
            elif changed.wait(pause):
                stop.wait(self._rest_s())
            changed.clear()
        self._lanes.close()

    def _after_failure_s(self) -> float:
        # One object that cannot be changed delays nobody while others are being changed. A server
        # that answers nothing else is not asked faster because much is left.
        goes_on = self.progress.postponed and self._acted
        return max(
            0.0 if goes_on else min(_BACKOFF_MAX_S, 0.1 * 2.0**self._failures), self._retry_after
        )

    def _rest_s(self) -> float:
        """Returns the rest after a change, in seconds.

        If actions are left, resting gains nothing: the changes since then have come in a long
        enough burst.
        """
        apart = min(self._decision_s / _DECISIONS_SHARE, _LONGEST_REST_S)
        least = 0.0 if self.progress.postponed else DEBOUNCE_S
        return max(least, self._decided + apart - time.monotonic())

    def _slice_s(self) -> float:
        return min(max(SLICE_S, self._decision_s / _SHARE_WHILE_ACTING), LONGEST_SLICE_S)

    def _catch_up(self) -> bool:
        """Lists everything once more: a watch may not yet have shown an earlier leader's last
        actions, and the number of nodes that are out depends on them.
        """
        self._warnings, self._retry_after, self._acted = None, 0.0, 0
        try:
            self._cluster.list_again()
        except (ApiError, Unreachable) as e:
            self._heed(e)
            self._fail(f"cannot read the cluster: {error_text(e)}")
            return False
        except Exception as e:  # noqa: BLE001 - see `run`
            self._fail(self._fault("pass", "the lists of the cluster", e))
            return False
        return True

    def turn(self) -> float | None:
        """Makes one pass.

        Returns when the next one is due without a change, in seconds since the epoch.
        """
        started, self._retry_after, self._overtaken = time.monotonic(), 0.0, False
        self._acted = 0
        decision = self._observe_and_decide()
        if decision is None:
            return None
        for fault in decision.faults:
            self._fault("pool", fault.subject, fault.error)
        paced = self._statuses.select_due(decision.actions, self._pools)
        outcome = self._lanes.carry_out(paced.now, slice_s=self._slice_s())
        if not self._may_act():
            return None
        self._note_failures(outcome.failed)
        self.progress.passes += 1
        self.progress.postponed = outcome.postponed
        self.progress.pass_s += time.monotonic() - started
        return self._next_turn(decision, outcome, paced)

    def _observe_and_decide(self) -> Decision | None:
        """Returns the decision, or None if the cluster cannot be read or the decision fails."""
        began = time.thread_time()
        try:
            if self._unanswered:
                # The nodes that are out or changing are counted before a further one is.
                self._cluster.nodes.list_again(self._cluster.client)
                self._unanswered = False
            if self._cluster.pools.second_list_due_s() == 0.0:
                self._cluster.pools.list_again(self._cluster.client)
            decision = self._decide()
            self._decision_s, self._decided = time.thread_time() - began, time.monotonic()
            return decision
        except (ApiError, Unreachable) as e:
            self._heed(e)
            self._fail(f"cannot read the cluster: {error_text(e)}")
        except Exception as e:  # noqa: BLE001 - see `run`
            self._fail(self._fault("pass", "the decision about all pools", e))
        return None

    def _note_failures(self, failed: Mapping[str, str]) -> None:
        if not failed:
            self._failures, self.progress.error = 0, None
            return
        subject, error = next(iter(failed.items()))
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        self._fail(f"{subject}: {error}{more}")

    def _next_turn(self, decision: Decision, outcome: Outcome, paced: PacedActions) -> float | None:
        delays_s = [
            0.0 if outcome.postponed else None,
            paced.put_off_s,
            _OVERTAKEN_S if self._overtaken else None,
            self._cluster.pools.second_list_due_s(),
        ]
        due = [self._clock() + delay_s for delay_s in delays_s if delay_s is not None]
        if decision.look_again is not None:
            due.append(decision.look_again)
        return min(due, default=None)

    def _decide(self) -> Decision:
        cluster = self._cluster
        if self._warnings is None or time.monotonic() - self._warnings_listed > _EVENTS_RELISTED_S:
            self._warnings, self._warnings_listed = cluster.warnings(), time.monotonic()
        nodes = list(cluster.nodes.all().values())
        self._pools = self._known_pools(nodes)
        pools = list(self._pools.values())
        now = self._clock()
        present = memberships(pools, nodes)
        inspected = to_inspect(pools, nodes, now, present=present)
        shares = share_facts(cluster.bound, sharing_nodes(present))
        held = tuple(to_prove(present))
        cluster.bound.ask_about((*inspected, *shares.pods, *held))
        self._nodes = {node.name: node for node in nodes}
        pods = {name: cluster.pods(self._nodes[name]) for name in inspected}
        candidates = (*pods.values(), *shares.pods.values())
        self._refusals.keep(pod.uid for node_pods in candidates for pod in node_pods)
        reports = cluster.reports.all()
        unverified = unverified_nodes(pools, nodes, present=present)
        return decide(
            pools,
            nodes,
            reports,
            pods,
            self._warnings,
            now,
            refusals=self._refusals.all(),
            no_agents=self._causes.missing_reports(
                silent_agents(pools, nodes, reports, now, present=present)
            ),
            no_operands=self._causes.missing_operands(unverified),
            other_plugins=self._causes.other_plugins(unverified),
            gpu_pods=cluster.bound.with_gpus() if any(pool.computes for pool in pools) else {},
            proof_pods=self._proof_pods.current(pools, held),
            present=present,
            shares=shares,
        )

    def _known_pools(self, nodes: Sequence[Node]) -> dict[str, Pool]:
        """Returns the pools by name.

        A pool that only its nodes mention gets a stand-in, until a second list of pools has
        confirmed that it does not exist.
        """
        pools = self._cluster.pools.all()
        if not self._cluster.pools.confirmed():
            names = {name for node in nodes for name in pool_names(node)} - pools.keys()
            pools |= {name: missing_pool(name, _NOT_CONFIRMED) for name in names}
        return pools

    def _do(self, action: Action) -> str | None:
        """Carries out one action. Returns why it failed, or None."""
        try:
            return self._carry_out(action)
        except Exception as e:  # noqa: BLE001 - see `run`
            with self._lock:
                # The action may or may not have been carried out.
                self._unanswered = True
                self.progress.count(action, "failed")
                return self._fault("action", f"{type(action).__name__} of {action.subject}", e)

    def _carry_out(self, action: Action) -> str | None:
        try:
            execute(self._cluster, action)
        except (ApiError, Unreachable) as e:
            with self._lock:
                return self._not_done(action, e)
        with self._lock:
            self.progress.count(action, "done")
            self._acted += 1
            self._time(action)
            if self._warnings is not None:
                if isinstance(action, EmitEvent):
                    self._warnings[action.name] = action.written
                elif isinstance(action, RetractEvent):
                    self._warnings.pop(action.name, None)
        log_action(action)
        return None

    def _not_done(self, action: Action, error: ApiError | Unreachable) -> str | None:
        """Returns why the action failed, or None if that is not a failure."""
        if isinstance(error, ApiError) and is_overtaken(action, error):
            # The object is gone or has changed: the next pass decides again.
            self._overtaken = True
            self.progress.count(action, "overtaken")
            if isinstance(action, RetractEvent) and self._warnings is not None:
                self._warnings.pop(action.name, None)
            return None
        if isinstance(error, ApiError) and is_refused(action, error):
            if isinstance(action, EvictPod):
                self._refusals.add(action.uid, error, self._clock())
            self.progress.count(action, "refused")
            return None
        self._unanswered |= isinstance(error, Unreachable) or error.status >= 500
        self._heed(error)
        self.progress.count(action, "failed")
        return error_text(error)

    def _time(self, action: Action) -> None:
        """Records the time until a node was verified, or in service again."""
        node = self._nodes.get(action.node) if isinstance(action, NodeAction) else None
        if node is None:
            return
        match action:
            case RecordBoot() | SetNodeCondition(boot=RecordBoot()):
                self.progress.durations.verified(node, self._clock())
            case FinishChange():
                self.progress.durations.changed(node, self._clock())
            case _:
                pass

    def _heed(self, error: ApiError | Unreachable) -> None:
        """Records when an overloaded API server accepts requests again."""
        if isinstance(error, ApiError) and error.retry_after_s:
            # Several requests run at a time, and each may have an answer of its own.
            rest_s = min(error.retry_after_s, _LONGEST_RETRY_AFTER_S)
            self._retry_after = max(self._retry_after, rest_s)

    def _fault(self, part: str, about: str, error: Exception) -> str:
        """Counts and logs an unexpected exception. Returns it as text."""
        self.progress.faults[part] += 1
        last = traceback.extract_tb(error.__traceback__)[-1:]
        at = "".join(f"{frame.filename}:{frame.lineno}" for frame in last)
        why = plain(f"{type(error).__name__}: {error}")[:_LONGEST_FAULT]
        log.warning("unexpected error: left alone", part=part, about=about, error=why, at=at)
        return f"unexpected error: {why}"

    def _fail(self, error: str) -> None:
        self._failures += 1
        if error != self.progress.error:
            log.warning("pass failed", error=error)
        self.progress.error = error
