"""Checks whether the agent's container sees less of the GPUs than the node has. Pure functions.

A container has the device nodes from its creation. Device nodes of a driver that is loaded later,
or of partitions that are created later, do not appear in it, privileged or not. NVML then lists no
such GPU or MIG device, and only a new container sees it. The same applies to the driver's library,
which NVIDIA's runtime mounts file by file. Sources: NVIDIA/nvidia-docker #1473, NVIDIA/gpu-operator
#117; NVIDIA MIG User Guide, "Device Nodes and Capabilities".

A container can also lose the permission to open its devices: `systemctl daemon-reload` rewrites the
device rules of a cgroup without those that NVIDIA's runtime has added. Source: NVIDIA Container
Toolkit, "Troubleshooting", "Containers losing access to GPUs".
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from slicewright.apis.desired_state import Desired
from slicewright.apis.reasons.agent import REASONS
from slicewright.node_agent.cluster.node import NodeState
from slicewright.node_agent.nvml.errors import REASON_OF
from slicewright.node_agent.nvml.observed import Failure, Observation, ObservedGpu
from slicewright.node_agent.verdict.findings import Check, Verdict
from slicewright.node_agent.verdict.instances import observed_instances
from slicewright.node_agent.verdict.node_checks import is_gpu_resource

REASON = "DeviceNodesOutdated"
_NO_DRIVER = frozenset(
    {"DriverLibraryMissing", "DriverNotLoaded", "NoPermission", "DriverVersionMismatch"}
)
_LOOKS_STALE = _NO_DRIVER | {
    "WrongGpuCount",
    "ComputeInstanceMissing",
    "NotPartitioned",
    "LayoutIncomplete",
}
"""Reasons that outdated device nodes can cause on a healthy node."""
_SAME_IN_EVERY_CONTAINER = frozenset({"DriverHung", "ProbeBroken", "GpuLost", "GpuResetRequired"})
"""Reasons of failed calls that a new container would report, too."""
_OF_CUDA = frozenset({"PartitionDoesNotCompute", "ComputeUntried"})
"""Reasons of the compute proof."""
_MIG_MANAGER_DONE = frozenset({"success", "failed"})

Evidence = Literal["advertised", "finished", "lost", "cuda"]
"""Why a new container should see more. `advertised`: the kubelet advertises more devices than this
container sees, so the device plugin, in a newer container, sees them. `finished`: the driver is
loaded, or mig-manager is done, or GPU instances are listed without a device here, but no device
plugin confirms it (yet). `lost`: the driver refuses this container, which has matched in this boot,
and the kubelet still advertises every device. `cuda`: NVML answers, and CUDA refuses this container
with an error that a missing device node or library causes, as of a container that is older than
/dev/nvidia-uvm.
"""


@dataclass(frozen=True, kw_only=True)
class Signs:
    """Facts of a node that change with its device nodes and are visible in every container."""

    boot_id: str
    mig_config: str
    mig_state: str
    driver_loaded: bool
    mig_modes: tuple[tuple[str, str], ...]
    """Current and pending MIG mode of each visible GPU."""
    allocatable: tuple[tuple[str, int], ...]
    """GPU resources with more than 0, by name."""

    @property
    def digest(self) -> str:
        """A hash of the signs without MIG modes, as another container may see more GPUs."""
        signs = {**vars(self), "mig_modes": None}
        return hashlib.sha256(json.dumps(signs).encode()).hexdigest()[:16]


def signs_of(node: NodeState, observation: Observation, *, driver_loaded: bool) -> Signs:
    return Signs(
        boot_id=node.boot_id,
        mig_config=node.mig_config,
        mig_state=node.mig_state,
        driver_loaded=driver_loaded,
        mig_modes=tuple((gpu.mig, gpu.mig_pending) for gpu in observation.gpus),
        allocatable=tuple(sorted(_gpu_resources(node).items())),
    )


def changes(before: Signs, now: Signs) -> str:
    """The differences for the log, empty if there are none."""
    old, new = vars(before), vars(now)
    return ", ".join(
        f"{name} {old[name]!r} -> {new[name]!r}" for name in old if old[name] != new[name]
    )


def sees_too_little(desired: Desired, observation: Observation) -> bool:
    """True if no driver answers, or if GPUs, or MIG devices of a GPU in MIG mode, are missing.

    Every other state of a GPU (MIG mode off, other partitions, lost) is seen correctly.
    """
    if observation.failure:
        return REASON_OF.get(observation.failure.code) in _NO_DRIVER
    return len(observation.gpus) < desired.gpu_count or any(
        _lacks_devices(desired, gpu) for gpu in observation.gpus if gpu.index < desired.gpu_count
    )


def evidence(
    desired: Desired,
    verdict: Verdict,
    observation: Observation,
    node: NodeState,
    *,
    driver_loaded: bool,
) -> Evidence | None:
    """Returns why a new container should see more than this container, or None without evidence.

    verdict: the result of `verify`. Reasons that every container sees need no new container.
    """
    if verdict.reason not in _LOOKS_STALE or not sees_too_little(desired, observation):
        return None
    if _count_advertised(desired, node) > _count_observed(observation):
        return "advertised"
    if observation.failure:
        return "finished" if driver_loaded else None
    if verdict.reason == "ComputeInstanceMissing":
        # Privileged calls list GPU instances whose device nodes this container does not have.
        return "finished"
    done = desired.partitioner == "mig-manager" and node.mig_state in _MIG_MANAGER_DONE
    return "finished" if done else None


def lost_devices(
    desired: Desired, verdict: Verdict, observation: Observation, node: NodeState
) -> bool:
    """True if the driver refuses this container, whatever its error, and the kubelet still
    advertises every device. Only for a container that has matched in this boot.
    """
    refused = {REASON_OF.get(failure.code, "DriverError") for failure in _failures(observation)}
    return verdict.reason in refused - _SAME_IN_EVERY_CONTAINER and _count_advertised(
        desired, node
    ) >= _count_expected(desired)


def _failures(observation: Observation) -> list[Failure]:
    if observation.failure:
        return [observation.failure]
    return [gpu.failure for gpu in observation.gpus if gpu.failure]


def outdated(
    desired: Desired, verdict: Verdict, observation: Observation, node: NodeState
) -> Verdict:
    """The verdict while the container is about to be replaced."""
    reason = REASONS[REASON]
    advertised = _count_advertised(desired, node)
    failures = [failure.text.removesuffix(".") for failure in _failures(observation)] or [
        finding.observed for finding in verdict.checks if finding.reason in _OF_CUDA
    ]
    why_fewer = f" ({failures[0]})" if failures else ""
    readable = tuple(gpu for gpu in observation.gpus if gpu.failure is None)
    devices = f"{_count_observed(replace(observation, gpus=readable))}{why_fewer}"
    check = Check(
        reason=REASON,
        where="node",
        expected=f"{_count_expected(desired)} devices",
        observed=f"{devices} in this container and {advertised} advertised by the kubelet",
    )
    return replace(
        verdict,
        verdict=reason.verdict,
        reason=reason.code,
        message=f"{check.where} wanted {check.expected}, found {check.observed}: "
        f"{reason.cause}; {reason.advice}.",
        checks=(check,),
    )


def _lacks_devices(desired: Desired, gpu: ObservedGpu) -> bool:
    if gpu.failure or gpu.mig != "enabled":
        return False
    expected = Counter(dict(desired.gpu(gpu.index).instances))
    observed = Counter(dict(observed_instances(gpu, desired)))
    unclear = observed.pop("unknown", 0)
    # An unexpected device exists: the layout itself is wrong, not only this view.
    return not observed - expected and (expected - observed).total() > unclear


def _count_expected(desired: Desired) -> int:
    gpus = [desired.gpu(index) for index in range(desired.gpu_count)]
    return sum(sum(gpu.instances.values()) if gpu.mig else 1 for gpu in gpus)


def _count_observed(observation: Observation) -> int:
    """Devices that a device plugin in this container could advertise."""
    return sum(len(gpu.devices) if gpu.mig == "enabled" else 1 for gpu in observation.gpus)


def _count_advertised(desired: Desired, node: NodeState) -> int:
    """Devices behind the allocatable resources. Replicas of a shared device count once."""
    replicas = {sharing.resource: sharing.replicas for sharing in desired.sharing}
    return sum(count // replicas.get(name, 1) for name, count in _gpu_resources(node).items())


def _gpu_resources(node: NodeState) -> Mapping[str, int]:
    return {name: n for name, n in node.allocatable.items() if n and is_gpu_resource(name)}
