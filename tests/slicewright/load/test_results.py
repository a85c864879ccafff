"""A load's figures, from the outcomes of its requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.load import requests
from slicewright.load.engine import settings
from slicewright.load.load import Load, Target
from slicewright.load.outcomes import Ended, Outcome, Progress, decode, encode
from slicewright.load.results import Figures, percentile, results
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


def outcome(began_s: float, latency_s: float, *, target: int = 0, **changes: Any) -> Outcome:
    stated: dict[str, Any] = {
        "target": target,
        "began_s": began_s,
        "ended_s": began_s + latency_s,
        "tokens": 10,
        "first_token_s": 0.1,
        "inter_token_s": 0.02,
        "longest_gap_s": 0.05,
    }
    return Outcome(**{**stated, **changes})


def failed(began_s: float, why: str = "HTTP 503: busy") -> Outcome:
    return Outcome(target=0, began_s=began_s, ended_s=began_s + 0.5, failure=why)


def some() -> list[Outcome]:
    """Thirty answers of ten tokens within 15 s, twenty of them by pod-a."""
    return [outcome(i * 0.5, 0.5, target=int(i >= 20)) for i in range(30)]


def test_throughput_is_over_the_time_from_the_first_request_to_the_last_answer() -> None:
    whole = results(some(), load(), not_sent=0).whole
    assert (whole.answered, whole.per_second) == (30, 2.0)
    assert (whole.tokens, whole.tokens_per_second) == (300, 20.0)


def test_times_of_tokens_are_those_of_the_streams() -> None:
    whole = results(some(), load(), not_sent=0).whole
    assert whole.first_token_ms is not None
    assert whole.inter_token_ms is not None
    assert whole.longest_gap_ms is not None
    assert whole.request_tokens_per_second is not None
    assert whole.first_token_ms.p95 == pytest.approx(100)
    assert whole.inter_token_ms.p50 == pytest.approx(20)
    assert whole.longest_gap_ms.most == pytest.approx(50)
    assert whole.request_tokens_per_second.p50 == pytest.approx(20)


def test_figures_of_each_target_are_kept_apart() -> None:
    found = results(some(), load(), not_sent=0)
    assert [found.targets[name].answered for name in ("pod-a", "pod-b")] == [20, 10]
    assert found.targets["pod-b"].tokens == 100


@pytest.mark.parametrize(
    ("percent", "value"), [(0, 1.0), (50, 2.5), (90, 3.7), (100, 4.0)], ids=str
)
def test_percentiles_lie_between_the_nearest_values(percent: int, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], percent) == pytest.approx(value)


def test_failed_requests_have_no_latency_and_no_tokens() -> None:
    whole = results([outcome(0, 1.0), failed(0)], load(), not_sent=0).whole
    assert (whole.answered, whole.failed, whole.tokens) == (1, 1, 10)
    assert whole.latency_ms is not None
    assert whole.latency_ms.most == pytest.approx(1000)


def test_failed_and_not_sent_requests_are_shown() -> None:
    found = results([*some(), failed(0), failed(1)], load(), not_sent=5)
    text = "\n".join(summary_lines(load(), found))
    assert "answered        30, 2.0 a second; 2 failed" in text
    assert "not sent        5" in text
    assert "between tokens  p50 20.0 ms" in text


def test_requests_without_an_answer_have_no_times() -> None:
    found = results([], load(api="infer"), not_sent=0)
    assert found.whole == Figures(
        answered=0,
        failed=0,
        per_second=0,
        latency_ms=None,
        tokens=None,
        tokens_per_second=None,
        first_token_ms=None,
        inter_token_ms=None,
        longest_gap_ms=None,
        request_tokens_per_second=None,
    )


def test_the_json_has_each_replica_with_its_address() -> None:
    written = results_json(load(), results(some(), load(), not_sent=0), interrupted=False)
    assert written["version"] == 2
    assert written["asked"] == {"duration_s": 30, "users": 4, "rate": None}
    assert [one["name"] for one in written["replicas"]] == ["pod-a", "pod-b"]
    assert written["replicas"][0]["url"] == A.url
    assert written["replicas"][0]["inter_token_ms"]["p95"] == pytest.approx(20)
    json.dumps(written)


@pytest.mark.parametrize(
    "line",
    [
        outcome(1, 2),
        failed(3),
        Progress(under_way=2, seconds=1.0),
        Ended(not_sent=3, interrupted=True),
    ],
)
def test_lines_of_the_engine_are_read_back(line: Any) -> None:
    assert decode(encode(line)) == line


@pytest.mark.parametrize("text", ["", "{", "[]", '{"kind": "Other"}', '{"kind": "Outcome"}'])
def test_a_line_that_was_cut_off_is_ignored(text: str) -> None:
    assert decode(text) is None


def test_the_api_key_is_in_no_representation() -> None:
    secret = load(key="sk-secret")
    request = requests.chat(secret)
    assert "sk-secret" not in repr(secret) + repr(request)
    assert json.loads(settings(secret, request))["headers"]["Authorization"] == "Bearer sk-secret"


@pytest.mark.parametrize(("targets", "fresh"), [((A,), True), ((A, B), False)])
def test_each_request_to_an_address_opens_a_new_connection(
    targets: tuple[Target, ...], fresh: bool
) -> None:
    """A Service decides once for each connection which replica it reaches."""
    asked = load(targets=targets)
    assert json.loads(settings(asked, requests.chat(asked)))["fresh_connections"] is fresh


def test_tensors_are_zeros_of_the_size_that_the_model_takes() -> None:
    inputs = [
        {"name": "picture", "datatype": "FP32", "shape": [-1, 3, 2]},
        {"name": "text", "datatype": "BYTES", "shape": [2]},
    ]
    text, tensors = requests.zeros(inputs)
    described = json.loads(text)["inputs"]
    assert [tensor["shape"] for tensor in described] == [[1, 3, 2], [2]]
    assert [tensor["parameters"]["binary_data_size"] for tensor in described] == [24, 8]
    assert tensors == bytes(32)
