"""Runs with random leftovers, random faults of the clouds, and kills: nothing is ever left."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from slicewright.doctor.findings import CannotAsk
from slicewright.teardown.report import Report
from slicewright.teardown.teardown import Choices, Stopped
from tests.slicewright.teardown.chances import break_calls, leave
from tests.slicewright.teardown.stacks import FAST, Killed, World, keep_address

RUNS = 100
"""Attempts of one destruction; faults end after fewer."""
SEEDS = [pytest.param(seed, marks=[] if seed < 10 else [pytest.mark.soak]) for seed in range(30)]
"""Of each cloud; those after the first ten, in which more can meet, are of `make soak`."""


def until_clean(world: World, chance: random.Random) -> Report:
    choices = replace(
        FAST,
        disks="delete",
        logs="delete",
        unproven="delete",
        unreachable=world.api.unreachable,
    )
    for _ in range(RUNS):
        world.kill_at = chance.randint(1, 12) if chance.random() < 0.3 else None
        try:
            report = _run(world, choices)
        except (Killed, Stopped, CannotAsk):
            continue
        if report.clean:
            return report
    raise AssertionError(f"still not clean: {report}")


def _run(world: World, choices: Choices) -> Report:
    teardown = world.teardown(choices)
    return teardown.run(teardown.look())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cloud", ["on_eks", "on_gke"])
def test_nothing_is_left_whatever_fails_on_the_way(
    clouds_over_http: None,
    cloud: str,
    seed: int,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """A run that says that nothing is left is right, whatever it was told before."""
    world: World = request.getfixturevalue(cloud)
    chance = random.Random(seed)
    leave(world.api.objects, world.subject.cloud, chance)
    if chance.random() < 0.5:
        keep_address(world)
    world.api.deaf = chance.random() < 0.5
    world.api.unreachable = chance.random() < 0.2
    break_calls(tmp_path, world.subject.cloud, chance)
    report = until_clean(world, chance)
    left = world.inventory()
    if cloud == "on_gke":
        # Google's CSI driver gives them no label, and those of a disk that is gone prove nothing.
        left.pop("compute.snapshot", None)
    assert left == {}, report
