"""Places the replicas of workloads on the drawing of the GPUs, with a letter for each workload."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra import plan


@dataclass(frozen=True)
class Landing:
    """The workloads that serve models on one pool, in the order of the stack file."""

    pool: plan.PoolPlan
    deployments: Sequence[plan.DeploymentPlan]

    def letter(self, one: plan.DeploymentPlan) -> str:
        """Returns the workload's letter. After z, the letters start again."""
        index = [of.name for of in self.deployments].index(one.name)
        return string.ascii_lowercase[index % len(string.ascii_lowercase)]

    @property
    def by_profile(self) -> Mapping[str, str]:
        """MIG profile -> letters of all workloads whose replicas may be on it."""
        letters: dict[str, str] = {}
        for one in self.deployments:
            for profile in one.profiles:
                letters[profile] = letters.get(profile, "") + self.letter(one)
        return letters

    @property
    def whole(self) -> str:
        """Names of the workloads on whole GPUs, which have no drawing."""
        return ", ".join(one.name for one in self.deployments if not one.profiles)

    def on_a_node(self, one: plan.DeploymentPlan) -> int:
        """The number of replicas that fit on one node, by devices, processor and memory.

        Other workloads are not counted.
        """
        devices = self.pool.offer.resources[one.resource] // one.devices
        most = max(self.pool.nodes.max, 1)
        return min(one.most, devices, devices if one.room is None else one.room // most)


def landings(fleet: plan.FleetPlan) -> Mapping[str, Landing]:
    """Pool -> its landing."""
    return {
        pool.name: Landing(
            pool, [one for one in fleet.deployments if one.workload.pool == pool.name]
        )
        for pool in fleet.pools
    }
