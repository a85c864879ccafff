"""One simulated node: its files and GPUs, its device plugins, and the status of its Node object."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kubeapi.client import ApiError, JsonObject, Unreachable, path_of
from rehearsal.cluster.kubelet.api import Api
from rehearsal.cluster.kubelet.deviceplugin.ledger import Ledger
from rehearsal.cluster.kubelet.deviceplugin.plugins import (
    Allocation,
    AllocationFailed,
    DevicePlugins,
)
from rehearsal.cluster.kubelet.nodes.reboots import RebootListener
from rehearsal.cluster.kubelet.nodes.wrong_layout import WrongLayout, wrong_layout_of
from rehearsal.cluster.kubelet.podresources.server import BoundPod, PodResources
from rehearsal.cluster.node import machine as machines
from rehearsal.cluster.node import root
from rehearsal.cluster.node.fake_dbus import SystemBus
from rehearsal.cluster.node.machine import BadMachine, Machine
from rehearsal.cluster.silicon import state as silicon
from rehearsal.host.toolchain import Toolchain

FAKE = "kwok.x-k8s.io/node"
_log = logging.getLogger(__name__)
_UNITS = {"kubelet.service": True, "containerd.service": True, "nvidia-persistenced.service": True}
"""The host's systemd units that mig-manager may ask for."""
_RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0)


def is_simulated(node: JsonObject) -> bool:
    return bool((node["metadata"].get("annotations") or {}).get(FAKE) == "fake")


def machine_of(node: JsonObject) -> Machine:
    """The machine in the node's annotation; one without GPUs if that is missing or invalid."""
    text = (node["metadata"].get("annotations") or {}).get(machines.ANNOTATION)
    if text is not None:
        try:
            return machines.read(text)
        except BadMachine as e:
            _log.error("node %s: %s", node["metadata"]["name"], e)
    provider = str((node.get("spec") or {}).get("providerID", ""))
    return Machine(cloud="gke" if provider.startswith("gce:") else "eks")


