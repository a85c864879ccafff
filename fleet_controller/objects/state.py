"""Pools, nodes, reports and events, parsed from the API server's objects. Pure.

Only the fields that decisions need are kept: a Node object is some 15 kB, this a twentieth of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from apis.gpu_pool.rollout_policy import DEFAULT_POLICY, RolloutPolicy, read_policy
from apis.gpu_pool.rollout_request import RolloutRequest, read_rollout_request
from apis.label_keys import may_be_brought
from apis.names import (
    CHANGE_ANNOTATION,
    CHANGED_ANNOTATION,
    DEPLOY_LABEL_PREFIX,
    DESIRED_ANNOTATION,
    JOINED_ANNOTATION,
    MIG_CONFIG_LABEL,
    MIG_STATE_LABEL,
    NODE_CONDITION,
    POOL_LABEL,
    QUARANTINE_EFFECT,
    REPORTS_AFTER_ANNOTATION,
    ROLLOUT_ANNOTATION,
    STARTUP_TAINT_KEY,
    STUCK_ANNOTATION,
    VERIFIED_BOOT_ANNOTATION,
    VERIFIED_LAYOUT_ANNOTATION,
    ZONE_LABEL,
)
from fleet_controller.objects.bounds import (
    EPOCH_S,
    LONGEST_CONDITION,
    LONGEST_NAME,
    UNREADABLE,
    identifier,
    name,
    note,
    reason,
    seconds,
    text,
    texts,
)
from fleet_controller.objects.known_layouts import (
    KnownLayout,
    read_layout,
    read_told,
    target_of_undo,
)

_GPU_RESOURCE_PREFIX = "nvidia.com/"
_MOST_EVENTS: Final = 2**31 - 1
"""The largest count of an Event, an int32."""


@dataclass(frozen=True, kw_only=True)
class Condition:
    status: str
    """True, False or Unknown."""
    reason: str
    message: str
    changed: float
    """Time when `status` last changed, in seconds since the epoch, like all times here."""
    written: float
    """Time when any field last changed."""
    generation: int = 0
    """The observedGeneration, for pools only."""


@dataclass(frozen=True, kw_only=True)
class BroughtLabel:
    """A label that the controller has set on an existing node."""

    value: str
    before: str | None
    """The earlier value, or None if the node did not have the label."""


@dataclass(frozen=True, kw_only=True)
class Joined:
    """The labels that the controller has set on an existing node, recorded on the node itself."""

    pool: str
    labels: Mapping[str, BroughtLabel]

    def dump(self) -> str:
        labels = {
            key: {"value": one.value, "before": one.before}
            for key, one in sorted(self.labels.items())
        }
        return json.dumps({"pool": self.pool, "labels": labels}, separators=(",", ":"))


@dataclass(frozen=True, kw_only=True)
class Node:
    name: str
    uid: str
    version: str
    """The resourceVersion."""
    created: float
    boot_id: str
    verified_boot: str
    """Boot ID under which the controller last found the node verified, or empty."""
    ready: bool
    """True if its condition Ready is True: the kubelet reports, and says that it is ready."""
    labels: Mapping[str, str]
    taint_keys: tuple[str, ...]
    """Taint keys in the object's order, because a removal needs the index."""
    condition: Condition | None
    """The condition slicewright.io/GPUPartitionsReady."""
    leaving: bool
    """True if it is being deleted."""
    joined: Joined | None = None
    """None if the node was created with its labels, or is in no pool."""
    unschedulable: bool = False
    """True if it is cordoned, by anybody."""
    change: str = ""
    """The note about a change of its layout (`objects.layout_change`), or empty."""
    verified_layout: str = ""
    """The layout that the controller last verified on the node, or empty."""
    stuck: str = ""
    """The note of the watchdog (`fleet_controller.objects.stuck`), or empty."""
    told: str = ""
    """The desired state that its agent reads instead of its file (DESIRED_ANNOTATION), or empty."""
    reports_after: float = 0.0
    """Reports of this time or earlier are about an earlier layout. 0 if all count."""
    changed_at: float = 0.0
    """Time when the last change of its layout or driver ended well, or 0 if not known."""
    quarantine_at: int | None = None
    """Index in its taints of the startup taint with the effect NoExecute, or None."""

    @property
    def zone(self) -> str:
        return self.labels.get(ZONE_LABEL, "")

    # Every pass reads these of every node, some several times, and a node has a hundred labels.
    @cached_property
    def held(self) -> bool:
        """True if the node has the startup taint."""
        return STARTUP_TAINT_KEY in self.taint_keys

    @cached_property
    def mig_config(self) -> str | None:
        return self.labels.get(MIG_CONFIG_LABEL)

    @cached_property
    def mig_state(self) -> str | None:
        return self.labels.get(MIG_STATE_LABEL)

    @cached_property
    def paused(self) -> tuple[str, ...]:
        """The GPU operands that mig-manager has paused, such as `device-plugin`."""
        return tuple(
            sorted(
                key.removeprefix(DEPLOY_LABEL_PREFIX)
                for key, value in self.labels.items()
                if key.startswith(DEPLOY_LABEL_PREFIX) and value.startswith("paused")
            )
        )


