"""What changed between two sets of inputs, and whether that replaces the resource."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from slicewright.rehearsal.plugins.engine.plugin import Difference, Kind
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN, has_unknown, unwrap

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ELEMENT = re.compile(r"\[\d+\]$")


def difference(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    *,
    force_new: Sequence[str],
    delete_before_replace: bool = False,
    sets: Sequence[str] = (),
    keeps: Sequence[str] = (),
    keeps_whole: Sequence[str] = (),
    named_by: str | None = None,
    unset_properties: Iterable[tuple[str, Any]] = (),
    state: Mapping[str, Any] | None = None,
) -> Difference:
    """The differences between two sets of inputs, and what the state has beyond them.

    force_new, delete_before_replace, sets, keeps, keeps_whole: as in
    `resources.Resource`. named_by: the property that holds the name. unasked: path and value of
    each property that only the state has.
    state: the outputs. What the program adds and the state has already is not a change: bridged
    providers compare with the state.
    If the program sets the name and does not change it, the old resource must be deleted before its
    replacement is created.
    """
    detailed: dict[str, Kind] = {}
    for path, kind, value in _changes(unwrap(dict(old)), unwrap(dict(new)), "", "", sets):
        plain = _without_indices(path)
        is_kept = path in keeps_whole or _covers(keeps, plain)
        # A list that is stated with fewer elements is not a property left out.
        if kind == "delete" and is_kept and not _ELEMENT.search(path):
            continue
        if kind == "add" and _has(_value_at(state or {}, path), value):
            continue
        # An object that is added or removed changes every property in it.
        replaces = any(_covers(force_new, leaf) for leaf in _leaves(value, plain))
        detailed[path] = f"{kind}-replace" if replaces else kind  # type: ignore[assignment]
    for path, value in unset_properties:
        plain = _without_indices(path)
        if path not in keeps_whole and not _covers(keeps, plain):
            replaced = any(_covers(force_new, leaf) for leaf in _leaves(value, plain))
            detailed[path] = "delete-replace" if replaced else "delete"
    replaces = any(k.endswith("-replace") for k in detailed.values())
    return Difference(
        changes=bool(detailed),
        detailed=detailed,
        delete_before_replace=replaces
        and (delete_before_replace or _keeps_its_name(named_by, old, new)),
    )


def _keeps_its_name(named_by: str | None, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    if named_by is None or named_by in new.get("__defaults", ()):
        return False
    name = unwrap(new.get(named_by))
    return name is not None and name is not UNKNOWN and name == unwrap(old.get(named_by))


def _changes(
    old: Any, new: Any, path: str, plain: str, sets: Sequence[str]
) -> Iterator[tuple[str, Kind, Any]]:
    if old is None and new is None:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            if not key.startswith("__"):
                at = _member(path, key)
                yield from _changes(
                    old.get(key), new.get(key), at, f"{plain}.{key}" if plain else key, sets
                )
    elif isinstance(old, list) and isinstance(new, list):
        if plain in sets and not has_unknown(new):
            old, new = _aligned(old, new)
        for index in range(max(len(old), len(new))):
            yield from _changes(
                old[index] if index < len(old) else None,
                new[index] if index < len(new) else None,
                f"{path}[{index}]",
                plain,
                sets,
            )
    elif old is None:
        # An added empty list or object is not a change.
        if new not in ({}, []):
            yield path, "add", new
    elif new is None:
        if old not in ({}, []):
            yield path, "delete", old
    elif not _equal(old, new):
        yield path, "update", new


def _value_at(state: Mapping[str, Any], path: str) -> Any:
    """The state's value there; None where it has none. Map keys in brackets are not looked up."""
    value: Any = state
    for name, index in re.findall(r"(\w+)|\[(\d+)\]", path):
        if isinstance(value, dict) and name:
            value = value.get(name)
        elif isinstance(value, list) and index and int(index) < len(value):
            value = value[int(index)]
        else:
            return None
    return value


def _has(current: Any, added: Any) -> bool:
    if current is None or added is None:
        return False
    if isinstance(current, dict) and isinstance(added, dict):
        return all(_has(current.get(key), value) for key, value in added.items())
    return _equal(current, added)


def _leaves(value: Any, plain: str) -> Iterator[str]:
    yield plain
    for item in value if isinstance(value, list) else [value]:
        for key, member in item.items() if isinstance(item, dict) else ():
            yield from _leaves(member, f"{plain}.{key}")


def _equal(old: Any, new: Any) -> bool:
    """The engine may have "3" for 3: scalars are compared as the schema reads them."""
    if old is UNKNOWN or new is UNKNOWN:
        return False
    if old == new and isinstance(old, bool) == isinstance(new, bool):
        return True
    scalar = isinstance(old, str | int | float) and isinstance(new, str | int | float)
    return scalar and _text(old) == _text(new)


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _aligned(old: list[Any], new: list[Any]) -> tuple[list[Any], list[Any]]:
    """Both lists in an order that puts equal items at equal indices."""

    def key(value: Any) -> str:
        return json.dumps(value, sort_keys=True)

    common = [v for v in old if v in new]
    return (
        sorted(common, key=key) + sorted((v for v in old if v not in new), key=key),
        sorted(common, key=key) + sorted((v for v in new if v not in old), key=key),
    )


def _member(path: str, key: str) -> str:
    if _PLAIN.fullmatch(key):
        return f"{path}.{key}" if path else key
    return f"{path}[{json.dumps(key)}]"


def _without_indices(path: str) -> str:
    return re.sub(r"\[[^\]]*\]", "", path)


def _covers(patterns: Sequence[str], plain: str) -> bool:
    return any(plain == p or plain.startswith(f"{p}.") for p in patterns)
