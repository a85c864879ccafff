"""The answer to the kubelet that asks for a container's cards. Pure.

The kubelet does not say for which pod it asks. The plugins take the pod of their node that the
scheduler placed first and that has no cards yet. Source: Project-HAMi/volcano-vgpu-device-plugin,
pkg/plugin/vgpu/util/util.go, GetPendingPod and GetNextDeviceRequest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.vgpu.cards import Share
from slicewright.rehearsal.cluster.vgpu.engine import Engine

ALLOCATING: Final = "allocating"
_SUCCESS: Final = "success"
FAILED: Final = "failed"
_NEVER: Final = 2**64 - 1
_PHASES: Final = ("Pending", "Running")
"""The real plugins want Pending. Pods without a process of a rehearsal, which kwok keeps, may run
before their kubelet has asked for their cards.
"""


class Refused(Exception):
    """The plugin's answer to the kubelet, in its own words."""


@dataclass(frozen=True, kw_only=True)
class Allocation:
    shares: tuple[Share, ...]
    annotations: Mapping[str, str]
    """What the plugin writes on the pod."""


def pending_pod(pods: Sequence[JsonObject], node: str, engine: Engine) -> JsonObject:
    """The pod that the scheduler placed first. Raises Refused."""
    waiting = [pod for pod in pods if _waits(pod, node, engine)]
    if not waiting:
        raise Refused("cannot get valid pod")
    return min(waiting, key=lambda pod: _placed_at(pod, engine))


def _waits(pod: JsonObject, node: str, engine: Engine) -> bool:
    annotations = pod["metadata"].get("annotations") or {}
    return (
        (pod.get("status") or {}).get("phase") in _PHASES
        and annotations.get(engine.keys.phase) == ALLOCATING
        and annotations.get(engine.keys.node) == node
    )


def _placed_at(pod: JsonObject, engine: Engine) -> int:
    text = pod["metadata"]["annotations"].get(engine.keys.time, "")
    return int(text) if text.isdigit() else _NEVER


def allocate(pod: JsonObject, requested: int, engine: Engine) -> Allocation:
    """The shares of the pod's next container. Raises Refused."""
    containers = engine.decode(pod["metadata"]["annotations"].get(engine.keys.to_allocate, ""))
    number = next((i for i, shares in enumerate(containers) if shares), None)
    if number is None:
        raise Refused("device request not found")
    shares = tuple(containers[number])
    if len(shares) != requested:
        raise Refused("device number not matched")
    left = [[] if i == number else list(one) for i, one in enumerate(containers)]
    annotations = {engine.keys.to_allocate: engine.encode(left)}
    if not any(left):
        annotations[engine.keys.phase] = _SUCCESS
    return Allocation(shares=shares, annotations=annotations)


def environment(shares: Sequence[Share], memory_factor: int) -> dict[str, str]:
    """HAMi-core's limits of a container. The simulated NVML obeys those of memory."""
    limits = {
        f"CUDA_DEVICE_MEMORY_LIMIT_{i}": f"{share.memory_units * memory_factor}m"
        for i, share in enumerate(shares)
    }
    return {
        "NVIDIA_VISIBLE_DEVICES": ",".join(share.uuid for share in shares),
        **limits,
        "CUDA_DEVICE_SM_LIMIT": str(shares[0].compute_percent),
    }
