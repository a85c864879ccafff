"""Pod status from what is known of its containers: pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kubeapi import JsonObject


def timestamp(moment: float | None = None) -> str:
    """RFC 3339, whole seconds, as the API stores it."""
    at = datetime.now(UTC) if moment is None else datetime.fromtimestamp(moment, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


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
    """One container, as far as the API shows it. Mutable; changed only in the event loop."""

    name: str
    image: str
    image_id: str = ""
    container_id: str = ""
    waiting_reason: str = "ContainerCreating"
    waiting_message: str = ""
    running_since: str | None = None
    terminated: Terminated | None = None
    """Set where it has ended and is not to be started again (or not yet)."""
    last: Terminated | None = None
    """The end before the present state."""
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
        """Of a container that an earlier kubelet process left behind; its process has died with
        that kubelet.
        """
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
                message="the kubelet stand-in was started again; this container's process had "
                "ended with the old one",
                container_id=state.container_id,
            )
        return state


@dataclass(frozen=True, kw_only=True)
class PodFacts:
    """Everything that decides a pod's status."""

    pod: JsonObject
    init: Sequence[ContainerState]
    main: Sequence[ContainerState]
    initialized: bool
    pod_ip: str | None
    host_ip: str
    start_time: str
    refusal: tuple[str, str] | None = None
    """(reason, message) of a pod that was not admitted; final."""


def pod_status(facts: PodFacts) -> JsonObject:
    """The status to write. Conditions are only the kubelet's own four; others (gates, disruption)
    belong to their writers.
    """
    phase = _phase(facts)
    previous = {c["type"]: c for c in (facts.pod.get("status") or {}).get("conditions") or ()}
    over = phase in ("Succeeded", "Failed")
    unready = [c.name for c in facts.main if not c.ready]
    gates = [g["conditionType"] for g in facts.pod["spec"].get("readinessGates") or ()]
    closed = [g for g in gates if previous.get(g, {}).get("status") != "True"]
    containers_ready = _containers_ready(phase, unready)
    if containers_ready["status"] == "True" and closed:
        ready = {
            "status": "False",
            "reason": "ReadinessGatesNotReady",
            "message": f"corresponding condition of pod readiness gate {closed[0]!r} does not "
            "exist "
            "or is not True",
        }
    else:
        ready = containers_ready
    incomplete = [c.name for c in facts.init if not (c.terminated and c.terminated.exit_code == 0)]
    if facts.initialized or not incomplete:
        initialized = {
            "status": "True",
            **({"reason": "PodCompleted"} if phase == "Succeeded" else {}),
        }
    else:
        initialized = {
            "status": "False",
            "reason": "ContainersNotInitialized",
            "message": f"containers with incomplete status: [{' '.join(incomplete)}]",
        }
    now = timestamp()
    wanted = {
        "PodScheduled": {"status": "True"},
        "Initialized": initialized,
        "ContainersReady": containers_ready,
        "Ready": ready,
    }
    status: JsonObject = {
        "phase": phase,
        "conditions": [
            _condition(kind, value, previous.get(kind), now) for kind, value in wanted.items()
        ],
        "hostIP": facts.host_ip,
        "hostIPs": [{"ip": facts.host_ip}],
        "startTime": facts.start_time,
        "qosClass": (facts.pod.get("status") or {}).get("qosClass", "BestEffort"),
    }
    if facts.refusal is not None:
        status["reason"], status["message"] = facts.refusal
        return status
    status["containerStatuses"] = [c.to_api() for c in facts.main]
    if facts.init:
        status["initContainerStatuses"] = [c.to_api() for c in facts.init]
    if facts.pod_ip is not None and not (over and facts.pod_ip == ""):
        status["podIP"] = facts.pod_ip
        status["podIPs"] = [{"ip": facts.pod_ip}]
    return status


def _phase(facts: PodFacts) -> str:
    if facts.refusal is not None:
        return "Failed"
    policy = facts.pod["spec"].get("restartPolicy", "Always")
    if policy == "Never" and any(c.terminated and c.terminated.exit_code != 0 for c in facts.init):
        return "Failed"
    if not facts.initialized:
        return "Pending"
    ended = [c.terminated for c in facts.main if c.terminated is not None]
    if len(ended) == len(facts.main) and policy != "Always":
        if all(t.exit_code == 0 for t in ended):
            return "Succeeded"
        if policy == "Never":
            return "Failed"
    deleting = "deletionTimestamp" in facts.pod["metadata"]
    if len(ended) == len(facts.main) and deleting:
        return "Succeeded" if all(t.exit_code == 0 for t in ended) else "Failed"
    if any(
        c.running_since is not None or c.terminated is not None or c.last is not None
        for c in facts.main
    ):
        return "Running"
    return "Pending"


def _containers_ready(phase: str, unready: list[str]) -> JsonObject:
    if phase == "Succeeded":
        return {"status": "False", "reason": "PodCompleted"}
    if phase == "Failed":
        return {"status": "False", "reason": "PodFailed"}
    if unready:
        return {
            "status": "False",
            "reason": "ContainersNotReady",
            "message": f"containers with unready status: [{' '.join(unready)}]",
        }
    return {"status": "True"}


def _condition(kind: str, value: JsonObject, previous: JsonObject | None, now: str) -> JsonObject:
    same = previous is not None and previous.get("status") == value["status"]
    # Null removes the key in a strategic merge patch: an old reason must not outlive its condition.
    return {
        "type": kind,
        "status": value["status"],
        "reason": value.get("reason"),
        "message": value.get("message"),
        "lastProbeTime": None,
        "lastTransitionTime": previous["lastTransitionTime"] if same and previous else now,
    }


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
