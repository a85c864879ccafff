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

from slicewright.apis.names import POOL_LABEL
from slicewright.kubeapi.client import ApiError, JsonObject, Unreachable, path_of
from slicewright.rehearsal.cluster.kubelet.api import Api
from slicewright.rehearsal.cluster.kubelet.deviceplugin.ledger import Ledger
from slicewright.rehearsal.cluster.kubelet.deviceplugin.plugins import (
    Allocation,
    AllocationFailed,
    DevicePlugins,
)
from slicewright.rehearsal.cluster.kubelet.deviceplugin.simulated_plugin import DeviceList
from slicewright.rehearsal.cluster.kubelet.images.registries import Puller, Registries
from slicewright.rehearsal.cluster.kubelet.images.store import ImageStore
from slicewright.rehearsal.cluster.kubelet.nodes import (
    driver_module,
    driver_requests,
    host_services,
    wrong_device,
)
from slicewright.rehearsal.cluster.kubelet.nodes.boot import Boot
from slicewright.rehearsal.cluster.kubelet.nodes.device_requests import (
    differing,
    is_nvidias_device,
)
from slicewright.rehearsal.cluster.kubelet.nodes.holds import hold_partitioning, holds_of
from slicewright.rehearsal.cluster.kubelet.nodes.kubelet_service import KubeletService
from slicewright.rehearsal.cluster.kubelet.nodes.reboots import RebootListener
from slicewright.rehearsal.cluster.kubelet.nodes.request_pipe import RequestPipe
from slicewright.rehearsal.cluster.kubelet.nodes.wrong_layout import WrongLayout, wrong_layout_of
from slicewright.rehearsal.cluster.kubelet.podresources.server import BoundPod, PodResources
from slicewright.rehearsal.cluster.node import bottlerocket, root
from slicewright.rehearsal.cluster.node import machine as machines
from slicewright.rehearsal.cluster.node.fake_dbus import SystemBus
from slicewright.rehearsal.cluster.node.machine import BadMachine, Machine
from slicewright.rehearsal.cluster.silicon import device_rules
from slicewright.rehearsal.cluster.silicon import state as silicon
from slicewright.rehearsal.host.toolchain import Toolchain

