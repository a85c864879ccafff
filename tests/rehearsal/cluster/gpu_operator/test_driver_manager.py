"""What driver-manager takes off a node, and what it puts back."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.cluster.gpu_operator.driver_manager import PAUSED, paused, resumed


@pytest.mark.parametrize("value", ["true", "false", "paused-for-mig-change", ""])
def test_a_label_is_as_before_when_it_is_put_back(value: str) -> None:
    assert resumed(paused(value)) == value
    assert paused(paused(value)) == paused(value)


def test_an_operand_that_is_on_is_paused_and_one_that_is_off_is_not() -> None:
    assert paused("true") == PAUSED
    assert paused("false") == "false"
