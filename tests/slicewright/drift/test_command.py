"""The command without an engine: its text, exit codes, and refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from slicewright import cli
from slicewright.commands.drift import _show, exit_code
from slicewright.drift.findings import Comparison, Drift, FailedComparison, Finding, as_json

FOUND = Finding(
    comparison=Comparison.CLOUD, where="group a", difference="size: 2 → 1", heal="pulumi up -s x"
)
UNSEEN = FailedComparison(comparison=Comparison.SILICON, why="no answer", remedy="log in")


def made(*findings: Finding, unseen: tuple[FailedComparison, ...] = ()) -> Drift:
    return Drift(stack="x", findings=findings, unseen=unseen, compared=tuple(Comparison))


@pytest.mark.parametrize(
    ("drift", "code", "state"),
    [
        (made(), cli.VERIFIED, "none"),
        (made(FOUND), cli.NOT_VERIFIED, "drift"),
        (made(unseen=(UNSEEN,)), cli.CANNOT_RUN, "unseen"),
        (made(FOUND, unseen=(UNSEEN,)), cli.NOT_VERIFIED, "drift"),
    ],
)
def test_drift_outranks_resources_that_are_not_seen(drift: Drift, code: int, state: str) -> None:
    assert exit_code(drift) == code
    assert as_json(drift)["state"] == state


def test_a_command_that_heals_several_findings_is_shown_once_and_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = f"kubectl patch {'x' * 200}"
    other = Finding(comparison=Comparison.OPERATOR, where="p", difference="w", heal=long)
    text = Finding(comparison=Comparison.SILICON, where="n", difference="GpuLost", heal="")
    _show(made(FOUND, FOUND, other, text, unseen=(UNSEEN,)), Console(width=80))
    lines = capsys.readouterr().out.splitlines()
    assert "command 1: pulumi up -s x" in lines
    assert f"command 2: {long}" in lines
    assert "not compared, layout and silicon: no answer" in lines
    assert "  → log in" in lines
    assert sum("command 1" in line for line in lines) == 3


def test_no_drift_says_what_was_compared(capsys: pytest.CaptureFixture[str]) -> None:
    _show(made(), Console(width=80))
    assert capsys.readouterr().out.startswith("stack x: no drift (program and state;")


def test_hosts_without_kubernetes_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[3])
    assert cli.main(["drift", "-s", "hosts-a100"]) == cli.BAD_INPUT
    assert "slicewright-agent verify" in capsys.readouterr().err


def test_a_stack_file_with_problems_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.x.yaml").write_text("config: {}\n")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["drift", "-s", "x"]) == cli.BAD_INPUT
    assert "slicewright:fleet" in capsys.readouterr().err
