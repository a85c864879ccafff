"""Requests for a reboot, through the pipe of a node without a kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from slicewright.rehearsal.cluster.kubelet.nodes.reboots import PIPE, RebootListener, request


def _heard(root: Path, ask: Callable[[], None]) -> list[float]:
    async def listen() -> list[float]:
        heard: list[float] = []
        came = asyncio.Event()

        def note(down_s: float) -> None:
            heard.append(down_s)
            came.set()

        listener = RebootListener(root, note)
        try:
            ask()
            async with asyncio.timeout(120):
                await came.wait()
        finally:
            listener.close()
        return heard

    (root / "run").mkdir()
    return asyncio.run(listen())


@pytest.mark.parametrize("down_s", [0.0, 6.0, 0.5])
def test_the_cloud_says_how_long_a_node_stays_down(tmp_path: Path, down_s: float) -> None:
    assert _heard(tmp_path, lambda: request(tmp_path, down_s)) == [down_s]


@pytest.mark.parametrize("text", ["reboot\n", "reboot\nreboot\n"])
def test_a_program_of_the_node_does_not(tmp_path: Path, text: str) -> None:
    """One reboot, however often it is asked for before the node goes down."""

    def ask() -> None:
        with (tmp_path / PIPE).open("w") as pipe:
            pipe.write(text)

    assert _heard(tmp_path, ask) == [0.0]


def test_a_node_that_does_not_run_is_not_rebooted(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        request(tmp_path)
    _heard(tmp_path, lambda: request(tmp_path))
    with pytest.raises(OSError, match="No such device"):
        request(tmp_path)
