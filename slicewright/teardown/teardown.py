"""The order of a stack's end: look, empty the cluster, `pulumi destroy`, sweep, look again.

Each run starts from the present situation, so a run that was interrupted or that failed half way
can be repeated. The proofs of ownership end with the cluster, so they alone are written down, in
Pulumi's state, before anything is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from slicewright.apis.names import NAMESPACE
from slicewright.doctor.findings import NotAnswered
from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.teardown.access import NoAccess, client_of
from slicewright.teardown.cluster_contents import Clearing, Clock, read, read_shared
from slicewright.teardown.engine import DestroyOutcome, NoStack
from slicewright.teardown.evidence import life_of
from slicewright.teardown.inventory import (
    AffectedObjects,
    Inventory,
    Objects,
    foreign,
    inventory_of,
    waiting_pools,
    with_retained,
)
from slicewright.teardown.obstacles import (
    about_waiting,
    obstacles_of,
    retained_data,
    without_answer,
    without_kubeconfig,
)
from slicewright.teardown.record import recorded_life
from slicewright.teardown.record_keeper import RecordKeeper
from slicewright.teardown.report import Report
from slicewright.teardown.subject import State, Subject, state_of
from slicewright.teardown.sweep.account import Account
from slicewright.teardown.sweep.leftovers import Leftover
from slicewright.teardown.sweep.life import Key, Life, key_of
from slicewright.teardown.sweep.passes import Sweep, SweepReport
from slicewright.teardown.sweep.permission import Choice, Permission

_ATTEMPTS: Final = 5
"""The limit of runs of `pulumi destroy` that fail on something the sweep can remove."""
_SWEEP_EVERY_S: Final = 10.0
"""The pause between sweeps while Pulumi runs: leftovers of cluster and nodes hold networks, and
Pulumi waits for those.
"""
_EMPTY: Final[Mapping[str, Any]] = {"deployment": {}}


class Refused(Exception):
    """A decision is required first, as the message says. Nothing was changed."""


class Stopped(Exception):
    """The run cannot continue. Finished steps stay done. The message names reason and remedy."""


class Engine(Protocol):
    def exported(self) -> Mapping[str, Any]:
        """Raises EngineFailed."""

    def replace_state(self, state: Mapping[str, Any]) -> None:
        """state: the result of `exported`, modified. Raises EngineFailed."""

    def destroy(
        self, *, without_cluster: bool, show: Callable[[str], None], meanwhile: Callable[[], None]
    ) -> DestroyOutcome:
        """Raises EngineFailed."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    disks: Choice | None = None
    logs: Choice | None = None
    unproven: Choice | None = None
    """The choice for other kinds that have the cluster's mark, but no proof."""
    unreachable: bool = False
    dry_run: bool = False
    wait_s: float = 1200.0
    drain_wait_s: float = 300.0


