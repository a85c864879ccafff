"""Nodes, parsed from the API server's objects. Pure.

Only the fields that decisions need are kept: a Node object is some 15 kB, this a twentieth of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from slicewright.apis.label_keys import may_be_brought
from slicewright.apis.names import (
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
    SCHEDULER_START_ANNOTATION,
    STARTUP_TAINT_KEY,
    STUCK_ANNOTATION,
    VERIFIED_BOOT_ANNOTATION,
    VERIFIED_LAYOUT_ANNOTATION,
    ZONE_LABEL,
)
from slicewright.apis.shares.registration import RegisteredCard
from slicewright.fleet_controller.objects.bounds import (
    identifier,
    name,
    note,
    seconds,
    seconds_or_epoch,
    texts,
)
from slicewright.fleet_controller.objects.condition import Condition, read_condition
from slicewright.fleet_controller.objects.known_layouts import read_desired_annotation
from slicewright.fleet_controller.objects.shares import NodeLock, read_lock, read_registered


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
            key: {"value": label.value, "before": label.before}
            for key, label in sorted(self.labels.items())
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
    """The note of the watchdog (`slicewright.fleet_controller.objects.stuck`), or empty."""
    desired_state_annotation: str = ""
    """The desired state that its agent reads instead of its file (DESIRED_ANNOTATION), or empty."""
    reports_after: float = 0.0
    """Reports of this time or earlier are about an earlier layout. 0 if all count."""
    changed_at: float = 0.0
    """Time when the last change of its layout or driver ended well, or 0 if not known."""
    quarantine_at: int | None = None
    """Index in its taints of the startup taint with the effect NoExecute, or None."""
    registered: tuple[RegisteredCard, ...] = ()
    """The cards that an engine for fractions has registered."""
    share_lock: NodeLock | None = None
    scheduler_start: float = 0.0
    """The controller has touched the node after this start of the engine's scheduler. 0: never."""

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
        condition=read_condition(status.get("conditions"), NODE_CONDITION),
        leaving="deletionTimestamp" in meta,
        joined=_joined(note(notes.get(JOINED_ANNOTATION)) or None),
        unschedulable=spec.get("unschedulable") is True,
        change=note(notes.get(CHANGE_ANNOTATION)),
        verified_layout=identifier(notes.get(VERIFIED_LAYOUT_ANNOTATION)),
        stuck=note(notes.get(STUCK_ANNOTATION)),
        desired_state_annotation=read_desired_annotation(notes.get(DESIRED_ANNOTATION)),
        reports_after=seconds_or_epoch(notes.get(REPORTS_AFTER_ANNOTATION)),
        changed_at=seconds_or_epoch(notes.get(CHANGED_ANNOTATION)),
        quarantine_at=next(
            (
                index
                for index, taint in enumerate(spec.get("taints") or ())
                if taint["key"] == STARTUP_TAINT_KEY and taint.get("effect") == QUARANTINE_EFFECT
            ),
            None,
        ),
        registered=read_registered(notes),
        share_lock=read_lock(notes),
        scheduler_start=seconds_or_epoch(notes.get(SCHEDULER_START_ANNOTATION)),
    )


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
                    value=str(label["value"]),
                    before=None if label["before"] is None else str(label["before"]),
                )
                for key, label in raw["labels"].items()
                # The controller never sets other keys, and a forged note does not make it set any.
                if may_be_brought(key)
            },
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
