"""The agent's own Node as the API server has it: what the kubelet advertises, which boot it is,
what mig-manager does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Resource quantities of extended resources are whole numbers, but the API server shortens them:
# 2000 comes back as "2k".
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


@dataclass(frozen=True, kw_only=True)
class NodeState:
    """Extended resources only; cpu, memory and the like are nobody's business here."""

    name: str
    uid: str
    boot_id: str
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    mig_state: str = ""
    """Label nvidia.com/mig.config.state: what mig-manager says it is doing; empty without it."""


def read(node: Mapping[str, Any]) -> NodeState:
    """From a Node object. A node without status (just created) has no resources and an empty boot
    id.
    """
    status = node.get("status") or {}
    return NodeState(
        name=node["metadata"]["name"],
        uid=node["metadata"]["uid"],
        boot_id=(status.get("nodeInfo") or {}).get("bootID", ""),
        capacity=_extended(status.get("capacity")),
        allocatable=_extended(status.get("allocatable")),
        mig_state=(node["metadata"].get("labels") or {}).get("nvidia.com/mig.config.state", ""),
    )


def _extended(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    return {name: quantity(str(value)) for name, value in (quantities or {}).items() if "/" in name}


def quantity(text: str) -> int:
    """A whole Kubernetes quantity. Raises ValueError for anything that is not one."""
    digits = text.rstrip("kKMGTi")
    suffix = text[len(digits) :]
    if suffix not in _SUFFIXES:
        raise ValueError(f"{text!r} is no whole quantity")
    return int(digits) * _SUFFIXES[suffix]
