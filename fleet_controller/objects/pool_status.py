"""The status of a GPUPool as the cluster has it, without unreadable fields. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slicewright.fleet_controller.objects.bounds import EPOCH_S, seconds_or_epoch
from slicewright.fleet_controller.objects.condition import read_condition


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
            return isinstance(value, str) and seconds_or_epoch(value) > EPOCH_S
        case "nodes":
            return isinstance(value, Mapping) and all(isinstance(n, int) for n in value.values())
        case "conditions":
            return isinstance(value, list) and all(
                isinstance(entry, Mapping)
                and read_condition([entry], str(entry.get("type"))) is not None
                for entry in value
            )
        case "broughtLabels":
            return isinstance(value, list) and all(isinstance(key, str) for key in value)
        case "failingNodes" | "provenLayouts":
            return isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value)
        case _:
            return True
