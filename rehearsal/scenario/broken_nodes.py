"""Faults of a node that runs, as hardware, a cloud or a person brings them about, and their repair.

Faults of nodes that are made later, and of calls of the clouds, are in `faults`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slicewright.rehearsal.clouds.aws.state import NODE_GROUPS
from slicewright.rehearsal.clouds.core.fault_file import SpotPreemption
from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.clouds.gcp.state import NODE_POOLS
from slicewright.rehearsal.cluster.node.root import NodeFiles
from slicewright.rehearsal.cluster.silicon import fabric, placement, state
from slicewright.rehearsal.scenario import faults
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.errors import NoSuchFault

DOUBLE_BIT_ERROR = 48
_RESET_REQUESTED = 1
"""The driver's recovery action NVML_GPU_RECOVERY_ACTION_GPU_RESET."""
_MOST_INSTANCES = 7
_FABRIC_IN_PROGRESS = 2
_EXCLUSIVE_PROCESS = 3
_RECORD = "broken.json"
"""In the directory of a node whose GPUs were broken and not yet repaired."""


@dataclass(frozen=True, kw_only=True)
class Broken:
    """What is to happen to a node."""

    fault: str
    """A key of FAULTS."""
    node: str
    """The name of its Node object."""
    gpu: int
    profile: str
    """For `repartition`: the MIG profile of the instances."""


def inject(environment: Environment, broken: Broken) -> str:
    """Breaks the node, and returns what happened to it as a sentence without an end.

    Raises NoSuchFault where it could have no effect, RehearsalError where nothing runs the node.
    """
    environment.require_running()
    return FAULTS[broken.fault](environment, broken)


def repair(environment: Environment) -> list[str]:
    """Gives nodes with broken GPUs healthy ones and reboots them, which also partitions them
    again; returns their names. Raises RehearsalError where nothing runs such a node.
    """
    repaired = []
    for record in sorted(environment.root.glob(f"clusters/*/nodes/*/{_RECORD}")):
        state.heal(NodeFiles(record.parent).silicon)
        faults.reboot(environment, record.parent.name)
        record.unlink()
        repaired.append(record.parent.name)
    return repaired


def _xid(environment: Environment, broken: Broken) -> str:
    silicon = _silicon(environment, broken)
    state.record_xid(silicon, broken.gpu, DOUBLE_BIT_ERROR)
    state.set_health(silicon, broken.gpu, recovery_action=_RESET_REQUESTED)
    _record(silicon, broken)
    return (
        f"GPU {broken.gpu} met a double-bit memory error (Xid {DOUBLE_BIT_ERROR}); its driver asks "
        "for a reset"
    )


def _lost_gpu(environment: Environment, broken: Broken) -> str:
    silicon = _silicon(environment, broken)
    state.lose(silicon, broken.gpu)
    _record(silicon, broken)
    return f"GPU {broken.gpu} fell off the bus"


def _repartition(environment: Environment, broken: Broken) -> str:
    silicon = _silicon(environment, broken)
    gpu = state.load(silicon).gpus[broken.gpu]
    names = [one.name for one in gpu.model.slices]
    if broken.profile not in names:
        raise NoSuchFault(
            f"--profile {broken.profile}: {gpu.model.name} has "
            f"{', '.join(names) or 'no MIG profiles'}"
        )
    wanted = _as_many_as_fit(gpu, broken.profile)
    if gpu.mig and sorted(one.slice.name for one in gpu.instances) == wanted:
        raise NoSuchFault(
            f"--profile {broken.profile}: GPU {broken.gpu} of {broken.node} has just these "
            "partitions; choose another profile"
        )
    state.repartition(silicon, broken.gpu, wanted)
    _record(silicon, broken)
    return (
        f"GPU {broken.gpu} now has {len(wanted)} {broken.profile} instances, made without the "
        "partitioner's knowledge"
    )


def _as_many_as_fit(gpu: state.Gpu, profile: str) -> list[str]:
    one = gpu.model.slice(profile)
    for count in range(_MOST_INSTANCES, 1, -1):
        try:
            placement.place(gpu.model, [one] * count)
        except placement.NoRoom:
            continue
        return [profile] * count
    return [profile]


