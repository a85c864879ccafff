"""One sweep: in which order, what is kept, and when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.teardown.sweep.account import DeletionPostponed, DeletionRefused, Listing, Outcome
from slicewright.teardown.sweep.leftovers import Leftover
from slicewright.teardown.sweep.life import Life
from slicewright.teardown.sweep.passes import LONGEST_WAIT_S, Sweep, SweepReport
from slicewright.teardown.sweep.permission import Permission

ALL = Permission()
MINE = "tag kubernetes.io/cluster/ml=owned"


def one(kind: str, identity: str = "x", proof: str = MINE, held: str = "") -> Leftover:
    return Leftover(kind=kind, id=identity, proof=proof, held=held)


@dataclass
class Account:
    left: list[Leftover]
    there: Answer[bool] = False
    not_asked: Sequence[NotAnswered] = ()
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    """Kind -> what its deletions come to, one after the other; then they succeed."""
    asked: list[str] = field(default_factory=list)

    def cluster_exists(self) -> Answer[bool]:
        return self.there

    def life(self) -> Life:
        return Life()

    def look(self, life: Life) -> Listing:
        return Listing(leftovers=list(self.left), not_asked=self.not_asked)

    def delete(self, leftover: Leftover) -> Outcome:
        self.asked.append(leftover.kind)
        outcome = (self.outcomes.get(leftover.kind) or [None]).pop(0)
        if outcome is None:
            self.left.remove(leftover)
        return outcome


@dataclass
class Time:
    now_s: float = 0.0
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


def sweep(
    account: Account, *, wait_s: float = 600.0, permission: Permission = ALL
) -> tuple[SweepReport, Time]:
    time = Time()
    swept = Sweep(account, permission).until_clean(
        Life(), wait_s=wait_s, clock=lambda: time.now_s, sleep=time.sleep
    )
    return swept, time


def test_resources_that_prove_others_are_deleted_last() -> None:
    held: list[Outcome] = [DeletionPostponed(why="busy"), DeletionPostponed(why="busy")]
    account = Account(
        [one("firewall rule"), one("forwarding rule")], outcomes={"forwarding rule": held}
    )
    swept, _ = sweep(account)
    assert swept.clean
    assert account.asked == ["forwarding rule"] * 3 + ["firewall rule"]


def test_resources_that_prove_others_stay_while_others_are_unknown() -> None:
    unknown = (NotAnswered(why="the right compute.forwardingRules.list is missing"),)
    account = Account([one("firewall rule"), one("disk"), one("log group")], not_asked=unknown)
    swept, _ = sweep(account, wait_s=60)
    assert account.asked == ["log group"]
    assert [left.kind for left in swept.leftovers] == ["firewall rule", "disk"]
    assert not swept.clean


def test_nothing_is_deleted_while_the_cluster_exists_or_may_exist() -> None:
    for there in (True, NotAnswered(why="the right eks:DescribeCluster is missing")):
        account = Account([one("disk")], there=there)
        swept, _ = sweep(account, wait_s=60)
        assert account.asked == []
        assert not swept.clean


def test_resources_without_proof_or_with_a_keep_option_are_only_reported() -> None:
    account = Account([one("security group", proof=""), one("disk")])
    swept, time = sweep(account, permission=Permission(disks="keep"))
    assert account.asked == []
    assert len(swept.leftovers) == 2
    # Waiting would change neither.
    assert time.slept == []


def test_a_missing_right_is_not_waited_for() -> None:
    refused: list[Outcome] = [
        DeletionRefused(why="AccessDenied"),
        DeletionRefused(why="AccessDenied"),
    ]
    swept, time = sweep(Account([one("disk")], outcomes={"disk": refused}))
    assert "AccessDenied" in swept.leftovers[0].held
    assert time.slept == []


def test_a_postponed_deletion_is_retried_at_growing_intervals_until_the_time_limit() -> None:
    account = Account(
        [one("security group")], outcomes={"security group": [DeletionPostponed(why="x")] * 99}
    )
    swept, time = sweep(account, wait_s=600)
    assert swept.leftovers[0].held == "x"
    assert sum(time.slept) == 600
    assert time.slept[0] < LONGEST_WAIT_S == max(time.slept)


def test_an_interface_in_use_is_left_to_its_owner() -> None:
    account = Account([one("network interface", held="in-use: ELB a1")])
    sweep(account, wait_s=10)
    assert account.asked == []


def test_a_recreated_resource_is_deleted_again() -> None:
    """A log group, by the last lines of its control plane."""
    account = Account([one("log group")])
    time = Time()

    def sleep(seconds: float) -> None:
        if len(time.slept) == 1:
            account.left.append(one("log group"))
        time.sleep(seconds)

    swept = Sweep(account, ALL).until_clean(
        Life(), wait_s=60, clock=lambda: time.now_s, sleep=sleep
    )
    assert swept.clean
    assert account.left == []
    assert account.asked == ["log group"] * 2
