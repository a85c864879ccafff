"""The program against the policy pack: what it declares keeps every rule that it can keep."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from policy.rules import RULES, Resource
from tests.policy.cases import found
from tests.recorder import Made


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        # As published: reachable from everywhere, free to be deleted; gke-h100 with GKE's latest
        # driver.
        ("gke-h100", {"cluster-endpoint", "cluster-protected", "driver-pinned"}),
        ("eks-a100", {"cluster-endpoint", "cluster-protected"}),
        # Fourteen shares of the T4 are offered by the name of a whole GPU.
        ("existing-a100-t4", {"sharing-resource-name"}),
        ("fractional", set()),
    ],
)
def test_only_settings_of_the_stack_file_break_a_rule(
    record: Callable[..., list[Made]], stack: str, expected: set[str]
) -> None:
    declared = [
        Resource(type=m.type, name=m.name, urn=m.name, props=m.inputs)
        for m in record(stack)
        if not m.read
    ]
    assert {rule.name for rule in RULES if found(rule, declared, {})} == expected
