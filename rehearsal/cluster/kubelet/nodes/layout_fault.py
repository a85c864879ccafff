"""Plays the fault "wrong-layout" on one node: a GPU is partitioned otherwise than was ordered.

On GKE nodes GKE's own partitioner makes the mistake (an environment variable orders it). On EKS
nodes the GPU is partitioned again after mig-manager has reported success.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.kubelet.nodes.node import SimulatedNode
from slicewright.rehearsal.cluster.silicon import state as silicon

_log = logging.getLogger(__name__)
_STATE = "nvidia.com/mig.config.state"
_CONFIG = "nvidia.com/mig.config"
_GKE_PLUGIN = frozenset({"gke.gcr.io/nvidia-gpu-device-plugin"})
_PLUGIN = frozenset({"k8s-device-plugin"})
_MIG_MANAGER = frozenset({"k8s-mig-manager"})

_RETRY_S = 1.0

Restart = Callable[[SimulatedNode, frozenset[str]], Awaitable[None]]
"""Restarts the pods of some images on the node."""


class LayoutFault:
    """Level-triggered: `look` may be called whenever the Node has changed."""

    def __init__(self, node: SimulatedNode, restart: Restart) -> None:
        self._node = node
        self._restart = restart
        self._record = node.directory / "fault.json"
        self._started_with = node.fault
        """GKE: the fault that the running partitioner was started with."""
        self._seen: JsonObject | None = None
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def look(self, node: JsonObject) -> None:
        self._seen = node
        if self._task is None and self._node.machine.gpu_model:
            self._task = asyncio.create_task(self._work(), name=f"fault {self._node.name}")
        self._wake.set()

    def stop(self) -> None:
        if self._task:
            self._task.cancel()

    async def _work(self) -> None:
        await self._node.ready.wait()
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                if self._node.machine.cloud == "gke":
                    await self._gke()
                else:
                    await self._eks()
            except Exception:  # noqa: BLE001 - must not end the kubelet of all nodes
                _log.exception("node %s: the fault could not be simulated", self._node.name)
                await asyncio.sleep(_RETRY_S)
                self._wake.set()

    async def _gke(self) -> None:
        fault = self._node.fault
        if fault != self._started_with:
            self._started_with = fault
            await self._restart(self._node, _GKE_PLUGIN)

    async def _eks(self) -> None:
        assert self._seen is not None
        labels = self._seen["metadata"].get("labels") or {}
        fault = self._node.fault
        applied = json.loads(self._record.read_text()) if self._record.exists() else None
        if fault is None:
            if applied is not None:
                self._record.unlink()
                _log.info(
                    "node %s: fault removed, restarting mig-manager to apply its layout",
                    self._node.name,
                )
                await self._restart(self._node, _MIG_MANAGER)
            return
        if labels.get(_STATE) != "success":
            if applied is not None:
                # A new run of mig-manager overwrites the wrong layout; it is set again afterwards.
                self._record.unlink()
            return
        mark = {"gpu": fault.gpu, "profile": fault.profile, "config": labels.get(_CONFIG)}
        # Without MIG mode (mig-manager has applied all-disabled) no layout can be wrong.
        if applied == mark or not silicon.load(self._node.files.silicon).gpus[fault.gpu].mig:
            return
        silicon.repartition(self._node.files.silicon, fault.gpu, [fault.profile])
        self._record.write_text(json.dumps(mark))
        _log.info(
            "node %s: fault: GPU %d now holds one %s", self._node.name, fault.gpu, fault.profile
        )
        await self._restart(self._node, _PLUGIN)
