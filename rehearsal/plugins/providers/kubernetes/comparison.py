"""A live object against a program's inputs: pruning it to their keys, and comparing the two."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

Change = Literal["add", "delete", "update"]
Path = tuple[str | int, ...]

_PLAIN: Final = re.compile(r"^[A-Za-z_$][A-Za-z0-9_$]*$")


def prune(live: Any, requested: Any) -> Any:
    """`live` with only the keys that `requested` has; lists go by index, without appended items."""
    if isinstance(live, dict) and isinstance(requested, dict):
        return {key: prune(live[key], item) for key, item in requested.items() if key in live}
    if isinstance(live, list) and isinstance(requested, list):
        return [prune(item, like) for item, like in zip(live, requested, strict=False)]
    return live


def compare(old: Any, new: Any, path: Path = ()) -> dict[Path, Change]:
    """Every difference, at its deepest path; an added map or list is one difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        changes: dict[Path, Change] = {}
        for key in [*new, *(k for k in old if k not in new)]:
            if key not in old or (old[key] is None and new.get(key) is not None):
                if new[key] is not None:
                    changes[(*path, key)] = "add"
            elif key not in new or (new[key] is None and old[key] is not None):
                changes[(*path, key)] = "delete"
            else:
                changes |= compare(old[key], new[key], (*path, key))
        return changes
    if isinstance(old, list) and isinstance(new, list):
        changes = {}
        for index in range(max(len(old), len(new))):
            here = (*path, index)
            if index >= len(old):
                changes[here] = "add"
            elif index >= len(new):
                changes[here] = "delete"
            else:
                changes |= compare(old[index], new[index], here)
        return changes
    return {} if _same(old, new) else {path: "update"}


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, bool) is not isinstance(new, bool):
        return False
    return bool(old == new)


def show(path: Path) -> str:
    """A path as the engine writes it: `spec.containers[0].image`, `data["c.yaml"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.match(step):
            text += f".{step}" if text else step
        else:
            text += '["' + step.replace('"', '\\"') + '"]'
    return text
