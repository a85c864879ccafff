"""A node's devices and their allocation to containers: the data of the kubelet's device manager."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path


class Unavailable(Exception):
    """Fewer free, healthy devices than requested. The message is the real kubelet's."""


def failure(why: str) -> str:
    """As the real kubelet words it, because users search for it."""
    return f"Allocate failed due to {why}, which is unexpected"


@dataclass
class Ledger:
    """Mutable; of one node, for one thread.

    `allocations` are saved as in the real kubelet's checkpoint: pods that kwok simulates survive a
    restart of the stand-in, and their devices must not be allocated again.
    """

    checkpoint: Path | None = None
    devices: dict[str, dict[str, bool]] = field(default_factory=dict)
    """Resource -> device id -> healthy. All are unhealthy for a time after their plugin ended."""
    allocations: dict[str, dict[str, dict[str, tuple[str, ...]]]] = field(default_factory=dict)
    """Pod uid -> container -> resource -> device ids."""

    def capacity(self) -> dict[str, int]:
        return {resource: len(ids) for resource, ids in self.devices.items()}

    def allocatable(self) -> dict[str, int]:
        return {resource: sum(ids.values()) for resource, ids in self.devices.items()}

    def free(self, resource: str) -> tuple[str, ...]:
        """Healthy ids that no container holds, in a stable order."""
        held = {
            i
            for pod in self.allocations.values()
            for c in pod.values()
            for i in c.get(resource, ())
        }
        return tuple(
            sorted(
                i
                for i, healthy in self.devices.get(resource, {}).items()
                if healthy and i not in held
            )
        )

    def require_healthy(self, resource: str, held: Collection[str]) -> None:
        """Raises Unavailable where the resource has no healthy device, or one of `held` is not."""
        known = self.devices.get(resource)
        if known is None:
            raise Unavailable(failure(f"cannot allocate unregistered device {resource}"))
        healthy = {i for i, is_healthy in known.items() if is_healthy}
        if not healthy:
            why = "no healthy devices present"
        elif not healthy.issuperset(held):
            why = "previously allocated devices are no longer healthy"
        else:
            return
        raise Unavailable(failure(f"{why}; cannot allocate unhealthy devices {resource}"))

    def restart(self) -> None:
        """The kubelet of a booting node: it remembers its resources, and no device of them.

        Source: readCheckpoint, k8s.io/kubernetes v1.36.2, pkg/kubelet/cm/devicemanager/manager.go:
        capacity stays 0 until the plugin registers again.
        """
        self.devices = {resource: {} for resource in self.devices}

    def choose(self, resource: str, count: int, preferred: Collection[str] = ()) -> tuple[str, ...]:
        """`count` free ids, preferred ones first. Raises Unavailable."""
        free = self.free(resource)
        if len(free) < count:
            raise Unavailable(
                failure(
                    f"requested number of devices unavailable for {resource}. "
                    f"Requested: {count}, Available: {len(free)}"
                )
            )
        wanted = [i for i in preferred if i in free]
        return tuple((wanted + [i for i in free if i not in wanted])[:count])

    def hold(self, pod_uid: str, container: str, resource: str, ids: tuple[str, ...]) -> None:
        self.allocations.setdefault(pod_uid, {}).setdefault(container, {})[resource] = ids
        self._save()

    def release(self, pod_uid: str) -> None:
        if self.allocations.pop(pod_uid, None) is not None:
            self._save()

    def load(self) -> None:
        """Reads the allocations of an earlier run of the stand-in."""
        if self.checkpoint is None or not self.checkpoint.exists():
            return
        saved: Mapping[str, Mapping[str, Mapping[str, list[str]]]] = json.loads(
            self.checkpoint.read_text()
        )
        self.allocations = {
            pod: {c: {r: tuple(ids) for r, ids in held.items()} for c, held in containers.items()}
            for pod, containers in saved.items()
        }

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        temporary = self.checkpoint.with_suffix(".new")
        temporary.write_text(json.dumps(self.allocations, sort_keys=True))
        temporary.replace(self.checkpoint)
