"""Every reason that the controller gives is explained somewhere."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.apis.reasons import controller_page
from slicewright.apis.reasons.agent import REASONS
from slicewright.apis.reasons.controller import OF_A_POOL
from slicewright.fleet_controller.pools.status import TOO_FEW_LIMIT_S, pool_status
from tests.fleet_controller.pools.test_pool_status import NONE, NOW, POOL, member
from tests.fleet_controller.rollout.test_rollout import world

_ROOT = Path(__file__).parents[3]
_DOCS = _ROOT / "docs" / "reference"
_GIVING = (
    "fleet_controller/nodes/assess.py",
    "fleet_controller/nodes/watchdog.py",
    "fleet_controller/rollout/node_change.py",
    "fleet_controller/rollout/draining.py",
    "fleet_controller/rollout/upgrading.py",
    "fleet_controller/rollout/applying.py",
    "fleet_controller/pools/status.py",
    "fleet_controller/membership/release.py",
    "fleet_controller/decision/events.py",
    "fleet_controller/decision/shares.py",
    "apis/reasons/troubles.py",
)
_CAMEL_CASE = re.compile(r"[A-Z][a-z]+([A-Z][A-Za-z]*)+")


def test_the_page_is_the_generated_one() -> None:
    page = _DOCS / "controller-reasons.md"
    assert page.read_text() == controller_page.page(), (
        f"run: python -m slicewright.apis.reasons.controller_page > {page}"
    )


@pytest.mark.parametrize("module", _GIVING)
def test_every_reason_is_in_a_table(module: str) -> None:
    tree = ast.parse((_ROOT / module).read_text())
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


def test_reasons_page_names_the_conditions_of_each_pool_reason() -> None:
    """Both ways: what the controller writes is on the page, and what the page says is written."""
    few = replace(POOL, fewest=2)
    early = pool_status(few, [member("a")], NONE, NOW)
    wrong = member("b", "False")._replace(stuck=True, warns=True)
    tolerant = replace(POOL, policy=RolloutPolicy(max_unverified=1))
    written = [
        early,
        pool_status(replace(few, status=early), [member("a")], NONE, NOW + TOO_FEW_LIMIT_S),
        pool_status(POOL, [member("a")], NONE, NOW),
        pool_status(POOL, [member("a"), wrong], NONE, NOW),
        pool_status(tolerant, [member("a"), wrong], NONE, NOW),
        pool_status(POOL, [member("a"), member("b", "Unknown")], NONE, NOW),
        pool_status(POOL, [member("a", "Unknown", settling=True)], NONE, NOW),
        pool_status(replace(POOL, fewest=0), [], NONE, NOW),
    ]
    said: dict[str, set[str]] = {}
    for status in written:
        for one in status["conditions"]:
            said.setdefault(one["reason"], set()).add(f"{one['type']} {one['status']}")
    # These repeat the reasons of the others.
    repeated = re.compile("Settled|Ready|Reconciling True|Stalled True")
    for reason in OF_A_POOL:
        documented = set(re.findall(r"[A-Z][a-z]+ (?:True|False)", reason.status))
        assert documented <= said.get(reason.code, set()), reason.code
        missing = said.get(reason.code, set()) - documented
        assert [one for one in missing if not repeated.match(one)] == [], reason.code


def test_every_reason_of_a_pool_that_is_in_order_is_in_a_table() -> None:
    """Also where it is a word that the search above does not take for one."""
    pool = world(wants="old")
    pool.passes()
    said = {condition["reason"] for condition in pool.pool.status["conditions"]}
    page = (_DOCS / "controller-reasons.md").read_text()
    assert said == {"AllNodesProven", "Settled", "AsWanted", "NothingToWaitFor", "NotStalled"}
    assert [reason for reason in said if f"| `{reason}` |" not in page] == []
