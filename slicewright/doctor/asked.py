"""The findings of a stack: its account asked, its answers judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from infra.plan import EksFleetPlan
from slicewright.doctor import aws, eks_checks, state
from slicewright.doctor.findings import Finding, refused_by_the_program


def of_eks(fleet: EksFleetPlan, file: Path, stack: str | None) -> list[Finding]:
    """stack: its name, for Pulumi's state; None: unknown. Raises CannotAsk."""
    answers = aws.ask(fleet, _text(file, "aws:profile"))
    name = fleet.cluster.name
    mine = state.owned(stack, _EKS, name) if answers.cluster is True else "no"
    return [*refused_by_the_program(fleet), *eks_checks.findings(fleet, answers, mine)]


_EKS = "aws:eks/cluster:Cluster"


def _text(file: Path, key: str) -> str | None:
    """A value of the stack's configuration; None where it has none, or a secret."""
    config: Any = yaml.safe_load(file.read_text(encoding="utf-8")).get("config")
    value = config.get(key) if isinstance(config, dict) else None
    return str(value) if isinstance(value, str | int) else None
