"""One container: started, probed, restarted with back-off, and stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from slicewright.kubeapi.client import ApiError, JsonObject, Unreachable
from slicewright.rehearsal.cluster.kubelet.containers import probes
from slicewright.rehearsal.cluster.kubelet.containers.backoff import (
    PullPauses,
    RestartBackoff,
    go_duration,
)
from slicewright.rehearsal.cluster.kubelet.containers.environment_variables import (
    MissingReference,
    Unsupported,
)
from slicewright.rehearsal.cluster.kubelet.containers.pulling import ImagePull, Images
from slicewright.rehearsal.cluster.kubelet.containers.state import (
    LOST_EXIT_CODE,
    LOST_REASON,
    ContainerState,
    Terminated,
)
from slicewright.rehearsal.cluster.kubelet.timestamps import timestamp

_log = logging.getLogger(__name__)
_RETRY_S = (1.0, 2.0, 5.0, 10.0)
"""Pauses between attempts to start it; the last one repeats."""


_LEAST_GRACE_S = 2.0


class NotCreated(Exception):
    """The container runtime does not create the container (yet); tried again.

    reason: of the container's waiting state, as the kubelet gives it.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Started(Protocol):
    """What is used of subprocess.Popen."""

    @property
    def pid(self) -> int: ...

    def send_signal(self, number: int, /) -> None: ...

    def wait(self) -> int: ...


class Host(Images, Protocol):
    """What a container needs from its pod."""

    async def launch(self, container: JsonObject, attempt: int) -> Started:
        """Starts the process. Raises NotCreated, MissingReference or Unsupported, OSError,
        ApiError, Unreachable.
        """
        ...

    def execute(self, container: str, command: Sequence[str], output: Path) -> Started:
        """Starts a command in a container that runs. For any thread. Raises as `launch`."""
        ...

    def ended(self, pid: int) -> None:
        """A process that `launch` or `execute` started has ended."""
        ...

    def warn(self, container: str | None, reason: str, message: str) -> None:
        """A Warning Event on the pod."""
        ...


