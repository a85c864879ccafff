"""NVIDIA's operands of one node without processes; kwok keeps the status of their pods.

Their settings are read from their pods: layouts, sharing and MIG strategy. Each writes with the
rights of its pod's service account.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from slicewright.kubeapi.client import ApiError, JsonObject, Unreachable, path_of
from slicewright.rehearsal.cluster.kubelet.api import Api
from slicewright.rehearsal.cluster.kubelet.deviceplugin.simulated_plugin import device_list
from slicewright.rehearsal.cluster.kubelet.nodes import reboots
from slicewright.rehearsal.cluster.kubelet.nodes.node import SimulatedNode
from slicewright.rehearsal.cluster.kubelet.pods.sources import ApiSources
from slicewright.rehearsal.cluster.node.operands import clients, mig_parted, node_features, sharing
from slicewright.rehearsal.cluster.node.operands.clients import FEATURE_DISCOVERY, PLUGIN, Clients
from slicewright.rehearsal.cluster.node.operands.mig_manager import (
    ClientsGone,
    Label,
    MigManager,
    Node,
    Partition,
    Reboot,
    Step,
    writes_failed,
)
from slicewright.rehearsal.cluster.node.operands.sharing import NotSimulated
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.node_silicon import NodeSilicon

_MIG_MANAGER: Final = "mig-manager"
_NODE_FEATURES: Final = "nfd-worker"
_NAMES: Final[Mapping[str, str]] = {
    "nvidia-mig-manager": _MIG_MANAGER,
    "nvidia-device-plugin-daemonset": PLUGIN,
    "gpu-feature-discovery": FEATURE_DISCOVERY,
}
"""Label `app` of a DaemonSet's pods -> the operand; NFD's worker has others."""
_CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
_OF_GPUS: Final = "nvidia-features-for-"
"""Beginning of the names of the objects that GPU feature discovery writes."""
_CLIENTS_GONE_S: Final = 300.0
"""The longest time that mig-manager waits for pods to end."""
_AGAIN_S: Final = 0.2
_RETRY_S: Final = 1.0
_log = logging.getLogger(__name__)


class SimulatedOperands:
    """For the event loop only. Level-triggered: the methods may be called at any change."""

    def __init__(self, node: SimulatedNode, api: Api, sources: ApiSources) -> None:
        self._node = node
        self._api = api
        self._sources = sources
        self._pods: dict[str, JsonObject] = {}
        """Of the operands that are not being deleted, by uid."""
        self._starts: dict[str, int] = {}
        """How often a fault has restarted an operand."""
        self._clients = Clients()
        self._offered: tuple[str | None, Mapping[str, tuple[str, ...]]] = (None, {})
        """The device plugin's process and its devices, as the node has them."""
        self._published: Mapping[str, str] = {}
        """Labels, as the NodeFeature object has them."""
        self._manager: tuple[str, MigManager] | None = None
        """With the identity of its process."""
        self._discovered: str | None = None
        """The pod of NFD's worker that has written its NodeFeature object."""
        self._changed = (asyncio.Event(), asyncio.Event(), asyncio.Event())
        works = (self._run_clients, self._run_manager, self._run_discovery)
        self._tasks = tuple(
            asyncio.create_task(
                self._repeat(work, changed, by_driver=work != self._run_discovery),
                name=f"operands of {node.name}",
            )
            for work, changed in zip(works, self._changed, strict=True)
        )

    def look(self) -> None:
        for changed in self._changed:
            changed.set()

    def see_pod(self, pod: JsonObject) -> None:
        if _operand(pod) is None:
            return
        if "deletionTimestamp" in pod["metadata"]:
            self._pods.pop(pod["metadata"]["uid"], None)
        else:
            self._pods[pod["metadata"]["uid"]] = pod
        self.look()

    def forget_pod(self, uid: str) -> None:
        if self._pods.pop(uid, None) is not None:
            self.look()

    def restart(self, programs: frozenset[str]) -> None:
        """Restarts the operands whose image contains one of `programs`."""
        for pod in self._pods.values():
            if any(program in pod["spec"]["containers"][0]["image"] for program in programs):
                name = str(_operand(pod))
                self._starts[name] = self._starts.get(name, 0) + 1
        self.look()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _repeat(
        self, work: Callable[[], Awaitable[None]], changed: asyncio.Event, *, by_driver: bool
    ) -> None:
        while True:
            await changed.wait()
            await self._node.ready.wait()
            changed.clear()
            if by_driver and not self._node.files.driver_loaded:
                await self._again(changed)
                continue
            try:
                await work()
            except (ApiError, Unreachable, ValueError, NotSimulated) as e:
                _log.warning("node %s: %s; again in %s s", self._node.name, e, _RETRY_S)
                await self._again(changed)
            except Exception:  # noqa: BLE001 - must not end the kubelet of all nodes
                _log.exception("node %s: its operands are not simulated", self._node.name)

    async def _again(self, changed: asyncio.Event) -> None:
        await asyncio.sleep(_RETRY_S)
        changed.set()

    def _process(self, name: str) -> tuple[str, JsonObject] | None:
        """Identity and pod of an operand; a restart, a boot and another config change the first."""
        for uid, pod in self._pods.items():
            if _operand(pod) == name:
                parts = (uid, self._node.boot_id, self._starts.get(name, 0), self._config_key(pod))
                return "/".join(map(str, parts)), pod
        return None

    # -- device plugin and feature discovery
    # ----------------------------------------------------------------------------------------------

    async def _run_clients(self) -> None:
        found = {
            name: process
            for name in (PLUGIN, FEATURE_DISCOVERY)
            if (process := self._process(name)) is not None
        }
        silicon = await self._api.run(state.load, self._node.files.silicon)
        for name, (identity, pod) in found.items():
            running = {**self._clients.processes, name: identity}
            settings = await self._api.run(self._settings, pod)
            self._clients = clients.after(self._clients, running, silicon, settings)
        gone = {k: v for k, v in self._clients.processes.items() if k in found}
        if gone != self._clients.processes:
            nothing = clients.Settings(strategy="none", sharing={}, machine="")
            self._clients = clients.after(self._clients, gone, silicon, nothing)
        plugin = found.get(PLUGIN)
        offers = (self._clients.processes.get(PLUGIN), self._clients.devices)
        if self._offered != offers:
            strategy = _env(plugin[1], "DEVICE_LIST_STRATEGY") if plugin else ""
            self._node.offer(self._clients.devices, device_list(strategy))
            self._offered = offers
        features = self._clients.features
        if FEATURE_DISCOVERY in found and self._published != features:
            await self._api.run(self._publish, found[FEATURE_DISCOVERY][1], features)
            self._published = features
        if plugin and PLUGIN not in self._clients.processes:
            # It has ended because of the partitions, and is started again.
            await self._again(self._changed[0])

    def _settings(self, pod: JsonObject) -> clients.Settings:
        return clients.Settings(
            strategy=_env(pod, "MIG_STRATEGY") or "none",
            sharing=sharing.parse(self._config(pod)),
            machine=(self._node.files.root / "sys/class/dmi/id/product_name").read_text().strip(),
        )

    def _config_key(self, pod: JsonObject) -> str:
        """Which config config-manager links for this node; empty for none."""
        if _volume(pod, "/available-configs") is None:
            return ""
        label = (self._node.object["metadata"].get("labels") or {}).get(_CONFIG_LABEL)
        return str(label or _env(pod, "DEFAULT_CONFIG"))

    def _config(self, pod: JsonObject) -> str:
        name, key = _volume(pod, "/available-configs"), self._config_key(pod)
        return "" if name is None or not key else self._file(pod, name, key)

    def _file(self, pod: JsonObject, config_map: str, key: str) -> str:
        found = self._sources.find("configmaps", pod["metadata"]["namespace"], config_map)
        text = ((found or {}).get("data") or {}).get(key)
        if text is None:
            raise ValueError(f"ConfigMap {config_map} has no {key}")
        return str(text)

    def _publish(self, pod: JsonObject, features: Mapping[str, str]) -> None:
        self._write(
            pod, node_features.node_feature(self._node.name, pod, features, prefix=_OF_GPUS)
        )

    def _write(self, pod: JsonObject, feature: JsonObject) -> None:
        """NFD's master makes labels of the node from the NodeFeature object."""
        node_features.publish(self._api.of_pod(pod).client, feature)

    # -- NFD's worker
    # ----------------------------------------------------------------------------------------------

    async def _run_discovery(self) -> None:
        process = self._process(_NODE_FEATURES)
        if process is None or process[0] == self._discovered:
            return
        identity, pod = process
        info = (self._node.object.get("status") or {}).get("nodeInfo") or {}
        found = await self._api.run(self._features_of_node, str(info.get("kernelVersion", "")))
        feature = node_features.node_feature(self._node.name, pod, found)
        await self._api.run(self._write, pod, feature)
        self._discovered = identity

    def _features_of_node(self, kernel: str) -> Mapping[str, str]:
        files = self._node.files.root
        devices = node_features.pci_devices(files / "sys")
        return node_features.labels(devices, (files / "etc/os-release").read_text(), kernel)

    # -- mig-manager
    # ----------------------------------------------------------------------------------------------

    async def _run_manager(self) -> None:
        process = self._process(_MIG_MANAGER)
        if process is None:
            self._manager = None
            return
        identity, pod = process
        if self._manager is None or self._manager[0] != identity:
            with_reboot = _env(pod, "WITH_REBOOT").lower() in ("1", "t", "true")
            fails = writes_failed(str(pod["spec"]["containers"][0]["image"]))
            manager = MigManager(with_reboot=with_reboot, writes_failed=fails)
            self._manager = (identity, manager)
        manager = self._manager[1]
        if not manager.reacts(self._node.object["metadata"].get("labels") or {}):
            return
        try:
            await self._reconfigure(manager, identity, pod, self._api.of_pod(pod))
        except (ApiError, Unreachable):
            self._manager = (
                None  # as if it were started again: else it would wait for another label
            )
            raise

    async def _reconfigure(
        self, manager: MigManager, identity: str, pod: JsonObject, account: Api
    ) -> None:
        """account: of the pod."""
        # The watch may be behind what the last run has written.
        path = path_of("v1", "nodes", self._node.name)
        seen = await account.run(account.client.get, path)
        labels: Mapping[str, str] = seen["metadata"].get("labels") or {}
        while manager.reacts(labels):
            config_map = _volume(pod, "/mig-parted-config")
            text = await self._api.run(self._file, pod, str(config_map), "config.yaml")
            layouts = mig_parted.parse(text)
            silicon = await self._api.run(state.load, self._node.files.silicon)
            steps = manager.reconfigure(Node(labels=labels, silicon=silicon), layouts)
            step: Step | None = next(steps)
            node = Node(labels=labels, silicon=silicon)
            while step is not None:
                done = await self._carry_out(step, node, identity, account)
                # A process that was ended, with its pod or by a reboot, does nothing more.
                if done is None or not self._manages(identity):
                    return
                node = done
                try:
                    step = steps.send(node)
                except StopIteration:
                    step = None
            labels = node.labels

    def _manages(self, identity: str) -> bool:
        """Whether mig-manager's process is still this one, and its node up."""
        now = self._process(_MIG_MANAGER)
        return self._node.ready.is_set() and now is not None and now[0] == identity

    async def _carry_out(self, step: Step, node: Node, identity: str, account: Api) -> Node | None:
        """The node as it is afterwards; None where the run ends there."""
        match step:
            case Label():
                path = path_of("v1", "nodes", self._node.name)
                patch = {"metadata": {"labels": dict(step.labels)}}
                answer = await account.run(account.client.patch, path, patch)
                return Node(labels=answer["metadata"]["labels"], silicon=node.silicon)
            case ClientsGone():
                return replace(node, clients_gone=await self._clients_gone())
            case Partition():
                # Which GPU it is held from makes no difference here: none is changed before.
                while not step.mode_only and self._node.held.partitioning_from is not None:
                    await asyncio.sleep(_AGAIN_S)
                    if not self._manages(identity):
                        return None
                return await self._api.run(self._partition, step, node)
            case Reboot():
                reboots.request(self._node.files.root)
                return None

    async def _clients_gone(self) -> bool:
        deadline = asyncio.get_running_loop().time() + _CLIENTS_GONE_S
        while self._process(PLUGIN) or self._process(FEATURE_DISCOVERY) or self._clients.devices:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(_AGAIN_S)
        return True

    def _partition(self, step: Partition, node: Node) -> Node:
        applied = True

        def change(now: NodeSilicon) -> NodeSilicon:
            nonlocal applied
            left, applied = step.of(now)
            return left

        silicon = state.change(self._node.files.silicon, change)
        return Node(labels=node.labels, silicon=silicon, applied=applied)


def _operand(pod: JsonObject) -> str | None:
    labels = pod["metadata"].get("labels") or {}
    if labels.get("app.kubernetes.io/name") == "node-feature-discovery":
        return _NODE_FEATURES if labels.get("role") == "worker" else None
    return _NAMES.get(labels.get("app", ""))


def _env(pod: JsonObject, name: str) -> str:
    """A variable of any of the pod's containers; empty where there is none."""
    spec = pod.get("spec") or {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for one in container.get("env") or ():
            if one["name"] == name:
                return str(one.get("value", ""))
    return ""


def _volume(pod: JsonObject, mounted_at: str) -> str | None:
    """The ConfigMap that a container of the pod mounts there."""
    spec = pod["spec"]
    config_maps = {
        v["name"]: str(v["configMap"]["name"])
        for v in spec.get("volumes") or ()
        if "configMap" in v
    }
    for container in spec["containers"]:
        for mount in container.get("volumeMounts") or ():
            if mount["mountPath"] == mounted_at:
                return config_maps.get(mount["name"])
    return None
