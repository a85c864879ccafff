"""The subset of JSONPath (RFC 9535) for waitFor: members, indexes, wildcards, one-member filters.

`.status.ready`, `.status.conditions[?(@.type=="Ready")].status`, `['a b']`, `[0]`, `[-1]`, `[*]`,
`.*`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

_STEP: Final = re.compile(
    r"""\.(?P<member>[A-Za-z_\u0080-\uffff][\w\u0080-\uffff-]*)|(?P<wild>\.\*|\[\s*\*\s*\])
    |\[\s*(?P<index>-?\d+)\s*\]
    |\[\s*(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\s*\]
    |\[\s*\?\s*\(?\s*@(?P<filter>(?:\.[A-Za-z_][\w-]*)+)\s*(?:(?P<op>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|-?\d+(?:\.\d+)?|true|false))?\s*\)?\s*\]""",
    re.VERBOSE,
)


class BadPath(Exception):
    """Not a JSONPath, or one of an unsupported form."""


@dataclass(frozen=True)
class JsonPath:
    """A parsed JSONPath."""

    text: str
    _steps: tuple[re.Match[str], ...]

    def find(self, value: Any) -> list[Any]:
        """All values that match the path."""
        values = [value]
        for step in self._steps:
            values = [inner for outer in values for inner in _apply(step, outer)]
        return values


def parse(text: str) -> JsonPath:
    """Raises BadPath."""
    rest = text.removeprefix("$")
    position, steps = 0, []
    while position < len(rest):
        match = _STEP.match(rest, position)
        if match is None:
            raise BadPath(f"unexpected {rest[position:]!r} in the JSONPath {text!r}")
        steps.append(match)
        position = match.end()
    return JsonPath(text, tuple(steps))


def _apply(step: re.Match[str], value: Any) -> list[Any]:
    if step["wild"]:
        return (
            list(value.values())
            if isinstance(value, dict)
            else list(value)
            if isinstance(value, list)
            else []
        )
    if step["index"] is not None:
        index = int(step["index"])
        return (
            [value[index]] if isinstance(value, list) and -len(value) <= index < len(value) else []
        )
    if step["filter"]:
        candidates = (
            value
            if isinstance(value, list)
            else list(value.values())
            if isinstance(value, dict)
            else []
        )
        return [item for item in candidates if _passes(step, item)]
    key = step["quoted"] if step["quote"] else step["member"]
    return [value[key]] if isinstance(value, dict) and key in value else []


def _passes(step: re.Match[str], item: Any) -> bool:
    for key in step["filter"].split(".")[1:]:
        if not isinstance(item, dict) or key not in item:
            return step["op"] == "!="
        item = item[key]
    if step["op"] is None:
        return True
    literal = step["value"]
    if literal[0] in "\"'":
        expected: Any = literal[1:-1]
    elif literal in ("true", "false"):
        expected = literal == "true"
    else:
        expected = float(literal)
    return bool((item == expected) == (step["op"] == "=="))
