"""SECURITY.md lists every right that agent and controller have, and no other."""

from __future__ import annotations

from pathlib import Path

from slicewright.apis.rights import (
    AGENT_RULES,
    CONTROLLER_NAMESPACE_RULES,
    CONTROLLER_RULES,
    PROOF_POD_RULES,
)
from slicewright.apis.rights_table import table

PAGE = Path(__file__).resolve().parents[3] / "SECURITY.md"


def test_the_page_has_the_table_as_the_roles_are() -> None:
    assert table() in PAGE.read_text(), "python -m slicewright.apis.rights_table"


def test_every_rule_has_a_row_with_all_its_verbs() -> None:
    rows = table().splitlines()[2:]
    every = [*AGENT_RULES, *CONTROLLER_RULES, *PROOF_POD_RULES]
    every += [rule for rules in CONTROLLER_NAMESPACE_RULES.values() for rule in rules]
    assert len(rows) == sum(len(rule["resources"]) for rule in every)
    for rule in every:
        for resource in rule["resources"]:
            kind, verbs = resource.partition("/")[0], f"| {', '.join(rule['verbs'])} |"
            assert any(f"`{kind}" in row and verbs in row for row in rows)
