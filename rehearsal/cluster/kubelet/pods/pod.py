"""One pod that runs as real processes, from its binding to a node to its removal from the API."""

from __future__ import annotations

import asyncio
import logging
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from slicewright.kubeapi.client import ApiError, JsonObject, Unreachable, path_of
from slicewright.rehearsal.cluster.kubelet.api import Api
from slicewright.rehearsal.cluster.kubelet.containers import cluster_programs, images
from slicewright.rehearsal.cluster.kubelet.containers.backoff import (
    LONGEST_S,
    PullPauses,
    RestartBackoff,
)
from slicewright.rehearsal.cluster.kubelet.containers.container import Container, NotCreated
from slicewright.rehearsal.cluster.kubelet.containers.environment_variables import (
    MissingReference,
    Unsupported,
)
from slicewright.rehearsal.cluster.kubelet.containers.state import ContainerState
from slicewright.rehearsal.cluster.kubelet.deviceplugin.plugins import Allocation, AllocationFailed
from slicewright.rehearsal.cluster.kubelet.nodes.device_requests import devices_asked
from slicewright.rehearsal.cluster.kubelet.nodes.node import SimulatedNode
from slicewright.rehearsal.cluster.kubelet.pods import volumes
from slicewright.rehearsal.cluster.kubelet.pods.addresses import AddressBlock
from slicewright.rehearsal.cluster.kubelet.pods.launching import (
    Devices,
    Launching,
    Start,
    Started,
    processes_of,
)
from slicewright.rehearsal.cluster.kubelet.pods.sources import Sources
from slicewright.rehearsal.cluster.kubelet.pods.status import PodFacts, pod_status
from slicewright.rehearsal.cluster.kubelet.timestamps import timestamp

HOST_IP = "127.0.0.1"
_log = logging.getLogger(__name__)
_RETRY_S = (1.0, 2.0, 5.0, 10.0)
_WRITE_RETRY_S = (0.2, 0.5, 1.0, 2.0, 5.0)
_HELD_S = 0.1
"""Between two looks whether a pod may start."""
_FOLLOW_S = 2.0
"""Between two looks whether mounted Secrets and ConfigMaps have changed; a kubelet takes up to a
minute.
"""
_REFRESH_AT = 0.8
"""Fraction of a token's lifetime after which it is renewed, as by the real kubelet."""


_PULL_PAUSES = PullPauses()