@dataclass(kw_only=True)
class Teardown:
    stack: str
    subject: Subject
    account: Account | None
    pulumi: Engine
    clock: Clock
    choices: Choices
    tell: Callable[[str], None]
    connect: Callable[[str], Client] = client_of
    """Raises NoAccess."""
    dangling: Callable[[], Sequence[str]] = tuple
    """Names of the stack's objects that others still refer to, each with the remedy."""
    _networks: frozenset[str] = field(default=frozenset(), init=False)
    """Networks that the stack created, even after Pulumi has deleted them."""

    def look(self) -> Report:
        """Reports the situation and the obstacles, read-only. Raises CannotAsk, EngineFailed."""
        state = self._state()
        cluster_exists = self._cluster_exists()
        report = Report(
            stack=self.stack,
            cluster=self.subject.cluster,
            dry_run=self.choices.dry_run,
            state=state.counts,
            obstacles=tuple(obstacles_of(state, self.stack)),
        )
        report, objects = self._with_inventory(report, state, cluster_exists)
        if (account := self._swept_account) is not None:
            sweep = Sweep(account, self._permission(listed=None), dry_run=True)
            swept = sweep.once(self._life(account, state, objects))
            notes = self._notes(state, cluster_exists)
            # While the cluster exists, resources without a mark belong to the stack or to the
            # cloud.
            leftovers = [o for o in swept.leftovers if cluster_exists is False or o.mark or o.proof]
            unknown = tuple(answer.why for answer in swept.not_asked)
            notes = [*report.notes, *notes]
            report = replace(report, leftovers=leftovers, unknown=unknown, notes=notes)
        return replace(report, notes=[*report.notes, *self._dangling()])

    def run(self, looked: Report) -> Report:
        """looked: the result of `look`, whose inventory the result keeps. Raises Refused, Stopped,
        CannotAsk, EngineFailed.
        """
        if looked.obstacles:
            raise Refused("; ".join(looked.obstacles))
        before = self._state()
        client, objects = self._inside(looked, before)
        account = self._swept_account
        life = Life() if account is None else self._life(account, before, objects)
        life = Life(named=proven_in(looked)).joined(life)
        keeper = RecordKeeper(self.pulumi, self.subject, self.tell)
        keeper.write(life if account is not None and before.counts else None)
        stuck = [] if client is None else self._clear(client, looked.inventory or Inventory())
        sweep = None if account is None else self._sweep(account, looked)
        failed = self._destroy(sweep, life) if looked.state else ""
        state = self._state()
        report = replace(looked, state=state.counts, stuck=stuck, leftovers=())
        notes = [failed] if failed else []
        if sweep is None:
            return replace(report, notes=[*notes, *self._dangling()], unknown=())
        keeper.write(life)
        wait_s = self.choices.wait_s if not failed else 0.0
        swept = self._until_clean(sweep, self._with_networks(life, state), wait_s)
        if not state.counts and not sweep.has_more_to_do(swept):
            keeper.remove()
        cluster_exists = self._cluster_exists()
        return replace(
            report,
            deleted=swept.deleted,
            leftovers=swept.leftovers if cluster_exists is False else [],
            unknown=[answer.why for answer in swept.not_asked],
            notes=[*notes, *self._notes(state, cluster_exists)],
        )

    @property
    def _swept_account(self) -> Account | None:
        """None: the account has nothing of the stack's to sweep."""
        return None if self.subject.existing else self.account

    def _permission(self, *, listed: frozenset[Key] | None) -> Permission:
        choices = self.choices
        return Permission(
            disks=choices.disks, logs=choices.logs, unproven=choices.unproven, listed=listed
        )

    def _life(self, account: Account, state: State, objects: Objects | None) -> Life:
        """Collects the facts about the stack's cluster. objects: the cluster's objects."""
        subject = self.subject
        life = recorded_life(state.record, subject.cluster, subject.location)
        if state.has_cluster and not isinstance(living := account.life(), NotAnswered):
            if living.begun and life.begun not in ("", living.begun):
                life = Life()  # the record is an earlier cluster's
            life = life.joined(living)
            life = life if objects is None else life.joined(life_of(objects))
        life = life.joined(
            Life(networks=state.networks, groups=state.groups, audited=subject.audited)
        )
        return self._with_networks(life, state)

    def _retained_before(self, state: State) -> frozenset[str]:
        """IDs of disks that an earlier run knew to outlive their volumes."""
        life = recorded_life(state.record, self.subject.cluster, self.subject.location)
        return frozenset(identity for kind, identity in life.retained if kind == "disk")

    def _with_networks(self, life: Life, state: State) -> Life:
        """Adds the stack's networks.

        AWS never reuses an ID, so it still counts once its VPC is deleted. Google's IDs are names:
        another network may have the name of a deleted one.
        """
        if self.subject.cloud == "eks":
            return replace(life, networks=life.networks | self._networks)
        return replace(life, networks=self._networks if state.networks else frozenset())

    def _inside(self, looked: Report, state: State) -> tuple[Client | None, Objects | None]:
        """Returns a client of the cluster to empty, and its current objects. Raises Stopped."""
        if looked.inventory is None or self.subject.cloud == "byo" or state.kubeconfig is None:
            return None, None
        with _answering():
            client = self.connect(state.kubeconfig)
            return client, read(client)

    def _state(self) -> State:
        try:
            state = state_of(self.pulumi.exported())
        except NoStack:
            state = state_of(_EMPTY)
        self._networks |= state.networks
        return state

    def _cluster_exists(self) -> bool | NotAnswered:
        """Returns whether the cluster exists, as far as a cloud can tell."""
        return True if self.account is None else self.account.cluster_exists()

    def _with_inventory(
        self, report: Report, state: State, cluster_exists: bool | NotAnswered
    ) -> tuple[Report, Objects | None]:
        """Adds the cluster's contents, and the obstacles among them."""
        if cluster_exists is False or not state.counts:
            return report, None
        if self.choices.unreachable:
            return replace(report, inventory_unknown="not asked (--unreachable)"), None
        if state.kubeconfig is None:
            return without_kubeconfig(report, state), None
        try:
            client = self.connect(state.kubeconfig)
            objects = read(client)
            shared = (
                read_shared(client, state.namespaces)
                if self.subject.existing
                else AffectedObjects()
            )
        except (NoAccess, ApiError, Unreachable) as e:
            return without_answer(report, e), None
        namespaces = frozenset({NAMESPACE, *state.namespaces})
        inventory = inventory_of(
            objects, existing=self.subject.existing, stack_namespaces=namespaces
        )
        inventory = with_retained(inventory, self._retained_before(state))
        inventory = replace(inventory, foreign=foreign(shared, state))
        in_the_way = [
            *report.obstacles,
            *(
                f"{name} does not belong to this stack, but would be deleted with its namespace "
                "or with the definition of GPUPools; move or delete it, or destroy its own stack "
                "first"
                for name in inventory.foreign
            ),
            *([] if self.choices.disks else retained_data(inventory)),
        ]
        waiting = waiting_pools(shared, state)
        notes = [*report.notes, *([about_waiting(waiting)] if waiting else [])]
        report = replace(report, inventory=inventory, obstacles=in_the_way, notes=notes)
        return report, objects

    def _notes(self, state: State, cluster_exists: bool | NotAnswered) -> Sequence[str]:
        """Reports an existing cluster that the state lacks. It must not be touched or hidden."""
        mine = any(kind.endswith("/cluster:Cluster") for kind in state.counts)
        if self.subject.existing or cluster_exists is not True or mine:
            return []
        return [
            f"a cluster {self.subject.cluster} exists in {self.subject.location}, but not in "
            "Pulumi's state: it belongs to somebody else, or a killed `pulumi up` left it "
            "(docs/how-to/interrupted-up.md)"
        ]

    def _dangling(self) -> Sequence[str]:
        return () if self.choices.unreachable else self.dangling()

    def _clear(self, client: Client, inventory: Inventory) -> Sequence[str]:
        """Empties the cluster, and returns the objects that did not leave in time.

        inventory: the inventory that was shown. A volume that was not shown keeps its policy.
        Raises Stopped.
        """
        policy = {"delete": "Delete", "keep": "Retain"}
        choice = self.choices.disks
        policies = {v.handle: policy[choice] for v in inventory.retained} if choice else {}
        with _answering():
            clearing = Clearing(client, self.clock, self.choices.drain_wait_s, self.tell)
            return clearing.clear(existing=self.subject.existing, policies=policies)

    def _sweep(self, account: Account, looked: Report) -> Sweep:
        return Sweep(
            account,
            self._permission(listed=shown_in(looked)),
            on_deleted=lambda leftover: self.tell(
                f"deleted {leftover.kind} {leftover.id}: {_evidence_text(leftover)}"
            ),
        )

    def _destroy(self, sweep: Sweep | None, life: Life) -> str:
        """Runs `pulumi destroy` until it succeeds, else returns the reason. Raises Stopped."""
        without_cluster = self.choices.unreachable or self._cluster_exists() is False
        swept_at = self.clock.now()

        def meanwhile() -> None:
            nonlocal swept_at
            if sweep is not None and self.clock.now() - swept_at >= _SWEEP_EVERY_S:
                if self._cluster_exists() is False:
                    sweep.once(life)
                swept_at = self.clock.now()

        for attempt in range(1, _ATTEMPTS + 1):
            ended = self.pulumi.destroy(
                without_cluster=without_cluster, show=self.tell, meanwhile=meanwhile
            )
            if ended.code == 0:
                return ""
            self._raise_if_stopped(ended)
            gone = ended.unreachable and not without_cluster and self._cluster_exists() is False
            if gone:
                without_cluster = True
            elif not ended.held or attempt == _ATTEMPTS:
                break
            elif sweep is not None:
                self.tell(
                    "the cloud refuses a deletion because of a dependency; deleting leftovers, "
                    "then retrying"
                )
                self._until_clean(sweep, life, self.choices.wait_s)
        return f"`pulumi destroy` failed with exit code {ended.code}: see above"

    def _raise_if_stopped(self, ended: DestroyOutcome) -> None:
        """Raises Stopped if another `pulumi destroy` would fail for the same reason."""
        if ended.locked:
            raise Stopped(
                "another `pulumi` is working on the stack, or a killed one left its lock; if none "
                f"is working on it: slicewright unlock --stack {self.stack}"
            )
        if ended.credentials:
            raise Stopped(
                "the cloud refuses the credentials; renew them, and run the command again to "
                "continue"
            )

    def _until_clean(self, sweep: Sweep, life: Life, wait_s: float) -> SweepReport:
        return sweep.until_clean(life, wait_s=wait_s, clock=self.clock.now, sleep=self.clock.sleep)


def shown_in(looked: Report) -> frozenset[Key]:
    """The leftovers listed before the question."""
    inventory = looked.inventory or Inventory()
    return frozenset(
        {
            *(key_of(leftover) for leftover in looked.leftovers),
            *(("disk", volume.handle) for volume in inventory.volumes),
            *(("snapshot", handle) for handle in inventory.retained_snapshots.values()),
        }
    )


def proven_in(looked: Report) -> frozenset[Key]:
    """The proven leftovers. One may be the proof of another, and is deleted before it."""
    return frozenset(
        key_of(leftover)
        for leftover in looked.leftovers
        if leftover.proof and not leftover.retained
    )


def _evidence_text(leftover: Leftover) -> str:
    return leftover.proof or f"{leftover.mark}, which proves nothing; you confirmed it"


@contextmanager
def _answering() -> Iterator[None]:
    """Guards questions to the cluster once the destruction has begun. Raises Stopped."""
    try:
        yield
    except (NoAccess, ApiError, Unreachable) as e:
        raise Stopped(
            f"the cluster no longer answers ({e}); run the command again, with --unreachable if "
            "it still does not answer"
        ) from None
