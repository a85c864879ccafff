"""Which tools a rehearsal needs besides those that every one does."""

from __future__ import annotations

from collections.abc import Iterable

from infra.plan import FleetPlan
from infra.spec import TritonWorkload
from rehearsal.host.toolchain import workload_tools


def of(fleets: Iterable[FleetPlan]) -> tuple[str, ...]:
    """Groups of rehearsal/host/toolchain/workload_tools.py."""
    found = set()
    for fleet in fleets:
        if any(isinstance(one.asked, TritonWorkload) for one in fleet.deployments):
            found.add(workload_tools.TRITON)
    return tuple(sorted(found))
