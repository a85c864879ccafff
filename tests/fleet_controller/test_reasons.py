"""Every reason that the controller gives is explained somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from fleet_controller import reasons_page
from node_agent.verdict.reasons import REASONS
from tests.fleet_controller.test_rollout import world

_ROOT = Path(__file__).parents[2]
_DOCS = _ROOT / "docs" / "reference"
_GIVING = ("assess", "watchdog", "node_change", "pool_status", "release", "decide")
_CAMEL_CASE = re.compile(r"[A-Z][a-z]+([A-Z][A-Za-z]*)+")


def test_the_page_is_the_generated_one() -> None:
    page = _DOCS / "controller-reasons.md"
    assert page.read_text() == reasons_page.page(), (
        f"run: python -m fleet_controller.reasons_page > {page}"
    )


@pytest.mark.parametrize("module", _GIVING)
def test_every_reason_is_in_a_table(module: str) -> None:
    tree = ast.parse((_ROOT / "fleet_controller" / f"{module}.py").read_text())
    said = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _CAMEL_CASE.fullmatch(node.value)
    }
    assert said, "nothing is found in it"
    pages = (_DOCS / name for name in ("controller-reasons.md", "rollout.md"))
    explained = {code for page in pages for code in re.findall(r"`(\w+)`", page.read_text())}
    assert said - explained - REASONS.keys() == set()


def test_every_reason_of_a_pool_that_is_in_order_is_in_a_table() -> None:
    """Also where it is a word that the search above does not take for one."""
    pool = world(wants="old")
    pool.passes()
    said = {condition["reason"] for condition in pool.pool.status["conditions"]}
    page = (_DOCS / "controller-reasons.md").read_text()
    assert said == {"AllNodesProven", "Settled", "AsWanted"}
    assert [reason for reason in said if f"| `{reason}` |" not in page] == []
