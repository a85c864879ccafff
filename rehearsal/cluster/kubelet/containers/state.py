"""The state of one container as the API shows it."""

from __future__ import annotations

from dataclasses import dataclass

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.kubelet.timestamps import timestamp

LOST_EXIT_CODE, LOST_REASON = 255, "Unknown"
"""Of a container that ran when its node went down. Source: unknownExitCode, unknownExitReason in
containerd, internal/cri/server/helpers.go.
"""


@dataclass(frozen=True, kw_only=True)
class Terminated:
    exit_code: int
    reason: str
    """Completed | Error | OOMKilled …, as kubectl shows it."""
    started_at: str
    finished_at: str
    message: str = ""
    signal: int = 0
    container_id: str = ""

    def to_api(self) -> JsonObject:
        api: JsonObject = {
            "exitCode": self.exit_code,
            "reason": self.reason,
            "startedAt": self.started_at,
            "finishedAt": self.finished_at,
        }
        if self.message:
            api["message"] = self.message
        if self.signal:
            api["signal"] = self.signal
        if self.container_id:
            api["containerID"] = self.container_id
        return api


@dataclass
class ContainerState:
    """One container as the API shows it. Mutable; changed only in the event loop."""

    name: str
    image: str
    image_id: str = ""
    container_id: str = ""
    waiting_reason: str = "ContainerCreating"
    waiting_message: str = ""
    running_since: str | None = None
    terminated: Terminated | None = None
    """Set while it has ended and is not restarted, or not yet."""
    last: Terminated | None = None
    """How its previous run ended."""
    restarts: int = 0
    started: bool = False
    ready: bool = False

    def to_api(self) -> JsonObject:
        if self.running_since is not None:
            state: JsonObject = {"running": {"startedAt": self.running_since}}
        elif self.terminated is not None:
            state = {"terminated": self.terminated.to_api()}
        else:
            waiting = {"reason": self.waiting_reason}
            if self.waiting_message:
                waiting["message"] = self.waiting_message
            state = {"waiting": waiting}
        api: JsonObject = {
            "name": self.name,
            "image": self.image,
            "imageID": self.image_id,
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
            "state": state,
            "lastState": {"terminated": self.last.to_api()} if self.last else {},
        }
        if self.container_id:
            api["containerID"] = self.container_id
        return api

    @classmethod
    def from_api(cls, spec: JsonObject, status: JsonObject | None) -> ContainerState:
        """The state that an earlier kubelet process wrote; a running process ended with it."""
        state = cls(name=spec["name"], image=spec["image"])
        if status is None:
            return state
        state.restarts = int(status.get("restartCount", 0))
        last = (status.get("lastState") or {}).get("terminated")
        now = status.get("state") or {}
        state.last = _terminated(last) if last else None
        state.container_id = status.get("containerID", "")
        if "terminated" in now:
            state.terminated = _terminated(now["terminated"])
        elif "running" in now:
            state.terminated = Terminated(
                exit_code=137,
                reason="Error",
                started_at=now["running"]["startedAt"],
                finished_at=timestamp(),
                message="the kubelet stand-in was restarted, which ended this container's process",
                container_id=state.container_id,
            )
        return state


def _terminated(api: JsonObject) -> Terminated:
    return Terminated(
        exit_code=int(api["exitCode"]),
        reason=api.get("reason", "Error"),
        started_at=api.get("startedAt", timestamp()),
        finished_at=api.get("finishedAt", timestamp()),
        message=api.get("message", ""),
        signal=int(api.get("signal", 0)),
        container_id=api.get("containerID", ""),
    )
