"""Repairing where a cluster does not answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from kubeapi import Client, Unreachable
from rehearsal.scenario import faults
from rehearsal.scenario.environment import Environment
from rehearsal.scenario.errors import RehearsalError


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
