"""A user's values against a chart's own: merged as Helm merges them, and checked.

Charts without a schema ignore unknown keys; the rehearsal reports them.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from slicewright.kubeapi import JsonObject


def merged_over(defaults: JsonObject, values: Mapping[str, Any]) -> JsonObject:
    """The user's values over the defaults, as Helm merges: maps key by key, null removes a key."""
    return _merge(copy.deepcopy(defaults), values)


def unfit(
    values: Mapping[str, Any], defaults: JsonObject, *, chart: str, free: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Problems as (path, reason): unknown keys and wrong types.

    chart: name and version. free: paths of maps whose keys are the user's, besides empty ones.
    """
    return list(_compare(values, defaults, "", chart, free))


def _merge(base: JsonObject, over: Mapping[str, Any]) -> JsonObject:
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), dict):
            base[key] = _merge(base[key], value)
        elif value is None:
            base[key] = None
        else:
            base[key] = copy.deepcopy(value)
    return base


def _compare(
    values: Mapping[str, Any],
    defaults: Mapping[str, Any],
    path: str,
    chart: str,
    free: Collection[str],
) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        here = f"{path}.{key}" if path else str(key)
        if key not in defaults:
            yield here, _unknown(str(key), defaults, chart)
            continue
        default = defaults[key]
        if value is None and isinstance(default, dict) and default:
            yield (
                here,
                "must not be null: that removes a section which the chart reads; leave the key out "
                "to keep the defaults",
            )
        if value is None or default is None:
            continue
        if isinstance(default, dict):
            if not isinstance(value, Mapping):
                yield here, f"{value!r} is not a map"
            elif default and here not in free:
                yield from _compare(value, default, here, chart, free)
        elif isinstance(default, list) != isinstance(value, list):
            yield here, f"{value!r} is {'not a list' if isinstance(default, list) else 'a list'}"
        elif isinstance(default, bool) != isinstance(value, bool):
            yield (
                here,
                f"{value!r} is {'not a boolean' if isinstance(default, bool) else 'a boolean'}",
            )
        elif isinstance(value, Mapping):
            yield here, "must not be a map"


def _unknown(key: str, defaults: Mapping[str, Any], chart: str) -> str:
    near = difflib.get_close_matches(key, [str(k) for k in defaults], n=1, cutoff=0.5)
    hint = (
        f"did you mean {near[0]!r}? "
        if near
        else f"known here: {', '.join(sorted(map(str, defaults)))}. "
    )
    return f"chart {chart} has no such value; {hint}(The real Helm would silently ignore it.)"
