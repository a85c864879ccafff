"""Taints in the clouds' form (`NO_SCHEDULE`) and in Kubernetes' (`NoSchedule`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Taint = Mapping[str, Any]
"""key, value, effect; some have more, such as Kubernetes' timeAdded."""

_EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    "NO_EXECUTE": "NoExecute",
}


def kubernetes_taints(taints: Iterable[Taint]) -> list[dict[str, str]]:
    return [
        {"key": t["key"], "value": t.get("value", ""), "effect": _EFFECTS[t["effect"]]}
        for t in taints
    ]


def changed_taints(
    taints: Iterable[Taint], *, add: Iterable[Taint], remove: Iterable[Taint]
) -> list[dict[str, Any]]:
    """Added ones replace those of the same key and effect, which together identify a taint."""
    new = [dict(t) for t in add]
    gone = {taint_id(t) for t in [*new, *remove]}
    return [dict(t) for t in taints if taint_id(t) not in gone] + new


def taint_id(taint: Taint) -> tuple[str, str]:
    return str(taint["key"]), str(taint["effect"])
