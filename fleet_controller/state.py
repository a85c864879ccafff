"""Pools, nodes, reports and events, parsed from the API server's objects. Pure.

Only what decisions need is kept: a Node object is some 15 kB, this a twentieth of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from typing import Any

from fleet_controller.api import (
    CHANGE_ANNOTATION,
    CHANGED_ANNOTATION,
    DEPLOY_LABEL_PREFIX,
    DESIRED_ANNOTATION,
    JOINED_ANNOTATION,
    MIG_CONFIG_LABEL,
    MIG_STATE_LABEL,
    NODE_CONDITION,
    QUARANTINE_EFFECT,
    REPORTS_AFTER_ANNOTATION,
    ROLLOUT_ANNOTATION,
    STARTUP_TAINT_KEY,
    STUCK_ANNOTATION,
    VERIFIED_BOOT_ANNOTATION,
    VERIFIED_LAYOUT_ANNOTATION,
    ZONE_LABEL,
)
from fleet_controller.known_layouts import (
    Asked,
    KnownLayout,
    read_asked,
    read_layout,
    target_of_undo,
)
from fleet_controller.rollout_policy import DEFAULT_POLICY, RolloutPolicy, read_policy
from telemetry.plain import plain

_EPOCH = 0.0
_GPU_RESOURCE_PREFIX = "nvidia.com/"


@dataclass(frozen=True, kw_only=True)
class Condition:
    status: str
    """True, False or Unknown."""
    reason: str
    message: str
    changed: float
    """When `status` last changed; seconds since the epoch, as all times here."""
    written: float
    """When anything of it last changed."""
    generation: int = 0
    """observedGeneration; pools only."""


@dataclass(frozen=True, kw_only=True)
class BroughtLabel:
    """A label that the controller has set on an existing node."""

    value: str
    before: str | None
    """What it was; None: the node did not have it."""


@dataclass(frozen=True, kw_only=True)
class Joined:
    """What the controller has brought to an existing node, kept on the node itself."""

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
    """resourceVersion."""
    created: float
    boot_id: str
    verified_boot: str
    """Boot ID of the boot in which the controller last found the node verified; empty: none."""
    ready: bool
    """Whether its condition Ready is True: the kubelet reports, and says that it is ready."""
    labels: Mapping[str, str]
    taint_keys: tuple[str, ...]
    """In the object's order: a removal needs the index."""
    condition: Condition | None
    """slicewright.io/GPUPartitionsReady."""
    leaving: bool
    """Being deleted."""
    joined: Joined | None = None
    """None where the node's labels came with the node, or it is in no pool."""
    unschedulable: bool = False
    """Cordoned, by whomever."""
    change: str = ""
    """The note about a change of its layout, see `fleet_controller.layout_change`; empty: none."""
    verified_layout: str = ""
    """The layout with which the controller last found the node verified; empty: none."""
    stuck: str = ""
    """The note of the watchdog, see `fleet_controller.stuck`; empty: none."""
    told: str = ""
    """What its agent must find in place of its file, see DESIRED_ANNOTATION; empty: nothing."""
    reports_after: float = 0.0
    """Reports of this time, and earlier ones, are about an earlier layout; 0: none are."""
    changed_at: float = 0.0
    """When the last change of its layout or driver has ended well; 0: not known."""
    quarantine_at: int | None = None
    """Where in its taints the startup taint with the effect NoExecute is; None without one."""

    @property
    def zone(self) -> str:
        return self.labels.get(ZONE_LABEL, "")

    # Every pass asks every node, some of it several times, and a node has a hundred labels.
    @cached_property
    def held(self) -> bool:
        """Whether the node has the startup taint."""
        return STARTUP_TAINT_KEY in self.taint_keys

    @cached_property
    def mig_config(self) -> str | None:
        return self.labels.get(MIG_CONFIG_LABEL)

    @cached_property
    def mig_state(self) -> str | None:
        return self.labels.get(MIG_STATE_LABEL)

    @cached_property
    def paused(self) -> tuple[str, ...]:
        """GPU operands that mig-manager has paused, such as `device-plugin`."""
        return tuple(
            sorted(
                key.removeprefix(DEPLOY_LABEL_PREFIX)
                for key, value in self.labels.items()
                if key.startswith(DEPLOY_LABEL_PREFIX) and value.startswith("paused")
            )
        )


