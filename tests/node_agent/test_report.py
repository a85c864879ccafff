from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import pytest

from kubeapi import ApiError, Client, Unreachable
from node_agent.desired import Desired, hash_of
from node_agent.node import NodeState
from node_agent.observed import Failure, Observation
from node_agent.report import HEARTBEAT_S, Reporter, body, seconds, stamp, substance
from node_agent.verify import verify

START = 1_800_000_000.0


@dataclass
class Api:
    """Stands for the API server: one report, and errors on demand."""

    stored: dict[str, Any] | None = None
    error: ApiError | Unreachable | None = None
    writes: list[dict[str, Any]] = field(default_factory=list)
    reads: int = 0

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/apis/slicewright.io/v1alpha1/gpunodereports/n1"
        self.reads += 1
        if self.error:
            raise self.error
        if self.stored is None:
            raise ApiError(404, {"reason": "NotFound", "message": "not found"})
        return self.stored

    def patch(self, path: str, new: dict[str, Any], **options: str) -> dict[str, Any]:
        assert options == {"kind": "apply", "fieldManager": "slicewright-node-agent", "force": "true"}
        if self.error:
            raise self.error
        self.stored = new
        self.writes.append(new)
        return new


@pytest.fixture
def api() -> Api:
    return Api()


def _reporter(api: Api) -> Reporter:
    return Reporter(cast(Client, api), "n1", random=lambda: 0.5)


@pytest.fixture
def words(desired: Desired, right: Observation, node: NodeState) -> dict[str, Any]:
    return body(verify(desired, right, node), right, node, pool="halves", layout_hash=hash_of(desired), at=START)


def _later(words: dict[str, Any], at: float, **changes: Any) -> dict[str, Any]:
    return {**words, "report": {**words["report"], "time": stamp(at), **changes}}


def test_a_report_says_all_that_the_controller_needs(words: dict[str, Any], desired: Desired) -> None:
    report = words["report"]
    assert words["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}]
    assert (report["verdict"], report["reason"], report["pool"]) == ("Match", "PartitionsMatch", "halves")
    assert (report["observedHash"], report["bootID"], report["time"]) == (hash_of(desired), "b1", stamp(START))
    assert report["gpus"][1]["instances"] == {"3g.40gb": 2}


def test_a_silent_driver_is_reported_without_gpus(desired: Desired, node: NodeState) -> None:
    silent = Observation(failure=Failure(call="nvmlInit", code=9, text="Driver Not Loaded"))
    report = body(verify(desired, silent, node), silent, node, pool="p", layout_hash="0" * 64, at=START)["report"]
    assert (report["verdict"], report["gpus"]) == ("Unknown", [])
    assert "driver" not in report


def test_a_report_of_eight_sevenths_is_under_two_kilobytes(words: dict[str, Any]) -> None:
    gpu = {**words["report"]["gpus"][0], "uuid": f"GPU-{'0' * 36}", "instances": {"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}}
    full = _later(words, START, gpus=[{**gpu, "index": i} for i in range(8)], message="x" * 250)
    assert len(json.dumps(full, separators=(",", ":"))) < 2300


def test_times_are_kept_to_the_second() -> None:
    assert seconds(stamp(START)) == START


def test_the_same_words_are_written_once_and_then_by_the_heartbeat(api: Api, words: dict[str, Any]) -> None:
    reporter = _reporter(api)
    assert reporter.write(words, now=START)
    beat = HEARTBEAT_S * 1.1
    assert not any(reporter.write(_later(words, START + s), now=START + s) for s in (1, 10, 100, 300, beat - 1))
    assert reporter.write(_later(words, START + beat), now=START + beat)
    assert len(api.writes) == 2


def test_news_is_written_at_once(api: Api, words: dict[str, Any]) -> None:
    reporter = _reporter(api)
    reporter.write(words, now=START)
    assert reporter.write(_later(words, START + 1, verdict="Mismatch", reason="WrongLayout"), now=START + 1)
    assert reporter.write(_later(words, START + 2, verdict="Mismatch", reason="GpuLost"), now=START + 2)


def test_details_under_the_same_reason_wait_for_each_other(api: Api, words: dict[str, Any]) -> None:
    """While eight GPUs are being cut one after the other, every second look is different."""
    reporter = _reporter(api)
    reporter.write(words, now=START)
    written = [reporter.write(_later(words, START + s, message=f"{s}"), now=START + s) for s in range(1, 7)]
    assert written == [False, False, False, False, True, False]


def test_a_restarted_agent_does_not_repeat_itself(api: Api, words: dict[str, Any]) -> None:
    _reporter(api).write(words, now=START)
    second = _reporter(api)
    assert not second.write(_later(words, START + 60), now=START + 60)
    assert second.write(_later(words, START + HEARTBEAT_S * 1.1), now=START + HEARTBEAT_S * 1.1)


def test_a_new_boot_and_a_new_node_are_news(api: Api, words: dict[str, Any]) -> None:
    _reporter(api).write(words, now=START)
    assert _reporter(api).write(_later(words, START + 1, bootID="b2"), now=START + 1)
    other = {**words, "metadata": {"name": "n1", "ownerReferences": [{"kind": "Node", "name": "n1", "uid": "u2"}]}}
    assert substance(other) != substance(words)
    assert _reporter(api).write(_later(other, START + 20), now=START + 20)


def test_a_report_by_nobody_we_know_is_written_over(api: Api, words: dict[str, Any]) -> None:
    api.stored = {"metadata": {"name": "n1"}, "report": {"time": "long ago"}}
    assert _reporter(api).write(words, now=START)


def test_after_an_error_it_waits_longer_each_time(api: Api, words: dict[str, Any]) -> None:
    api.error = ApiError(500, {"message": "etcd is away"})
    reporter = _reporter(api)
    tries = []
    for second in range(300):
        before = api.reads
        assert not reporter.write(words, now=START + second)
        if api.reads > before:
            tries.append(second)
    gaps = [b - a for a, b in pairwise(tries)]
    assert gaps == sorted(gaps)
    assert gaps[-1] > 30
    assert reporter.last_error == "HTTP 500: etcd is away"
    api.error = None
    assert reporter.write(words, now=START + 1000)
    assert reporter.last_error is None


def test_the_server_may_ask_for_a_longer_pause(api: Api, words: dict[str, Any]) -> None:
    api.error = ApiError(429, {"message": "slow down"}, retry_after_s=50.0)
    reporter = _reporter(api)
    reporter.write(words, now=START)
    api.error = None
    assert not reporter.write(words, now=START + 49)
    assert reporter.write(words, now=START + 51)


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_clock_that_jumps_does_not_silence_the_agent(jump: float, api: Api, words: dict[str, Any]) -> None:
    reporter = _reporter(api)
    reporter.write(words, now=START)
    now = START + jump
    beats = [s for s in range(0, 800, 10) if reporter.write(_later(words, now + s), now=now + s)]
    assert len(beats) >= 2
    assert beats[0] <= HEARTBEAT_S * 1.2


def test_unreachable_is_an_error_like_others(api: Api, words: dict[str, Any]) -> None:
    api.error = Unreachable("connection refused")
    reporter = _reporter(api)
    assert not reporter.write(words, now=START)
    assert reporter.last_error == "connection refused"


def test_substance_has_no_time(words: dict[str, Any]) -> None:
    assert substance(words) == substance(_later(words, START + 5))
    assert substance(words) != substance(_later(words, START, message="other"))
