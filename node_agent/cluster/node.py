"""The agent's view of its Node: advertised resources, boot id, mig-manager's state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slicewright.apis.names import (
    CHANGE_ANNOTATION,
    DESIRED_ANNOTATION,
    MIG_CONFIG_LABEL,
    MIG_STATE_LABEL,
    REPORTS_AFTER_ANNOTATION,
    STARTUP_TAINT_KEY,
    VERIFIED_LAYOUT_ANNOTATION,
)
from slicewright.apis.shares.engines import ENGINES

# Quantities of extended resources are whole, but the API server shortens 2000 to "2k".
_SUFFIXES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_MOST_TEXT = 2**20
"""Characters. etcd accepts objects of one and a half megabytes."""
_LONGEST_QUANTITY = 40
_REGISTRATIONS = tuple(engine.registration for engine in ENGINES.values())
_FEATURE = re.compile(r"nvidia\.com/(gpu|mig-.+)\.(product|count|replicas)")


@dataclass(frozen=True, kw_only=True)
class NodeState:
    """A Node, with extended resources only."""

    name: str
    uid: str
    boot_id: str
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    mig_state: str = ""
    """Label nvidia.com/mig.config.state, set by mig-manager. Empty without it."""
    mig_config: str = ""
    """Label nvidia.com/mig.config, which mig-manager applies. Empty without it."""
    assigned: str = ""
    """The desired state that the controller assigns after an undo (annotation
    slicewright.io/desired-state), instead of the agent's file. Empty: the file applies.
    """
    reports_after: str = ""
    """Reports of this time and earlier do not count (annotation slicewright.io/reports-after).
    Empty: all count.
    """
    layout_change: str = ""
    """The controller's note during a change of the node's layout (annotation
    slicewright.io/layout-change). Empty: no change.
    """
    verified_layout: str = ""
    """The label nvidia.com/mig.config at the node's last verification (annotation
    slicewright.io/verified-layout). Empty: never verified.
    """
    held: bool = False
    """True if the Node has the startup taint: the controller has not released it."""
    feature_labels: Mapping[str, str] = field(default_factory=dict)
    """Product, count and replicas of GPUs and partitions, by GPU feature discovery."""
    registrations: Mapping[str, str] = field(default_factory=dict)
    """Annotation -> the cards that an engine for fractions has registered."""


def read(node: Mapping[str, Any]) -> NodeState:
    """Reads a Node object. A new Node without status has no resources and an empty boot id.

    Raises KeyError, TypeError or ValueError for anything else.
    """
    metadata, status = _object(node["metadata"]), _object(node.get("status"))
    labels, notes = _texts(metadata.get("labels")), _texts(metadata.get("annotations"))
    boot = _object(status.get("nodeInfo")).get("bootID", "")
    named = _texts({"name": metadata["name"], "uid": metadata["uid"], "bootID": boot})
    return NodeState(
        name=named["name"],
        uid=named["uid"],
        boot_id=named["bootID"],
        capacity=_extended(status.get("capacity")),
        allocatable=_extended(status.get("allocatable")),
        mig_state=labels.get(MIG_STATE_LABEL, ""),
        mig_config=labels.get(MIG_CONFIG_LABEL, ""),
        assigned=notes.get(DESIRED_ANNOTATION, ""),
        reports_after=notes.get(REPORTS_AFTER_ANNOTATION, ""),
        layout_change=notes.get(CHANGE_ANNOTATION, ""),
        verified_layout=notes.get(VERIFIED_LAYOUT_ANNOTATION, ""),
        held=_has_startup_taint(_object(node.get("spec")).get("taints")),
        feature_labels={name: labels[name] for name in labels if _FEATURE.fullmatch(name)},
        registrations={key: notes[key] for key in _REGISTRATIONS if key in notes},
    )


def _has_startup_taint(taints: Any) -> bool:
    return any(_object(taint).get("key") == STARTUP_TAINT_KEY for taint in taints or ())


def _object(value: Any) -> Mapping[str, Any]:
    """An object. Null counts as an empty object. Raises TypeError."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TypeError("a part of the Node is not an object")
    return value


def _texts(value: Any) -> Mapping[str, str]:
    """A mapping of texts. Raises TypeError, or ValueError if it is too large for the API server."""
    texts = _object(value)
    if not all(isinstance(text, str) for text in texts.values()):
        raise TypeError("a label, an annotation or a name of the Node is not text")
    if sum(map(len, texts.values())) > _MOST_TEXT:
        raise ValueError(f"the Node has labels or annotations of more than {_MOST_TEXT} characters")
    return texts


def _extended(quantities: Any) -> dict[str, int]:
    return {
        name: quantity(str(value)) for name, value in _object(quantities).items() if "/" in name
    }


def quantity(text: str) -> int:
    """A whole Kubernetes quantity. Raises ValueError for other quantities."""
    if len(text) > _LONGEST_QUANTITY:
        raise ValueError("a quantity is too long for a number")
    digits = text.rstrip("kKMGTi")
    suffix = text[len(digits) :]
    if suffix not in _SUFFIXES:
        raise ValueError(f"{text!r} is not a whole quantity")
    return int(digits) * _SUFFIXES[suffix]
