"""Faults and reboots where what they are about is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from kubeapi import Client, Unreachable
from rehearsal.scenario import faults
from rehearsal.scenario.environment import Environment
from rehearsal.scenario.errors import NoSuchFault, RehearsalError


class NoAnswer:
    def get(self, *_: Any, **__: Any) -> NoReturn:
        raise Unreachable("connection refused")


def test_repair_names_a_cluster_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = tmp_path / "clusters" / "dev"
    cluster.mkdir(parents=True)
    (cluster / "kubeconfig.json").write_text("{}")
    monkeypatch.setattr(Client, "from_kubeconfig", lambda path: NoAnswer())
    with pytest.raises(RehearsalError, match=r"cluster dev .* does not answer"):
        faults.repair(Environment(tmp_path))


def test_a_node_that_is_not_there_cannot_be_rebooted(tmp_path: Path) -> None:
    with pytest.raises(NoSuchFault, match=r"node n1: .* has no such node"):
        faults.reboot(Environment(tmp_path), "n1")


def test_a_node_that_does_not_run_cannot_be_rebooted(tmp_path: Path) -> None:
    (tmp_path / "clusters/c/nodes/n1/root").mkdir(parents=True)
    with pytest.raises(RehearsalError, match="node n1 does not run"):
        faults.reboot(Environment(tmp_path), "n1")
