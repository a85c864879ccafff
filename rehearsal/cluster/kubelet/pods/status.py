"""The status of a pod, from the states of its containers. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.kubelet.containers.state import (
    LOST_EXIT_CODE,
    LOST_REASON,
    ContainerState,
    Terminated,
)
from slicewright.rehearsal.cluster.kubelet.timestamps import timestamp


@dataclass(frozen=True, kw_only=True)
class PodFacts:
    """Everything that determines a pod's status."""

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
    """The status to write, with the kubelet's own four conditions only."""
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
            "exist or is not True",
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
        # A strategic merge patch would add a new address to the one before a reboot.
        status["podIPs"] = [{"$patch": "replace"}, {"ip": facts.pod_ip}]
    return status


def status_after_reboot(pod: JsonObject) -> JsonObject | None:
    """What a reboot changes in the status of a pod that runs: its containers restart in place.

    None where they do not, or have not started yet.
    """
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    if pod["spec"].get("restartPolicy", "Always") == "Never" or not statuses:
        return None
    now = timestamp()
    restarted = []
    for status in statuses:
        running = (status.get("state") or {}).get("running")
        if running is None:
            return None
        lost = Terminated(
            exit_code=LOST_EXIT_CODE,
            reason=LOST_REASON,
            started_at=running.get("startedAt", now),
            finished_at=now,
        )
        restarted.append(
            {
                **status,
                "restartCount": int(status.get("restartCount", 0)) + 1,
                "state": {"running": {"startedAt": now}},
                "lastState": {"terminated": lost.to_api()},
            }
        )
    return {"containerStatuses": restarted}


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
    # Null removes the key in a strategic merge patch, such as the reason of an earlier status.
    return {
        "type": kind,
        "status": value["status"],
        "reason": value.get("reason"),
        "message": value.get("message"),
        "lastProbeTime": None,
        "lastTransitionTime": previous["lastTransitionTime"] if same and previous else now,
    }