class Process:
    """A started process whose end can be awaited. For the event loop only."""

    def __init__(self, popen: Started) -> None:
        self._popen = popen
        self._loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self._fd = os.pidfd_open(popen.pid)
        self._loop.add_reader(self._fd, self._on_exit)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def send(self, number: signal.Signals) -> None:
        if not self.exited.done():
            self._popen.send_signal(number)

    async def end(self, grace_s: float) -> int:
        """SIGTERM, SIGKILL after `grace_s`; returns the exit status (negative: the signal)."""
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                return await asyncio.shield(self.exited)
        except TimeoutError:
            self.send(signal.SIGKILL)
            return await asyncio.shield(self.exited)

    def _on_exit(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        # As in a container, its other processes end with the first one. Before wait(), because the
        # pid cannot be reused until then.
        try:
            os.killpg(self._popen.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # there are no others
        # Not here: one that another process has forked is waited for by way of that.
        waiting = self._loop.run_in_executor(None, self._popen.wait)
        waiting.add_done_callback(self._on_status)

    def _on_status(self, waited: asyncio.Future[int]) -> None:
        if not self.exited.done() and not waited.cancelled():
            self.exited.set_result(waited.result())


@dataclass(eq=False)
class Container:
    """Runs one container of a pod according to its restart policy."""

    spec: JsonObject
    state: ContainerState
    host: Host
    pod_ip: str
    pod_name: str
    """As in the kubelet's messages: `name_namespace(uid)`."""
    policy: str
    grace_s: float
    """The pod's termination grace period, for a container that fails its liveness probe."""
    backoff: RestartBackoff = field(default_factory=RestartBackoff)
    pull_pauses: PullPauses = field(default_factory=PullPauses)
    process: Process | None = None
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _restart_now: bool = False
    _lost: bool = False

    async def keep(self) -> None:
        """Runs until the policy does not restart it, or until `stop`. Raises Unsupported."""
        # Probes are read first: a pod with an unsupported one must not start.
        asked = {
            w: probes.parse(self.spec, w, self.pod_ip, self._execute)
            for w in ("startupProbe", "readinessProbe", "livenessProbe")
        }
        if self.state.terminated is not None:  # before this kubelet process started
            if not self._restarts(self.state.terminated.exit_code):
                return
            self.state.last, self.state.terminated = self.state.terminated, None
            self.state.restarts += 1
        while not self._stopping.is_set():
            if not await self._pulled():
                return
            popen = await self._launched()
            if popen is None:
                return
            began = time.monotonic()
            ended = await self._run(popen, asked)
            if self._stopping.is_set() or not (
                self._restart_now or self._restarts(ended.exit_code)
            ):
                return
            self.state.last, self.state.terminated = ended, None
            self.state.waiting_reason, self.state.waiting_message = "ContainerCreating", ""
            pause = 0.0 if self._restart_now else self.backoff.next(time.monotonic() - began)
            self._restart_now = False
            if pause:
                self.state.waiting_reason = "CrashLoopBackOff"
                failed = f"restarting failed container={self.spec['name']} pod={self.pod_name}"
                self.state.waiting_message = f"back-off {go_duration(pause)} {failed}"
                self.host.warn(
                    self.spec["name"],
                    "BackOff",
                    f"Back-off restarting failed container {self.spec['name']} in pod "
                    f"{self.pod_name}",
                )
                self.host.changed()
                if await self._paused(pause):
                    self.state.terminated = ended
                    return
            self.state.restarts += 1

    async def stop(self, grace_s: float, *, hooks: bool = True) -> None:
        """Ends the process, if there is one, and lets `keep` return. hooks: runs preStop first."""
        self._stopping.set()
        if self.process is not None:
            if hooks and (hook := (self.spec.get("lifecycle") or {}).get("preStop")):
                began = time.monotonic()
                await self._before_stop(hook, grace_s)
                # The hook's time counts, but the process gets 2 s at least. Source:
                # k8s.io/kubernetes, pkg/kubelet/kuberuntime, minimumGracePeriodInSeconds.
                grace_s = max(_LEAST_GRACE_S, grace_s - (time.monotonic() - began))
            await self.process.end(grace_s)

    async def _before_stop(self, hook: JsonObject, grace_s: float) -> None:
        """Runs the hook preStop, for as long as the pod has."""
        try:
            async with asyncio.timeout(grace_s):
                code = await self._execute(hook["exec"]["command"])
        except TimeoutError:
            code = 128 + signal.SIGKILL
        except OSError as e:
            self.host.warn(self.spec["name"], "FailedPreStopHook", f"PreStopHook failed: {e}")
            return
        if code != 0:
            self.host.warn(
                self.spec["name"], "FailedPreStopHook", f"PreStopHook failed: exit code {code}"
            )

    async def _execute(self, command: Sequence[str]) -> int:
        """The exit code of a command in the container; it is killed when the caller is cancelled.

        Raises OSError where it cannot be started.
        """
        try:
            started = await asyncio.to_thread(
                self.host.execute, self.spec["name"], command, Path(os.devnull)
            )
        except (NotCreated, MissingReference, Unsupported, ApiError, Unreachable) as e:
            raise OSError(str(e)) from e
        process = Process(started)
        try:
            return await asyncio.shield(process.exited)
        except asyncio.CancelledError:
            process.send(signal.SIGKILL)
            await asyncio.shield(process.exited)
            raise
        finally:
            self.host.ended(process.pid)

    def kill(self) -> None:
        """SIGKILL: the node, or this kubelet, ends."""
        self._stopping.set()
        if self.process is not None:
            self.process.send(signal.SIGKILL)

    def lose(self) -> None:
        """SIGKILL: the node goes down, after which it is not known how the process ended."""
        self._lost = True
        self.kill()

    async def restart(self) -> None:
        """Ends the process by SIGTERM so that it restarts without a pause."""
        if self.process is not None:
            self._restart_now = True
            await self.process.end(self.grace_s)

    def _restarts(self, exit_code: int) -> bool:
        return self.policy == "Always" or (self.policy == "OnFailure" and exit_code != 0)

    async def _pulled(self) -> bool:
        """Whether its image is there; False where the container is stopped first."""
        pull = ImagePull(
            container=self.spec,
            state=self.state,
            images=self.host,
            pauses=self.pull_pauses,
            paused=self._paused,
        )
        return await pull.done()

    async def _launched(self) -> Started | None:
        """The started process; None if the container is stopped first."""
        tries = 0
        while not self._stopping.is_set():
            try:
                return await self.host.launch(self.spec, self.state.restarts)
            except NotCreated as e:
                reason, message = e.reason, str(e)
            except MissingReference as e:
                reason, message = "CreateContainerConfigError", str(e)
            except (ApiError, Unreachable) as e:
                reason, message = "CreateContainerConfigError", f"API server: {e}"
            except OSError as e:
                reason, message = "RunContainerError", str(e)
            if self._stopping.is_set():
                return None  # nothing went wrong: the pod ends
            if (reason, message) != (self.state.waiting_reason, self.state.waiting_message):
                self.state.waiting_reason, self.state.waiting_message = reason, message
                self.host.warn(self.spec["name"], "Failed", f"Error: {message}")
                self.host.changed()
            await self._paused(_RETRY_S[min(tries, len(_RETRY_S) - 1)])
            tries += 1
        return None

    async def _paused(self, seconds: float) -> bool:
        """Whether the container was stopped during the pause."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    async def _run(self, popen: Started, asked: dict[str, probes.Probe | None]) -> Terminated:
        process = self.process = Process(popen)
        if self._stopping.is_set():
            process.send(signal.SIGKILL)  # stop came while the process was being started
        state = self.state
        state.container_id = f"rehearsal://{uuid.uuid4().hex}"
        state.running_since = timestamp()
        state.started = asked["startupProbe"] is None
        state.ready = state.started and asked["readinessProbe"] is None
        self.host.changed()
        watching = asyncio.create_task(
            self._probe(process, asked), name=f"probes {self.spec['name']}"
        )
        try:
            code = await asyncio.shield(process.exited)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            self.process = None
            self.host.ended(process.pid)
        ended = Terminated(
            exit_code=code if code >= 0 else 128 - code,
            signal=-code if code < 0 else 0,
            reason="Completed" if code == 0 else "Error",
            started_at=state.running_since,
            finished_at=timestamp(),
            container_id=state.container_id,
        )
        if self._lost:
            ended = replace(ended, exit_code=LOST_EXIT_CODE, signal=0, reason=LOST_REASON)
        state.running_since, state.started, state.ready = None, False, False
        state.terminated = ended
        self.host.changed()
        return ended

    async def _probe(self, process: Process, asked: dict[str, probes.Probe | None]) -> None:
        began = time.monotonic()
        if startup := asked["startupProbe"]:
            if not await self._until(startup, began, process, "Startup"):
                return
            self.state.started = True
            self.state.ready = asked["readinessProbe"] is None
            self.host.changed()
        loops = []
        if readiness := asked["readinessProbe"]:
            loops.append(self._readiness(readiness, began))
        if liveness := asked["livenessProbe"]:
            loops.append(self._liveness(liveness, began, process))
        await asyncio.gather(*loops)

    async def _until(self, probe: probes.Probe, began: float, process: Process, kind: str) -> bool:
        """Probes until success (True), or too many failures (False, and the process is ended)."""
        await _delay(probe, began)
        failures = 0
        while (wrong := await probe.once()) is not None:
            failures += 1
            self.host.warn(self.spec["name"], "Unhealthy", f"{kind} probe failed: {wrong}")
            if failures >= probe.failures:
                await self._unhealthy(process, kind)
                return False
            await asyncio.sleep(probe.period_s)
        return True

    async def _readiness(self, probe: probes.Probe, began: float) -> None:
        await _delay(probe, began)
        successes = failures = 0
        while True:
            wrong = await probe.once()
            successes, failures = (successes + 1, 0) if wrong is None else (0, failures + 1)
            if wrong is not None:
                self.host.warn(self.spec["name"], "Unhealthy", f"Readiness probe failed: {wrong}")
            ready = self.state.ready
            if successes >= probe.successes:
                ready = True
            elif failures >= probe.failures:
                ready = False
            if ready != self.state.ready:
                self.state.ready = ready
                self.host.changed()
            await asyncio.sleep(probe.period_s)

    async def _liveness(self, probe: probes.Probe, began: float, process: Process) -> None:
        await _delay(probe, began)
        failures = 0
        while failures < probe.failures:
            wrong = await probe.once()
            failures = 0 if wrong is None else failures + 1
            if wrong is not None:
                self.host.warn(self.spec["name"], "Unhealthy", f"Liveness probe failed: {wrong}")
            if failures < probe.failures:
                await asyncio.sleep(probe.period_s)
        await self._unhealthy(process, "Liveness")

    async def _unhealthy(self, process: Process, kind: str) -> None:
        self.host.warn(
            self.spec["name"],
            "Killing",
            f"Container {self.spec['name']} failed {kind.lower()} probe, will be restarted",
        )
        # The end of the process cancels this task; ending it must continue.
        ending = asyncio.create_task(process.end(self.grace_s))
        await asyncio.shield(ending)


async def _delay(probe: probes.Probe, began: float) -> None:
    await asyncio.sleep(max(0.0, began + probe.initial_delay_s - time.monotonic()))
