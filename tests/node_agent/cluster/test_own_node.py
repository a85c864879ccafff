from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, cast

import pytest

from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.node_agent.cluster.backoff import Backoff
from slicewright.node_agent.cluster.own_node import OwnNode

NODE: dict[str, Any] = {
    "metadata": {"name": "n1", "uid": "u1"},
    "status": {"nodeInfo": {"bootID": "b1"}},
}


@dataclass
class Api:
    error: ApiError | Unreachable | None = None
    answer: Any = None
    asked: int = 0

    def get(self, path: str, **query: str) -> Any:
        assert (path, query) == ("/api/v1/nodes/n1", {"resourceVersion": "0"})
        self.asked += 1
        if self.error:
            raise self.error
        return self.answer or NODE


def _own(api: Api, seed: int = 0) -> OwnNode:
    return OwnNode(
        cast(Client, api), "n1", Backoff(longest_s=60.0, random=random.Random(seed).random)
    )


def test_a_server_that_answers_is_asked_as_often_as_one_likes() -> None:
    api = Api()
    own = _own(api)
    nodes = [own.read(second) for second in range(10)]
    assert [node.boot_id if node else None for node in nodes] == ["b1"] * 10
    assert own.error is None


@pytest.mark.parametrize(
    "error", [Unreachable("connection refused"), ApiError(500, {"message": "etcd is away"})]
)
def test_node_is_read_less_than_twice_a_minute_in_an_hour_without_answers(
    error: ApiError | Unreachable,
) -> None:
    api = Api(error=error)
    agents = [_own(api, seed) for seed in range(50)]
    for second in range(3600):
        assert not any(own.read(second) for own in agents)
    assert api.asked / len(agents) < 150


def test_agents_that_failed_together_do_not_come_back_together() -> None:
    api = Api(error=Unreachable("connection refused"))
    agents = [_own(api, seed) for seed in range(600)]
    for second in range(300):
        for own in agents:
            own.read(second)
    busiest, before = 0, api.asked
    for second in range(300, 360):
        for own in agents:
            own.read(second)
        busiest, before = max(busiest, api.asked - before), api.asked
    assert busiest < 100


def test_node_is_read_within_a_minute_after_an_outage() -> None:
    api = Api(error=Unreachable("connection refused"))
    own = _own(api)
    for second in range(3600):
        own.read(second)
    api.error = None
    assert any(own.read(3600 + second) for second in range(60))
    assert own.error is None


def test_retry_after_is_obeyed() -> None:
    api = Api(error=ApiError(429, {"message": "slow down"}, retry_after_s=30.0))
    own = _own(api)
    asked_at = []
    for second in range(61):
        before = api.asked
        assert own.read(second) is None
        if api.asked > before:
            asked_at.append(second)
    assert asked_at == [0, 30, 60]
    assert own.error == "HTTP 429: slow down"


def test_invalid_node_is_an_error_like_others() -> None:
    api = Api(answer={"kind": "Status"})
    own = _own(api)
    assert own.read(0) is None
    assert own.error == "unexpected answer: KeyError: 'metadata'"