@dataclass(frozen=True, kw_only=True)
class Report:
    """A GPUNodeReport. Text is as the agent wrote it; empty where it is missing."""

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
    """Version of the driver that answered; empty: none did."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    name: str
    uid: str
    generation: int
    created: float
    selector: Mapping[str, str]
    layout_hash: str
    """Of the layout that its nodes are to have now; so is `mig_config`."""
    fewest: int
    mig_config: str | None
    status: Mapping[str, Any]
    """As it is in the cluster."""
    brings: Mapping[str, str] | None = None
    """Labels for its nodes, which exist without it; None where they were created with theirs."""
    disables_mig: bool = False
    """Whether MIG is disabled on existing nodes that leave the pool."""
    version: str = ""
    """resourceVersion."""
    leaving: bool = False
    """Being deleted."""
    finalizers: tuple[str, ...] = ()
    policy: RolloutPolicy = DEFAULT_POLICY
    asked: str = ""
    """What people ask of its rollout: the value of ROLLOUT_ANNOTATION."""
    suspended: str = ""
    """`paused` or `aborted`: what people have asked of its rollout; empty: nothing."""
    declared: KnownLayout | None = None
    """The layout that its spec declares; None where mig-manager does not partition it."""
    told: str = ""
    """What its agents must find in place of their file; empty: what the file says."""
    no_undo: str = ""
    """Why an undo that people have asked for cannot be; empty: none is asked for, or it can."""
    driver: str | None = None
    """Version of NVIDIA's driver that its nodes must have; None: the rollout changes no driver."""

    @property
    def undone(self) -> bool:
        """Whether its nodes are to have an earlier layout than its spec declares."""
        return self.declared is not None and self.mig_config != self.declared.mig_config

    @property
    def left_of_ended_undo(self) -> str | None:
        """What people still ask, where an undo has ended because the spec declares another layout;
        None where none has.
        """
        said = read_asked(self.asked)
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
            if (one := _condition(self.status, kind)) is not None
        }


@dataclass(frozen=True, kw_only=True)
class WarningEvent:
    """A Warning Event of the controller's that is in the cluster."""

    name: str
    last_seen: float
    """Its lastTimestamp."""


