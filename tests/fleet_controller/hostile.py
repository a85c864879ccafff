"""Objects as an attacker may write them: a valid object, of which some fields are odd."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st

Path = tuple[str | int, ...]
Object = dict[str, Any]

TEXTS: Final[Mapping[str, str]] = {
    "empty": "",
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
    "year 9999": "9999-12-31T23:59:59-23:59",
    "year 1": "0001-01-01T00:00:00+23:59",
    "year 10000": "10000-01-01T23:58:59Z",
    "a time in lower case": "2026-11-27t00:00:00z",
    "a time without a zone": "2026-11-27T00:00:00",
    "a leap second": "2026-11-27T23:59:60Z",
    "year 2099": "2099-12-31T23:59:59Z",
    "yesterday": "yesterday",
}
WRONG_TYPES: Final = (None, True, 0, -1, 2**63, 1e308, [], {}, [None], [[]], {"a": None}, [{}])

texts = st.sampled_from(sorted(TEXTS)).map(TEXTS.__getitem__)


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


def text_places(valid: Object, spared: Sequence[Path] = ()) -> list[Path]:
    """Every place of a text, but for those in the fields of `spared`."""
    return [
        path
        for path in paths(valid)
        if isinstance(at(valid, path), str) and not any(path[: len(s)] == s for s in spared)
    ]


@st.composite
def odd_texts(draw: st.DrawFn, valid: Object, spared: Sequence[Path] = ()) -> Object:
    """`valid` with one to three of its texts replaced by others, as the API server would take it.

    spared: fields that the API server sets or validates itself.
    """
    places = text_places(valid, spared)
    changed = copy.deepcopy(valid)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(places))
        if isinstance(at(changed, place), str):
            changed = replaced(changed, place, draw(texts))
    return changed


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
    changed[first] = replaced(inner, tuple(rest), new)
    return changed


def _as_json(value: Any) -> Any:
    """The parsed text of an annotation that is a JSON object; None for anything else."""
    if not isinstance(value, str) or not value.startswith("{"):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None
