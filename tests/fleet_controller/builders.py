"""Nodes and pools with ordinary fields, for tests that care about a few of them."""

from __future__ import annotations

from typing import Any

from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool

NOW = 1_800_000_000.0


def build_node(**fields: Any) -> Node:
    """Returns a Ready node that has just joined, without labels and taints."""
    ordinary = {
        "version": "1",
        "created": NOW,
        "boot_id": "b",
        "verified_boot": "",
        "ready": True,
        "labels": {},
        "taint_keys": (),
        "condition": None,
        "leaving": False,
    }
    return Node(**(ordinary | fields))


def build_pool(**fields: Any) -> Pool:
    """Returns a pool that wants the layout `new` and has no status yet."""
    ordinary: dict[str, Any] = {
        "uid": "u",
        "generation": 1,
        "created": NOW,
        "selector": {},
        "layout_hash": "h",
        "fewest": 1,
        "mig_config": "new",
        "status": {},
    }
    return Pool(**(ordinary | fields))
