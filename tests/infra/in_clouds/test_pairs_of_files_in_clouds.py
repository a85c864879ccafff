"""Property: between any two files, `plan --diff` says no less of a pool's nodes than what the
cloud's provider does with them.

Files are made of the keys of tests/infra/plan/test_change_keys.py, some at a time on each side.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from slicewright.infra import plan, stack_file
from slicewright.infra.plan import ChangeEffect, buildable
from tests.infra.in_clouds.test_changes_in_clouds import (
    POOLS,
    asked_for,
    effect_by_karpenter,
    effect_in_cloud,
)
from tests.infra.plan.test_change_keys import ROWS, Row, planned, written
from tests.properties import examples

# What the providers of two clouds make of a pair is worked out for each: not for `make unit`.
pytestmark = pytest.mark.clouds

MOST = 3
"""Keys of a file beside those of the base: more are refused too often, for contradictions."""


def files(cloud: str) -> st.SearchStrategy[dict[str, Any]]:
    """Of one pool; those that `check` refuses are among them."""
    rows = [row for row in ROWS[cloud] if row.effect and row.where == "pools"]

    def of(chosen: list[tuple[Row, bool]]) -> dict[str, Any]:
        changes = [row.before for row, _ in chosen]
        changes += [row.after for row, changed in chosen if changed]
        try:
            return written(cloud, *changes)
        except (AttributeError, IndexError, KeyError, TypeError):
            return {}  # one writes a word where another has keys

    return st.lists(
        st.tuples(st.sampled_from(rows), st.booleans()), max_size=MOST, unique_by=lambda r: r[0].key
    ).map(of)


def accepted(raw: dict[str, Any]) -> plan.FleetPlan | None:
    if not raw:
        return None
    try:
        fleet = planned(raw)
    except stack_file.SpecError:
        return None
    return None if buildable.unbuildable(fleet) else fleet


@pytest.mark.parametrize("cloud", list(POOLS))
# A pair of a few keys needs no shrinking, which would take minutes.
@settings(max_examples=examples(60), phases=(Phase.explicit, Phase.generate), derandomize=True)
@given(data=st.data())
def test_nodes_that_stay_in_the_plan_are_not_lost(cloud: str, data: st.DataObject) -> None:
    one = data.draw(files(cloud).filter(lambda raw: accepted(raw) is not None))
    other = data.draw(files(cloud).filter(lambda raw: accepted(raw) is not None))
    before, after = planned(one), planned(other)
    told = plan.compare(before, after)
    # What changes of the whole fleet, as its network, is said of the fleet and not of each pool.
    assume(not told.fleet)
    effect = max((pool.effect for pool in told.pools), default=ChangeEffect.NONE)
    if isinstance(before, plan.EksFleetPlan) and before.karpenter_pools:
        assert isinstance(after, plan.EksFleetPlan)
        # It has no node group, before or after: else the fleet's autoscaler would have changed.
        assert after.karpenter_pools
        found = effect_by_karpenter(before, after)
    else:
        found = effect_in_cloud(
            cloud, asked_for(cloud, json.dumps(one)), asked_for(cloud, json.dumps(other))
        )
    assert found <= effect
