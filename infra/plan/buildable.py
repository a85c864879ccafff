"""What can be planned and not yet be built. The program refuses it before it creates anything;
`check` and `plan` work.
"""

from __future__ import annotations

from infra.plan.findings import Findings
from infra.plan.fleet import ByoFleetPlan, EksFleetPlan, FleetPlan, GkeFleetPlan
from infra.spec import CapacityBlock, FlexStart, Problem, Queued, Reservation, Source, SpecError

_CANNOT = "is planned and checked, but this version cannot build it yet"


def deployable(fleet: FleetPlan, source: Source) -> GkeFleetPlan | EksFleetPlan:
    """The same fleet. Raises SpecError that names everything in it that this version cannot
    build.
    """
    problems = unbuildable(fleet)
    if problems or isinstance(fleet, ByoFleetPlan):
        raise SpecError(source, problems)
    return fleet


def unbuildable(fleet: FleetPlan) -> tuple[Problem, ...]:
    """Everything that the components have no resources for; empty where the fleet can be brought
    up.
    """
    findings = Findings()

    def refuse(path: tuple[str | int, ...], what: str, instead: str) -> None:
        findings.refuse(path, f"{what} {_CANNOT}", instead)

    if isinstance(fleet, ByoFleetPlan):
        refuse(("cloud",), "a fleet of what exists already", "write gke or eks")
        return tuple(findings.problems)
    if fleet.cluster.existing:
        refuse(
            ("cluster", "existing"),
            "taking an existing cluster",
            "write false: the program makes the cluster",
        )
    if fleet.fractional is not None:
        refuse(
            ("fractional",),
            "a scheduler for fractions of GPUs",
            "write sharing: time-slicing or mps",
        )
    for i, pool in enumerate(fleet.pools):
        if isinstance(fleet, GkeFleetPlan) and pool.mig_config is not None:
            refuse(
                ("node_pools", i, "partition", "mode"), "NVIDIA's operator on GKE", "write native"
            )
        if pool.machine.architecture == "arm64":
            # GKE taints them kubernetes.io/arch=arm64:NoSchedule; nothing of ours has run on such a
            # node.
            refuse(
                ("node_pools", i, "machine_type"),
                f"{pool.machine.name}, whose processors are arm64,",
                "choose another",
            )
        if isinstance(pool.capacity, FlexStart | Queued | Reservation | CapacityBlock):
            refuse(
                ("node_pools", i, "capacity"),
                f"capacity {pool.capacity.mode}",
                "write on-demand or spot",
            )
    return tuple(findings.problems)
