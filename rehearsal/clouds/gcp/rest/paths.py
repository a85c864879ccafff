"""Path templates of discovery documents: which method a path is for, and its parameters.

`{name}` is one segment; `{+name}`, a reserved expansion (RFC 6570), may be several, of the form of
the parameter's pattern. A custom verb follows a colon: `{+name}:enable`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote

from slicewright.rehearsal.clouds.gcp.models import document

_VARIABLE = re.compile(r"\{(\+?)([^}]+)\}")
_GROUP = re.compile(r"(?<!\\)\((?!\?)")


@dataclass(frozen=True, kw_only=True)
class Template:
    method: str
    """projects.locations.clusters.create"""
    http_method: str
    path: str
    patterns: Mapping[str, str]
    """Parameter -> the regular expression that it must match."""

    @property
    def literals(self) -> tuple[str, ...]:
        """What of the path is not a variable: every other piece of the split."""
        return tuple(_VARIABLE.split(self.path)[::3])


def match(service: str, http_method: str, path: str) -> tuple[str, dict[str, str]] | None:
    """The method that the path is for and its path parameters; None if there is none.

    path: percent-encoded, relative to the service's base, without a slash in front.
    """
    for template in templates(service):
        # Cheap first: Compute has 1,000 templates.
        if template.http_method != http_method or any(s not in path for s in template.literals):
            continue
        parts = _expression(service, template.method).fullmatch(path)
        if parts is not None:
            return template.method, {
                name: _decoded(value, several="/" in value)
                for name, value in zip(_names(template.path), parts.groups(), strict=True)
            }
    return None


@cache
def templates(service: str) -> tuple[Template, ...]:
    """All of the service: those with a custom verb first, as a segment may hold a colon, and then
    those with the most literal text.
    """

    def order(template: Template) -> tuple[bool, int]:
        literals = template.literals
        return not literals[-1].startswith(":"), -sum(map(len, literals))

    return tuple(sorted(_walk(document(service), ""), key=order))


def _walk(node: Mapping[str, Any], prefix: str) -> Iterator[Template]:
    for name, method in node.get("methods", {}).items():
        parameters = method.get("parameters", {})
        yield Template(
            method=f"{prefix}{name}",
            http_method=method["httpMethod"],
            path=method["path"],
            patterns={n: p["pattern"] for n, p in parameters.items() if "pattern" in p},
        )
    for name, resource in node.get("resources", {}).items():
        yield from _walk(resource, f"{prefix}{name}.")


@cache
def _expression(service: str, method: str) -> re.Pattern[str]:
    template = next(t for t in templates(service) if t.method == method)
    pieces = _VARIABLE.split(template.path)
    text = re.escape(pieces[0])
    for reserved, name, literal in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        # The patterns of one-segment parameters describe decoded values; the request's check
        # applies them.
        several = template.patterns.get(name, "^.+$").removeprefix("^").removesuffix("$")
        several = _GROUP.sub("(?:", several)
        text += f"({several if reserved else '[^/]+'})" + re.escape(literal)
    return re.compile(text)


def _names(path: str) -> list[str]:
    return [name for _, name in _VARIABLE.findall(path)]


def _decoded(value: str, *, several: bool) -> str:
    """In a parameter of several segments, %2F stays as it is (google/api/http.proto)."""
    if not several:
        return unquote(value)
    return "/".join(
        "".join(p if p.upper() == "%2F" else unquote(p) for p in re.split("(%2[Ff])", segment))
        for segment in value.split("/")
    )
