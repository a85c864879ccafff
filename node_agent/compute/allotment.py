"""The device that a container was allotted, compared with the one that its pod requested. Pure."""

from __future__ import annotations

from typing import Final

from slicewright.node_agent.compute.judgement import Proof
from slicewright.node_agent.nvml import profiles
from slicewright.node_agent.nvml.observed import Observation

WHOLE_GPU: Final = "gpu"


def problem(observation: Observation, requested: str) -> str:
    """Returns why the container's devices are not the requested one, or empty.

    requested: a profile such as 1g.10gb, or `WHOLE_GPU`.
    """
    devices = [
        (device.uuid, profiles.name_of(device, gpu) or "a partition of an unknown profile")
        for gpu in observation.gpus
        if gpu.mig == "enabled"
        for device in gpu.devices
    ] + [(gpu.uuid or "", WHOLE_GPU) for gpu in observation.gpus if gpu.mig != "enabled"]
    if [kind for _, kind in devices] == [requested]:
        return ""
    allotted = ", ".join(f"{kind} {uuid}" for uuid, kind in devices)
    return f"requested {requested}, and the container has {allotted or 'no device'}"


def summary(proof: Proof) -> str:
    """A line about the proof for a termination message."""
    failures = [
        f"{device.uuid}: {device.failure.sign.title} in {device.failure.step}"
        for device in proof.devices
        if device.failure
    ]
    uuids = [device.uuid for device in proof.devices if not device.failure]
    return f"{proof.outcome} in {proof.seconds} s: {', '.join(failures or uuids)}"
