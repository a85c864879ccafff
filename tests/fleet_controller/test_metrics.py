"""docs/reference/controller.md has every metric of the controller, with its type and labels."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from fleet_controller import metrics
from fleet_controller.actions import LiftTaint
from fleet_controller.loop import Progress
from fleet_controller.state import Pool

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "controller.md"


def _progress() -> Progress:
    made = Progress()
    made.count(LiftTaint(node="n", position=0, boot_id="b"), "done")
    return made


def _exported(pool: Pool, *, leads: bool) -> dict[str, tuple[str, set[str]]]:
    status = {"nodes": {"verified": 2}, "conditions": [{"type": "Verified", "status": "True"}]}
    text = metrics.text(_progress(), [replace(pool, status=status)], leads=leads)
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    labels: dict[str, set[str]] = {}
    for name, found in re.findall(r"^(\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', found))
    return {name: (kinds[name], found) for name, found in labels.items()}


def test_the_page_is_what_is_exported(pool: Pool) -> None:
    rows = re.findall(
        r"^\| `(slicewright_\w+)` \| (\w+) \| (.*?) \|", _PAGE.read_text(), re.MULTILINE
    )
    written = {name: (kind, set(re.findall(r"`(\w+)`", words))) for name, kind, words in rows}
    assert _exported(pool, leads=True) == written


def test_of_the_pools_only_the_replica_that_acts_speaks(pool: Pool) -> None:
    """A sum over both would count each node twice."""
    standing_by = _exported(pool, leads=False)
    assert "slicewright_controller_leads" in standing_by
    assert not [name for name in standing_by if name.startswith("slicewright_pool")]
