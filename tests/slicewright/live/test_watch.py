"""One look after another: what fails in between ends nothing, and Ctrl-C ends it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from slicewright import cli
from slicewright.commands import status
from slicewright.exit_codes import CANNOT_RUN, INTERRUPTED
from slicewright.live.looking import CannotLook, looks
from slicewright.live.views import Fleet, PoolView, State

POOL = PoolView(
    name="p",
    state=State.SETTING_UP,
    reason="TooFewNodes",
    message="0 nodes exist, at least 1 is needed",
    node_bounds=(1, 1),
    total=0,
    verified=0,
    held=0,
    layout="",
    declared="",
    earlier="",
    no_undo="",
    gpus=(),
    proof=None,
    rollout=None,
    nodes=(),
    next=(),
)
BEFORE = Fleet(pools=(POOL,), notes=())
AFTER = Fleet(pools=(replace(POOL, state=State.VERIFIED, reason="AllNodesProven"),), notes=())


def _script(*outcomes: Fleet | BaseException) -> Any:
    """A look that gives these, one after the other."""
    left = iter(outcomes)

    def look(*_: Any) -> Fleet:
        outcome = next(left)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return look


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://c"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    return str(tmp_path / "config")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(look: Any) -> Iterator[Fleet | CannotLook]:
        return looks(look, lambda _: None)

    monkeypatch.setattr(status, "looks", at_once)


def test_the_first_look_must_succeed() -> None:
    with pytest.raises(CannotLook):
        next(looks(_script(CannotLook("no"))))


def test_a_look_at_a_large_fleet_takes_at_most_a_tenth_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([0.0, 3.0, 33.0, 33.1, 40.0, 41.0])
    monkeypatch.setattr("slicewright.live.looking.time.monotonic", lambda: next(clock))
    pauses: list[float] = []
    each = looks(_script(BEFORE, BEFORE, AFTER), pauses.append)
    assert [next(each) for _ in range(3)] == [BEFORE, BEFORE, AFTER]
    assert pauses == [30.0, 2.0]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_log_has_a_line_for_a_change_and_an_outage_ends_nothing(
    as_json: bool, kubeconfig: str, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    seen = _script(BEFORE, BEFORE, CannotLook("no answer"), AFTER, KeyboardInterrupt())
    monkeypatch.setattr(status, "look", seen)
    more = ["--json"] if as_json else []
    assert cli.main(["status", "--watch", "--kubeconfig", kubeconfig, *more]) == INTERRUPTED
    out, err = capfd.readouterr()
    lines = out.splitlines()
    if as_json:
        states = [json.loads(line)["state"] for line in lines[:2]]
        assert states == ["being set up", "verified"]
        assert "no answer" in err
        return
    said = [line.partition(" ")[2] for line in lines]
    assert said[:3] == [
        "pool p: being set up: TooFewNodes: 0 nodes exist, at least 1 is needed",
        "no answer",
        "pool p: verified: AllNodesProven: 0 nodes exist, at least 1 is needed",
    ]


def test_a_cluster_that_does_not_answer_at_first_ends_the_watch(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(status, "look", _script(CannotLook("no answer")))
    assert cli.main(["status", "--watch", "--kubeconfig", kubeconfig]) == CANNOT_RUN
    assert capsys.readouterr().err == "slicewright status: no answer\n"


def test_on_a_terminal_it_is_redrawn_and_the_last_state_stays(kubeconfig: str) -> None:
    import argparse

    from slicewright.live.access import access

    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=100)
    parsed = argparse.Namespace(json=False, all=False)
    each = looks(
        _script(BEFORE, CannotLook("no answer"), AFTER, KeyboardInterrupt()), lambda _: None
    )
    with pytest.raises(KeyboardInterrupt):
        status._watch(access(kubeconfig, None), each, parsed, console)
    text = written.getvalue()
    left = text.rpartition("\x1b[?1049l")[2]
    assert "no answer" in text, "an outage is shown above what was seen last"
    assert "verified" in left, "after the end the last state stays on the screen"
    assert "being set up" not in left
