"""The kubelet as a systemd unit of its node: what its stop and its start do.

While it is stopped, containers go on, no container starts or is removed, and no status is written.
Device plugins lose their kubelet, and register again when its socket is back. The node is NotReady
once it has been silent for the grace period of the node lifecycle controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

GRACE_S: Final = 50.0
"""--node-monitor-grace-period of kube-controller-manager, from Kubernetes 1.32 on. Who stops the
kubelet, such as mig-manager, takes its real time here, unlike a reboot.
"""


class KubeletService:
    """For the event loop only."""

    def __init__(
        self,
        *,
        silence: Callable[[], Awaitable[None]],
        resume: Callable[[], Awaitable[None]],
        mark_down: Callable[[bool], Awaitable[None]],
        grace_s: float = GRACE_S,
    ) -> None:
        """silence, resume: what the stop and the start do to the node. mark_down: makes it
        NotReady, or Ready.
        """
        self._silence = silence
        self._resume = resume
        self._mark_down = mark_down
        self._grace_s = grace_s
        self._changing = asyncio.Lock()
        self._stops = 0
        self._marked = False
        self._watching: asyncio.Task[None] | None = None
        self.runs = asyncio.Event()
        """Set unless the unit is stopped."""
        self.runs.set()

    async def stop(self) -> None:
        """`systemctl stop kubelet`; repeating it does nothing."""
        async with self._changing:
            if not self.runs.is_set():
                return
            self.runs.clear()
            self._stops += 1
            await self._silence()
            self._watching = asyncio.create_task(self._miss(self._stops), name="silent kubelet")

    async def start(self) -> None:
        """`systemctl start kubelet`; repeating it does nothing."""
        async with self._changing:
            if self.runs.is_set():
                return
            await self._resume()
            if self._marked:
                self._marked = False
                await self._mark_down(False)
            self.runs.set()

    async def boot(self) -> bool:
        """The node reboots, and systemd starts the unit. True if the node is marked as down."""
        async with self._changing:
            marked, self._marked = self._marked, False
            self.runs.set()
            return marked

    def close(self) -> None:
        """Ends the watch over a silent kubelet."""
        if self._watching:
            self._watching.cancel()

    async def _miss(self, stop: int) -> None:
        """As the node lifecycle controller."""
        await asyncio.sleep(self._grace_s)
        async with self._changing:
            if not self.runs.is_set() and self._stops == stop:
                self._marked = True
                await self._mark_down(True)
