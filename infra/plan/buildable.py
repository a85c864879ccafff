"""Plans that cannot be built yet: `check` and `plan` accept them, `pulumi up` refuses them."""

from __future__ import annotations

from collections.abc import Iterator

from slicewright.infra.plan.model.fleets import ExistingFleetPlan, FleetPlan, GkeFleetPlan
from slicewright.infra.stack_file import Path, Problem, Source, SpecError

_CANNOT = "is planned and checked, but this version cannot build it yet"


def deployable(fleet: FleetPlan, source: Source) -> FleetPlan:
    """The same fleet. Raises SpecError with everything in it that this version cannot build."""
    if problems := unbuildable(fleet):
        raise SpecError(source, problems)
    return fleet


def unbuildable(fleet: FleetPlan) -> tuple[Problem, ...]:
    """The parts that the components have no resources for. Empty if the fleet can be built."""
    return tuple(
        Problem(code="not-deployable", path=path, reason=f"{part} {_CANNOT}{why}", instead=instead)
        for path, part, why, instead in _unbuildable(fleet)
    ) + tuple(_hosts(fleet))


def _hosts(fleet: FleetPlan) -> Iterator[Problem]:
    """Hosts without Kubernetes, which `pulumi up` does not reach."""
    if isinstance(fleet, ExistingFleetPlan) and fleet.hosts:
        yield Problem(
            code="not-deployable",
            path=("hosts",),
            reason="`pulumi up` builds what lies in a cluster, and does not reach hosts without "
            "Kubernetes",
            instead="move them to a stack file of their own: `slicewright plan --hosts-dir` writes "
            "for each the file with which `slicewright-agent apply` creates the partitions there",
        )


def _why_not_built(fleet: FleetPlan, provider: str) -> str:
    """Why the engine cannot be built. Empty if it can."""
    if provider == "vke":
        return (
            ": VKE's scheduler belongs to Volcengine's clusters, and its code was never merged "
            "into Volcano (volcano-sh/volcano #3030)"
        )
    if isinstance(fleet, GkeFleetPlan):
        return (
            ": the engine's chart is rendered, but on GKE the nodes need NVIDIA's container "
            "toolkit too, which the stack does not install beside GKE's driver"
        )
    return ""


def _unbuildable(fleet: FleetPlan) -> Iterator[tuple[Path, str, str, str]]:
    """Yields path, name of the part, reason and alternative for each such part."""
    if fleet.fractional is None:
        return
    if why := _why_not_built(fleet, fleet.fractional.provider):
        yield (
            ("fractional",),
            "a scheduler for fractional GPUs",
            why,
            "write sharing: time-slicing or mps",
        )
