"""Every reason that the controller gives has a way out that people find."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from slicewright.live import next_steps

ROOT = Path(__file__).resolve().parents[3]
_MODULES = ("assess", "node_change", "pool_status")
_REASON = re.compile(r"[A-Z][a-z]+([A-Z][a-z]+)+")
_NO_REASONS = {"DisruptionBudget"}


def _given() -> set[str]:
    """Text that looks like a reason in the modules that give them."""
    found: set[str] = set()
    for name in _MODULES:
        tree = ast.parse((ROOT / "fleet_controller" / f"{name}.py").read_text())
        found |= {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and _REASON.fullmatch(node.value)
        }
    return found - _NO_REASONS


def _documented() -> set[str]:
    pages = (ROOT / "docs" / "reference").glob("*.md")
    rows = (line for page in pages for line in page.read_text().splitlines())
    return {
        name for line in rows if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)
    }


def test_a_reason_is_found_in_the_code() -> None:
    assert {"NoReport", "ChangeHeldByPods", "TooFewNodes"} <= _given()


def test_every_reason_is_in_a_table_of_the_reference() -> None:
    assert _given() - _documented() == set()


@pytest.mark.parametrize("steps", [next_steps.NODE, next_steps.POOL])
def test_a_next_step_is_of_a_reason_that_people_find(steps: dict[str, str]) -> None:
    assert set(steps) <= _documented()
    for reason in steps:
        assert next_steps.of_node(reason, node="n", pool="p").count("{") == 0
        assert next_steps.of_pool(reason, pool="p").count("{") == 0