def devices_asked(container: JsonObject) -> dict[str, int]:
    """The extended resources that a container requests; their limit is their request."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return {
        k: int(v)
        for k, v in limits.items()
        if "/" in k and "kubernetes.io/" not in k and str(v).isdigit() and int(v) > 0
    }


class SimulatedNode:
    """For the event loop only. `ready` is set while processes may be started on the node."""

    def __init__(
        self,
        node: JsonObject,
        directory: Path,
        toolchain: Toolchain,
        api: Api,
        bus: SystemBus,
        log_port: int,
        reboots: Callable[[SimulatedNode], None],
    ) -> None:
        self.object = node
        self.name: str = node["metadata"]["name"]
        self.uid: str = node["metadata"]["uid"]
        self.directory = directory
        self.files = root.NodeFiles(directory)
        self.machine = machine_of(node)
        self.fault: WrongLayout | None = wrong_layout_of(node)
        self.ready = asyncio.Event()
        self._toolchain = toolchain
        self._api = api
        self._bus = bus
        self._log_port = log_port
        self._reboots = reboots
        self._listener: RebootListener | None = None
        self._boot_id: str | None = None
        """Of the last simulated reboot; None: as the cloud wrote it."""
        self._dirty = asyncio.Event()
        self._ledger = Ledger(checkpoint=directory / "devices.json")
        self._plugins: DevicePlugins | None = None
        self._pods: dict[str, BoundPod] = {}
        """Pods that have not ended, by uid."""
        self._pod_resources: PodResources | None = None
        self._working: asyncio.Task[None] | None = None

    def start(self, after: asyncio.Task[None] | None) -> None:
        """after: the end of a deleted node of this name, whose directory this one uses."""
        self._working = asyncio.create_task(self._work(after), name=f"node {self.name}")

    def update(self, node: JsonObject) -> None:
        self.object = node
        self.fault = wrong_layout_of(node)
        self._dirty.set()

    async def stop(self, *, remove: bool) -> None:
        """remove: the node is deleted, so its files are; otherwise a later kubelet uses them."""
        if self._working:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
        await self._stop_sockets()
        if self._listener:
            self._listener.close()
        self._bus.forget(self.files.system_bus)
        if remove:
            await self._api.run(shutil.rmtree, self.directory, ignore_errors=True)

    def see_pod(self, pod: JsonObject) -> None:
        """Records a pod that is bound to this node."""
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self.forget_pod(pod["metadata"]["uid"])
        else:
            self._pods[pod["metadata"]["uid"]] = BoundPod.of(pod)

    def forget_pod(self, pod_uid: str) -> None:
        self._pods.pop(pod_uid, None)

    async def allocate(self, pod_uid: str, container: str, asked: Mapping[str, int]) -> Allocation:
        """Raises AllocationFailed. Ignores resources that no plugin has registered here."""
        known = {
            r: n
            for r, n in asked.items()
            if r in self._ledger.devices or r.startswith("nvidia.com/")
        }
        if self._plugins is None:
            raise AllocationFailed("Allocate failed: the node has no device manager yet")
        return await self._plugins.allocate(pod_uid, container, known)

    def release(self, pod_uid: str) -> None:
        self._ledger.release(pod_uid)

    def holds(self, pod_uid: str) -> bool:
        """Whether devices are held for the pod."""
        return pod_uid in self._ledger.allocations

    def keep_only(self, pod_uids: set[str]) -> None:
        """Releases the devices of pods that ended while no kubelet was running."""
        for uid in set(self._ledger.allocations) - pod_uids:
            self._ledger.release(uid)

    async def _work(self, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await asyncio.wait({after})
        tries = 0
        while not self.ready.is_set():
            try:
                await self._api.run(self._build)
                self._ledger.load()
                self._bus.listen(self.files.system_bus, _UNITS)
                self._listener = self._listener or RebootListener(
                    self.files.root, lambda: self._reboots(self)
                )
                await self._start_sockets()
                self.ready.set()
            except Exception:  # noqa: BLE001 - logged and retried; the other nodes must go on
                _log.exception("node %s: cannot be built", self.name)
                await asyncio.sleep(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
                tries += 1
        self._dirty.set()
        await self._report()

    async def reboot(self, ended: Awaitable[object]) -> None:
        """ended: awaits the end of the node's processes. None starts until this returns."""
        self.ready.clear()
        try:
            await ended
            await self._stop_sockets()
            self._ledger.devices = {resource: {} for resource in self._ledger.devices}
            if self.machine.gpu_model:
                await self._api.run(silicon.reboot, self.files.silicon)
            await self._start_sockets()
            self._boot_id = str(uuid.uuid4())
        finally:
            self.ready.set()
            self._dirty.set()

    async def _start_sockets(self) -> None:
        plugins = DevicePlugins(self.files.device_plugins, self._ledger, self._dirty.set)
        await plugins.start()
        self._plugins = plugins
        self._pod_resources = PodResources(self.files.pod_resources, self._pods, self._ledger)
        await self._pod_resources.start()

    async def _stop_sockets(self) -> None:
        if self._plugins:
            await self._plugins.stop()
        if self._pod_resources:
            await self._pod_resources.stop()

    def _build(self) -> None:
        """Keeps the directory and GPUs of an earlier kubelet process if they are this node's."""
        self.directory.mkdir(parents=True, exist_ok=True)
        identity = {"uid": self.uid, "machine": json.loads(json.dumps(asdict(self.machine)))}
        record = self.directory / "node.json"
        try:
            same = json.loads(record.read_text()) == identity
        except (OSError, ValueError):
            same = False
        if not same:
            shutil.rmtree(self.directory)
            self.directory.mkdir(parents=True)
        root.build(self.directory, self.machine, self._toolchain)
        temporary = record.with_suffix(".new")
        temporary.write_text(json.dumps(identity))
        temporary.replace(record)

    async def _report(self) -> None:
        """Writes the Node's status whenever it differs from the actual one."""
        path = path_of("v1", "nodes", self.name)
        tries = 0
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            wanted = self._wanted_status()
            if not wanted:
                continue
            try:
                answer = await self._api.patch_status(
                    path, {"metadata": {"uid": self.uid}, "status": wanted}
                )
                self.object = {**self.object, "status": answer["status"]}
                tries = 0
            except ApiError as e:
                if e.status == 404 or e.status == 409:
                    return  # deleted; the watch will report it
                _log.warning("node %s: status refused: %s", self.name, e)
                await self._again(tries)
                tries += 1
            except Unreachable as e:
                _log.info("node %s: status not written: %s", self.name, e)
                await self._again(tries)
                tries += 1

    async def _again(self, tries: int) -> None:
        await asyncio.sleep(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
        self._dirty.set()

    def _wanted_status(self) -> JsonObject:
        """What differs from the Node object as last seen."""
        status = self.object.get("status") or {}
        wanted: JsonObject = {}
        addresses = [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": self.name},
        ]
        if sorted(status.get("addresses") or (), key=_kind) != addresses[::-1]:
            wanted["addresses"] = [
                *addresses,
                *({"$patch": "delete", "type": t} for t in _other_kinds(status)),
            ]
        if (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") != {"Port": self._log_port}:
            wanted["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self._log_port}}
        if self._boot_id and (status.get("nodeInfo") or {}).get("bootID") != self._boot_id:
            wanted["nodeInfo"] = {"bootID": self._boot_id}
        for key, counts in (
            ("capacity", self._ledger.capacity()),
            ("allocatable", self._ledger.allocatable()),
        ):
            now = status.get(key) or {}
            # A resource that no plugin registers any more is 0, as after a kubelet's restart.
            stale = {r: 0 for r in now if r.startswith("nvidia.com/")}
            differing = {
                r: str(n) for r, n in {**stale, **counts}.items() if str(now.get(r)) != str(n)
            }
            if differing:
                wanted[key] = differing
        return wanted


def _kind(address: Any) -> str:
    return str(address["type"])


def _other_kinds(status: JsonObject) -> list[str]:
    return [
        a["type"]
        for a in status.get("addresses") or ()
        if a["type"] not in ("InternalIP", "Hostname")
    ]