@dataclass(frozen=True, kw_only=True)
class Report:
    """A GPUNodeReport. Text is as the agent wrote it, and empty if it is missing."""

    name: str
    owner_uid: str
    verdict: str
    reason: str
    message: str
    pool: str
    layout_hash: str
    boot_id: str
    time: float
    driver: str = ""
    """Version of the driver that answered, or empty."""
    unreadable: str = ""
    """Why the object cannot be read, or empty. If set, all other fields but `name` are empty."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    name: str
    uid: str
    generation: int
    created: float
    selector: Mapping[str, str]
    layout_hash: str
    """Hash of the layout that its nodes are to have now. `mig_config` is of the same layout."""
    fewest: int
    mig_config: str | None
    status: Mapping[str, Any]
    """The status in the cluster."""
    brings: Mapping[str, str] | None = None
    """Labels for nodes that exist without the pool. None if the nodes were created with theirs."""
    disables_mig: bool = False
    """True if MIG is disabled on existing nodes that leave the pool."""
    version: str = ""
    """The resourceVersion."""
    leaving: bool = False
    """True if it is being deleted."""
    finalizers: tuple[str, ...] = ()
    policy: RolloutPolicy = DEFAULT_POLICY
    asked: str = ""
    """The user request for its rollout: the value of ROLLOUT_ANNOTATION."""
    suspended: str = ""
    """`paused` or `aborted` as users have requested for its rollout, or empty."""
    declared: KnownLayout | None = None
    """The layout that its spec declares. None if mig-manager does not partition it."""
    told: str = ""
    """The desired state that its agents read instead of their file. Empty if the file applies."""
    no_undo: str = ""
    """Why a requested undo is impossible. Empty if none is requested, or it is possible."""
    driver: str | None = None
    """NVIDIA's driver version that its nodes must have. None if the rollout changes no driver."""
    unreadable: str = ""
    """Why the object cannot be read, or empty. If set, the other fields are the last readable ones,
    or empty. Nothing is taken from the nodes of such a pool.
    """

    @property
    def undone(self) -> bool:
        """True if its nodes are to have an earlier layout than its spec declares."""
        return self.declared is not None and self.mig_config != self.declared.mig_config

    @property
    def left_of_ended_undo(self) -> str | None:
        """The rest of the request, if an undo has ended because the spec declares another layout.
        None if no undo has ended.
        """
        said = read_rollout_request(self.asked)
        if said is None or self.declared is None:
            return None
        if said.undoes in ("", self.declared.mig_config):
            return None
        return replace(said, undoes="").dump()

    def selects(self, node: Node) -> bool:
        return bool(self.selector) and all(
            node.labels.get(key) == value for key, value in self.selector.items()
        )

    def condition(self, kind: str) -> Condition | None:
        return self._conditions.get(kind)

    @cached_property
    def _conditions(self) -> Mapping[str, Condition]:
        return {
            kind: one
            for kind in (raw.get("type", "") for raw in self.status.get("conditions") or ())
            if (one := _condition(self.status.get("conditions"), kind)) is not None
        }


@dataclass(frozen=True, kw_only=True)
class WarningEvent:
    """A Warning Event of the controller that exists in the cluster."""

    name: str
    last_seen: float
    """Its lastTimestamp."""


def read_node(raw: Mapping[str, Any]) -> Node:
    """Parses a Node. Raises KeyError, TypeError or ValueError for anything else, as do the
    functions below.
    """
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels, notes = texts(meta.get("labels")), texts(meta.get("annotations"))
    return Node(
        name=name(meta),
        uid=meta["uid"],
        version=meta.get("resourceVersion", ""),
        created=seconds(meta.get("creationTimestamp")),
        boot_id=identifier((status.get("nodeInfo") or {}).get("bootID")),
        verified_boot=identifier(notes.get(VERIFIED_BOOT_ANNOTATION)),
        ready=any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
        ),
        labels=labels,
        taint_keys=tuple(taint["key"] for taint in spec.get("taints") or ()),
        condition=_condition(status.get("conditions"), NODE_CONDITION),
        leaving="deletionTimestamp" in meta,
        joined=_joined(note(notes.get(JOINED_ANNOTATION)) or None),
        unschedulable=spec.get("unschedulable") is True,
        change=note(notes.get(CHANGE_ANNOTATION)),
        verified_layout=identifier(notes.get(VERIFIED_LAYOUT_ANNOTATION)),
        stuck=note(notes.get(STUCK_ANNOTATION)),
        told=read_told(notes.get(DESIRED_ANNOTATION)),
        reports_after=_time(notes.get(REPORTS_AFTER_ANNOTATION)),
        changed_at=_time(notes.get(CHANGED_ANNOTATION)),
        quarantine_at=next(
            (
                index
                for index, taint in enumerate(spec.get("taints") or ())
                if taint["key"] == STARTUP_TAINT_KEY and taint.get("effect") == QUARANTINE_EFFECT
            ),
            None,
        ),
    )


