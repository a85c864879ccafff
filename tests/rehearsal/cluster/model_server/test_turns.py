"""What servers on one time-sliced device make, by construction: each its part of the time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slicewright.rehearsal.cluster.model_server.engine import Engine
from slicewright.rehearsal.cluster.model_server.serving import share_of_time
from slicewright.rehearsal.cluster.model_server.turns import Turns

_RATE = 320.0
"""Tokens a second of a 1g.10gb."""
_STEP_S = 0.01


def made(directory: Path, devices: Sequence[str], *, seconds: float) -> list[int]:
    """The tokens of one server on each of `devices`, all of which have more to do than they can."""
    directory.mkdir(exist_ok=True)
    servers = [
        (Engine(_RATE, 8), [Turns(directory / device, str(i))]) for i, device in enumerate(devices)
    ]
    asked = [engine.submit(prompt_tokens=20, answer_tokens=1_000_000) for engine, _ in servers]
    with ExitStack() as computing:
        for _, turns in servers:
            computing.enter_context(turns[0].computing())
        for _ in range(round(seconds / _STEP_S)):
            for engine, turns in servers:
                engine.advance(share_of_time(_STEP_S, turns))
    return [one.generated for one in asked]


def test_two_on_one_partition_make_half_each_and_one_on_another_is_not_slowed(
    tmp_path: Path,
) -> None:
    (alone,) = made(tmp_path / "a", ["MIG-1"], seconds=10)
    first, second, elsewhere = made(tmp_path / "b", ["MIG-1", "MIG-1", "MIG-2"], seconds=10)
    assert first == second == pytest.approx(alone / 2, abs=1)
    assert elsewhere == alone == pytest.approx(10 * _RATE, abs=2)


@given(st.integers(1, 7))
def test_servers_together_match_the_rate_of_one(
    tmp_path_factory: pytest.TempPathFactory, servers: int
) -> None:
    found = made(tmp_path_factory.mktemp("turns"), ["MIG-1"] * servers, seconds=2)
    assert sum(found) == pytest.approx(2 * _RATE, abs=2 * servers)


def test_who_has_answered_leaves_its_part_to_the_others(tmp_path: Path) -> None:
    one, other = (Turns(tmp_path, name) for name in ("a", "b"))
    with one.computing():
        with other.computing():
            assert share_of_time(1.0, [one]) == 0.5
        assert share_of_time(1.0, [one]) == 1.0


def test_server_alone_on_the_device_has_all_of_its_time() -> None:
    assert share_of_time(1.0, []) == 1.0
