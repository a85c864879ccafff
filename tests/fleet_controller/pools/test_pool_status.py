"""What the conditions of a GPUPool say while its layout changes, and when the change stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest

from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.apis.names import BOOT_LAYOUT_LABEL, STARTUP_TAINT_KEY
from slicewright.fleet_controller.objects.assessment import Assessment
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.pools.members import GRACE_S, SET_UP_LIMIT_S, Member, member_of
from slicewright.fleet_controller.pools.status import TOO_FEW_LIMIT_S, pool_status
from slicewright.fleet_controller.rollout.progress import progress_text
from slicewright.fleet_controller.rollout.rollout import Rollout
from tests.fleet_controller.builders import build_node, build_pool
from tests.fleet_controller.rollout_world import known

NOW = 1_800_000_000.0
POOL = build_pool(name="p")
NODE = build_node(name="n", uid="u", verified_boot="b")
ROLLING = Rollout(wanted_layout="new", changing=("n0",), waiting=("n1",))
Status = Literal["True", "False", "Unknown"]


def member(
    name: str,
    status: Status = "True",
    *,
    settling: bool = False,
    joining: bool = False,
    node: Node = NODE,
) -> Member:
    return Member(
        node=replace(node, name=name),
        assessment=Assessment(status=status, reason=f"Reason{name}", message=f"message of {name}"),
        settling=settling,
        changed=NOW,
        warns=False,
        stuck=False,
        joining=joining,
    )


def stuck(name: str) -> Member:
    return member(name, "False")._replace(warns=True, stuck=True)


def conditions(
    rollout: Rollout,
    members: Sequence[Member] = (member("n0"), member("n1")),
    pool: Pool = POOL,
) -> dict[str, tuple[str, str, str]]:
    """Type -> status, reason, message."""
    status = pool_status(pool, members, rollout, NOW)
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in status["conditions"]}


def far(rollout: Rollout, members: int = 2) -> str:
    return progress_text(rollout, POOL, members)


def test_a_rollout_that_goes_on_is_progress_and_not_yet_proof() -> None:
    found = conditions(ROLLING, (member("n0", "Unknown", settling=True), member("n1")))
    assert found["Verified"] == ("False", "RollingOut", far(ROLLING))
    assert found["Progressing"] == ("True", "RollingOut", far(ROLLING))
    assert found["Degraded"] == ("False", "AsWanted", "no node has failed")
    assert found["Settled"][:2] == ("False", "RollingOut")


def test_a_node_that_is_wrong_is_reported_before_the_rollout() -> None:
    found = conditions(ROLLING, (member("n0", "Unknown"), member("n1", "False")))
    assert found["Verified"][:2] == ("False", "NodesFailing")
    assert "n1 Reasonn1: message of n1" in found["Verified"][2]
    assert found["Degraded"][:2] == ("True", "NodesFailing")


@pytest.mark.parametrize("stopped", ["failed", "full"])
def test_a_rollout_that_stopped_by_itself_is_no_progress(stopped: str) -> None:
    rollout = replace(ROLLING, stopped=stopped)
    assert conditions(rollout)["Progressing"] == ("False", "RolloutStopped", far(rollout))


@pytest.mark.parametrize(
    ("stopped", "reason"), [("paused", "RolloutPaused"), ("aborted", "RolloutAborted")]
)
def test_a_rollout_that_people_stopped_settles_unproven(stopped: str, reason: str) -> None:
    rollout = replace(ROLLING, stopped=stopped)
    found = conditions(rollout)
    assert found["Verified"] == ("False", reason, far(rollout))
    assert found["Progressing"] == ("False", reason, far(rollout))
    assert found["Settled"] == ("True", reason, far(rollout))


def test_pool_is_not_settled_while_a_layout_is_applied() -> None:
    rollout = replace(ROLLING, stopped="paused", applying=True)
    assert conditions(rollout)["Settled"] == ("False", "RolloutPaused", far(rollout))


def test_verified_nodes_that_are_out_block_a_rollout_that_is_full() -> None:
    rollout = replace(ROLLING, stopped="full", blocking=("n0", "n1"))
    assert conditions(rollout)["Degraded"] == ("True", "RolloutBlocked", far(rollout))


def test_a_node_that_is_being_set_up_blocks_nothing_for_good() -> None:
    rollout = replace(ROLLING, stopped="full", blocking=("n0", "n1"))
    found = conditions(rollout, (member("n0", "Unknown", settling=True), member("n1")))
    assert found["Degraded"] == ("False", "AsWanted", "no node has failed")


def test_a_rollout_that_stopped_for_failed_nodes_is_not_called_blocked() -> None:
    rollout = replace(ROLLING, stopped="failed", failed=("n0",))
    assert conditions(rollout)["Degraded"] == ("False", "AsWanted", "no node has failed")


def test_a_node_in_a_planned_change_is_being_set_up_without_a_warning() -> None:
    planned = Assessment(status="Unknown", reason="Draining", message="m", planned=True)
    found = member_of(NODE, planned, NOW + 9000)
    assert (found.settling, found.warns, found.stuck, found.deadlines) == (True, False, False, ())


NONE = Rollout(wanted_layout="new")


class TestToleratedNodes:
    """Verified means of this generation, what the policy tolerates aside."""

    @staticmethod
    def verified(
        tolerated: int | str, *members: Member, rollout: Rollout = NONE
    ) -> tuple[str, str, str]:
        pool = replace(POOL, policy=RolloutPolicy(max_unverified=tolerated))
        found = conditions(rollout, members, pool)
        assert (found["Settled"][0] == "True") >= (found["Verified"][0] == "True")
        return found["Verified"]

    @pytest.mark.parametrize("status", ["False", "Unknown"])
    def test_tolerated_nodes_may_be_unverified_and_are_named(self, status: Status) -> None:
        wrong = member("n1", status)
        assert self.verified(0, member("n0"), wrong)[0] == "False"
        assert self.verified(1, member("n0"), wrong) == (
            "True",
            "EnoughNodesProven",
            "1 node verified; 1 node is not, which the policy tolerates: "
            "n1 Reasonn1: message of n1",
        )
        assert self.verified(1, wrong, member("n2", status))[:2] == (
            "False",
            "NodesFailing" if status == "False" else "NodesNotProven",
        )

    @pytest.mark.parametrize(
        ("percent", "nodes", "wrong", "holds"),
        [("25%", 8, 2, True), ("25%", 8, 3, False), ("25%", 3, 1, False), ("100%", 1, 1, True)],
    )
    def test_a_percentage_is_rounded_down(
        self, percent: str, nodes: int, wrong: int, holds: bool
    ) -> None:
        members = [member(f"n{i}", "False" if i < wrong else "True") for i in range(nodes)]
        assert (self.verified(percent, *members)[0] == "True") is holds

    def test_a_node_that_may_yet_be_proven_is_waited_for(self) -> None:
        young = member("n1", "Unknown", settling=True)
        assert self.verified(1, member("n0"), young)[:2] == ("False", "NodesNotProven")

    def test_once_the_pool_is_verified_it_is_tolerated_too(self) -> None:
        """A node that reboots, of hundreds of which some always do."""
        proof = {"type": "Verified", "status": "True", "observedGeneration": POOL.generation}
        policy = RolloutPolicy(max_unverified=1)
        was = replace(POOL, policy=policy, status={"conditions": [proof]})
        one, two = (member(f"n{i}", "Unknown", settling=True) for i in (1, 2))
        found = conditions(NONE, (member("n0"), one), was)
        assert found["Verified"][:2] == ("True", "EnoughNodesProven")
        assert found["Settled"][0] == "True"
        assert found["Progressing"][:2] == ("True", "NodesBeingSetUp")
        found = conditions(NONE, (member("n0"), one, two), was)
        assert found["Verified"][:2] == ("False", "NodesNotProven")
        of_an_earlier_generation = replace(was, generation=POOL.generation + 1)
        found = conditions(NONE, (member("n0"), one), of_an_earlier_generation)
        assert found["Verified"][:2] == ("False", "NodesNotProven")
        assert conditions(ROLLING, (member("n0"), one), was)["Verified"][0] == "False"

    def test_pool_waits_for_a_settling_node_beside_unverified_ones(self) -> None:
        young, wrong = member("n1", "Unknown", settling=True), member("n2", "Unknown")
        assert self.verified(2, member("n0"), young, wrong)[:2] == ("False", "NodesNotProven")

    def test_pool_waits_for_a_node_whose_turn_has_not_come(self) -> None:
        rollout = replace(ROLLING, failed=("n0",), stopped="failed")
        waits = member("n1", "Unknown", settling=True)
        found = self.verified(1, member("n0", "False"), waits, rollout=rollout)
        assert found[:2] == ("False", "NodesFailing")

    @staticmethod
    def settled(
        tolerated: int | str, *members: Member, rollout: Rollout = NONE, fewest: int = 1
    ) -> tuple[str, str, str]:
        policy = RolloutPolicy(max_unverified=tolerated)
        pool = replace(POOL, policy=policy, fewest=fewest)
        found = conditions(rollout, members, pool)
        assert (found["Stalled"][0] == "True") == (found["Settled"][0] == "True")
        return found["Settled"]

    def test_beside_those_that_are_tolerated_the_others_are_still_waited_for(self) -> None:
        """So that the first `up` of a hundred nodes does not end with the first broken one."""
        broken, young = stuck("n1"), member("n2", "Unknown", settling=True)
        assert self.settled(1, member("n0"), broken, young)[:2] == ("False", "NodesFailing")
        assert self.settled(0, member("n0"), broken, young)[:2] == ("True", "NodesFailing")
        assert self.settled(1, broken, stuck("n3"), young)[:2] == ("True", "NodesFailing")

    def test_so_are_those_that_do_not_exist_yet(self) -> None:
        two = (member("n0"), stuck("n1"))
        assert self.settled("10%", *two, fewest=10)[:2] == ("False", "NodesFailing")
        assert self.settled("10%", *two, fewest=2)[:2] == ("True", "NodesFailing")

    def test_a_rollout_that_goes_on_is_waited_for_and_no_other(self) -> None:
        nodes = (stuck("n0"), member("n1", "Unknown", settling=True))
        going = replace(ROLLING, failed=("n0",))
        assert self.settled(1, *nodes, rollout=going)[:2] == ("False", "NodesFailing")
        ended = replace(going, stopped="failed")
        assert self.settled(1, *nodes, rollout=ended)[:2] == ("True", "NodesFailing")

    def test_it_is_degraded_all_the_same(self) -> None:
        pool = replace(POOL, policy=RolloutPolicy(max_unverified=1))
        found = conditions(NONE, (member("n0"), member("n1", "False")), pool)
        assert found["Degraded"][:2] == ("True", "NodesFailing")

    def test_nodes_that_do_not_exist_are_not_tolerated(self) -> None:
        pool = replace(POOL, fewest=2, policy=RolloutPolicy(max_unverified=5))
        found = conditions(NONE, (member("n0"),), pool)
        assert found["Verified"][:2] == ("False", "TooFewNodes")


class TestTooFewNodes:
    """A pool below its minimum is waited for, and Degraded when that has lasted."""

    POOL = replace(POOL, fewest=2)

    def status(self, *members: Member, pool: Pool = POOL, after_s: float = 0.0) -> dict[str, Any]:
        return dict(pool_status(pool, members, NONE, NOW + after_s))

    def said(self, status: dict[str, Any]) -> dict[str, tuple[str, str]]:
        return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}

    def test_at_first_it_is_progress(self) -> None:
        found = self.said(self.status(member("n0")))
        assert found["Verified"] == ("False", "TooFewNodes")
        assert found["Progressing"] == ("True", "WaitingForNodes")
        assert found["Degraded"] == ("False", "AsWanted")
        assert found["Settled"] == ("False", "TooFewNodes")
        assert found["Stalled"][0] == "False"

    def test_after_half_an_hour_it_is_degraded_and_stalled_and_may_still_get_its_nodes(
        self,
    ) -> None:
        known = replace(self.POOL, status=self.status(member("n0")))
        nearly = self.said(self.status(member("n0"), pool=known, after_s=TOO_FEW_LIMIT_S - 1))
        assert nearly == self.said(dict(known.status))
        late = self.status(member("n0"), pool=known, after_s=TOO_FEW_LIMIT_S)
        found = self.said(late)
        assert found["Progressing"] == ("False", "TooFewNodes")
        assert found["Degraded"] == ("True", "TooFewNodes")
        assert found["Stalled"] == ("True", "TooFewNodes")
        assert found["Settled"] == ("False", "TooFewNodes"), "`up` waits as long as it was asked to"
        (degraded,) = (c for c in late["conditions"] if c["type"] == "Degraded")
        assert degraded["message"] == (
            "1 node exists, at least 2 are needed, for more than 30 minutes"
        )

    def test_a_node_that_is_being_set_up_is_waited_for(self) -> None:
        known = replace(self.POOL, status=self.status())
        young = member("n0", "Unknown", settling=True)
        found = self.said(self.status(young, pool=known, after_s=TOO_FEW_LIMIT_S))
        assert found["Progressing"] == ("True", "NodesBeingSetUp")
        assert found["Stalled"][0] == "False"

    def test_the_time_begins_when_a_node_goes(self) -> None:
        known = replace(self.POOL, status=self.status(member("n0"), member("n1")))
        later = self.status(member("n0"), pool=known, after_s=60)
        assert later["tooFewSince"] == stamp(NOW + 60)

    def test_the_time_begins_with_the_generation(self) -> None:
        status = self.status()
        known = replace(self.POOL, status=status, generation=2)
        later = self.status(pool=known, after_s=TOO_FEW_LIMIT_S)
        assert later["tooFewSince"] == stamp(NOW + TOO_FEW_LIMIT_S) != status["tooFewSince"]
        assert self.said(later)["Degraded"][0] == "False"

    def test_with_enough_nodes_it_is_forgotten(self) -> None:
        known = replace(self.POOL, status=self.status())
        assert "tooFewSince" not in self.status(member("n0"), member("n1"), pool=known)

    def test_half_an_hour_is_what_it_takes(self) -> None:
        assert TOO_FEW_LIMIT_S == 1800.0

    @pytest.mark.parametrize(
        ("have", "needed", "words"),
        [
            (0, 1, "0 nodes exist, at least 1 is needed"),
            (1, 2, "1 node exists, at least 2 are needed"),
            (2, 3, "2 nodes exist, at least 3 are needed"),
        ],
    )
    def test_it_says_how_many_are_there_and_needed(
        self, have: int, needed: int, words: str
    ) -> None:
        members = [member(f"n{i}") for i in range(have)]
        found = conditions(NONE, members, replace(POOL, fewest=needed))
        assert found["Verified"] == ("False", "TooFewNodes", words)
        assert found["Progressing"] == ("True", "WaitingForNodes", words)


class TestKstatus:
    """Ready, Reconciling and Stalled, by which Flux and others judge any object: whether it is what
    is declared, may yet become so, or needs somebody. Not verified, it is one of the latter two.
    """

    WRONG = member("n1", "False")

    @staticmethod
    def found(
        *members: Member, rollout: Rollout = NONE, pool: Pool = POOL
    ) -> dict[str, tuple[str, str, str]]:
        found = conditions(rollout, members, pool)
        assert found["Ready"] == found["Verified"]
        waits, stalled = found["Reconciling"], found["Stalled"]
        assert [c[0] for c in (found["Ready"], waits, stalled)].count("True") == 1
        if waits[0] == "False":
            assert waits[1:] == ("NothingToWaitFor", "the pool is verified, or stalled")
        if stalled[0] == "False":
            assert stalled[1:] == ("NotStalled", "the pool is verified, or can still become so")
        return found

    def test_a_verified_pool_is_ready(self) -> None:
        assert self.found(member("n0"))["Ready"][0] == "True"

    def test_so_is_one_with_a_wrong_node_that_the_policy_tolerates(self) -> None:
        pool = replace(POOL, policy=RolloutPolicy(max_unverified=1))
        found = self.found(member("n0"), self.WRONG._replace(warns=True, stuck=True), pool=pool)
        assert found["Degraded"][0] == "True"
        assert found["Ready"][0] == "True"

    def test_while_nodes_are_set_up_it_says_so(self) -> None:
        found = self.found(member("n0"), member("n1", "Unknown", settling=True))
        assert found["Reconciling"] == found["Progressing"]
        assert found["Reconciling"][1] == "NodesBeingSetUp"

    def test_a_finding_of_this_moment_stalls_nothing(self) -> None:
        """Nothing is being set up either: it says why the pool is not verified."""
        found = self.found(member("n0"), self.WRONG)
        assert found["Degraded"][0] == "True"
        assert found["Reconciling"] == ("True", *found["Verified"][1:])

    def test_one_that_lasts_does_though_others_are_of_this_moment(self) -> None:
        found = self.found(member("n0", "False"), self.WRONG._replace(warns=True))
        assert found["Settled"][0] == "False"
        assert found["Stalled"] == ("True", *found["Degraded"][1:])
        assert found["Stalled"][1] == "NodesFailing"

    def test_not_while_a_rollout_goes_on(self) -> None:
        found = self.found(member("n0"), self.WRONG._replace(warns=True), rollout=ROLLING)
        assert found["Degraded"][0] == "True"
        assert found["Reconciling"] == found["Progressing"]

    def test_what_does_not_pass_by_itself_stalls_it_in_any_case(self) -> None:
        stuck = self.WRONG._replace(warns=True, stuck=True)
        found = self.found(member("n0"), stuck, rollout=ROLLING)
        assert found["Progressing"][0] == "True"
        assert found["Stalled"] == found["Settled"]
        assert found["Stalled"] == (
            "True",
            "NodesFailing",
            "1 node is wrong: n1 Reasonn1: message of n1",
        )

    def test_a_rollout_that_people_stopped_stalls_it(self) -> None:
        found = self.found(member("n0"), rollout=replace(ROLLING, stopped="paused"))
        assert found["Stalled"] == found["Settled"]
        assert found["Stalled"][1] == "RolloutPaused"

    def test_not_yet_while_a_layout_is_being_made(self) -> None:
        rollout = replace(ROLLING, stopped="paused", applying=True)
        found = self.found(member("n0"), member("n1", "Unknown", settling=True), rollout=rollout)
        assert (found["Progressing"][0], found["Degraded"][0]) == ("False", "False")
        assert found["Reconciling"] == ("True", *found["Verified"][1:])

    def test_so_does_one_that_nodes_of_others_block(self) -> None:
        full = replace(ROLLING, stopped="full", blocking=("n9",))
        found = self.found(member("n9"), member("n1", "Unknown", settling=True), rollout=full)
        assert found["Stalled"] == found["Degraded"]
        assert found["Stalled"][1] == "RolloutBlocked"


class TestKnownLayouts:
    """The layout that its spec declares is remembered once nodes were verified with it."""

    NEW = known("new")
    POOL = replace(POOL, fewest=0, declared=NEW, layout_hash=NEW.layout_hash)

    @pytest.mark.parametrize(
        ("members", "remembers"),
        [((member("n0"),), True), ((member("n0"), member("n1", "Unknown")), False), ((), False)],
        ids=["verified", "not verified", "no nodes"],
    )
    def test_only_what_nodes_were_verified_with_is_remembered(
        self, members: tuple[Member, ...], remembers: bool
    ) -> None:
        status = pool_status(self.POOL, members, NONE, NOW)
        remembered = [one["migConfig"] for one in status.get("provenLayouts", [])]
        assert remembered == (["new"] if remembers else [])

    def test_an_undone_pool_has_settled_and_is_not_what_it_declares(self) -> None:
        undone = replace(self.POOL, mig_config="old")
        found = conditions(NONE, (member("n0"),), undone)
        assert found["Verified"][:2] == ("False", "RolloutUndone")
        assert found["Verified"][2].startswith("1 node verified, with layout old, to which the ")
        assert found["Settled"] == ("True", *found["Verified"][1:])
        assert "provenLayouts" not in pool_status(undone, (member("n0"),), NONE, NOW)


class TestNodesThatJoinLater:
    """They are held until they are proven, and un-verify nothing."""

    FRESH = replace(NODE, verified_boot="", taint_keys=(STARTUP_TAINT_KEY,))

    @staticmethod
    def pool(*, generation: int = 1, fewest: int = 1, status: str = "True") -> Pool:
        known = {"type": "Verified", "status": status, "observedGeneration": generation}
        return replace(POOL, fewest=fewest, status={"conditions": [known]})

    def verified(self, pool: Pool, *members: Member) -> tuple[str, str, str]:
        return conditions(NONE, members, pool)["Verified"]

    def joining(self, node: Node = FRESH, *, age_s: float = 0.0) -> Member:
        """As the controller assesses it, without a report."""
        silent = Assessment(
            status="Unknown", reason="Reasonn1", message="message of n1", settles=True
        )
        return member_of(replace(node, name="n1", created=NOW - age_s), silent, NOW)

    def test_a_pool_that_was_verified_stays_so_and_says_who_joins(self) -> None:
        found = conditions(NONE, (member("n0"), self.joining()), self.pool())
        assert found["Verified"] == (
            "True",
            "AllNodesProven",
            "1 node verified; 1 node joining, held until verified: n1 Reasonn1: message of n1",
        )
        assert found["Progressing"][:2] == ("True", "NodesBeingSetUp")

    @pytest.mark.parametrize(
        "pool",
        [POOL, pool(generation=0), pool(status="False"), pool(fewest=2)],
        ids=["new", "of an earlier generation", "not verified before", "of two at least"],
    )
    def test_no_other_pool_does(self, pool: Pool) -> None:
        assert self.verified(pool, member("n0"), self.joining())[0] == "False"

    def test_a_node_that_was_in_service_counts(self) -> None:
        rebooted = self.joining(replace(self.FRESH, verified_boot="b0"))
        open_to_pods = self.joining(replace(self.FRESH, taint_keys=()))
        for one in (rebooted, open_to_pods):
            assert self.verified(self.pool(), member("n0"), one)[0] == "False"

    def test_joining_node_has_time_for_a_driver_and_a_reboot(self) -> None:
        """It is warned of before: the grace period of Warning Events is shorter."""
        slow = self.joining(age_s=SET_UP_LIMIT_S - 1)
        assert slow.warns
        found = conditions(NONE, (member("n0"), slow), self.pool())
        assert found["Verified"][:2] == ("True", "AllNodesProven")
        assert found["Progressing"][:2] == ("True", "NodesBeingSetUp")
        assert found["Degraded"][:2] == ("False", "AsWanted")

    def test_joining_node_gets_a_new_grace_period_when_its_condition_changes(self) -> None:
        rebooted = Condition(
            status="Unknown",
            reason="ReportFromEarlierBoot",
            message="m",
            changed=NOW - 1,
            written=NOW - 1,
        )
        slow = self.joining(replace(self.FRESH, condition=rebooted), age_s=SET_UP_LIMIT_S + 1)
        found = conditions(NONE, (member("n0"), slow), self.pool())
        assert found["Verified"][:2] == ("True", "AllNodesProven")

    def test_a_node_that_does_not_get_there_counts_in_the_end(self) -> None:
        late = self.joining(age_s=SET_UP_LIMIT_S)
        found = conditions(NONE, (member("n0"), late), self.pool())
        assert found["Verified"][:2] == ("False", "NodesNotProven")
        assert found["Degraded"][:2] == ("True", "NodesFailing")

    def test_a_node_that_is_wrong_by_itself_counts_at_once(self) -> None:
        wrong = Assessment(status="False", reason="GpuLost", message="m")
        broken = member_of(replace(self.FRESH, name="n1"), wrong, NOW)
        assert self.verified(self.pool(), member("n0"), broken)[:2] == ("False", "NodesFailing")

    def test_the_pool_is_looked_at_again_when_the_time_is_over(self) -> None:
        silent = Assessment(status="Unknown", reason="NoReport", message="m", settles=True)
        late = member_of(self.FRESH, silent, NOW + GRACE_S)
        assert NOW + SET_UP_LIMIT_S in late.deadlines


def test_a_pool_is_not_verified_while_nodes_of_another_boot_layout_are_in_it() -> None:
    pool = replace(POOL, boot_layout="aaaaaaaa")
    old = replace(NODE, labels={**NODE.labels, BOOT_LAYOUT_LABEL: "bbbbbbbb"})
    new = replace(NODE, labels={**NODE.labels, BOOT_LAYOUT_LABEL: "aaaaaaaa"})
    idle = Rollout()
    found = conditions(idle, (member("n0", node=old), member("n1", node=new)), pool)
    assert found["Verified"][:2] == ("False", "NodesBeingReplaced")
    assert "1 of 2 nodes booted with another layout" in found["Verified"][2]
    assert found["Progressing"][:2] == ("True", "NodesBeingReplaced")
    assert found["Settled"][0] == found["Degraded"][0] == found["Stalled"][0] == "False"
    replaced = conditions(idle, (member("n0", node=new), member("n1", node=new)), pool)
    assert replaced["Verified"][:2] == ("True", "AllNodesProven")


def test_a_node_of_another_boot_layout_that_is_wrong_is_reported() -> None:
    pool = replace(POOL, boot_layout="aaaaaaaa")
    old = replace(NODE, labels={**NODE.labels, BOOT_LAYOUT_LABEL: "bbbbbbbb"})
    found = conditions(Rollout(), (stuck("n0")._replace(node=old), member("n1")), pool)
    assert found["Settled"][:2] == ("True", "NodesFailing")