def _time(timestamp: str | None) -> float:
    """Returns the time, or 0 if it cannot be parsed."""
    try:
        return seconds(timestamp)
    except UNREADABLE:
        return EPOCH_S


def _joined(annotation: str | None) -> Joined | None:
    """Parses the note. Returns None also for an invalid one: an annotation must not hide a node."""
    if annotation is None:
        return None
    try:
        raw = json.loads(annotation)
        return Joined(
            pool=str(raw["pool"]),
            labels={
                key: BroughtLabel(
                    value=str(one["value"]),
                    before=None if one["before"] is None else str(one["before"]),
                )
                for key, one in raw["labels"].items()
                # The controller never sets other keys, and a forged note does not make it set any.
                if may_be_brought(key)
            },
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def read_report(raw: Mapping[str, Any]) -> Report:
    report = raw.get("report") or {}
    owners = [
        owner["uid"]
        for owner in raw["metadata"].get("ownerReferences") or ()
        if owner.get("kind") == "Node"
    ]
    return Report(
        name=name(raw["metadata"]),
        owner_uid=owners[0] if owners else "",
        # Repeated in conditions, events and statuses, which people read in terminals.
        verdict=text(report.get("verdict"), LONGEST_NAME),
        reason=reason(report.get("reason")),
        message=text(report.get("message")),
        pool=text(report.get("pool"), LONGEST_NAME),
        layout_hash=text(report.get("observedHash"), LONGEST_NAME),
        boot_id=identifier(report.get("bootID")),
        time=seconds(report.get("time")),
        driver=text(report.get("driver"), LONGEST_NAME),
    )


def unreadable_report(raw: Mapping[str, Any], why: str, last: Report | None = None) -> Report:
    """Returns a stand-in for a report that cannot be read. The last readable report no longer
    counts.

    Raises KeyError, TypeError or ValueError if not even its name can be read.
    """
    return Report(
        name=name(raw["metadata"]),
        owner_uid="",
        verdict="",
        reason="",
        message="",
        pool="",
        layout_hash="",
        boot_id="",
        time=EPOCH_S,
        unreadable=why,
    )


def read_pool(raw: Mapping[str, Any]) -> Pool:
    meta, spec = raw["metadata"], raw["spec"]
    existing = spec.get("existingNodes")
    asked = (meta.get("annotations") or {}).get(ROLLOUT_ANNOTATION, "")
    layout = text(spec.get("migConfig"), LONGEST_NAME) or None
    layout_hash = text(spec["layoutHash"], LONGEST_NAME)
    pool = Pool(
        name=name(meta),
        uid=meta["uid"],
        generation=int(meta.get("generation", 1)),
        created=seconds(meta.get("creationTimestamp")),
        selector=texts(spec["selector"]["matchLabels"]),
        layout_hash=layout_hash,
        fewest=int(spec["expectedNodes"]["min"]),
        mig_config=layout,
        status=readable_status(raw.get("status")),
        brings=None if existing is None else texts(existing["labels"]),
        disables_mig=(existing or {}).get("migLayoutOnRelease") == "Disable",
        version=meta.get("resourceVersion", ""),
        leaving="deletionTimestamp" in meta,
        finalizers=tuple(meta.get("finalizers") or ()),
        policy=read_policy(spec.get("rolloutPolicy")),
        driver=text(spec.get("driverVersion"), LONGEST_NAME) or None,
        declared=None
        if layout is None
        # An older program wrote the pool: nodes can get this layout, but an undo cannot go back to
        # it.
        else read_layout(spec)
        or KnownLayout(mig_config=layout, layout_hash=layout_hash, desired=""),
    )
    return obeying(pool, asked)


def unreadable_pool(raw: Mapping[str, Any], why: str, last: Pool | None = None) -> Pool:
    """Returns a stand-in for a pool that cannot be read: its last readable state, or its name
    alone.

    Raises KeyError or TypeError if not even its name can be read.
    """
    if last is not None:
        return replace(last, unreadable=why)
    meta = raw["metadata"]
    return missing_pool(name(meta), why, uid=text(meta.get("uid")))


def missing_pool(pool: str, why: str, *, uid: str = "") -> Pool:
    """Returns a stand-in for a pool that is known by name only. Its nodes carry its label."""
    return Pool(
        name=pool,
        uid=uid,
        generation=0,
        created=EPOCH_S,
        selector={POOL_LABEL: pool},
        layout_hash="",
        fewest=0,
        mig_config=None,
        status={},
        unreadable=why,
    )


def obeying(pool: Pool, asked: str) -> Pool:
    """Applies the user request to the pool.

    asked: the value of ROLLOUT_ANNOTATION.

    An impossible undo pauses the rollout: users who request an undo do not want it to go on.
    """
    pool = replace(pool, asked=asked)
    said, declared = read_rollout_request(asked) or RolloutRequest(), pool.declared
    if declared is None:
        why = target_of_undo(None, pool.status) if said.undoes else ""
        return replace(pool, suspended=said.suspended, no_undo=str(why))
    as_declared = replace(
        pool,
        suspended=said.suspended,
        mig_config=declared.mig_config,
        layout_hash=declared.layout_hash,
        told="",
        no_undo="",
    )
    if said.undoes != declared.mig_config:
        return as_declared
    target = target_of_undo(declared, pool.status)
    if isinstance(target, str):
        return replace(as_declared, no_undo=target, suspended=said.suspended or "paused")
    return replace(
        as_declared,
        mig_config=target.mig_config,
        layout_hash=target.layout_hash,
        told=target.desired,
    )


def read_warning(raw: Mapping[str, Any]) -> WarningEvent | None:
    """Parses a Warning Event. Returns None for an Event of anybody else: the controller names its
    own `POOL.16 hex digits`.

    Anybody who may create Events in the namespace can write the controller's name into one.
    """
    event, pool = name(raw["metadata"]), name(raw["involvedObject"])
    if not re.fullmatch(re.escape(pool) + r"\.[0-9a-f]{16}", event):
        return None
    last_seen = seconds(raw.get("lastTimestamp") or raw.get("firstTimestamp"))
    return WarningEvent(name=event, last_seen=last_seen)


def next_count(raw: Mapping[str, Any]) -> int:
    """Returns the count of an Event that is seen once more."""
    count = raw.get("count")
    return min((count if isinstance(count, int) else 1) + 1, _MOST_EVENTS)


def requests_gpus(pod: Mapping[str, Any]) -> bool:
    """True if a Pod requests any of NVIDIA's resources: whole GPUs, MIG devices or replicas."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return any(
        resource.startswith(_GPU_RESOURCE_PREFIX) and str(quantity) != "0"
        for container in containers
        for resource, quantity in ((container.get("resources") or {}).get("requests") or {}).items()
    )


def readable_status(raw: Any) -> Mapping[str, Any]:
    """Returns a pool's status without unreadable fields. The controller writes it again anyway."""
    if not isinstance(raw, Mapping):
        return {}
    return {key: value for key, value in raw.items() if _is_readable(key, value)}


def _is_readable(key: str, value: Any) -> bool:
    match key:
        case "observedGeneration":
            return isinstance(value, int)
        case "waitingSince" | "tooFewSince":
            return isinstance(value, str) and _time(value) > EPOCH_S
        case "nodes":
            return isinstance(value, Mapping) and all(isinstance(n, int) for n in value.values())
        case "conditions":
            return isinstance(value, list) and all(
                isinstance(one, Mapping) and _condition([one], str(one.get("type"))) is not None
                for one in value
            )
        case "broughtLabels":
            return isinstance(value, list) and all(isinstance(key, str) for key in value)
        case "failingNodes" | "provenLayouts":
            return isinstance(value, list) and all(isinstance(one, Mapping) for one in value)
        case _:
            return True


def _condition(conditions: Any, kind: str) -> Condition | None:
    """Returns a condition, or None, also for an unreadable one, as it is written again."""
    try:
        raw = next((one for one in conditions or () if one.get("type") == kind), None)
        return None if raw is None else _read_condition(raw)
    except UNREADABLE:
        return None


def _read_condition(raw: Mapping[str, Any]) -> Condition:
    changed = seconds(raw.get("lastTransitionTime"))
    status, generation = raw.get("status", "Unknown"), raw.get("observedGeneration", 0)
    if status not in ("True", "False", "Unknown") or not isinstance(generation, int):
        raise ValueError("is no condition")
    return Condition(
        status=status,
        reason=text(raw.get("reason"), LONGEST_NAME),
        message=text(raw.get("message"), LONGEST_CONDITION),
        changed=changed,
        written=max(changed, seconds(raw.get("lastHeartbeatTime"))),
        generation=generation,
    )
