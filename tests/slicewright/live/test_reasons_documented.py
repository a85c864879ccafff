"""A next step is of a reason that people find in the reference."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slicewright.live import next_steps

ROOT = Path(__file__).resolve().parents[3]


def _documented() -> set[str]:
    pages = (ROOT / "docs" / "reference").glob("*.md")
    rows = (line for page in pages for line in page.read_text().splitlines())
    return {
        name for line in rows if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)
    }


@pytest.mark.parametrize("steps", [next_steps.NODE, next_steps.POOL])
def test_a_next_step_is_of_a_reason_that_people_find(steps: dict[str, str]) -> None:
    assert set(steps) <= _documented()
    for reason in steps:
        assert next_steps.node_step(reason, node="n", pool="p").count("{") == 0
        assert next_steps.pool_step(reason, pool="p").count("{") == 0
