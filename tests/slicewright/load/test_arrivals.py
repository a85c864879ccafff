"""When requests are due."""

from __future__ import annotations

from slicewright.load.arrivals import SteadyRate, WhenFree


def test_requests_are_due_at_even_distances_whether_or_not_others_are_answered() -> None:
    arrivals = SteadyRate(per_second=4, duration_s=1, began_s=100)
    assert [arrivals.take(100) for _ in range(5)] == [100, 100.25, 100.5, 100.75, None]
    assert arrivals.not_sent == 0


def test_requests_sent_late_for_lack_of_workers_are_counted() -> None:
    arrivals = SteadyRate(per_second=10, duration_s=3, began_s=0)
    assert arrivals.take(0) == 0
    # A user is free again after two seconds: what was due more than half a second ago is lost.
    assert arrivals.take(2.05) == 1.6
    assert arrivals.not_sent == 15


def test_requests_that_were_due_before_the_end_and_never_taken_are_counted() -> None:
    arrivals = SteadyRate(per_second=10, duration_s=1, began_s=0)
    arrivals.take(0)
    arrivals.skip_until(60)
    assert arrivals.not_sent == 9
    assert arrivals.take(60) is None


def test_a_slightly_late_request_is_sent() -> None:
    arrivals = SteadyRate(per_second=10, duration_s=1, began_s=0)
    assert arrivals.take(0.4) == 0
    assert arrivals.not_sent == 0


def test_a_user_asks_again_at_once_until_the_end() -> None:
    arrivals = WhenFree(duration_s=2, began_s=10)
    assert arrivals.take(10.5) == 10.5
    assert arrivals.take(12) is None
    arrivals.skip_until(70)
    assert arrivals.not_sent == 0
