"""All simulated nodes of one cluster: passes the API server's events to nodes and pods."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slicewright.kubeapi.client import ApiError, Client, JsonObject, Unreachable, path_of
from slicewright.kubeapi.watch import Event, list_and_watch
from slicewright.rehearsal.cluster.control_plane.files import kubeconfig
from slicewright.rehearsal.cluster.control_plane.process_images import Operands, runs_as_process
from slicewright.rehearsal.cluster.kubelet.api import Api
from slicewright.rehearsal.cluster.kubelet.containers import stand_ins
from slicewright.rehearsal.cluster.kubelet.containers.backoff import LONGEST_S, PullPauses
from slicewright.rehearsal.cluster.kubelet.deviceplugin.plugins import AllocationFailed
from slicewright.rehearsal.cluster.kubelet.images.registries import FAULTS, Registries
from slicewright.rehearsal.cluster.kubelet.logs.server import LogServer, PodLogs
from slicewright.rehearsal.cluster.kubelet.nodes.device_requests import devices_asked
from slicewright.rehearsal.cluster.kubelet.nodes.joining import Joining
from slicewright.rehearsal.cluster.kubelet.nodes.layout_fault import LayoutFault
from slicewright.rehearsal.cluster.kubelet.nodes.node import SimulatedNode, is_simulated
from slicewright.rehearsal.cluster.kubelet.nodes.reboots import write_shims
from slicewright.rehearsal.cluster.kubelet.pods.addresses import AddressBlock
from slicewright.rehearsal.cluster.kubelet.pods.large_fleets import Starts, is_forked, of_daemon_set
from slicewright.rehearsal.cluster.kubelet.pods.launching import Launching
from slicewright.rehearsal.cluster.kubelet.pods.pod import PodRun
from slicewright.rehearsal.cluster.kubelet.pods.provisioner import Provisioner
from slicewright.rehearsal.cluster.kubelet.pods.simulated_operands import SimulatedOperands
from slicewright.rehearsal.cluster.kubelet.pods.sources import ApiSources
from slicewright.rehearsal.cluster.kubelet.pods.status import status_after_reboot
from slicewright.rehearsal.cluster.kubelet.services.network import ServiceNetwork
from slicewright.rehearsal.cluster.kubelet.timestamps import timestamp
from slicewright.rehearsal.cluster.node import container_runtime
from slicewright.rehearsal.cluster.node.fake_dbus import SystemBus
from slicewright.rehearsal.host.processes import marks
from slicewright.rehearsal.host.toolchain import Toolchain

_log = logging.getLogger(__name__)
_RETRY_S = 1.0
"""Between two tries to write the status of a pod that kwok simulates."""


_PULL_PAUSES = PullPauses()


class ClusterKubelet:
    """Runs in one event loop; five threads wait for the API server's watches."""

    def __init__(
        self,
        environment: Path,
        cluster: str,
        toolchain: Toolchain,
        runtime: container_runtime.Mode,
        *,
        longest_back_off_s: float = LONGEST_S,
        pull_pauses: PullPauses = _PULL_PAUSES,
        operands: Operands = "nvidia",
        starts: Starts = "by size",
    ) -> None:
        """longest_back_off_s: between two starts of a container. operands: whether NVIDIA's
        programs run, or are simulated. starts: of the programs of DaemonSets.
        """
        self._operands_mode = operands
        self._longest_back_off_s = longest_back_off_s
        self._pull_pauses = pull_pauses
        self._registries = Registries(environment / FAULTS)
        self._directory = environment / "clusters" / cluster
        client = Client.from_kubeconfig(
            kubeconfig(self._directory, "kubelet"), user_agent="slicewright-kubelet"
        )
        self._toolchain = toolchain
        self._api = Api(client)
        self._crowd_api = Api(client)
        """For pods of DaemonSets, with threads of its own: others do not wait behind hundreds."""
        self._sources: dict[str, ApiSources] = {}
        """Of the nodes' kubelets, by the node's name."""
        self._shared_sources = ApiSources(client)
        """For simulated operands: no kubelet mounts these, and a fleet of thousands of nodes reads
        the same ones.
        """
        self._addresses = AddressBlock(f"{environment}/{cluster}")
        self._services = ServiceNetwork(
            self._directory,
            self._addresses,
            lambda: (run.pod for run in self._pods.values()),
            self._api,
        )
        self._volumes = Provisioner(self._directory / "claims", self._api)
        address = urlsplit(client.server)
        shims = write_shims(self._directory / "shims")
        stand_ins.write(shims)
        self._launching = Launching(
            marks(environment, f"kubelet-{cluster}"),
            shims,
            toolchain,
            host=address.hostname or "127.0.0.1",
            port=str(address.port or 443),
            runtime=runtime,
            hosts=self._services.hosts,
            is_forked=self._is_forked,
        )
        self._starts = starts
        self._joining = Joining()
        self._bus = SystemBus()
        self._nodes: dict[str, SimulatedNode] = {}
        self._faults: dict[str, LayoutFault] = {}
        self._operands: dict[str, SimulatedOperands] = {}
        """Of the nodes whose operands are simulated, by name."""
        self._pods: dict[str, PodRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._bound: dict[str, JsonObject] = {}
        """Pods on nodes that are not known yet, by uid."""
        self._known: set[str] | None = None
        """Uids of all bound pods; None before the first list."""
        self._ending: dict[str, asyncio.Task[None]] = {}
        """Deleted nodes whose processes are being ended, by name."""
        self._rebooting: dict[str, asyncio.Task[None]] = {}
        """By the node's name."""
        self._held: dict[str, SimulatedNode] = {}
        """Nodes that hold devices for pods that kwok runs, by the pod's uid."""
        self._simulated: dict[str, JsonObject] = {}
        """Pods that kwok runs and that have not ended, by uid."""
        self._placed: dict[str, SimulatedNode] = {}
        """Nodes of all pods, by the pod's uid."""
        self._background: set[asyncio.Task[None]] = set()
        self._stop = threading.Event()
        self._logs: LogServer | None = None

    async def run(self, stopping: asyncio.Event, started: Callable[[], None]) -> None:
        """Runs until `stopping` is set, then ends every process.

        started: called when the watches have begun.
        """
        self._logs = LogServer(self._directory / "pki", self._find_log)
        await self._services.start()
        loop = asyncio.get_running_loop()

        def feed(path: str, handle: Callable[[Event], None], fields: dict[str, str]) -> None:
            # Any: mypy would match the selector against the named keyword arguments.
            query: Any = fields
            watched = list_and_watch(
                self._api.client,
                path,
                stop=self._stop,
                backoff_max_s=2.0,
                on_error=partial(_note, path),
                **query,
            )
            for event in watched:
                try:
                    loop.call_soon_threadsafe(handle, event)
                except RuntimeError:
                    return  # the loop is closed

        watches: tuple[tuple[str, Callable[[Event], None], dict[str, str]], ...] = (
            ("/api/v1/nodes", self._on_node, {}),
            ("/api/v1/pods", self._on_pod, {"fieldSelector": "spec.nodeName!="}),
            ("/api/v1/services", self._services.on_service, {}),
            ("/api/v1/persistentvolumeclaims", self._volumes.on_claim, {}),
            (
                "/apis/apiregistration.k8s.io/v1/apiservices",
                self._services.on_api_service,
                {},
            ),
        )
        for watch in watches:
            threading.Thread(target=feed, name=f"watch {watch[0]}", args=watch, daemon=True).start()
        started()
        await stopping.wait()
        self._stop.set()
        self._services.close()
        for operands in self._operands.values():
            operands.stop()
        for run in self._pods.values():
            run.kill()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.wait(self._tasks.values(), timeout=5) if self._tasks else None
        await asyncio.gather(*(node.stop(remove=False) for node in self._nodes.values()))
        self._logs.close()
        self._bus.close()
        self._addresses.close()
        self._api.close()
        self._crowd_api.close()

    # -- nodes
    # ----------------------------------------------------------------------------------------------

    def _on_node(self, event: Event) -> None:
        if event.type == "LISTED":
            listed = {n["metadata"]["name"] for n in event.items}
            for name in set(self._nodes) - listed:
                self._drop_node(name)
            for node in event.items:
                self._see_node(node)
        elif event.type == "DELETED":
            self._drop_node(event.object["metadata"]["name"])
        elif event.type in ("ADDED", "MODIFIED"):
            self._see_node(event.object)

    def _see_node(self, node: JsonObject) -> None:
        if not is_simulated(node):
            return
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        known = self._nodes.get(name)
        if known is not None and known.uid == uid:
            known.update(node)
            self._joining.see(node)
            self._faults[name].look(node)
            if operands := self._operands.get(name):
                operands.look()
            return
        if known is not None:
            self._drop_node(name)
        assert self._logs is not None
        self._joining.begin(node)
        fresh = SimulatedNode(
            node,
            self._directory / "nodes" / name,
            self._toolchain,
            self._api,
            self._bus,
            self._logs.port,
            self._on_reboot,
            self._registries,
        )
        self._nodes[name] = fresh
        self._sources[name] = ApiSources(fresh.kubelet.client)
        self._faults[name] = LayoutFault(fresh, self._restart_pods)
        if self._operands_mode == "simulated" and fresh.machine.gpu_model:
            self._operands[name] = SimulatedOperands(fresh, self._api, self._shared_sources)
        fresh.start(self._ending.get(name))
        self._spawn(self._settle(fresh))
        self._faults[name].look(node)
        for pod in [p for p in self._bound.values() if p["spec"]["nodeName"] == name]:
            del self._bound[pod["metadata"]["uid"]]
            self._see_pod(pod)

    def _on_reboot(self, node: SimulatedNode, down_s: float) -> None:
        earlier = self._rebooting.get(node.name)
        # One that is down hears nothing, and one that is going down anyway has heard it.
        if earlier is None or (node.up and not node.stopping_services):
            self._rebooting[node.name] = self._spawn(self._reboot(node, down_s, earlier))

    def _drop_node(self, name: str) -> None:
        node = self._nodes.pop(name, None)
        if node is None:
            return
        self._joining.end(node.uid)
        del self._sources[name]
        self._faults.pop(name).stop()
        if operands := self._operands.pop(name, None):
            operands.stop()
        if rebooting := self._rebooting.pop(name, None):
            rebooting.cancel()
        # A node that is made again under its name takes up those that are still there.
        placed = self._placed
        self._bound |= {uid: p for uid, p in self._simulated.items() if placed.get(uid) is node}
        runs = [run for run in self._pods.values() if run.node is node]
        _log.info("node %s is deleted: ending %d pods", name, len(runs))
        for run in runs:
            run.vanished()
        self._ending[name] = self._spawn(self._end_node(node, runs))

    async def _end_node(self, node: SimulatedNode, runs: list[PodRun]) -> None:
        tasks = [t for run in runs if (t := self._tasks.get(run.pod["metadata"]["uid"]))]
        if tasks:
            await asyncio.wait(tasks)
        for run in runs:
            # Pods that are being deleted wait for their kubelet; the pod garbage collector removes
            # the others.
            if "deletionTimestamp" in run.pod["metadata"]:
                try:
                    await node.kubelet.remove_pod(run.pod)
                except (ApiError, Unreachable) as e:
                    _log.info("%s: not removed with its node: %s", run.name, e)
        await node.stop(remove=True)
        if self._ending.get(node.name) is asyncio.current_task():
            del self._ending[node.name]

    async def _settle(self, node: SimulatedNode) -> None:
        """Gives back the devices of pods that ended while no kubelet was watching."""
        await node.ready.wait()
        if self._known is not None:
            node.keep_only(self._known)

    async def _reboot(
        self, node: SimulatedNode, down_s: float, earlier: asyncio.Task[None] | None
    ) -> None:
        """Ends the node's processes, resets its GPUs, and starts its pods again.

        earlier: a reboot whose last steps are still being done.
        """
        if earlier is not None:
            await earlier
        await node.stop_services()
        runs = [run for run in self._pods.values() if run.node is node]
        # A pod that comes later starts after the boot, so it has nothing to restart.
        simulated = [uid for uid in self._simulated if self._placed.get(uid) is node]
        _log.info("node %s reboots with %d pods", node.name, len(runs) + len(simulated))
        try:
            await node.reboot(asyncio.gather(*(run.lose() for run in runs)), down_s)
        except Exception:  # noqa: BLE001 - must not end the kubelet of the other nodes
            _log.exception("node %s: does not boot again", node.name)
            return
        finally:
            if self._rebooting.get(node.name) is asyncio.current_task():
                del self._rebooting[node.name]
        if operands := self._operands.get(node.name):
            operands.look()
        for uid in simulated:
            if pod := self._simulated.get(uid):
                self._spawn(self._restart_simulated(pod, node))

    async def _restart_simulated(self, pod: JsonObject, node: SimulatedNode) -> None:
        """What the kubelet of a booting node does with a pod that kwok simulates."""
        if asked := _devices_of(pod):
            await self._admit(pod, node, asked, again=True)
        elif status := status_after_reboot(pod):
            await self._write_simulated(pod, node, status)

    async def _restart_pods(self, node: SimulatedNode, programs: frozenset[str]) -> None:
        """Restarts the containers on one node whose image contains one of `programs`."""
        if operands := self._operands.get(node.name):
            operands.restart(programs)
        for run in list(self._pods.values()):
            if run.node is node and any(
                p in run.pod["spec"]["containers"][0]["image"] for p in programs
            ):
                _log.info("%s: restarted, because its node's fault has changed", run.name)
                await run.restart_containers()

    # -- pods
    # ----------------------------------------------------------------------------------------------

    def _on_pod(self, event: Event) -> None:
        if event.type == "LISTED":
            listed = {p["metadata"]["uid"] for p in event.items}
            for uid in (set(self._placed) | set(self._bound)) - listed:
                self._drop_pod(uid)
            self._known = listed
            for node in self._nodes.values():
                self._spawn(self._settle(node))
            for pod in event.items:
                self._see_pod(pod)
        elif event.type == "DELETED":
            self._drop_pod(event.object["metadata"]["uid"])
        elif event.type in ("ADDED", "MODIFIED"):
            self._see_pod(event.object)

    def _see_pod(self, pod: JsonObject) -> None:
        uid = pod["metadata"]["uid"]
        if self._known is not None:
            self._known.add(uid)
        node = self._nodes.get(pod["spec"]["nodeName"])
        if node is not None:
            self._placed[uid] = node
            node.see_pod(pod)
            if operands := self._operands.get(node.name):
                operands.see_pod(pod)
        run = self._pods.get(uid)
        if run is not None:
            run.update(pod)
            return
        if node is None:
            self._bound[uid] = pod
            return
        first = pod["spec"]["containers"][0]
        if not runs_as_process(first["image"], first["name"], operands=self._operands_mode):
            self._account(pod, node)
            return
        run = PodRun(
            pod,
            node,
            self._crowd_api.of_kubelet(node.name) if of_daemon_set(pod) else node.kubelet,
            self._sources[node.name],
            self._addresses,
            self._launching,
            longest_back_off_s=self._longest_back_off_s,
            pull_pauses=self._pull_pauses,
            after=self._joining.over if self._is_forked(pod) else None,
        )
        self._pods[uid] = run
        task = asyncio.create_task(run.run(), name=f"run {run.name}")
        self._tasks[uid] = task
        task.add_done_callback(lambda _: self._forget(uid))

    def _forget(self, uid: str) -> None:
        self._pods.pop(uid, None)
        task = self._tasks.pop(uid, None)
        if task and not task.cancelled() and (error := task.exception()):
            _log.error("a pod's task failed", exc_info=error)

    def _drop_pod(self, uid: str) -> None:
        if self._known is not None:
            self._known.discard(uid)
        self._bound.pop(uid, None)
        self._simulated.pop(uid, None)
        if node := self._placed.pop(uid, None):
            node.forget_pod(uid)
            if operands := self._operands.get(node.name):
                operands.forget_pod(uid)
        if node := self._held.pop(uid, None):
            node.release(uid)
        if run := self._pods.get(uid):
            run.vanished()

    def _account(self, pod: JsonObject, node: SimulatedNode) -> None:
        """Allocates devices to a pod that kwok simulates, or fails it if there are none."""
        uid = pod["metadata"]["uid"]
        over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if over:
            self._simulated.pop(uid, None)
            self._held.pop(uid, None)
            node.release(uid)
            return
        self._simulated[uid] = pod
        if uid in self._held:
            return
        if asked := _devices_of(pod):
            self._held[uid] = node
            self._spawn(self._admit(pod, node, asked))

    async def _admit(
        self,
        pod: JsonObject,
        node: SimulatedNode,
        asked: dict[str, dict[str, int]],
        *,
        again: bool = False,
    ) -> None:
        """again: after a reboot, in which its devices do not matter."""
        uid = pod["metadata"]["uid"]
        await node.ready.wait()
        if node.holds(uid) and not again:
            return  # admitted before this kubelet process began
        try:
            for container, devices in asked.items():
                await node.allocate(uid, container, devices)
        except AllocationFailed as e:
            node.release(uid)
            node.kubelet.warn(pod, None, "UnexpectedAdmissionError", str(e))
            status = {
                "phase": "Failed",
                "reason": "UnexpectedAdmissionError",
                "message": f"Pod was rejected: {e}",
                "startTime": timestamp(),
            }
            await self._write_simulated(pod, node, status)

    async def _write_simulated(
        self, pod: JsonObject, node: SimulatedNode, status: JsonObject
    ) -> None:
        """Writes the status of a pod that kwok simulates, as its node's kubelet."""
        metadata = pod["metadata"]
        path = path_of("v1", "pods", metadata["name"], metadata["namespace"])
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        while True:
            try:
                await node.kubelet.patch_status(path, body)
                return
            except (ApiError, Unreachable) as problem:
                name = f"{metadata['namespace']}/{metadata['name']}"
                _log.warning("%s: status not written: %s", name, problem)
                if isinstance(problem, ApiError) and problem.status < 500:
                    return  # it is gone, or another pod has its name
            await asyncio.sleep(_RETRY_S)

    # -- the rest
    # ----------------------------------------------------------------------------------------------

    def _is_forked(self, pod: JsonObject) -> bool:
        gpu_nodes = sum(node.machine.gpu_model is not None for node in self._nodes.values())
        return is_forked(pod, gpu_nodes, self._starts)

    def _find_log(self, namespace: str, name: str) -> PodLogs | None:
        """Called by the log server's threads; copying a dictionary's values needs no lock."""
        run = next((r for r in list(self._pods.values()) if r.name == f"{namespace}/{name}"), None)
        if run is None:
            return None
        spec = run.pod["spec"]
        containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
        return PodLogs(
            directory=run.directory,
            containers=frozenset(c["name"] for c in containers),
            running=run.is_running,
            execute=run.execute,
            ended=run.ended,
        )

    def _spawn(self, coroutine: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task


def _devices_of(pod: JsonObject) -> dict[str, dict[str, int]]:
    """The extended resources that a pod requests, by container."""
    return {c["name"]: asked for c in pod["spec"]["containers"] if (asked := devices_asked(c))}


def _note(path: str, error: Exception) -> None:
    _log.info("watch of %s: %s; retrying", path, error)
