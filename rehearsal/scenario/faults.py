"""Faults for the simulated cloud to inject, and their repair; reboots of nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from slicewright.apis.names import POOL_LABEL
from slicewright.infra import plan
from slicewright.infra.plan import ExistingFleetPlan, FleetPlan
from slicewright.kubeapi import Client, Unreachable
from slicewright.rehearsal.clouds.core import fault_file
from slicewright.rehearsal.clouds.core.fault_file import Fault, WrongLayout
from slicewright.rehearsal.cluster.kubelet.nodes import reboots
from slicewright.rehearsal.cluster.kubelet.nodes.holds import Holds
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.errors import NoSuchFault, RehearsalError

__all__ = ["MACHINE", "Hold", "WrongLayout", "hand_out_wrong_devices", "hold", "inject"]
__all__ += ["inject_resolved", "injected", "reboot", "repair", "resolve"]

MACHINE = "rehearsal.slicewright.io/machine"


@dataclass(frozen=True, kw_only=True)
class Hold:
    """Something does not happen yet on a node that is made after the fault was injected."""

    pool: str
    node: int
    """Which node of the pool, by order of creation, from 0."""
    held: Holds


def resolve(fault: WrongLayout, fleet: FleetPlan) -> WrongLayout:
    """The fault with its pool named; an empty name means the only pool.

    Raises NoSuchFault where the fleet has no such pool, node, GPU or profile, or makes no nodes.
    """
    if isinstance(fleet, ExistingFleetPlan):
        raise NoSuchFault(
            "the nodes of an existing cluster were there before the fault, and no others are made; "
            "break one that runs: --fault repartition --node NAME"
        )
    pools = {pool.name: pool for pool in fleet.pools}
    pool = pools.get(fault.pool or next(iter(pools)))
    if pool is None:
        raise NoSuchFault(
            f"--pool {fault.pool}: the stack has no such pool; it has {', '.join(pools)}"
        )
    if not fault.pool and len(pools) > 1:
        raise NoSuchFault(f"--pool is missing: the stack has {', '.join(pools)}")
    if not 0 <= fault.node < pool.nodes.max:
        raise NoSuchFault(
            f"--node {fault.node}: pool {pool.name} has nodes 0 to {pool.nodes.max - 1}; "
            "for more, change the stack file first"
        )
    if not 0 <= fault.gpu < pool.gpu_count:
        raise NoSuchFault(
            f"--gpu {fault.gpu}: a node of {pool.name} has GPUs 0 to {pool.gpu_count - 1}"
        )
    if fault.profile not in pool.gpu.profiles:
        raise NoSuchFault(
            f"--profile {fault.profile}: {pool.gpu.name} has "
            f"{', '.join(pool.gpu.profiles) or 'no MIG profiles'}"
        )
    return replace(fault, pool=pool.name)


def inject_resolved(environment: Environment, fault: WrongLayout) -> WrongLayout:
    """Injects the fault into a running environment, and returns it as `resolve` does.

    Raises NoSuchFault as `resolve` does, SpecError where the environment's stack file has problems,
    RehearsalError where the environment does not run.
    """
    environment.require_running()
    fault = resolve(fault, plan.read_file(environment.stack_file(environment.stack)))
    inject(environment, fault)
    return fault


def inject(environment: Environment, fault: Fault | Hold) -> None:
    """Adds the fault to those that the simulated cloud reads: before a call, when it makes a node.

    Raises FaultFileError where the environment's fault file has problems.
    """
    if isinstance(fault, Hold):
        fault = fault_file.Hold(pool=fault.pool, node=fault.node, **asdict(fault.held))
    _write(environment, [*injected(environment), fault])


def hold(client: Client, node: str, held: Holds | None) -> None:
    """From now on holds that on a living node, and nothing else; None: nothing at all.

    Raises ApiError, Unreachable.
    """
    _set_fault(client, node, None if held is None else {"kind": "hold", **asdict(held)})


def hand_out_wrong_devices(client: Client, node: str) -> None:
    """From now on the node's device plugin gives containers other devices than it is asked for;
    `hold` and `repair` end that. Raises ApiError, Unreachable.
    """
    _set_fault(client, node, {"kind": "wrong-device"})


def _set_fault(client: Client, node: str, fault: Mapping[str, Any] | None) -> None:
    path = f"/api/v1/nodes/{node}"
    machine = json.loads(client.get(path)["metadata"]["annotations"][MACHINE])
    machine.pop("fault", None)
    if fault is not None:
        machine["fault"] = fault
    client.patch(path, {"metadata": {"annotations": {MACHINE: json.dumps(machine)}}})


def repair(environment: Environment) -> list[str]:
    """Removes every fault and has the nodes that had one partitioned again; returns their names.

    Raises RehearsalError where a cluster does not answer.
    """
    _write(environment, [])
    repaired = []
    for cluster, kubeconfig in environment.kubeconfigs().items():
        try:
            repaired += _repair_nodes(Client.from_kubeconfig(kubeconfig))
        except Unreachable as e:
            raise RehearsalError(
                f"the API server of cluster {cluster} in {environment.root} does not answer ({e})"
            ) from e
    return repaired


def reboot(environment: Environment, node: str, *, down_s: float = 0.0) -> None:
    """Reboots a node, as by the cloud's API.

    down_s: seconds for which it stays down; from `UNHEARD_S` on (kubelet/nodes/node.py) its Node
    becomes NotReady. Returns at once. Raises NoSuchFault where there is no such node,
    RehearsalError where nothing runs it.
    """
    roots = [path / "root" for path in environment.root.glob(f"clusters/*/nodes/{node}")]
    if not roots:
        raise NoSuchFault(f"node {node}: {environment.root} has no such node")
    try:
        reboots.request(roots[0], down_s)
    except OSError as e:
        raise RehearsalError(
            f"node {node} does not run: its environment is stopped, or it is still being made"
        ) from e


def _repair_nodes(client: Client) -> list[str]:
    repaired = []
    for node in client.get("/api/v1/nodes", labelSelector=POOL_LABEL)["items"]:
        machine = json.loads(node["metadata"].get("annotations", {}).get(MACHINE, "{}"))
        if machine.pop("fault", None):
            name = node["metadata"]["name"]
            client.patch(
                f"/api/v1/nodes/{name}",
                {"metadata": {"annotations": {MACHINE: json.dumps(machine)}}},
            )
            repaired.append(name)
    return repaired


def injected(environment: Environment) -> tuple[Fault, ...]:
    """The faults that the simulated cloud reads. Raises FaultFileError for a file with problems."""
    path = environment.root / fault_file.NAME
    return fault_file.read(path.read_text(), where=str(path)) if path.exists() else ()


def _write(environment: Environment, faults: Sequence[Fault]) -> None:
    path = environment.root / fault_file.NAME
    new = path.with_suffix(".new")
    new.write_text(json.dumps([fault_file.as_json(fault) for fault in faults], indent=1))
    new.replace(path)