class PodRun:
    """Start `run` as a task; then call `update`, `vanished` and `kill`. For the event loop only."""

    def __init__(
        self,
        pod: JsonObject,
        node: SimulatedNode,
        api: Api,
        sources: Sources,
        addresses: AddressBlock,
        launching: Launching,
        *,
        longest_back_off_s: float = LONGEST_S,
        pull_pauses: PullPauses = _PULL_PAUSES,
        after: asyncio.Event | None = None,
    ) -> None:
        """api, sources: of the node's kubelet. after: what its first start waits for, besides its
        node.
        """
        self.pod = pod
        self._longest_back_off_s = longest_back_off_s
        self._pull_pauses = pull_pauses
        self._after = after
        self.node = node
        self._api = api
        self.sources = sources
        self._addresses = addresses
        self._launching = launching
        metadata = pod["metadata"]
        self.name = f"{metadata['namespace']}/{metadata['name']}"
        self.directory: Path = node.directory / "pods" / metadata["uid"]
        self._path = path_of("v1", "pods", metadata["name"], metadata["namespace"])
        earlier = pod.get("status") or {}
        self._init = _states(
            pod["spec"].get("initContainers") or (), earlier.get("initContainerStatuses") or ()
        )
        self._main = _states(pod["spec"]["containers"], earlier.get("containerStatuses") or ())
        self._initialized = not self._init
        self._running = any("running" in (s.get("state") or {}) for s in _statuses(earlier))
        """Whether its containers run already, for a kubelet that has just started."""
        self._living: asyncio.Task[None] | None = None
        self._anew = False
        self._first = True
        """Before its first sandbox of this kubelet process."""
        self._refusal: tuple[str, str] | None = None
        self._start_time = earlier.get("startTime") or timestamp()
        self._pod_ip: str | None = None
        self._volumes: volumes.PodVolumes | None = None
        self._devices: dict[str, Allocation] = {}
        self._created: dict[str, tuple[Start, Devices]] = {}
        """By container, as it was last created."""
        self.containers: list[Container] = []
        self._leaving = asyncio.Event()
        self._gone = False
        self._dirty = asyncio.Event()
        self._written: JsonObject | None = None
        if "deletionTimestamp" in metadata:
            self._leaving.set()

    # -- events of the watch
    # -------------------------------------------------------------------------------------------

    def update(self, pod: JsonObject) -> None:
        self.pod = pod
        if "deletionTimestamp" in pod["metadata"]:
            self._leaving.set()
        # Another writer (a readiness gate) may have changed what the Ready condition depends on.
        self._dirty.set()

    def vanished(self) -> None:
        """The pod or its node is deleted: ends the processes without writing a status."""
        self._gone = True
        self._leaving.set()

    def kill(self) -> None:
        """Ends the processes with this kubelet."""
        self._gone = True
        for container in self.containers:
            container.kill()

    async def lose(self) -> None:
        """The node goes down: kills the processes.

        A pod that is not over restarts when the node is ready, as in a new sandbox.
        """
        if self._living is None or self._living.done():
            return
        self._anew = True
        for container in self.containers:
            container.lose()
        if not self.containers:
            self._living.cancel()
        await asyncio.wait({self._living})

    async def restart_containers(self) -> None:
        await asyncio.gather(*(c.restart() for c in self.containers))

    # -- what containers need (containers.Host)
    # -------------------------------------------------------------------------

    async def launch(self, container: JsonObject, attempt: int) -> Started:
        await self._startable()
        assert self._pod_ip is not None
        assert self._volumes is not None
        wanted = Start(
            run=self,
            container=container,
            attempt=attempt,
            pod_ip=self._pod_ip,
            volumes=self._volumes,
            devices=self._devices.get(container["name"]),
        )
        process, devices = await self._launching.start(wanted)
        self._created[container["name"]] = (wanted, devices)
        return process

    async def pull(self, container: JsonObject) -> None:
        """Returns when the node has the container's image. Raises NotPulled."""

        def say(kind: str, reason: str, message: str) -> None:
            # Of hundreds of nodes that join at once, only what is wrong is told.
            if kind == "Warning" or self._after is None:
                self.report(container["name"], kind, reason, message)

        await self.node.images.ensure(container, self.node.puller, self._pull_secrets, say)

    async def _pull_secrets(self) -> list[JsonObject]:
        """Those that are there. A ServiceAccount's the API server has put into the pod's spec.

        Source: getPullSecretsForPod, k8s.io/kubernetes v1.36.2, pkg/kubelet/kubelet_pods.go.
        """
        named = [one["name"] for one in self.pod["spec"].get("imagePullSecrets") or () if one]
        found, missing = [], []
        for name in named:
            try:
                secret = await self._api.run(
                    self.sources.find, "secrets", self.pod["metadata"]["namespace"], name
                )
            except (ApiError, Unreachable):
                secret = None
            if secret is None:
                missing.append(name)
            else:
                found.append(secret)
        if missing:
            message = f"Unable to retrieve some image pull secrets ({', '.join(missing)}); "
            message += "attempting to pull the image may not succeed."
            self.warn(None, "FailedToRetrieveImagePullSecret", message)
        return found

    def execute(
        self, container: str, command: Sequence[str], output: Path
    ) -> subprocess.Popen[bytes]:
        """Starts a command in a container that runs. Called by other threads."""
        wanted, devices = self._created[container]
        return self._launching.execute(wanted, devices, command, output)

    def ended(self, pid: int) -> None:
        if shared := processes_of(self.pod, self.directory):
            (shared / str(pid)).unlink(missing_ok=True)

    def is_running(self, container: str) -> bool:
        return any(c.spec["name"] == container and c.process is not None for c in self.containers)

    def changed(self) -> None:
        self._dirty.set()

    def warn(self, container: str | None, reason: str, message: str) -> None:
        self.report(container, "Warning", reason, message)

    def report(self, container: str | None, kind: str, reason: str, message: str) -> None:
        """An Event on the pod."""
        if kind == "Warning":
            _log.info("%s: %s: %s", self.name, reason, message)
        self._api.report(self.pod, container, kind, reason, message)

    # -- the pod's life
    # ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        writing = asyncio.create_task(self._write_status(), name=f"status {self.name}")
        try:
            if (self.pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                await self._live_until_leaving()
            else:
                self._adopt_ended()
            await self._leaving.wait()
            if not self._gone:
                await self._remove()
        finally:
            writing.cancel()
            self.node.release(self.pod["metadata"]["uid"])
            if self._pod_ip:
                self._addresses.give_back(self._pod_ip)
            await self._api.run(shutil.rmtree, self.directory, ignore_errors=True)

    async def _live_until_leaving(self) -> None:
        await self._live_once()
        while self._anew and not self._leaving.is_set():
            self._anew = False
            if not await self._begin_anew():
                break
            await self._live_once()
        self.node.release(self.pod["metadata"]["uid"])

    async def _begin_anew(self) -> bool:
        """After a reboot: whether the pod starts again. Source: computePodActions,
        k8s.io/kubernetes v1.36.2, pkg/kubelet/kuberuntime/kuberuntime_manager.go.
        """
        if self.pod["spec"].get("restartPolicy", "Always") == "Never" and self.containers:
            self.changed()
            return False
        for state in self._init:  # all of them run again
            if state.terminated is not None:
                state.last, state.terminated = state.terminated, None
                state.restarts += 1
        self._initialized = not self._init
        self._running = False
        self._devices = {}
        self.containers = []
        if self._pod_ip and not self.pod["spec"].get("hostNetwork"):
            self._addresses.give_back(self._pod_ip)
            self._pod_ip = None
        await self._api.run(volumes.reboot, self.directory, self.pod)
        return True

    async def _live_once(self) -> None:
        living = self._living = asyncio.create_task(self._live(), name=f"pod {self.name}")
        leaving = asyncio.create_task(self._leaving.wait())
        await asyncio.wait({living, leaving}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        await self._kubelet_runs(living)
        if not living.done():
            grace_s = (
                1.0
                if self._gone
                else float(self.pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            )
            if self.containers:
                # `living` then returns. Cancelling it could lose a process that is being started.
                await asyncio.gather(
                    *(c.stop(grace_s, hooks=not self._gone) for c in self.containers)
                )
            else:
                living.cancel()
        try:
            await living
        except asyncio.CancelledError:
            pass
        except Unsupported as e:
            self._refuse_to_start(str(e))
        except Exception:  # noqa: BLE001 - must not end the kubelet of the other pods
            _log.exception("%s: the kubelet stand-in failed on this pod", self.name)
            self._refuse_to_start("the kubelet stand-in failed on this pod; see its log")
        for container in self.containers:
            container.kill()

    async def _kubelet_runs(self, living: asyncio.Task[None]) -> None:
        """Waits while the kubelet of the node is stopped: nobody ends the containers."""
        service = self.node.kubelet_service
        while not (service.runs.is_set() or self._gone or living.done()):
            await asyncio.sleep(_HELD_S)

    async def _live(self) -> None:
        spec = self.pod["spec"]
        _refuse_unsupported(spec)
        await self.node.ready.wait()
        if self._after is not None and self._first:
            await self._after.wait()
        if self._pod_ip is None:
            earlier = (self.pod.get("status") or {}).get("podIP") if self._first else None
            self._pod_ip = self._addresses.take(earlier)
        self._first = False
        self.changed()
        try:
            for container in spec["containers"]:
                if asked := devices_asked(container):
                    uid = self.pod["metadata"]["uid"]
                    self._devices[container["name"]] = await self.node.allocate(
                        uid, container["name"], asked, running=self._running
                    )
        except AllocationFailed as e:
            self._refusal = ("UnexpectedAdmissionError", f"Pod was rejected: {e}")
            self.warn(None, "UnexpectedAdmissionError", str(e))
            self.changed()
            return
        self._volumes = await self._mounted()
        await self._sandboxed()
        refreshing = [
            asyncio.create_task(self._refresh_tokens(self._volumes), name=f"tokens {self.name}")
        ]
        if _follows_objects(spec):
            refreshing.append(
                asyncio.create_task(self._follow_objects(), name=f"objects {self.name}")
            )
        try:
            policy = spec.get("restartPolicy", "Always")
            for init, state in zip(spec.get("initContainers") or (), self._init, strict=True):
                # An init container is retried until it succeeds, unless the policy is Never.
                container = self._container(
                    init, state, "Never" if policy == "Never" else "OnFailure"
                )
                self.containers = [container]
                await container.keep()
                if state.terminated is None or state.terminated.exit_code != 0:
                    return
            self._initialized = True
            self.changed()
            self.containers = [
                self._container(main, state, policy)
                for main, state in zip(spec["containers"], self._main, strict=True)
            ]
            if not self._leaving.is_set():
                await asyncio.gather(*(c.keep() for c in self.containers))
        finally:
            for task in refreshing:
                task.cancel()

    def _container(self, spec: JsonObject, state: ContainerState, policy: str) -> Container:
        assert self._pod_ip is not None
        grace_s = float(self.pod["spec"].get("terminationGracePeriodSeconds", 30))
        return Container(
            spec=spec,
            state=state,
            host=self,
            pod_ip=self._pod_ip,
            pod_name="{name}_{namespace}({uid})".format(**self.pod["metadata"]),
            policy=policy,
            grace_s=grace_s,
            backoff=RestartBackoff(longest_s=self._longest_back_off_s),
            pull_pauses=self._pull_pauses,
        )

    def _volume_context(self) -> volumes.VolumeContext:
        assert self._pod_ip is not None
        context = self.pod["spec"].get("securityContext") or {}
        default = context.get("runAsUser")
        users = {
            (c.get("securityContext") or {}).get("runAsUser", default)
            for c in self.pod["spec"]["containers"]
        }
        return volumes.VolumeContext(
            pod=self.pod,
            directory=self.directory,
            node_root=self.node.files.root,
            pod_ip=self._pod_ip,
            host_ip=HOST_IP,
            owner=next(iter(users)) if len(users) == 1 else None,
        )

    async def _mounted(self) -> volumes.PodVolumes:
        """Retries until all objects of the volumes exist; meanwhile ContainerCreating."""
        tries = 0
        while True:
            try:
                return await self._api.run(volumes.prepare, self._volume_context(), self.sources)
            except (MissingReference, ApiError, Unreachable, OSError) as e:
                self.warn(None, "FailedMount", f"MountVolume.SetUp failed: {e}")
                for state in self._main:
                    state.waiting_message = f"waiting for volumes: {e}"
                self.changed()
            await asyncio.sleep(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
            tries += 1

    async def _sandboxed(self) -> None:
        """Retries until containerd knows the runtime of the pod's class and the network's plugin.

        Meanwhile ContainerCreating, as where NVIDIA's container toolkit has not configured it yet,
        or not well.
        """
        tries = 0
        while why := self._no_sandbox():
            self.warn(
                None,
                "FailedCreatePodSandBox",
                f"Failed to create pod sandbox: rpc error: code = Unknown desc = {why}",
            )
            await asyncio.sleep(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
            tries += 1

    def _no_sandbox(self) -> str | None:
        """Why containerd makes none now."""
        known, spec = self.node.files.containerd, self.pod["spec"]
        handler = spec.get("runtimeClassName")
        if handler and handler not in known.runtimes:
            return (
                f'unable to get OCI runtime for sandbox: no runtime for "{handler}" is configured'
            )
        directory = known.network_plugins
        if directory and self.node.machine.cloud == "gke" and not spec.get("hostNetwork"):
            # GKE's own are in /home/kubernetes/bin. Source: NVIDIA/gpu-operator #1577.
            return (
                'failed to setup network for sandbox: plugin type="gke" failed (add): failed to '
                f'find plugin "gke" in path [{directory}]'
            )
        return None

    async def _startable(self) -> None:
        """Waits while the node is down or a fault holds the pod. Raises NotCreated where the pod is
        deleted, or lost with its node, meanwhile: whoever ends the pod waits for that.
        """
        name = self.pod["metadata"]["name"]
        while not self.node.ready.is_set() or self.node.held.holds_pod(name):
            if self._leaving.is_set() or self._anew:
                raise NotCreated("ContainerCreating", "the pod ends before it could start")
            await asyncio.sleep(_HELD_S)

    async def _refresh_tokens(self, mounted: volumes.PodVolumes) -> None:
        loop = asyncio.get_running_loop()
        due = {t.path: loop.time() + _REFRESH_AT * t.expiration_s for t in mounted.tokens}
        while due:
            await asyncio.sleep(max(0.0, min(due.values()) - loop.time()))
            for token in mounted.tokens:
                if due[token.path] > loop.time():
                    continue
                try:
                    lives_s = await self._api.run(
                        volumes.refresh, self._volume_context(), self.sources, token
                    )
                    due[token.path] = loop.time() + _REFRESH_AT * min(lives_s, token.expiration_s)
                except (ApiError, Unreachable, OSError) as e:
                    _log.warning("%s: token not refreshed: %s", self.name, e)
                    due[token.path] = loop.time() + 10.0

    async def _follow_objects(self) -> None:
        while True:
            await asyncio.sleep(_FOLLOW_S)
            try:
                await self._api.run(volumes.follow, self._volume_context(), self.sources)
            except (MissingReference, ApiError, Unreachable, OSError) as e:
                _log.info("%s: volumes not brought up to date: %s", self.name, e)

    async def _remove(self) -> None:
        """Writes the last status and removes the pod from the API."""
        tries = 0
        while not self._gone:
            try:
                await self._write_once()
                if await self._api.remove_pod(self.pod):
                    return
            except (ApiError, Unreachable) as e:
                _log.info("%s: not removed yet: %s", self.name, e)
            # The watch reports it when the pod is gone.
            await asyncio.sleep(_WRITE_RETRY_S[min(tries, len(_WRITE_RETRY_S) - 1)])
            tries += 1

    # -- status
    # ----------------------------------------------------------------------------------------------

    async def _write_status(self) -> None:
        tries = 0
        while True:
            await self._dirty.wait()
            await self.node.ready.wait()  # a node that is down says nothing
            self._dirty.clear()
            try:
                await self._write_once()
                tries = 0
            except (ApiError, Unreachable) as e:
                _log.info("%s: status not written: %s", self.name, e)
                self._dirty.set()
                await asyncio.sleep(_WRITE_RETRY_S[min(tries, len(_WRITE_RETRY_S) - 1)])
                tries += 1

    async def _write_once(self) -> None:
        if self._gone:
            return
        facts = PodFacts(
            pod=self.pod,
            init=self._init,
            main=self._main,
            initialized=self._initialized,
            pod_ip=self._pod_ip,
            host_ip=HOST_IP,
            start_time=self._start_time,
            refusal=self._refusal,
        )
        status = pod_status(facts)
        if _without_times(status) == self._written:
            return
        # The uid is a precondition: another pod of this name must not get this one's status.
        body = {"metadata": {"uid": self.pod["metadata"]["uid"]}, "status": status}
        try:
            answer = await self._api.patch_status(self._path, body)
        except ApiError as e:
            if e.status == 404:
                return  # deleted; the watch will report it
            # A conflict, too, is tried again: there may be other writers. Where another pod has
            # its name now, the watch reports that.
            raise
        self._written = _without_times(status)
        # The next write compares conditions with these; the watch may deliver them too late.
        self.pod = {**self.pod, "status": answer["status"]}

    def _adopt_ended(self) -> None:
        """Takes over a pod that ended before this kubelet process began."""
        status = self.pod["status"]
        self._initialized = True
        self._pod_ip = None
        if status.get("reason"):
            self._refusal = (status["reason"], status.get("message", ""))

    def _refuse_to_start(self, why: str) -> None:
        for state in self._main:
            if state.running_since is None and state.terminated is None:
                state.waiting_reason, state.waiting_message = "RehearsalUnsupported", why
        self.warn(None, "RehearsalUnsupported", why)
        self.changed()


def _follows_objects(spec: JsonObject) -> bool:
    return any(
        cluster_programs.follows_objects(images.repository(one["image"]))
        for one in spec["containers"]
    )


def _statuses(status: JsonObject) -> list[JsonObject]:
    statuses: list[JsonObject] = status.get("containerStatuses") or []
    return statuses


def _states(
    specs: list[JsonObject] | tuple[()], statuses: list[JsonObject] | tuple[()]
) -> list[ContainerState]:
    by_name = {s["name"]: s for s in statuses}
    return [ContainerState.from_api(spec, by_name.get(spec["name"])) for spec in specs]


def _refuse_unsupported(spec: JsonObject) -> None:
    for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
        name = container["name"]
        hooks = container.get("lifecycle") or {}
        if set(hooks) - {"preStop"} or set(hooks.get("preStop") or ()) - {"exec"}:
            raise Unsupported(
                f"container {name!r}: of lifecycle hooks the kubelet stand-in supports preStop "
                "with exec"
            )
        if container.get("restartPolicy"):
            raise Unsupported(
                f"init container {name!r}: the kubelet stand-in does not support sidecars "
                "(restartPolicy of a container)"
            )
        if container.get("volumeDevices"):
            raise Unsupported(
                f"container {name!r}: the kubelet stand-in does not support block devices"
            )


def _without_times(status: JsonObject) -> JsonObject:
    """The status without transition times, which alone are no reason to write it."""
    conditions = [
        {k: v for k, v in c.items() if k != "lastTransitionTime"} for c in status["conditions"]
    ]
    return {**status, "conditions": conditions}
