"""The commands on a cluster of which one object is odd."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from slicewright import cli
from slicewright.commands import rollout
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, VERIFIED
from slicewright.live.access import Access
from slicewright.live.looking import look
from slicewright.live.views import Fleet
from tests.slicewright.live.hostile import POOLS, REPORTS, Server

ROOT = Path(__file__).resolve().parents[3]
Run = Callable[[Server, Sequence[str]], int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command that asks this server; returns its exit code."""
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://c"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))

    def run(server: Server, words: Sequence[str]) -> int:
        monkeypatch.setattr(Access, "client", lambda self: server)
        return cli.main([*words, "--kubeconfig", str(tmp_path / "config")])

    return run


@pytest.fixture
def odd() -> Server:
    """A report has a time that is none."""
    server = Server()
    server.items[REPORTS][0]["report"]["time"] = "a while ago"
    return server


NAMED = "GPUNodeReport p0 cannot be read: report.time must be a time"


def test_status_names_it_and_shows_the_rest(
    run: Run, odd: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(odd, ["status"]) == CANNOT_RUN
    shown = capsys.readouterr().out
    assert f"unread: {NAMED}" in shown
    assert "pool p" in shown
    assert "pool q" in shown


def test_status_names_it_for_machines(
    run: Run, odd: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(odd, ["status", "--json"]) == CANNOT_RUN
    found = json.loads(capsys.readouterr().out)
    assert [(one["kind"], one["name"]) for one in found["unread"]] == [("GPUNodeReport", "p0")]
    assert [pool["name"] for pool in found["pools"]] == ["p", "q"]


def test_rollout_status_names_it(run: Run, odd: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(odd, ["rollout", "status", "q"]) == CANNOT_RUN
    assert NAMED in capsys.readouterr().out


def test_rollout_status_for_machines_is_the_status_of_its_pool(
    run: Run, odd: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    for server, code in ((Server(), run(Server(), ["status", "q"])), (odd, CANNOT_RUN)):
        capsys.readouterr()
        assert run(server, ["rollout", "status", "q", "--json"]) == code
        of_rollout = json.loads(capsys.readouterr().out)
        run(server, ["status", "q", "--json"])
        of_status = json.loads(capsys.readouterr().out)
        assert {**of_rollout, "time": ""} == {**of_status, "time": ""}
        assert [pool["name"] for pool in of_rollout["pools"]] == ["q"]


def test_rollout_status_for_machines_waits_without_a_word_on_stdout(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(access: Access, pool: str, console: Console) -> Fleet:
        console.print(f"pool {pool} changes")
        return look(access, {pool})

    monkeypatch.setattr(rollout, "_wait", wait)
    run(Server(), ["rollout", "status", "q", "--wait", "--json"])
    out, err = capsys.readouterr()
    assert [pool["name"] for pool in json.loads(out)["pools"]] == ["q"]
    assert err == "pool q changes\n"


def test_rollout_status_for_machines_of_no_such_pool_leaves_stdout_empty(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Server(), ["rollout", "status", "nosuch", "--json"]) == BAD_INPUT
    out, err = capsys.readouterr()
    assert out == ""
    assert "has no pool nosuch" in err


def test_a_rollout_of_a_pool_that_can_be_read_is_paused_and_the_odd_object_is_named(
    run: Run, odd: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(odd, ["rollout", "pause", "q"]) == VERIFIED
    assert NAMED in capsys.readouterr().out
    assert len(odd.patched) == 1


@pytest.mark.parametrize("verb", ["status", "pause", "resume", "abort", "undo"])
def test_a_rollout_of_the_odd_pool_is_one_message(
    run: Run, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server()
    server.items[POOLS][0]["spec"]["layoutHash"] = None
    assert run(server, ["rollout", verb, "p"]) == CANNOT_RUN
    (line,) = capsys.readouterr().err.splitlines()
    assert f"slicewright rollout {verb}: " in line
    assert "GPUPool p cannot be read: spec.layoutHash is missing" in line
    assert server.patched == []


def test_the_report_on_a_preview_names_it(
    run: Run, odd: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preview: dict[str, Any] = {"steps": [], "changeSummary": {}}
    (tmp_path / "preview.json").write_text(json.dumps(preview))
    words = ["preview-report", "-s", str(ROOT / "stacks" / "Pulumi.eks-a100.yaml"), "--live"]
    assert run(odd, [*words, str(tmp_path / "preview.json")]) == CANNOT_RUN
    written = capsys.readouterr()
    assert "GPUNodeReport p0 cannot be read" in written.out.replace("\\", "")
    assert NAMED in written.err
