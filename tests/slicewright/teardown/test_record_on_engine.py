"""The record in a state of the real engine: it lasts through a destruction, and ends with `up`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.teardown.engine import Pulumi
from slicewright.teardown.record import STACK, recorded_life
from slicewright.teardown.record_keeper import RecordKeeper
from slicewright.teardown.subject import Subject, state_of
from slicewright.teardown.sweep.life import Life
from tests.infra.cloud_engine import cloud_engine

_PROGRAM = """\
import pulumi
from slicewright.infra.components.destroy_notice import DestroyNotice

DestroyNotice(pulumi.get_stack())
pulumi.export("pools", 2)
"""
_SUBJECT = Subject(cloud="eks", cluster="ml", location="us-west-2", existing=False)
_LIFE = Life(begun="2026-11-01T10:00:00Z", named=frozenset({("disk", "vol-1")}))


def test_a_record_lasts_until_it_is_removed_or_the_stack_is_recreated(
    toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    with cloud_engine(tmp_path, toolchain) as engine:
        (engine.directory / "__main__.py").write_text(_PROGRAM)
        for name, value in engine.variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PATH", f"{engine.pulumi.parent}:{os.environ['PATH']}")
        monkeypatch.chdir(engine.directory)
        pulumi = Pulumi("dev")

        def recorded() -> Life:
            text = state_of(pulumi.exported()).record
            return recorded_life(text, _SUBJECT.cluster, _SUBJECT.location)

        def up() -> None:
            assert engine.run("up", "--yes", "--skip-preview").code == 0

        up()
        keeper = RecordKeeper(pulumi, _SUBJECT, told.append)
        keeper.write(_LIFE)
        assert recorded() == _LIFE
        (outputs,) = (r["outputs"] for r in _resources(pulumi.exported()) if r["type"] == STACK)
        assert outputs["pools"] == 2
        up()
        assert recorded() == Life()
        keeper.write(_LIFE)
        destroyed = pulumi.destroy(without_cluster=False, show=told.append, meanwhile=lambda: None)
        assert destroyed.code == 0, told
        assert _resources(pulumi.exported()) == []
        keeper.write(_LIFE)
        assert recorded() == _LIFE
        assert state_of(pulumi.exported()).counts == {}
        keeper.remove()
        assert _resources(pulumi.exported()) == []
        keeper.write(_LIFE)
        up()
        assert recorded() == Life()
        assert engine.destroy().code == 0
    assert not any("could not be written" in line for line in told)


def _resources(exported: Mapping[str, Any]) -> list[Any]:
    return list(exported["deployment"].get("resources") or [])
