"""The order of a stack's end: look, empty the cluster, `pulumi destroy`, sweep, look again.

Nothing is remembered between runs: each begins with what is there, so a run that was interrupted,
or that failed half way, is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol

from fleet_controller.api import NAMESPACE
from kubeapi import ApiError, Client, Unreachable
from slicewright.doctor.findings import NotAnswered
from slicewright.teardown.access import NoAccess, client_of
from slicewright.teardown.account import Account
from slicewright.teardown.engine import Destroyed, NoStack
from slicewright.teardown.inside import Clearing, Clock, read, read_shared
from slicewright.teardown.inventory import Shared, foreign, inventory_of
from slicewright.teardown.report import Report
from slicewright.teardown.subject import State, Subject, state_of
from slicewright.teardown.sweep import Sweep

_ATTEMPTS: Final = 5
"""Runs of `pulumi destroy`, as long as each is refused for what the sweep can wait for."""
_SWEEP_EVERY_S: Final = 10.0
"""While Pulumi runs: what cluster and nodes have left holds networks, and Pulumi waits for them."""
_EMPTY: Final[Mapping[str, Any]] = {"deployment": {}}


class Refused(Exception):
    """It must be decided first; nothing was changed. The message says what, and how."""


class Stopped(Exception):
    """It cannot go on here; what was done is done. The message says why, and what to do."""


class Engine(Protocol):
    def exported(self) -> Mapping[str, Any]:
        """Raises EngineFailed."""

    def destroy(
        self, *, without_cluster: bool, show: Callable[[str], None], meanwhile: Callable[[], None]
    ) -> Destroyed:
        """Raises EngineFailed."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    disks: Literal["delete", "keep"] | None = None
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
    """What somebody else's objects name of the stack, and what to do about it."""
    _networks: frozenset[str] = field(default=frozenset(), init=False)
    """Those that the stack has made, also once Pulumi has deleted them."""

    def look(self) -> Report:
        """What is there, and what is in the way; it only reads. Raises CannotAsk, EngineFailed."""
        state = self._state()
        there = self._there()
        report = Report(
            stack=self.stack,
            cluster=self.subject.cluster,
            dry_run=self.choices.dry_run,
            state=state.counts,
            obstacles=tuple(self._obstacles_of(state)),
        )
        report = self._with_inventory(report, state, there)
        sweep = self._sweep(dry_run=True, disks_known=_disks_known(report))
        if sweep is not None:
            swept = sweep.once(state.networks)
            notes = self._notes(state, there)
            # What the cluster still uses is none of it.
            left = swept.left if there is False else ()
            unknown = tuple(one.why for one in swept.not_asked)
            report = replace(report, left=left, unknown=unknown, notes=notes)
        return replace(report, notes=[*report.notes, *self._dangling()])

    def run(self, looked: Report) -> Report:
        """looked: what `look` found, whose inventory the result keeps. Raises Refused, Stopped,
        CannotAsk, EngineFailed.
        """
        if looked.obstacles:
            raise Refused("; ".join(looked.obstacles))
        stuck: Sequence[str] = ()
        if looked.inventory is not None and self.subject.cloud != "byo":
            stuck = self._clear()
        sweep = self._sweep(dry_run=False, disks_known=_disks_known(looked))
        failed = self._destroy(sweep) if looked.state else ""
        state = self._state()
        report = replace(looked, state=state.counts, stuck=stuck, left=())
        notes = [failed] if failed else []
        if sweep is None:
            return replace(report, notes=[*notes, *self._dangling()], unknown=())
        swept = sweep.until_clean(
            self._networks if state.networks else frozenset(),
            wait_s=self.choices.wait_s if not failed else 0.0,
            clock=self.clock.now,
            sleep=self.clock.sleep,
        )
        there = self._there()
        return replace(
            report,
            deleted=swept.deleted,
            left=swept.left if there is False else [],
            unknown=[one.why for one in swept.not_asked],
            notes=[*notes, *self._notes(state, there)],
        )

    def _state(self) -> State:
        try:
            found = state_of(self.pulumi.exported())
        except NoStack:
            found = state_of(_EMPTY)
        except (KeyError, TypeError) as e:
            raise Stopped(f"what `pulumi stack export` prints cannot be read: {e!r}") from None
        self._networks |= found.networks
        return found

    def _there(self) -> bool | NotAnswered:
        """Whether the cluster exists, as far as a cloud can say."""
        return True if self.account is None else self.account.cluster_is_there()

    def _obstacles_of(self, state: State) -> Sequence[str]:
        return [
            *(
                f"{urn} is protected in Pulumi's state; if it may go: pulumi state unprotect "
                f"--stack {self.stack} '{urn}'"
                for urn in state.protected
            ),
            *(
                f"{urn}: deletion protection is on; write deletion_protection: false in the stack "
                "file and run `pulumi up`"
                for urn in state.guarded
            ),
            *(
                f"the creation of {urn} was cut off: the cloud may have it, and Pulumi would not "
                f"delete it; take it over with: slicewright recover --stack {self.stack} (or, if "
                "the cloud does not have it: pulumi refresh --clear-pending-creates)"
                for urn in state.pending
            ),
        ]

    def _with_inventory(self, report: Report, state: State, there: bool | NotAnswered) -> Report:
        """What is in the cluster, and what that puts in the way."""
        if there is False or not state.counts:
            return report
        if self.choices.unreachable:
            return replace(report, inventory_unknown="not asked (--unreachable)")
        if state.kubeconfig is None:
            return _without_kubeconfig(report, state)
        try:
            client = self.connect(state.kubeconfig)
            objects = read(client)
            shared = read_shared(client, state.namespaces) if self.subject.existing else Shared()
        except (NoAccess, ApiError, Unreachable) as e:
            return replace(
                report,
                inventory_unknown=str(e),
                obstacles=[
                    *report.obstacles,
                    f"the cluster does not answer ({e}); connect to its network or renew the "
                    "credentials, or pass --unreachable: nothing in it is then drained, and the "
                    "cloud is swept for what that leaves",
                ],
            )
        own = frozenset({NAMESPACE, *state.namespaces})
        inventory = inventory_of(objects, existing=self.subject.existing, own=own)
        inventory = replace(inventory, foreign=foreign(shared, state))
        kept = "" if self.choices.disks else ", ".join(v.name for v in inventory.retained)
        return replace(
            report,
            inventory=inventory,
            obstacles=[
                *report.obstacles,
                *(
                    f"{one} is not this stack's, and would go with it: its namespace, or the "
                    "definition of GPUPools, is deleted; move it or delete it, or destroy its own "
                    "stack first"
                    for one in inventory.foreign
                ),
                *(
                    [
                        f"the disks of {kept} are to outlive their volumes (policy Retain); pass "
                        "--disks delete, or --disks keep, which leaves them in the account"
                    ]
                    if kept
                    else []
                ),
            ],
        )

    def _notes(self, state: State, there: bool | NotAnswered) -> Sequence[str]:
        """Of a cluster that the state does not have: not to be touched, and not to be hidden."""
        mine = any(kind.endswith("/cluster:Cluster") for kind in state.counts)
        if self.subject.existing or there is not True or mine:
            return []
        return [
            f"a cluster {self.subject.cluster} is in {self.subject.location}, and Pulumi's state "
            "does not have it: it is another owner's, or was left by a killed `pulumi up` "
            "(docs/how-to/interrupted-up.md)"
        ]

    def _dangling(self) -> Sequence[str]:
        return () if self.choices.unreachable else self.dangling()

    def _clear(self) -> Sequence[str]:
        kubeconfig = self._state().kubeconfig
        if kubeconfig is None:
            return []
        try:
            clearing = Clearing(
                self.connect(kubeconfig), self.clock, self.choices.drain_wait_s, self.tell
            )
            return clearing.clear(
                existing=self.subject.existing, delete_disks=self.choices.disks == "delete"
            )
        except (NoAccess, ApiError, Unreachable) as e:
            raise Stopped(
                f"the cluster does not answer any more ({e}); run this again, with --unreachable "
                "if it stays so"
            ) from None

    def _sweep(self, *, dry_run: bool, disks_known: bool) -> Sweep | None:
        if self.account is None or self.subject.existing:
            return None
        return Sweep(
            self.account,
            delete_disks=self.choices.disks == "delete"
            or (self.choices.disks is None and disks_known),
            dry_run=dry_run,
            on_deleted=lambda one: self.tell(f"deleted {one.kind} {one.id}: {one.proof}"),
        )

    def _destroy(self, sweep: Sweep | None) -> str:
        """Runs `pulumi destroy` until it succeeds; else why not. Raises Stopped."""
        without_cluster = self.choices.unreachable or self._there() is False
        swept_at = self.clock.now()

        def meanwhile() -> None:
            nonlocal swept_at
            if sweep is not None and self.clock.now() - swept_at >= _SWEEP_EVERY_S:
                if self._there() is False:
                    sweep.once(self._networks)
                swept_at = self.clock.now()

        for attempt in range(1, _ATTEMPTS + 1):
            ended = self.pulumi.destroy(
                without_cluster=without_cluster, show=self.tell, meanwhile=meanwhile
            )
            if ended.code == 0:
                return ""
            if ended.locked:
                raise Stopped(
                    "another `pulumi` works on the stack, or a killed one has left its lock; when "
                    f"none does: slicewright unlock --stack {self.stack}"
                )
            if ended.credentials:
                raise Stopped(
                    "the cloud refuses the credentials; renew them and run this again, it goes on "
                    "where it was"
                )
            gone = ended.unreachable and not without_cluster and self._there() is False
            if gone:
                without_cluster = True
            elif not ended.held or attempt == _ATTEMPTS:
                break
            elif sweep is not None:
                self.tell("the cloud holds on to something; sweeping, then trying again")
                sweep.until_clean(
                    self._networks,
                    wait_s=self.choices.wait_s,
                    clock=self.clock.now,
                    sleep=self.clock.sleep,
                )
        return f"`pulumi destroy` failed with exit code {ended.code}: see above"


def _without_kubeconfig(report: Report, state: State) -> Report:
    """Nothing in the cluster can be looked at or drained: to be decided, if that is still to do."""
    if not state.hidden_kubeconfig:
        # Pulumi deletes it after all that it made in the cluster, and before the cluster.
        return replace(
            report,
            inventory_unknown="Pulumi's state has no Kubernetes provider, so no way to ask it",
        )
    why = "the kubeconfig in Pulumi's state is encrypted"
    return replace(
        report,
        inventory_unknown=why,
        obstacles=[
            *report.obstacles,
            f"{why}, so that the cluster cannot be asked; delete its load balancers and claims "
            "yourself and pass --unreachable: nothing in it is then drained, and the cloud is "
            "swept for what that leaves",
        ],
    )


def _disks_known(report: Report) -> bool:
    """Whether all disks of the cluster were seen to be of policy Delete."""
    return report.inventory is not None and not report.inventory.retained
