"""For any history of two replicas and one Lease: never do both lead, and one does in the end."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from slicewright.kubeapi import ApiError, Unreachable
from slicewright.kubeapi.election import Election, Record, Times
from tests.properties import examples

TIMES = Times()


@dataclass
class Server:
    """What an API server does with Leases: versions, conflicts, and trouble."""

    now: float = 1_800_000_000.0
    lease: dict[str, Any] | None = None
    version: int = 0
    trouble: str = ""

    def _answer(self) -> None:
        if self.trouble == "429":
            raise ApiError(429, {"message": "busy"}, retry_after_s=1)
        if self.trouble == "500":
            raise ApiError(500, {"message": "broken"})
        if self.trouble == "unreachable":
            raise Unreachable("nobody answers")

    def get(self, path: str) -> dict[str, Any]:
        self._answer()
        if self.lease is None:
            raise ApiError(404, {"reason": "NotFound"})
        return self.lease

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.lease is not None:
            raise ApiError(409, {"reason": "AlreadyExists"})
        return self._stored(body)

    def replace(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        assert self.lease is not None
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise ApiError(409, {"reason": "Conflict"})
        return self._stored(body)

    def _stored(self, body: dict[str, Any]) -> dict[str, Any]:
        assert body["spec"]["leaseDurationSeconds"] >= 1
        self._before_write()
        self.version += 1
        self.lease = {**body, "metadata": {"resourceVersion": str(self.version)}}
        if self.trouble == "answer lost":
            raise Unreachable("the answer is lost")
        return self.lease

    def _before_write(self) -> None:
        """For tests that let somebody be quicker."""


@dataclass
class Replica:
    """A process whose clock has nothing to do with those of others."""

    server: Server
    name: str
    offset: float
    told: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.election = Election(
            self.server,
            namespace="ns",
            name="lease",
            identity=self.name,
            clock=lambda: self.server.now + self.offset,
            utc=lambda: datetime.fromtimestamp(self.server.now - self.offset, UTC),
            on_change=self.told.append,
        )

    def tries(self) -> None:
        try:
            self.election.attempt()
        except (ApiError, Unreachable):
            pass


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def one(server: Server) -> Replica:
    return Replica(server, "one", 7.0)


@pytest.fixture
def two(server: Server) -> Replica:
    return Replica(server, "two", -5000.0)


def test_the_first_takes_a_lease_that_is_free(one: Replica, server: Server) -> None:
    assert not one.election.leads()
    assert one.election.attempt()
    assert one.election.leads()
    assert server.lease is not None
    spec = server.lease["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("one", 15)
    assert spec["leaseTransitions"] == 0
    assert spec["acquireTime"] == spec["renewTime"]


def test_a_renewal_keeps_when_it_was_acquired(one: Replica, server: Server) -> None:
    one.tries()
    assert server.lease is not None
    acquired = server.lease["spec"]["acquireTime"]
    server.now += 5
    one.tries()
    spec = server.lease["spec"]
    assert spec["acquireTime"] == acquired != spec["renewTime"]
    assert spec["leaseTransitions"] == 0


def test_a_lease_is_taken_only_after_it_was_seen_unchanged_for_its_whole_time(
    one: Replica, two: Replica, server: Server
) -> None:
    one.tries()
    # Whatever the lease says of the time: it is as old as the watcher has seen it.
    server.now += 1000
    assert not two.election.attempt()
    server.now += TIMES.lease - 0.1
    assert not two.election.attempt()
    assert two.election.holder == "one"
    server.now += 0.1
    assert two.election.attempt()
    assert server.lease is not None
    assert server.lease["spec"]["leaseTransitions"] == 1


def test_a_renewal_in_between_restarts_the_wait(one: Replica, two: Replica, server: Server) -> None:
    one.tries()
    two.tries()
    server.now += 14
    one.tries()
    two.tries()
    server.now += 14
    assert not two.election.attempt()


def test_a_holder_stops_before_anybody_else_may_begin(
    one: Replica, two: Replica, server: Server
) -> None:
    one.tries()
    two.tries()
    server.trouble = "unreachable"
    server.now += TIMES.renew - 0.1
    one.tries()
    assert one.election.leads()
    server.now += 0.1
    assert not one.election.leads()
    server.trouble = ""
    assert not two.election.attempt(), "five seconds remain"


def test_time_counts_from_the_request_and_not_from_its_answer(one: Replica, server: Server) -> None:
    def slow() -> None:
        server.now += 9

    server._before_write = slow  # type: ignore[method-assign]
    one.tries()
    server.now += 1
    assert not one.election.leads()


def test_each_time_that_it_leads_after_it_did_not_is_another_term(
    one: Replica, two: Replica, server: Server
) -> None:
    assert one.election.term() == 0
    one.tries()
    server.now += 5
    one.tries()
    assert one.election.term() == 1
    two.tries()
    server.now += TIMES.lease
    assert one.election.term() == 0
    two.tries()
    two.election.release()
    one.tries()
    assert one.election.term() == 2
    # And where nobody has taken it meanwhile: that cannot be known.
    server.now += TIMES.renew
    one.tries()
    assert one.election.term() == 3


def test_whoever_sees_that_another_one_holds_it_stops_at_once(
    one: Replica, two: Replica, server: Server
) -> None:
    """Somebody has deleted the lease, so that it was free."""
    one.tries()
    server.lease = None
    assert two.election.attempt()
    one.tries()
    assert [one.election.leads(), two.election.leads()] == [False, True]


def test_one_of_two_simultaneous_candidates_is_refused(
    one: Replica, two: Replica, server: Server
) -> None:
    one.tries()
    two.tries()
    server.now += TIMES.lease
    get = server.get

    def get_and_lose(path: str) -> dict[str, Any]:
        found = get(path)
        server.get = get  # type: ignore[method-assign]
        one.tries()
        return found

    server.get = get_and_lose  # type: ignore[method-assign]
    assert not two.election.attempt()
    assert not two.election.leads()
    assert one.election.leads()


def test_what_is_given_up_may_be_taken_at_once(one: Replica, two: Replica, server: Server) -> None:
    one.tries()
    two.tries()
    one.election.release()
    assert not one.election.leads()
    assert two.election.attempt()


def test_only_its_holder_gives_it_up(one: Replica, two: Replica, server: Server) -> None:
    one.tries()
    two.election.release()
    assert server.lease is not None
    assert Record.from_lease(server.lease).holder == "one"


def test_times_that_would_let_two_lead_are_refused() -> None:
    with pytest.raises(ValueError, match="lease must be longer"):
        Times(lease=10, renew=10)
    with pytest.raises(ValueError, match="lease must be longer"):
        Times(renew=2, retry=2)


def test_a_change_is_reported_once(one: Replica, server: Server) -> None:
    """`follow` tells, whether it takes the lease or loses it."""
    waits: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            assert timeout is not None
            waits.append(timeout)
            server.now += timeout
            if len(waits) == 2:
                server.trouble = "unreachable"
            if len(waits) == 12:
                self.set()
            return self.is_set()

    stop = Stop()
    one.election.follow(stop)
    assert one.told == [True, False]


class AnyHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.replicas = [Replica(self.server, "a", 3.0), Replica(self.server, "b", -900.0)]
        self.made = 0

    which = st.integers(0, 1)

    @rule(
        i=which, trouble=st.sampled_from(["", "", "", "429", "500", "unreachable", "answer lost"])
    )
    def one_tries(self, i: int, trouble: str) -> None:
        self.server.trouble = trouble
        self.replicas[i].tries()
        self.server.trouble = ""

    @rule(seconds=st.sampled_from([0.5, 2.0, 2.4, 9.0, 11.0, 16.0]))
    def time_passes(self, seconds: float) -> None:
        self.server.now += seconds

    @rule(i=which)
    def one_ends(self, i: int) -> None:
        self.replicas[i].election.release() if self.server.lease else None

    @rule(i=which)
    def one_is_killed_and_started_anew(self, i: int) -> None:
        self.made += 1
        self.replicas[i] = Replica(self.server, f"new-{self.made}", 100.0 * self.made)

    @invariant()
    def never_do_both_lead(self) -> None:
        assert sum(one.election.leads() for one in self.replicas) <= 1
        assert sum(one.election.term() > 0 for one in self.replicas) <= 1

    def teardown(self) -> None:
        for _ in range(20):
            for one in self.replicas:
                one.tries()
            self.server.now += 2
        for one in self.replicas:
            one.tries()
        assert sum(one.election.leads() for one in self.replicas) == 1


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(
    max_examples=examples(100), stateful_step_count=30, deadline=None
)
