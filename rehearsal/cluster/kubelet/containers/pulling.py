"""A container waits for its image: pulled, and pulled again with back-off.

Source: k8s.io/kubernetes v1.36.2, pkg/kubelet/images/image_manager.go and
pkg/kubelet/kuberuntime/kuberuntime_container.go, startContainer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.kubelet.containers.backoff import PullPauses
from slicewright.rehearsal.cluster.kubelet.containers.state import ContainerState
from slicewright.rehearsal.cluster.kubelet.images.store import PULL, NotPulled

BACK_OFF: Final = "ImagePullBackOff"
_NEXT_LOOK_S: Final = 1.0
"""Until the kubelet looks at the pod again after a failed pull."""
_LOOKS_S: Final = 10.0
"""Between two looks at a pod whose image cannot be pulled at all: backOffPeriod."""


class Images(Protocol):
    """What a container needs of its pod for its image."""

    async def pull(self, container: JsonObject) -> None:
        """Returns when the image is there. Raises NotPulled."""
        ...

    def report(self, container: str | None, kind: str, reason: str, message: str) -> None:
        """An Event on the pod."""
        ...

    def changed(self) -> None:
        """The container's state has changed."""
        ...


@dataclass(frozen=True, kw_only=True)
class ImagePull:
    """The image of one container."""

    container: JsonObject
    state: ContainerState
    images: Images
    pauses: PullPauses
    paused: Callable[[float], Awaitable[bool]]
    """Waits, and says whether the container was stopped meanwhile."""

    async def done(self) -> bool:
        """Whether the image is there; False: the container was stopped before."""
        failures = 0
        while True:
            try:
                await self.images.pull(self.container)
            except NotPulled as e:
                failures += 1
                if await self._waited(e, failures):
                    return False
            else:
                return True

    async def _waited(self, failure: NotPulled, failures: int) -> bool:
        """Whether the container was stopped before the next try."""
        self._show(failure.reason, str(failure))
        if failure.reason != PULL:
            return await self.paused(_LOOKS_S)
        pause_s = self.pauses.after(failures)
        next_look_s = min(_NEXT_LOOK_S, pause_s / 2)
        if await self.paused(next_look_s):
            return True
        waiting = f'Back-off pulling image "{self.container["image"]}"'
        self.images.report(self.container["name"], "Normal", "BackOff", waiting)
        self._show(BACK_OFF, f"{waiting}: {failure.reason}: {failure}")
        return await self.paused(pause_s - next_look_s)

    def _show(self, reason: str, message: str) -> None:
        self.images.report(self.container["name"], "Warning", "Failed", f"Error: {reason}")
        self.state.waiting_reason, self.state.waiting_message = reason, message
        self.images.changed()
