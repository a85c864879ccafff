"""Nodes of an EKS pool exchange data over Elastic Fabric Adapters (EFA), or stand close together.

Source of the network interfaces with EFA: EC2 user guide, maximize network bandwidth on instances
with multiple network cards: a plain interface first, and for each network card one that carries
EFA's traffic only. So do aws/aws-parallelcluster #7262 and terraform-aws-modules/terraform-aws-eks
#3653.
"""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.infra import stack_file
from slicewright.infra.catalog import Machine
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.model.launch_templates import Interface

_PLACEMENT = "EC2 user guide, placement groups"


@rule("eks-efa")
def interfaces_of(
    fleet: stack_file.EksFleet,
    pool: stack_file.EksPool,
    path: stack_file.Path,
    machine: Machine,
    other_machines: Sequence[Machine],
    zones: Sequence[str],
) -> Checked[tuple[Interface, ...]]:
    """None in a pool without `efa`. path: of the pool.

    other_machines: more types that its nodes may have.

    All of them are in the cluster's own security group, which is open to itself in both directions,
    as EFA needs. Source: EKS user guide, security group requirements.
    """
    if not pool.efa:
        return ()
    at = (*path, "efa")
    if not machine.efa:
        why = "has no EFA" if machine.efa == 0 else "is not known to have one (no public source)"
        yield refuse(
            at,
            f"{machine.name} {why}",
            "leave it out, or choose a machine type with EFA",
            machine.source,
        )
        return ()
    yield from _check_same_interfaces(machine, other_machines, path)
    if len(zones) > 1:
        yield refuse(
            at,
            "EFA traffic stays within a zone, and the pool has several",
            "write one zone, or a pool for each",
            "EC2 user guide, EFA limitations",
        )
    interfaces = _arranged(machine.efa, machine.efa_first_card)
    public = (
        isinstance(fleet.cluster.network, stack_file.PublicNetwork) and not fleet.cluster.existing
    )
    if len(interfaces) > 1 and public:
        yield refuse(
            at,
            "EC2 gives no public address to an instance that has several network interfaces, and "
            f"{machine.name} has {len(interfaces)} with EFA: it would reach nothing from a public "
            "subnet",
            "write network: private for the cluster",
            "EC2 user guide, assign a public IPv4 address at launch",
        )
    return interfaces


@rule("eks-efa-machine-types")
def _check_same_interfaces(
    machine: Machine, other_machines: Sequence[Machine], path: stack_file.Path
) -> Checked[None]:
    for other in other_machines:
        if (other.efa, other.efa_first_card) != (machine.efa, machine.efa_first_card):
            yield refuse(
                (*path, "other_machine_types"),
                f"{other.name} has {_number(other)}, and {machine.name} {_number(machine)}: a node "
                "group has one launch template with all network interfaces",
                "leave it out, or give it a pool of its own",
                other.source,
            )


@rule("eks-placement")
def check_placement(
    pool: stack_file.EksPool, path: stack_file.Path, zones: Sequence[str]
) -> Checked[None]:
    """path and zones: of the pool. Every GPU machine type can be in a placement group."""
    if pool.placement is None:
        return
    at = (*path, "placement")
    if len(zones) > 1:
        yield refuse(
            at,
            "a cluster placement group is in one zone, and the pool is in several",
            "write one zone, or a pool for each",
            _PLACEMENT,
        )
    if isinstance(pool.capacity, stack_file.CapacityBlock):
        yield refuse(
            at,
            "machines of a capacity block are close to each other already, and EC2 launches them "
            "in no placement group",
            "leave it out",
            "aws/aws-parallelcluster #6311",
        )


def _arranged(number: int, first_card: int) -> tuple[Interface, ...]:
    """number: EFAs, one for each network card from the first that can have one."""
    if number == 1 and first_card == 0:
        return (Interface(card=0, device=0, kind="efa"),)
    primary = Interface(card=0, device=0, kind="interface")
    cards = range(first_card, first_card + number)
    return (
        primary,
        *(Interface(card=card, device=0 if card else 1, kind="efa-only") for card in cards),
    )


def _number(machine: Machine) -> str:
    return "an unknown number of EFAs" if machine.efa is None else f"{machine.efa} EFAs"
