"""The devices of a proof, and the processes in its way, as the driver lists both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from slicewright.node_agent.nvml.observed import Observation, ObservedGpu


def devices_of(observation: Observation) -> Mapping[str, Sequence[str]]:
    """The UUIDs that a tenant could be given, by the GPU's UUID: the partitions of a GPU in MIG
    mode, else the GPU.
    """
    return {
        gpu.uuid or "": tuple(device.uuid for device in gpu.devices)
        if gpu.mig == "enabled"
        else (gpu.uuid or "",)
        for gpu in observation.gpus
    }


def occupants(
    observation: Observation,
    *,
    excluded: frozenset[int] = frozenset(),
    describe: Callable[[int], str] = "process {}".format,
) -> list[str]:
    """Describes the processes that use a GPU, from a thorough probe. If the driver does not list
    them, that is in the way, too.

    excluded: process ids of the proof itself.
    """
    if observation.failure:
        return [f"the driver does not answer: {observation.failure.text}"]
    obstacles = []
    for gpu in observation.gpus:
        process_ids = _process_ids(gpu)
        if process_ids is None:
            obstacles.append(f"the driver does not list the processes of GPU {gpu.index}")
            continue
        obstacles += [
            f"GPU {gpu.index} is in use by {describe(pid)}"
            for pid in process_ids
            if pid not in excluded
        ]
    return obstacles


def _process_ids(gpu: ObservedGpu) -> list[int] | None:
    """Ids of the processes on a GPU and its partitions, None if the driver does not list them."""
    if gpu.mig != "enabled":
        return None if gpu.processes is None else sorted(set(gpu.processes))
    listed = [device.processes for device in gpu.devices]
    if any(processes is None for processes in listed):
        return None
    whole = gpu.processes or ()
    return sorted({*whole, *(pid for processes in listed for pid in processes or ())})
