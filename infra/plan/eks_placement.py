"""EKS pools whose nodes EC2 places close to each other, in a placement group of the pool's own."""

from __future__ import annotations

from collections.abc import Sequence

from infra import spec
from infra.plan.findings import Checked, refuse

_GUIDE = "EC2 user guide, placement groups"


def check_placement(pool: spec.EksPool, path: spec.Path, zones: Sequence[str]) -> Checked[None]:
    """path and zones: of the pool. Every GPU machine type can be in such a group."""
    if pool.placement is None:
        return
    at = (*path, "placement")
    if len(zones) > 1:
        yield refuse(
            at,
            "a cluster placement group is in one zone, and the pool is in several",
            "write one zone, or a pool for each",
            _GUIDE,
        )
    if isinstance(pool.capacity, spec.CapacityBlock):
        yield refuse(
            at,
            "machines of a capacity block are close to each other already, and EC2 launches them "
            "in no placement group",
            "leave it out",
            "aws/aws-parallelcluster #6311",
        )
