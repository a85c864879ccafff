"""The rules as pure functions, on what they are made for and on what slicewright declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.rules import RULES, UNKNOWN
from tests.policy.cases import CASES, Case, found, gke_pool
from tests.properties import examples

BY_NAME = {rule.name: rule for rule in RULES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_each_rule_refuses_its_violation_and_says_why(case: Case) -> None:
    messages = found(BY_NAME[case.rule], case.refused, case.settings)
    assert len(messages) == 1
    assert case.says in messages[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_each_rule_passes_the_nearest_correct_resource(case: Case) -> None:
    assert found(BY_NAME[case.rule], case.passed, case.settings) == []


def test_every_rule_has_a_case_and_a_unique_name() -> None:
    assert sorted(BY_NAME) == sorted({case.rule for case in CASES})
    assert len(BY_NAME) == len(RULES)


def test_every_setting_is_set_in_a_case() -> None:
    set_in_cases = {(case.rule, name) for case in CASES for name in case.settings}
    untried = {(r.name, s.name) for r in RULES for s in r.settings} - set_in_cases
    assert untried == {
        ("image-digest", "exempt"),  # its default is tried
        ("spot-workloads", "single_replicas"),
    }


def test_single_replicas_on_spot_can_be_allowed() -> None:
    (case,) = (c for c in CASES if c.rule == "spot-workloads" and "one replica" in c.says)
    rule = BY_NAME[case.rule]
    assert found(rule, case.refused, {"single_replicas": False}) == []


def test_no_role_needs_a_boundary_unless_the_config_asks_for_one() -> None:
    roles = [one for case in CASES if case.rule == "role-boundary" for one in case.refused]
    assert len(roles) > 1
    assert found(BY_NAME["role-boundary"], roles, {}) == []


REFUSED = [one for case in CASES for one in (*case.refused, *case.passed)]


@settings(max_examples=examples(200))
@given(st.data())
def test_values_unknown_in_a_preview_are_never_refused(data: st.DataObject) -> None:
    """Any part of what passes may be unknown: it passes still."""
    case = data.draw(st.sampled_from(CASES))
    blinded = [
        replace(one, props=_blinded(one.props, data), provider=_blinded(one.provider, data))
        for one in case.passed
    ]
    assert found(BY_NAME[case.rule], blinded, case.settings) == []


def _blinded(value: Any, data: st.DataObject) -> Any:
    if isinstance(value, Mapping):
        return {k: _either(v, data) for k, v in value.items()}
    if isinstance(value, list):
        return [_either(one, data) for one in value]
    return value


def _either(value: Any, data: st.DataObject) -> Any:
    return UNKNOWN if data.draw(st.integers(0, 5)) == 0 else _blinded(value, data)


def test_unknown_values_are_left_to_up_and_missing_values_are_refused() -> None:
    blind = [replace(one, props=dict.fromkeys(one.props, UNKNOWN)) for one in REFUSED]
    assert {rule.name for rule in RULES for one in blind if found(rule, [one], {})} == {
        "chart-pinned",
        "cluster-endpoint",
        "cluster-protected",
        "cluster-workload-identity",
    }


def test_budget_is_checked_in_a_preview_with_unknown_outputs() -> None:
    """There, what nobody states is unknown and not absent."""
    pool = gke_pool(nodeCount=5.0)
    previewed = replace(pool, props={**pool.props, "autoscaling": UNKNOWN, "id": UNKNOWN})
    (message,) = found(BY_NAME["fleet-size"], [previewed], {"usd_per_hour": 15.0})
    assert "18.37 USD" in message
