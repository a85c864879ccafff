"""Pods of large fleets start when the nodes that join together are Ready."""

from __future__ import annotations

import asyncio
from typing import Any

from slicewright.rehearsal.cluster.kubelet.nodes.joining import Joining


def node(uid: str, ready: str | None = None) -> dict[str, Any]:
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    return {"metadata": {"uid": uid}, "status": {"conditions": conditions}}


def test_it_is_over_when_the_last_of_them_is_ready() -> None:
    async def two_join() -> None:
        joining = Joining()
        assert joining.over.is_set(), "nobody joins yet"
        joining.begin(node("a"))
        joining.begin(node("b"))
        joining.see(node("a"))
        joining.see(node("a", "True"))
        joining.see(node("b", "False"))
        assert not joining.over.is_set()
        joining.see(node("b", "True"))
        assert joining.over.is_set()
        joining.see(node("b", "Unknown"))
        assert joining.over.is_set(), "it has joined"

    asyncio.run(two_join())


def test_a_node_that_goes_is_waited_for_no_longer() -> None:
    async def one_goes() -> None:
        joining = Joining()
        joining.begin(node("a"))
        joining.end("a")
        assert joining.over.is_set()

    asyncio.run(one_goes())


def test_node_that_is_not_ready_in_time_is_not_waited_for() -> None:
    async def one_is_late() -> None:
        joining = Joining(limit_s=0.01)
        joining.begin(node("a"))
        async with asyncio.timeout(60):
            await joining.over.wait()

    asyncio.run(one_is_late())


def test_one_that_was_ready_before_this_kubelet_does_not_join() -> None:
    async def a_kubelet_starts() -> None:
        joining = Joining()
        joining.begin(node("a", "Unknown"))
        assert joining.over.is_set()

    asyncio.run(a_kubelet_starts())
