"""Values as an attacker may write them into an object, and every place for them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.nasty import NASTY

Path = tuple[str | int, ...]
Object = dict[str, Any]


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
"""In place of a new value: the key or item is removed."""

TEXTS: Final[Mapping[str, str]] = {
    "empty": "",
    "a letter": "x",
    "a percent sign": "%",
    "what terminals obey": NASTY,
    "a lone surrogate": "\ud800",
    "an escape sequence": "forged \x1b[31m",
    "two lines": "line\nline",
    "a bidirectional override": "\u202etxt",
    "200 kB": "x" * 200_000,
    "200 kB of escapes": "\x1b" * 200_000,
    "100,000 brackets": "[" * 100_000,
    "20,000 braces": '{"a":' * 20_000,
    "null": "null",
    "an empty object": "{}",
    "an undo": "undo:new",
    "half a change": '{"nodeUid": "p0"}',
    "a change of year 9999": '{"nodeUid":"p0","target":"new","phase":"Draining",'
    '"since":"9999-12-31T23:59:59-23:59","started":"2026-11-27T00:00:00Z","cordoned":true}',
    "year 9999": "9999-12-31T23:59:59-23:59",
    "year 1": "0001-01-01T00:00:00+23:59",
    "year 10000": "10000-01-01T23:58:59Z",
    "a clock that was never set": "1970-01-01T00:00:09Z",
    "a time in lower case": "2026-11-27t00:00:00z",
    "a time without a zone": "2026-11-27T00:00:00",
    "a day": "2026-11-27",
    "a leap second": "2026-11-27T23:59:60Z",
    "year 2099": "2099-12-31T23:59:59Z",
    "yesterday": "yesterday",
}


def nested(levels: int) -> list[Any]:
    deep: list[Any] = []
    for _ in range(levels):
        deep = [deep]
    return deep


DEEP: Final = nested(300)
WRONG_TYPES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 3, 2**63, 10**30, 1e308, float("inf"), float("nan")),
    *([], {}, [None], ["x"], [{}], [[]], {"a": None}, {"": None}, {"x": {"y": []}}),
    *({NASTY: NASTY}, {"x" * 200_000: 1}),
)
"""In place of a text, an object or a list."""
VALUES: Final[tuple[Any, ...]] = (*WRONG_TYPES, *TEXTS.values(), DEEP)


def paths(value: Any, here: Path = ()) -> Iterator[Path]:
    """Every place in an object, those inside of annotations in JSON among them."""
    if here:
        yield here
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from paths(inner, (*here, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*here, index))
    elif parsed := _as_json(value):
        for path in paths(parsed, here):
            if path != here:
                yield path


def places(value: Any) -> Iterator[Path]:
    """As `paths`, and the whole."""
    yield ()
    yield from paths(value)


def at(value: Any, path: Path) -> Any:
    """The value at a path; None where there is none."""
    for step in path:
        parsed = _as_json(value) or value
        try:
            value = parsed[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def replaced(value: Any, path: Path, new: Any) -> Any:
    """A copy with another value at `path`; the same where an earlier change took the place away."""
    if not path:
        return new
    first, *rest = path
    if isinstance(value, str) and (parsed := _as_json(value)):
        return json.dumps(replaced(parsed, path, new))
    if not isinstance(value, dict | list):
        return value
    try:
        inner = value[first]  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        return value
    changed = copy.copy(value)
    if new is ABSENT and not rest:
        del changed[first]  # type: ignore[arg-type]
    else:
        changed[first] = replaced(inner, tuple(rest), new)  # type: ignore[index]
    return changed


def _as_json(value: Any) -> Any:
    """The parsed text of an annotation that is a JSON object; None for anything else."""
    if not isinstance(value, str) or not value.startswith("{"):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None
