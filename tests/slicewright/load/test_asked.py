"""What k6 is told, and what is read of its summary."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.load.asked import Load, Target, as_json, metrics, options, tag
from slicewright.load.results import BadSummary, Figures, results
from slicewright.load.text import as_json as results_json
from slicewright.load.text import summary_lines

A, B = Target(name="pod-a", url="http://10.0.0.1:8000"), Target(name="pod-b", url="http://b:8000")


def load(**changes: Any) -> Load:
    stated: dict[str, Any] = {
        "workload": "ai/llm",
        "api": "chat",
        "targets": (A, B),
        "duration_s": 30,
        "users": 4,
        "rate": None,
        "model": "org/small",
        "tokens": 16,
        "body": None,
        "key": None,
    }
    return Load(**{**stated, **changes})


def trend(*, count: int, base: float) -> dict[str, Any]:
    stats = {"avg": 1.0, "med": 2.0, "p(90)": 3.0, "p(95)": 4.0, "p(99)": 5.0, "max": 6.0}
    values = {name: value * base for name, value in stats.items()}
    return {"type": "trend", "contains": "time", "values": {**values, "count": count}}


def counter(count: int) -> dict[str, Any]:
    return {"type": "counter", "contains": "default", "values": {"count": count, "rate": 0.1}}


def summary(**more: Any) -> dict[str, Any]:
    """As k6 v1.8.1 writes it, shortened: 30 answers of 10 tokens in 15 s, 20 of them by pod-a."""
    return {
        "state": {"testRunDurationMs": 15_000.0, "isStdOutTTY": False, "isStdErrTTY": False},
        "metrics": {
            "answered": counter(30),
            "tokens": counter(300),
            "latency": trend(count=30, base=10),
            "first_token": trend(count=7, base=2),
            "request_tokens": trend(count=30, base=1),
            "answered{target:t0}": counter(20),
            "tokens{target:t0}": counter(200),
            "latency{target:t0}": trend(count=20, base=20),
            "answered{target:t1}": counter(10),
            **more,
        },
    }


def test_users_ask_again_as_soon_as_they_are_answered() -> None:
    scenario = options(load())["scenarios"]["load"]
    assert (scenario["executor"], scenario["vus"], scenario["duration"]) == (
        "constant-vus",
        4,
        "30s",
    )


def test_a_rate_is_kept_whether_or_not_answers_come() -> None:
    scenario = options(load(users=None, rate=20))["scenarios"]["load"]
    assert scenario["executor"] == "constant-arrival-rate"
    assert (scenario["rate"], scenario["timeUnit"], scenario["maxVUs"]) == (20, "1s", 200)


def test_only_a_chat_has_a_first_token() -> None:
    assert options(load())["scenarios"].keys() == {"load", "first_token"}
    assert options(load(api="infer"))["scenarios"].keys() == {"load"}
    assert "first_token" in metrics("chat")
    assert "first_token" not in metrics("infer")


def test_behind_one_address_each_request_has_a_connection_of_its_own() -> None:
    """A Service decides once for each connection which replica it reaches."""
    assert options(load(targets=(A,)))["noVUConnectionReuse"] is True
    assert options(load())["noVUConnectionReuse"] is False


def test_figures_of_each_target_are_kept_apart() -> None:
    kept = options(load())["thresholds"]
    assert kept == {
        f"{metric}{{target:{tag(i)}}}": [] for metric in metrics("chat") for i in range(2)
    }


def test_the_scripts_read_the_key_from_a_file_and_nothing_prints_it() -> None:
    secret = load(key="sk-secret")
    assert json.loads(as_json(secret))["key"] == "sk-secret"
    assert "sk-secret" not in repr(secret)


def test_throughput_is_over_the_time_that_it_took() -> None:
    found = results(summary(), load())
    assert (found.whole.answered, found.whole.per_second) == (30, 2.0)
    assert (found.whole.tokens, found.whole.tokens_per_second) == (300, 20.0)
    assert found.whole.latency_ms is not None
    assert (found.whole.latency_ms.p50, found.whole.latency_ms.p99) == (20, 50)
    assert found.whole.first_token_ms is not None
    assert found.whole.first_token_ms.p95 == 8
    first, second = found.targets["pod-a"], found.targets["pod-b"]
    assert (first.answered, second.answered) == (20, 10)
    assert first.latency_ms is not None
    assert first.latency_ms.p50 == 40
    # k6 leaves out what nothing was added to.
    assert (second.latency_ms, second.tokens, second.failed) == (None, 0, 0)


def test_what_failed_and_what_was_not_sent_is_counted() -> None:
    found = results(summary(failed=counter(3), dropped_iterations=counter(5)), load())
    assert (found.whole.failed, found.dropped) == (3, 5)
    said = "\n".join(summary_lines(load(), found))
    assert "answered        30, 2.0 a second; 3 failed" in said
    assert "not sent        5" in said


def test_without_an_answer_there_are_no_times() -> None:
    nothing = {"state": {"testRunDurationMs": 1000.0}, "metrics": {"failed": counter(9)}}
    found = results(nothing, load(api="infer"))
    assert found.whole == Figures(
        answered=0,
        failed=9,
        per_second=0,
        latency_ms=None,
        tokens=None,
        tokens_per_second=None,
        first_token_ms=None,
        request_tokens_per_second=None,
    )
    assert "answered        0, 0.0 a second; 9 failed" in "\n".join(summary_lines(load(), found))


@pytest.mark.parametrize("broken", [{}, {"metrics": {}}, {"state": {}, "metrics": {}}])
def test_a_summary_of_another_kind_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(BadSummary, match="k6's summary is not as expected"):
        results(broken, load())


def test_the_json_has_each_replica_with_its_address() -> None:
    written = results_json(load(), results(summary(), load()), interrupted=False)
    assert written["asked"] == {"duration_s": 30, "users": 4, "rate": None}
    assert [one["name"] for one in written["replicas"]] == ["pod-a", "pod-b"]
    assert written["replicas"][0]["url"] == A.url
    assert written["replicas"][0]["latency_ms"]["p95"] == 80
    json.dumps(written)
