"""A manifest names a partition by its resource, and the planner by its profile."""

from __future__ import annotations

from slicewright.infra import catalog
from slicewright.infra.plan.partition.resource_names import profile_of, resource_of


def test_the_resource_of_every_profile_gives_the_profile_back() -> None:
    profiles = {name for gpu in catalog.load().gpus.values() for name in gpu.profiles}
    assert {"1g.10gb+me", "1g.24gb+me.all", "1g.24gb+gfx", "1g.24gb-me"} <= profiles
    assert all(profile_of(resource_of(profile)) == profile for profile in profiles)
