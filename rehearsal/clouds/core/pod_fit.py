"""Whether a pod could run on a node that does not exist yet, as an autoscaler asks.

Of the scheduler's rules these count: requests, node selector, required node affinity, taints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from slicewright.kubeapi import JsonObject

STARTUP_TAINTS = (
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
)
"""What the keys of taints begin with that a node is expected to lose.

Source: kubernetes/autoscaler, cluster-autoscaler/FAQ.md, "startup taints".
"""
_POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_QUANTITY = re.compile(r"([+-]?[\d.]+(?:[eE][+-]?\d+)?)([a-zA-Z]*)")

Amounts = Mapping[str, Decimal]
"""Resource -> how much of it."""


@dataclass(frozen=True, kw_only=True)
class SchedulableNode:
    """What the scheduler looks at when it places a pod on a node."""

    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    """Those that keep pods away for good: without startup taints."""
    free: Amounts


def empty_node(like: JsonObject, *, gpus: Amounts) -> SchedulableNode:
    """One like this, without pods. gpus: what its device plugin will advertise."""
    return SchedulableNode(
        labels=like["metadata"]["labels"],
        taints=[
            t
            for t in like["spec"].get("taints") or ()
            if t["effect"] != "PreferNoSchedule" and not t["key"].startswith(STARTUP_TAINTS)
        ],
        free={k: amount(v) for k, v in like["status"]["allocatable"].items()} | dict(gpus),
    )


def placed(pod: JsonObject, node: SchedulableNode) -> SchedulableNode | None:
    """What is left with the pod on it; None where it does not fit."""
    spec = pod["spec"]
    wants = requests(pod)
    if (
        any(wants[k] > node.free.get(k, 0) for k in wants)
        or any(node.labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items())
        or not _has_affinity(spec, node.labels)
        or any(not _tolerates(spec, taint) for taint in node.taints)
    ):
        return None
    free = {k: v - wants.get(k, 0) for k, v in node.free.items()}
    return replace(node, free=free)


def requests(pod: JsonObject) -> Amounts:
    """What the scheduler reserves: the containers' sum, or more where an init container needs it.

    A limit counts as the request where there is none, as it does for extended resources.
    """
    spec = pod["spec"]
    total: dict[str, Decimal] = {"pods": Decimal(1)}
    beside = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    for container in [*spec["containers"], *beside]:
        for name, value in _requests(container).items():
            total[name] = total.get(name, Decimal(0)) + value
    for container in spec.get("initContainers") or ():
        for name, value in _requests(container).items():
            total[name] = max(total.get(name, Decimal(0)), value)
    for name, text in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, Decimal(0)) + amount(text)
    return {k: v for k, v in total.items() if v}


def amount(quantity: str | float) -> Decimal:
    """Of a Kubernetes quantity: 500m, 2Gi, 1e3. Raises ValueError."""
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None or match[2] not in {*_POWERS, *_BINARY}:
        raise ValueError(f"{quantity!r} is not a Kubernetes quantity")
    number = Decimal(match[1])
    if match[2] in _BINARY:
        return number * Decimal(1024) ** _BINARY[match[2]]
    return number.scaleb(_POWERS[match[2]])


def _requests(container: JsonObject) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {k: amount(v) for k, v in amounts.items()}


def _has_affinity(spec: JsonObject, labels: Mapping[str, str]) -> bool:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(
        all(matches(e, labels) for e in term.get("matchExpressions") or ())
        for term in required["nodeSelectorTerms"]
        if term.get("matchExpressions")
    )


def matches(expression: JsonObject, labels: Mapping[str, str]) -> bool:
    """Whether labels are as a requirement on one of them says."""
    value, values = labels.get(expression["key"]), expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(values[0])
        case _:
            return value is not None and int(value) < int(values[0])


def _tolerates(spec: JsonObject, taint: Mapping[str, Any]) -> bool:
    return any(
        t.get("effect") in (None, "", taint["effect"])
        and (
            (t.get("operator") == "Exists" and t.get("key") in (None, "", taint["key"]))
            or (t.get("key") == taint["key"] and t.get("value", "") == taint.get("value", ""))
        )
        for t in spec.get("tolerations") or ()
    )
