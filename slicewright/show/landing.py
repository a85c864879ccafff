"""Places the replicas of workloads on the drawing of the GPUs, with a letter for each workload."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slicewright.infra import plan


@dataclass(frozen=True)
class Landing:
    """The workloads that serve models on one pool, in the order of the stack file."""

    pool: plan.PoolPlan
    deployments: Sequence[plan.DeploymentPlan]

    def letter(self, deployment: plan.DeploymentPlan) -> str:
        """Returns the workload's letter. After z, the letters start again."""
        index = [of.name for of in self.deployments].index(deployment.name)
        return string.ascii_lowercase[index % len(string.ascii_lowercase)]

    @property
    def by_profile(self) -> Mapping[str, str]:
        """MIG profile -> letters of all workloads whose replicas may be on it."""
        letters: dict[str, str] = {}
        for deployment in self.deployments:
            for profile in deployment.profiles:
                letters[profile] = letters.get(profile, "") + self.letter(deployment)
        return letters

    @property
    def whole(self) -> str:
        """Names of the workloads on whole GPUs, which have no drawing."""
        return ", ".join(
            deployment.name for deployment in self.deployments if not deployment.profiles
        )

    def on_a_node(self, deployment: plan.DeploymentPlan) -> int:
        """The number of replicas that fit on one node, by devices, processor and memory.

        Other workloads are not counted.
        """
        devices = self.pool.offer.resources[deployment.resource] // deployment.devices
        most = max(self.pool.nodes.max, 1)
        return min(
            deployment.most,
            devices,
            devices if deployment.room is None else deployment.room // most,
        )


def landings(fleet: plan.FleetPlan) -> Mapping[str, Landing]:
    """Pool -> its landing."""
    return {
        pool.name: Landing(
            pool,
            [
                deployment
                for deployment in fleet.deployments
                if deployment.workload.pool == pool.name
            ],
        )
        for pool in fleet.pools
    }