def read_node(raw: Mapping[str, Any]) -> Node:
    """Raises KeyError, TypeError or ValueError for anything but a Node; so do the others below."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    return Node(
        name=meta["name"],
        uid=meta["uid"],
        version=meta.get("resourceVersion", ""),
        created=seconds(meta.get("creationTimestamp")),
        boot_id=(status.get("nodeInfo") or {}).get("bootID", ""),
        verified_boot=notes.get(VERIFIED_BOOT_ANNOTATION, ""),
        ready=any(
            condition.get("type") == "Ready" and condition.get("status") == "True"
            for condition in status.get("conditions") or ()
        ),
        labels=dict(labels),
        taint_keys=tuple(taint["key"] for taint in spec.get("taints") or ()),
        condition=_condition(status, NODE_CONDITION),
        leaving="deletionTimestamp" in meta,
        joined=_joined(notes.get(JOINED_ANNOTATION)),
        unschedulable=spec.get("unschedulable") is True,
        change=notes.get(CHANGE_ANNOTATION, ""),
        verified_layout=notes.get(VERIFIED_LAYOUT_ANNOTATION, ""),
        stuck=notes.get(STUCK_ANNOTATION, ""),
        told=notes.get(DESIRED_ANNOTATION, ""),
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


def _time(text: str | None) -> float:
    """0 also for what cannot be parsed."""
    try:
        return seconds(text)
    except (ValueError, OverflowError):
        return _EPOCH


def _joined(text: str | None) -> Joined | None:
    """None also for what cannot be parsed: a node must not be hidden by an annotation."""
    if text is None:
        return None
    try:
        raw = json.loads(text)
        return Joined(
            pool=str(raw["pool"]),
            labels={
                key: BroughtLabel(
                    value=str(one["value"]),
                    before=None if one["before"] is None else str(one["before"]),
                )
                for key, one in raw["labels"].items()
                # Never brought that way, and a forged note does not get it set.
                if key not in (MIG_CONFIG_LABEL, MIG_STATE_LABEL)
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
        name=raw["metadata"]["name"],
        owner_uid=owners[0] if owners else "",
        verdict=report.get("verdict", ""),
        reason=report.get("reason", ""),
        # Repeated in conditions, events and statuses, which people read in terminals.
        message=plain(str(report.get("message", ""))),
        pool=report.get("pool", ""),
        layout_hash=report.get("observedHash", ""),
        boot_id=report.get("bootID", ""),
        time=seconds(report.get("time")),
        driver=report.get("driver", ""),
    )


def read_pool(raw: Mapping[str, Any]) -> Pool:
    meta, spec = raw["metadata"], raw["spec"]
    existing = spec.get("existingNodes")
    asked = (meta.get("annotations") or {}).get(ROLLOUT_ANNOTATION, "")
    layout = spec.get("migConfig") or None
    pool = Pool(
        name=meta["name"],
        uid=meta["uid"],
        generation=meta.get("generation", 1),
        created=seconds(meta.get("creationTimestamp")),
        selector=dict(spec["selector"]["matchLabels"]),
        layout_hash=spec["layoutHash"],
        fewest=int(spec["expectedNodes"]["min"]),
        mig_config=layout,
        status=raw.get("status") or {},
        brings=None if existing is None else dict(existing["labels"]),
        disables_mig=(existing or {}).get("migLayoutOnRelease") == "Disable",
        version=meta.get("resourceVersion", ""),
        leaving="deletionTimestamp" in meta,
        finalizers=tuple(meta.get("finalizers") or ()),
        policy=read_policy(spec.get("rolloutPolicy")),
        driver=spec.get("driverVersion") or None,
        declared=None
        if layout is None
        # Of a pool that an older program wrote: it can be had, and not be gone back to.
        else read_layout(spec)
        or KnownLayout(mig_config=layout, layout_hash=spec["layoutHash"], desired=""),
    )
    return obeying(pool, asked)


def obeying(pool: Pool, asked: str) -> Pool:
    """The pool with what people ask of it. asked: the value of ROLLOUT_ANNOTATION.

    An undo that cannot be pauses the rollout: whoever asked for it does not want it to go on.
    """
    pool = replace(pool, asked=asked)
    said, declared = read_asked(asked) or Asked(), pool.declared
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


def read_warning(raw: Mapping[str, Any]) -> WarningEvent:
    return WarningEvent(
        name=raw["metadata"]["name"],
        last_seen=seconds(raw.get("lastTimestamp") or raw.get("firstTimestamp")),
    )


def requests_gpus(pod: Mapping[str, Any]) -> bool:
    """Whether a Pod requests any of NVIDIA's resources: whole GPUs, MIG devices or replicas."""
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return any(
        resource.startswith(_GPU_RESOURCE_PREFIX) and str(quantity) != "0"
        for container in containers
        for resource, quantity in ((container.get("resources") or {}).get("requests") or {}).items()
    )


def seconds(timestamp: str | None) -> float:
    """Since the epoch; 0 for no timestamp."""
    return datetime.fromisoformat(timestamp).timestamp() if timestamp else _EPOCH


# The conditions of hundreds of pools have the same few times, and get them at each pass.
@lru_cache(maxsize=1024)
def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(status: Mapping[str, Any], kind: str) -> Condition | None:
    for raw in status.get("conditions") or ():
        if raw.get("type") == kind:
            changed = seconds(raw.get("lastTransitionTime"))
            return Condition(
                status=raw.get("status", "Unknown"),
                reason=raw.get("reason", ""),
                message=raw.get("message", ""),
                changed=changed,
                written=max(changed, seconds(raw.get("lastHeartbeatTime"))),
                generation=raw.get("observedGeneration", 0),
            )
    return None
