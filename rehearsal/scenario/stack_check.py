"""Whether a stack can be rehearsed, before anything is made."""

from __future__ import annotations

from infra import plan, spec
from infra.plan import ByoFleetPlan, EksFleetPlan, GkeFleetPlan
from rehearsal.clouds.aws import machines as aws_machines
from rehearsal.clouds.gcp import machines as gcp_machines
from rehearsal.scenario.environment import PROJECT
from rehearsal.scenario.errors import NoSuchStack

_CANNOT = "can be brought up in a cloud, but not rehearsed yet:"
_OPERATOR = "rehearsal/cluster/gpu_operator"
_MACHINES = "rehearsal/clouds"


def check_stack(stack: str) -> None:
    """Raises NoSuchStack unless there is a stack file stacks/Pulumi.`stack`.yaml.

    Raises SpecError where it has problems, or asks for what cannot be built or rehearsed yet.
    """
    stacks = PROJECT / "stacks"
    known = sorted(
        p.name.removeprefix("Pulumi.").removesuffix(".yaml") for p in stacks.glob("Pulumi.*.yaml")
    )
    if stack not in known:
        raise NoSuchStack(
            f"no stack {stack!r}: there is no stacks/Pulumi.{stack}.yaml in {PROJECT}; there are "
            f"{', '.join(known)}"
        )
    name = f"Pulumi.{stack}.yaml"
    source = spec.read(stacks / name, name=f"stacks/{name}")
    fleet = plan.deployable(plan.read_file(stacks / name, name=f"stacks/{name}"), source)
    if isinstance(fleet, ByoFleetPlan):
        reason = "an existing cluster can be brought up, but not rehearsed yet"
        problem = spec.Problem(path=("cloud",), reason=reason, instead="write gke or eks")
        raise spec.SpecError(source, (problem,))
    if problems := unrehearsable(fleet):
        raise spec.SpecError(source, problems)


def unrehearsable(fleet: GkeFleetPlan | EksFleetPlan) -> list[spec.Problem]:
    """What the simulated clouds and their clusters lack."""
    problems = []
    cloud = gcp_machines if isinstance(fleet, GkeFleetPlan) else aws_machines
    known = cloud.machines()
    with_gpus = sorted(m.name for m in known.values() if m.gpu or m.gpu_choices)
    for i, pool in enumerate(fleet.pools):
        if pool.machine.name not in known:
            problems.append(
                spec.Problem(
                    path=("node_pools", i, "machine_type"),
                    reason=f"{_CANNOT} the simulated cloud has no {pool.machine.name}",
                    instead=f"for a rehearsal write one of {', '.join(with_gpus)}",
                    source=_MACHINES,
                )
            )
        if isinstance(fleet, EksFleetPlan) and any(s.strategy == "mps" for s in pool.sharing):
            problems.append(
                spec.Problem(
                    path=("node_pools", i, "sharing"),
                    reason=f"{_CANNOT} NVIDIA's MPS control daemon, for which its device plugin "
                    "waits, needs CUDA",
                    instead="for a rehearsal write mode: time-slicing, or use GKE",
                    source=_OPERATOR,
                )
            )
    if fleet.system.machine.name not in known:
        without = sorted(set(known) - set(with_gpus))
        problems.append(
            spec.Problem(
                path=("system_pool", "machine_type"),
                reason=f"{_CANNOT} the simulated cloud has no {fleet.system.machine.name}",
                instead=f"for a rehearsal write one of {', '.join(without)}",
                source=_MACHINES,
            )
        )
    return problems
