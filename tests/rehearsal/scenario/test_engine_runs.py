"""Runs of a `pulumi` that is a shell script here."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slicewright.rehearsal.scenario import checkpoints, settings
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.errors import WrongUse


@pytest.fixture
def pulumi(tmp_path: Path) -> Callable[[str], Environment]:
    """An environment whose `pulumi` is this script."""

    def make(script: str) -> Environment:
        environment = Environment(tmp_path / "gke-h100")
        environment.project.mkdir(parents=True)
        program = environment.root / "bin" / "pulumi"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return environment

    return make


def test_output_comes_line_by_line_and_the_exit_code_is_kept(
    pulumi: Callable[[str], Environment],
) -> None:
    lines: list[str] = []
    engine = Engine(pulumi("echo $1; echo to stderr >&2; exit 3"), "gke-h100", lines.append)
    outcome = engine.preview()
    assert (outcome.code, outcome.output) == (3, "preview\nto stderr\n")
    assert lines == ["preview", "to stderr"]


def test_a_command_without_hope_is_killed(pulumi: Callable[[str], Environment]) -> None:
    """On a full disk the real engine hangs for minutes."""
    began = time.monotonic()
    engine = Engine(pulumi("exec sleep 300"), "gke-h100", is_hopeless=lambda: True)
    assert engine.up().code != 0
    assert time.monotonic() - began < 60


def test_the_engine_writes_its_state_at_each_step_by_default(
    pulumi: Callable[[str], Environment], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(pulumi('echo "skips: $PULUMI_SKIP_CHECKPOINTS"'), "gke-h100")
    monkeypatch.delenv(checkpoints.VARIABLE, raising=False)
    assert engine.up().output == "skips: \n"
    monkeypatch.setenv(checkpoints.VARIABLE, "at-the-end")
    assert engine.up().output == "skips: true\n"


def test_another_value_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongUse, match="'never'; write at-each-step or at-the-end"):
        settings.check({checkpoints.VARIABLE: "never"})