FAKE = "kwok.x-k8s.io/node"
SHARED_ADDRESS = "rehearsal.slicewright.io/shared-address"
"""The annotation of a node behind a NAT gateway: by which of them registries count its pulls."""
_POOL_LABELS = (
    POOL_LABEL,
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
)
"""Slicewright's name of a node's pool, and the clouds'."""
DOWN = "rehearsal.slicewright.io/down"
"""The annotation of a node that is down: kwok does not make it Ready (control_plane/stages)."""
UNHEARD_S = 2.0
"""How long a node is silent before it is NotReady.

A real one: 50 s (--node-monitor-grace-period of kube-controller-manager), but its reboot takes
minutes.
"""
_log = logging.getLogger(__name__)
_UNITS = {"kubelet.service": True, "containerd.service": True, "nvidia-persistenced.service": True}
"""The host's systemd units that mig-manager may ask for."""
_UNHEARD = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
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
    match provider.partition(":")[0]:
        case "gce":
            return Machine(cloud="gke")
        case "aws":
            return Machine(cloud="eks")
        case _:
            return Machine(cloud="byo")


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
        reboots: Callable[[SimulatedNode, float], None],
        registries: Registries,
    ) -> None:
        self.object = node
        self.images = ImageStore(registries)
        self.name: str = node["metadata"]["name"]
        self.uid: str = node["metadata"]["uid"]
        self.directory = directory
        self.files = root.NodeFiles(directory)
        self.machine = machine_of(node)
        self._own_gpus = (
            bottlerocket.settings_of(self.machine.bottlerocket)
            if self.machine.gpu_model and self.machine.bottlerocket is not None
            else None
        )
        """What the operating system itself makes of the GPUs; None: nothing."""
        self._boot = Boot(self.files, toolchain, self.machine.user_data)
        self._booting = False
        self.fault: WrongLayout | None = wrong_layout_of(node)
        self.held = holds_of(node)
        self.stopping_services = False
        self._services = host_services.host_services_of(node)
        self.kubelet_service = KubeletService(
            silence=self._fall_silent, resume=self._resume, mark_down=self._mark_down
        )
        self.ready = asyncio.Event()
        self._posting = asyncio.Event()
        """Set while the kubelet writes the Node's status."""
        self._posted = asyncio.Event()
        """Set when the API server has a status of this boot."""
        self._toolchain = toolchain
        self._api = api
        self.kubelet = api.of_kubelet(self.name)
        """The API with the rights of this node's kubelet."""
        self._bus = bus
        self._log_port = log_port
        self._reboots = reboots
        self._listener: RebootListener | None = None
        self._installers: RequestPipe | None = None
        self._driver_containers: RequestPipe | None = None
        self._installed = False
        """Whether Google's installer has run since the node booted."""
        self._boot_id: str | None = None
        """Of the last simulated reboot; None: as the cloud wrote it."""
        self._driver_due = asyncio.get_running_loop().time() + self.machine.driver_after_s
        self._held_changed = asyncio.Event()
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
        if self.held != (held := holds_of(node)):
            self.held = held
            self._held_changed.set()
        self._dirty.set()

    async def stop(self, *, remove: bool) -> None:
        """remove: the node is deleted, so its files are; otherwise a later kubelet uses them."""
        if self._working:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
        self.kubelet_service.close()
        await self._stop_sockets()
        for pipe in (self._listener, self._installers, self._driver_containers):
            if pipe:
                pipe.close()
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

    async def allocate(
        self, pod_uid: str, container: str, asked: Mapping[str, int], *, running: bool = False
    ) -> Allocation:
        """As DevicePlugins.allocate, but ignores resources that no plugin has registered here."""
        known = {
            r: n for r, n in asked.items() if r in self._ledger.devices or is_nvidias_device(r)
        }
        if self._plugins is None:
            raise AllocationFailed("Allocate failed: the node has no device manager yet")
        allocation = await self._plugins.allocate(pod_uid, container, known, running=running)
        if known and wrong_device.is_ordered(self.object):
            found = await self._api.run(silicon.load, self.files.silicon)
            return wrong_device.mistake(allocation, found)
        return allocation

    @property
    def puller(self) -> Puller:
        """Who it is to a registry."""
        shared = (self.object["metadata"].get("annotations") or {}).get(SHARED_ADDRESS, "")
        labels = self.object["metadata"].get("labels") or {}
        info = (self.object.get("status") or {}).get("nodeInfo") or {}
        return Puller(
            architecture=info.get("architecture", "amd64"),
            address=shared or self.name,
            shared=bool(shared),
            asks_googles_cache=self.machine.cloud == "gke",
            pools=tuple(labels[key] for key in _POOL_LABELS if key in labels),
        )

    @property
    def up(self) -> bool:
        """Whether it runs, though perhaps without pods as yet."""
        return self._posting.is_set()

    @property
    def boot_id(self) -> str:
        """Of the last simulated reboot; empty before."""
        return self._boot_id or ""

    def offer(self, devices: Mapping[str, tuple[str, ...]], listed: DeviceList) -> None:
        """The devices of plugins without a process."""
        if self._plugins is not None:
            self._plugins.offer(devices, listed)

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
                self._listener = self._listener or RebootListener(
                    self.files.root, self._reboot_requested
                )
                if not await self._run_user_data():
                    return
                await self._start_services()
                self._installers = self._installers or driver_requests.listen(
                    self.files.root, self._driver_requested
                )
                self._listen_to_driver_containers()
                await self._start_sockets()
                if DOWN in (self.object["metadata"].get("annotations") or {}):
                    await self._mark_down(False)  # an earlier kubelet process ended meanwhile
                self.ready.set()
            except Exception:  # noqa: BLE001 - logged and retried; the other nodes must go on
                _log.exception("node %s: cannot be built", self.name)
                await asyncio.sleep(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
                tries += 1
        self._posting.set()
        self._dirty.set()
        await asyncio.gather(self._report(), self._keep_software())

    def _reboot_requested(self, down_s: float) -> None:
        if self._booting:
            self._boot.request_reboot()
        else:
            self._reboots(self, down_s)

    async def _run_user_data(self) -> bool:
        """True if the node may join then. Reboots it as often as its programs ask for that."""
        self._booting = True
        software = asyncio.create_task(self._keep_software())
        try:
            while self._boot.needed:
                if (joins := await asyncio.to_thread(self._boot.run)) is not None:
                    return joins
                await self._api.run(silicon.reboot, self.files.silicon)
                self._boot.forget()
            return True
        finally:
            software.cancel()
            self._booting = False

    async def stop_services(self) -> None:
        """The host's, before a reboot: its pods still run, until it is done with that."""
        self.stopping_services = True
        try:
            while self.held.reboot:
                await asyncio.sleep(_RETRY_S[0])
        finally:
            self.stopping_services = False

    async def reboot(self, ended: Awaitable[object], down_s: float) -> None:
        """ended: awaits the end of the node's processes. None starts until this returns.

        down_s: how long the node stays down. While it is, its Node keeps the status that it had,
        and is NotReady after `UNHEARD_S`. The first status of the new boot has the new boot id, and
        no device of any plugin; only then are pods started, as by the real kubelet.
        """
        self.ready.clear()
        self._posting.clear()
        marked_down = await self.kubelet_service.boot()
        await ended
        await self._stop_sockets()
        self._bus.forget(self.files.system_bus)
        if self.machine.gpu_model:
            await self._api.run(silicon.reboot, self.files.silicon)
            await self._api.run(self._partition_at_boot)
        if self.machine.user_data:
            self._boot.forget()
        self._installed = False
        await self._api.run(
            root.reboot,
            self.files,
            forgets_driver=not self.machine.driver_in_image,
            forgets_settings=self.machine.driver_by_installer,
        )
        self._listen_to_driver_containers()
        await asyncio.sleep(min(down_s, UNHEARD_S))
        if down_s > UNHEARD_S:
            await self._mark_down(True)
            await asyncio.sleep(down_s - UNHEARD_S)
        self._ledger.restart()
        if not await self._run_user_data():
            await self._mark_down(True)
            return
        await self._start_services()
        await self._start_sockets()
        self._boot_id = str(uuid.uuid4())
        self._posted.clear()
        self._posting.set()
        self._dirty.set()
        await self._posted.wait()
        if down_s > UNHEARD_S or marked_down:
            await self._mark_down(False)
        self.ready.set()

    async def _start_services(self) -> None:
        """The host's, with those that are faults."""
        holder, loop = self._services.holder, asyncio.get_running_loop()

        def changed(unit: str, active: bool) -> None:
            if unit == holder:
                host_services.use_gpus(self.files.silicon, holder, running=active)
            if unit == host_services.KUBELET:
                asyncio.run_coroutine_threadsafe(self._change_kubelet(active=active), loop)

        units = {**_UNITS, holder: True} if holder else _UNITS
        self._bus.listen(self.files.system_bus, units, changed, self._reload_daemon)
        if holder:
            await self._api.run(host_services.use_gpus, self.files.silicon, holder, running=True)

    def _reload_daemon(self) -> None:
        if self.machine.gpu_model:
            device_rules.reload_daemon(self.files.silicon)

    async def _change_kubelet(self, *, active: bool) -> None:
        if not active:
            await self.kubelet_service.stop()
        elif not self._services.kubelet_stays_down:
            await self.kubelet_service.start()

    async def _fall_silent(self) -> None:
        self.ready.clear()
        self._posting.clear()
        await self._stop_sockets()

    async def _resume(self) -> None:
        """As a kubelet that starts: it knows its pods, and no device before a plugin registers."""
        self._ledger.restart()
        await self._start_sockets()
        self._posting.set()
        self._dirty.set()
        self.ready.set()

    async def _mark_down(self, down: bool) -> None:
        """Does what the node lifecycle controller does for a silent kubelet, whose lease kwok
        renews here: it sets Ready to Unknown, with that controller's rights. When the mark is
        removed, kwok sets it to True.
        """
        path = path_of("v1", "nodes", self.name)
        mark = {"metadata": {"annotations": {DOWN: "true" if down else None}}}
        tries = 0
        while True:
            try:
                await self._api.run(self._api.client.patch, path, mark, kind="merge")
                if down:
                    ready = {"type": "Ready", "status": "Unknown", **_UNHEARD}
                    controller = self._api.of_controller("node-controller")
                    await controller.patch_status(path, {"status": {"conditions": [ready]}})
                return
            except (ApiError, Unreachable) as e:
                if isinstance(e, ApiError) and e.status == 404:
                    return  # deleted; the watch will report it
                _log.info("node %s: not marked: %s", self.name, e)
                await asyncio.sleep(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
                tries += 1

    async def _start_sockets(self) -> None:
        plugins = DevicePlugins(self.files.device_plugins, self._ledger, self._dirty.set)
        await plugins.start()
        self._plugins = plugins
        if self._own_gpus is not None:
            found = await self._api.run(silicon.load, self.files.silicon)
            plugins.offer(bottlerocket.offered(found, self._own_gpus), "volume-mounts")
        self._pod_resources = PodResources(self.files.pod_resources, self._pods, self._ledger)
        await self._pod_resources.start()

    async def _stop_sockets(self) -> None:
        plugins, self._plugins = self._plugins, None
        pod_resources, self._pod_resources = self._pod_resources, None
        if plugins:
            await plugins.stop()
        if pod_resources:
            await pod_resources.stop()

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
        root.build(self.directory, self.machine, self._toolchain, with_software=False)
        info = (self.object.get("status") or {}).get("nodeInfo") or {}
        if info.get("osImage"):
            root.name_system(self.files, info["osImage"])
        machine = self.machine
        self._bring_software(driver=machine.driver_after_s == 0 and not machine.driver_by_installer)
        if not same:
            self._partition_at_boot()
        temporary = record.with_suffix(".new")
        temporary.write_text(json.dumps(identity))
        temporary.replace(record)

    def _partition_at_boot(self) -> None:
        """What the operating system itself makes of the GPUs."""
        if (settings := self._own_gpus) is not None:
            silicon.change(self.files.silicon, lambda found: bottlerocket.booted(found, settings))

    async def _keep_software(self) -> None:
        """Brings what was late, or held, when it is time."""
        loop = asyncio.get_running_loop()
        while self.machine.gpu_model:
            self._held_changed.clear()
            left_s = self._driver_due - loop.time()
            due = self._installed if self.machine.driver_by_installer else left_s <= 0
            try:
                await self._api.run(self._bring_software, driver=due)
            except (OSError, ValueError):
                _log.exception("node %s: driver or toolkit not brought", self.name)
                left_s = _RETRY_S[-1]
            try:
                async with asyncio.timeout(left_s if left_s > 0 else None):
                    await self._held_changed.wait()
            except TimeoutError:
                pass

    def _driver_requested(self) -> None:
        self._installed = True
        self._held_changed.set()

    def _listen_to_driver_containers(self) -> None:
        """Again after a reboot, which empties /run."""
        if self._driver_containers:
            self._driver_containers.close()
        if self.machine.gpu_model:
            self._driver_containers = driver_module.listen(
                self.files.root, self._load_driver, self._unload_driver
            )

    def _load_driver(self, version: str) -> None:
        if self.held.driver:
            raise driver_module.Refused("the driver is held back by a fault")
        root.load_driver(self.files, self._toolchain, version)
        _log.info("node %s: driver %s is loaded", self.name, version)

    def _unload_driver(self) -> None:
        """As rmmod: not while a process has a GPU open, which here every pod with one has."""
        if users := sorted(self._ledger.allocations):
            named = [pod.name for uid, pod in self._pods.items() if uid in users]
            raise driver_module.Refused(
                "could not unload NVIDIA driver kernel modules, driver is in use by "
                f"{', '.join(sorted(named)) or 'pods that have just ended'}"
            )
        root.unload_driver(self.files)
        _log.info("node %s: the driver is unloaded", self.name)

    def _bring_software(self, *, driver: bool) -> None:
        """What the annotation does not hold. driver: whether it is time for it."""
        if not self.machine.gpu_model:
            return
        files, held = self.files, self.held
        if driver and self.machine.driver_version and not held.driver and not files.driver_loaded:
            root.install_driver(files, self._toolchain, cloud=self.machine.cloud)
            _log.info("node %s: the driver is installed", self.name)
        if self.machine.toolkit_in_image:
            root.configure_containerd(files, for_nvidia=not held.toolkit)
        hold_partitioning(files.silicon, held.partitioning_from)

    async def _report(self) -> None:
        """Writes the Node's status whenever it differs from the actual one."""
        path = path_of("v1", "nodes", self.name)
        tries = 0
        while True:
            await self._dirty.wait()
            await self._posting.wait()
            self._dirty.clear()
            wanted = self._wanted_status()
            if not wanted:
                continue
            try:
                answer = await self.kubelet.patch_status(
                    path, {"metadata": {"uid": self.uid}, "status": wanted}
                )
                self.object = {**self.object, "status": answer["status"]}
                tries = 0
                if (answer["status"].get("nodeInfo") or {}).get("bootID") == self._boot_id:
                    self._posted.set()
            except ApiError as e:
                if e.status == 404:
                    return  # deleted; the watch will report it
                # A conflict, too, is tried again: there are other writers. Where another node has
                # its name now, the watch reports that.
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
            # The API server then passes WebSockets of `kubectl exec` on; to other kubelets it
            # speaks SPDY. Source: Kubernetes 1.36, pkg/registry/core/pod/rest/subresources.go.
            wanted["declaredFeatures"] = ["ExtendWebSocketsToKubelet"]
        if self._boot_id and (status.get("nodeInfo") or {}).get("bootID") != self._boot_id:
            wanted["nodeInfo"] = {"bootID": self._boot_id}
        for key, counts in (
            ("capacity", self._ledger.capacity()),
            ("allocatable", self._ledger.allocatable()),
        ):
            now = status.get(key) or {}
            # A resource that no plugin registers any more is 0, as after a kubelet's restart.
            stale = {r: 0 for r in now if r.startswith("nvidia.com/")}
            if changes := differing(now, {**stale, **counts}):
                wanted[key] = changes
        return wanted


def _kind(address: Any) -> str:
    return str(address["type"])


def _other_kinds(status: JsonObject) -> list[str]:
    return [
        a["type"]
        for a in status.get("addresses") or ()
        if a["type"] not in ("InternalIP", "Hostname")
    ]
