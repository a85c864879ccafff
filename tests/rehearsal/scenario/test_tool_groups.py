"""Tools that only some rehearsals run are obtained by those only."""

from __future__ import annotations

import pytest

from infra import plan
from rehearsal.scenario import tool_groups
from rehearsal.scenario.environment import PROJECT


def groups(name: str) -> tuple[str, ...]:
    return tool_groups.of([plan.read_file(PROJECT / "stacks" / f"Pulumi.{name}.yaml")])


@pytest.mark.parametrize("name", ["s0", "s0-serving", "s1", "s4"])
def test_the_rehearsals_of_the_readme_need_none(name: str) -> None:
    assert groups(name) == ()


def test_a_stack_whose_workloads_are_triton_needs_triton() -> None:
    assert groups("s4-serving") == ("triton",)
