"""Demand classes of a cluster's pods: those of one owner that request the same devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from slicewright.apis.names import NAMESPACE
from slicewright.infra.plan.demand.class_names import class_name
from slicewright.infra.plan.demand.pod_devices import classes_of_pods, requested_devices

_OF_NODES: Final = ("DaemonSet", "Node")
"""Owners whose pods come with each node: they are no demand."""
_HASH_LABEL: Final = "pod-template-hash"
_Devices = tuple[tuple[str, int], ...]


def classes_of_cluster(pods: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns `demand.classes` of pods that have not ended, sorted by name. Empty: none has GPUs.

    Pods that are being deleted do not count: their replacements exist already. Pods without an
    owner are one class for each namespace and device.
    """
    numbers: dict[str, Counter[_Devices]] = {}
    for pod in pods:
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp") or metadata["namespace"] == NAMESPACE:
            continue
        devices = requested_devices(pod["spec"])
        if devices and (owner := _owner(metadata)):
            numbers.setdefault(owner, Counter())[tuple(sorted(devices.items()))] += 1
    classes = [
        demand for owner, alike in numbers.items() for demand in _classes(class_name(owner), alike)
    ]
    return sorted(_numbered(classes), key=lambda demand: str(demand["name"]))


def _owner(metadata: Mapping[str, Any]) -> str | None:
    """Returns namespace and name of the pod's owner. None: the pod belongs to a node."""
    namespace = str(metadata["namespace"])
    owners = [owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    if not owners:
        return f"{namespace}-pods"
    (owner,) = owners
    if owner["kind"] in _OF_NODES:
        return None
    name = str(owner["name"])
    if owner["kind"] == "ReplicaSet":
        # A Deployment names its ReplicaSets with this label's value; a rollout has two of them.
        name = name.removesuffix("-" + str((metadata.get("labels") or {}).get(_HASH_LABEL)))
    return f"{namespace}-{name}"


def _classes(name: str, alike: Counter[_Devices]) -> list[dict[str, Any]]:
    """Returns the classes of one owner. Pods with other devices are alike for each profile."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for devices, pods in sorted(alike.items()):
        for demand in classes_of_pods(name, pods, dict(devices)):
            key = demand["name"], demand.get("gpus"), *demand.get("profiles", ())
            if key in merged:
                merged[key]["replicas"] += demand["replicas"]
            else:
                merged[key] = demand
    return list(merged.values())


def _numbered(classes: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Yields the classes with unique names: `chat`, `chat-2`, …"""
    names = Counter[str]()
    for demand in classes:
        names[demand["name"]] += 1
        number = names[demand["name"]]
        yield demand if number == 1 else demand | {"name": f"{demand['name']}-{number}"}
