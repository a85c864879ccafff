"""When evictions that were refused are tried again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from slicewright.fleet_controller.cluster.backoff import Refusals
from slicewright.fleet_controller.rollout.drain import explain_refusal, is_refused_by_budget
from slicewright.kubeapi import ApiError
from tests.odd_values import VALUES

NOW = 1000.0


def _by_budget(name: str = "infer", **more: Any) -> ApiError:
    said = f"The disruption budget {name} needs 4 healthy pods and has 4 currently"
    causes = [{"reason": "DisruptionBudget", "message": said}]
    return ApiError(429, {"message": "Cannot evict", "details": {"causes": causes}}, **more)


class Asking:
    """A controller that asks each pod when its turn has come, in a pass every `step_s` seconds."""

    def __init__(self, pods: Mapping[str, ApiError]) -> None:
        self.refusals = Refusals()
        self.held = dict(pods)
        self.asked: list[tuple[float, str]] = []

    def run(self, start: float, until: float, step_s: float = 1.0) -> None:
        now = start
        while now < until:
            known = self.refusals.all()
            for uid, error in self.held.items():
                if uid not in known or known[uid].retry_at <= now:
                    self.asked.append((now, uid))
                    self.refusals.add(uid, error, now)
            now += step_s

    def times(self, uid: str) -> list[float]:
        return [at for at, one in self.asked if one == uid]


def test_eviction_held_by_a_budget_is_retried_every_few_seconds_for_hours() -> None:
    asking = Asking({"a": _by_budget()})
    asking.run(NOW, NOW + 3600)
    times = asking.times("a")
    assert max(after - before for before, after in pairwise(times)) <= 6


def test_eviction_is_retried_after_ten_seconds_if_the_budget_is_not_recounted() -> None:
    """However long the API server says: it is not busy."""
    asking = Asking({"a": _by_budget(retry_after_s=50.0)})
    asking.run(NOW, NOW + 31)
    assert asking.times("a") == [NOW, NOW + 10, NOW + 20, NOW + 30]


def test_evictions_of_thousands_of_pods_are_retried_a_few_per_second() -> None:
    many = {f"p{n}": _by_budget() for n in range(5000)}
    asking = Asking({**many, "other": _by_budget("single")})
    asking.run(NOW, NOW + 120)
    per_second = [sum(at == NOW + s for at, _ in asking.asked) for s in range(120)]
    assert per_second[0] == 5001, "the first time, each is asked"
    assert max(per_second[1:]) <= 125
    assert sum(per_second[1:]) <= 120 * 25
    assert all(any(per_second[s : s + 7]) for s in range(1, 110)), "and never none for long"
    assert len(asking.times("other")) >= 20, "another budget's pod does not wait for them"


def test_the_last_of_many_does_not_wait_for_turns_of_those_that_are_gone() -> None:
    asking = Asking({f"p{n}": _by_budget() for n in range(5000)})
    asking.run(NOW, NOW + 60)
    asking.held = {"p4999": _by_budget()}
    asking.refusals.keep(["p4999"])
    asking.asked.clear()
    asking.run(NOW + 60, NOW + 90)
    assert asking.times("p4999")[0] <= NOW + 66


@pytest.mark.parametrize("allowed_at", [7.0, 61.0, 600.0, 3601.5])
def test_when_the_budget_is_gone_the_first_leaves_within_ten_seconds(allowed_at: float) -> None:
    asking = Asking({f"p{n}": _by_budget() for n in range(300)})
    asking.run(NOW, NOW + allowed_at)
    known = asking.refusals.all()
    assert min(one.retry_at for one in known.values()) <= NOW + allowed_at + 6


def test_a_refusal_that_no_budget_has_made_is_tried_ever_more_rarely() -> None:
    asking = Asking({"a": ApiError(403, {"message": "a webhook says no"})})
    asking.run(NOW, NOW + 300)
    times = asking.times("a")
    assert [after - before for before, after in pairwise(times)] == [
        5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 60.0,
    ]  # fmt: skip


def test_what_a_server_asks_for_that_is_busy_is_obeyed() -> None:
    refusals = Refusals()
    refusals.add("a", ApiError(429, {}, retry_after_s=90.0), NOW)
    assert refusals.all()["a"].retry_at == NOW + 90


def test_pods_that_are_gone_are_forgotten() -> None:
    refusals = Refusals()
    refusals.add("a", _by_budget(), NOW)
    refusals.add("b", _by_budget(), NOW)
    refusals.keep(["b"])
    assert set(refusals.all()) == {"b"}


@pytest.mark.parametrize("odd", VALUES[:-1], ids=range(len(VALUES) - 1))
def test_an_answer_that_is_odd_is_a_refusal_in_plain_words(odd: Any) -> None:
    for body in (
        {"message": "no", "details": odd},
        {"message": "no", "details": {"causes": odd}},
        {"message": "no", "details": {"causes": [odd]}},
        {"message": "no", "details": {"causes": [{"reason": "DisruptionBudget", "message": odd}]}},
    ):
        is_refused_by_budget(body)
        assert explain_refusal(body, "no").isprintable()
        assert len(explain_refusal(body, "no")) <= 200
        refusals = Refusals()
        refusals.add("a", ApiError(429, body), NOW)
        assert refusals.all()["a"].retry_at >= NOW + 5