def _fabric(environment: Environment, broken: Broken) -> str:
    silicon = _silicon(environment, broken)
    gpus = state.load(silicon).gpus
    if not fabric.has_fabric(state.load(silicon)):
        raise NoSuchFault(
            f"--node {broken.node}: the driver reports an NVLink fabric only on machines with "
            f"NVSwitches, from Hopper on; this one has {len(gpus)} {gpus[0].model.name}"
        )
    if any(gpu.mig for gpu in gpus):
        raise NoSuchFault(
            f"--node {broken.node}: the fabric of GPUs in MIG mode changes no verdict"
        )
    fabric.stop_fabric_manager(silicon)
    for gpu in gpus:
        state.set_health(silicon, gpu.index, fabric_state=_FABRIC_IN_PROGRESS)
    _record(silicon, broken)
    return "its Fabric Manager ended while it set up the NVLink fabric"


def _compute_mode(environment: Environment, broken: Broken) -> str:
    silicon = _silicon(environment, broken)
    if state.load(silicon).gpus[broken.gpu].mig:
        raise NoSuchFault(
            f"--gpu {broken.gpu}: a GPU in MIG mode has the default compute mode, and keeps it"
        )
    state.set_health(silicon, broken.gpu, compute_mode=_EXCLUSIVE_PROCESS)
    _record(silicon, broken)
    return f"GPU {broken.gpu} was left in exclusive process mode"


def _reboot(environment: Environment, broken: Broken) -> str:
    _directory(environment, broken.node)
    faults.reboot(environment, broken.node)
    return "it reboots"


def _spot_preemption(environment: Environment, broken: Broken) -> str:
    _directory(environment, broken.node)
    pool, number = _place(environment, broken.node)
    before = sum(
        isinstance(one, SpotPreemption) and (one.pool, one.node) == (pool, number)
        for one in faults.injected(environment)
    )
    # A fault that has happened does not happen again; this makes it another one.
    event = SpotPreemption(pool=pool, node=number, after_s=before / 1000)
    faults.inject(environment, event)
    return f"the cloud takes its machine away and gives pool {pool} another"


FAULTS: Mapping[str, Callable[[Environment, Broken], str]] = {
    "xid": _xid,
    "lost-gpu": _lost_gpu,
    "repartition": _repartition,
    "fabric": _fabric,
    "compute-mode": _compute_mode,
    "reboot": _reboot,
    "spot-preemption": _spot_preemption,
}


def _directory(environment: Environment, node: str) -> Path:
    there = {path.parent.name: path.parent for path in environment.root.glob(_NODES)}
    if not node:
        raise NoSuchFault(f"--node is missing: name one of {_listed(there)}")
    if node not in there:
        raise NoSuchFault(f"--node {node}: there is no such node; there are {_listed(there)}")
    return there[node]


_NODES = "clusters/*/nodes/*/node.json"


def _listed(nodes: Mapping[str, Path]) -> str:
    with_gpus = [name for name, path in nodes.items() if NodeFiles(path).silicon.exists()]
    return ", ".join(sorted(with_gpus)) or "no nodes with GPUs yet"


def _silicon(environment: Environment, broken: Broken) -> Path:
    """The state file of the node's GPUs."""
    silicon = NodeFiles(_directory(environment, broken.node)).silicon
    if not silicon.exists():
        raise NoSuchFault(f"--node {broken.node}: it has no GPUs")
    count = len(state.load(silicon).gpus)
    if not 0 <= broken.gpu < count:
        raise NoSuchFault(f"--gpu {broken.gpu}: {broken.node} has GPUs 0 to {count - 1}")
    return silicon


def _record(silicon: Path, broken: Broken) -> None:
    record = silicon.parents[1] / _RECORD
    record.write_text(json.dumps({"fault": broken.fault, "gpu": broken.gpu}))


def _place(environment: Environment, node: str) -> tuple[str, int]:
    """The node's pool in the cloud, and its number there."""
    store = Store(environment.root / "cloud")
    for group in store.values(NODE_GROUPS):
        for one in group["nodes"]:
            if one["name"] == node:
                return group["nodegroup"]["nodegroupName"], one["index"]
    for pool in store.values(NODE_POOLS):
        for one in pool["nodes"]:
            if one["name"] == node:
                return pool["pool"]["name"], one["index"]
    raise NoSuchFault(
        f"--node {node}: it is in no node pool of the simulated cloud, so nothing would replace "
        "it; `--fault reboot` takes it away for a moment"
    )
