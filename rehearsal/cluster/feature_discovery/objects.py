"""NodeFeature objects, and the labels that NFD's master makes of them. Pure functions.

Source: kubernetes-sigs/node-feature-discovery v0.18.3, pkg/nfd-worker and pkg/nfd-master.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.node.operands.node_features import OF_NODE

OWNED: Final = "nfd.node.kubernetes.io/feature-labels"
"""Annotation in which the master notes the labels that it wrote, in order to remove them."""


def node_of(feature: JsonObject) -> str:
    """Empty for none."""
    return str((feature["metadata"].get("labels") or {}).get(OF_NODE, ""))


def merged(features: Iterable[JsonObject]) -> Mapping[str, str]:
    """The labels that a node is to have by its NodeFeature objects; the later name wins."""
    labels: dict[str, str] = {}
    for feature in sorted(features, key=lambda one: str(one["metadata"]["name"])):
        labels.update((feature.get("spec") or {}).get("labels") or {})
    return labels


def changes(node: JsonObject, wanted: Mapping[str, str]) -> Mapping[str, Mapping[str, str | None]]:
    """The patch of the node's metadata; empty where nothing changes."""
    metadata = node["metadata"]
    labels = metadata.get("labels") or {}
    noted = (metadata.get("annotations") or {}).get(OWNED, "")
    before = {name for name in noted.split(",") if name}
    written: dict[str, str | None] = {k: v for k, v in wanted.items() if labels.get(k) != v}
    written.update({name: None for name in before - set(wanted) if name in labels})
    note = ",".join(sorted(wanted))
    if not written and note == noted:
        return {}
    return {"labels": written, "annotations": {OWNED: note}}


def taken_back(node: JsonObject) -> Mapping[str, Mapping[str, None]]:
    """The patch of a node's metadata after NFD is uninstalled; empty where it has written nothing.

    That is every label in NFD's own note on the node, of which those of GPU feature discovery are
    a part, and the note. What the GPU operator itself wrote on nodes stays (NVIDIA/gpu-operator
    #1391).
    """
    noted = (node["metadata"].get("annotations") or {}).get(OWNED)
    if noted is None:
        return {}
    labels = dict.fromkeys(name for name in noted.split(",") if name)
    return {"labels": labels, "annotations": {OWNED: None}}
