"""Where the text of a fleet comes from: its file, and the line of every key in it."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import yaml

from infra.spec.problem import Path, Problem
from infra.spec.reading.yaml_values import TEMPLATE, Loader, NotReadable, Reader, check_depth

KEY = "slicewright:fleet"
_MOST_BYTES = 4 * 1024 * 1024


_HINTS: Mapping[str, str] = {
    "mapping values are not allowed": "has the line before its ': ', and is this one indented "
    "as its neighbours?",
    "did not find expected key": "is this line indented as its neighbours, and every bracket "
    "and quote closed?",
    "did not find expected '-'": "is this line indented as its neighbours?",
    "found undefined alias": "define it with & before, or write the value",
    "another document": "take away the '---' and one of the two",
    "for merging": "write << with an alias of a mapping",
    "cannot start any token": "put the text into quotes",
    "unexpected end": "close every quote and bracket",
    "did not find expected": "close every quote and bracket",
    "control characters": "save it as plain text",
}
"""What the parser says -> what a person did."""
_IN_LINE: Mapping[str, str] = {
    "\t": "there is a tab in this line; YAML is indented with spaces",
    "{{": TEMPLATE,
    "${": TEMPLATE,
}
"""What stands in the line -> the same."""


@dataclass(frozen=True)
class Source:
    """A fleet as written. `lines` maps a path to the lines of its key and of its value, counted
    from 1.
    """

    name: str
    """The file, as people would type it; another description where the text has no file."""
    raw: Any = None
    lines: Mapping[Path, tuple[int, int]] = field(default_factory=dict)
    written: Mapping[Path, str] = field(default_factory=dict)
    """Numbers, switches and nulls as they stand in the file: 1.30 is 1.3 to YAML."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with the YAML itself."""
    unusable: frozenset[Path] = frozenset()
    """Where the YAML says nothing that a fleet can say; the value there is None."""

    def line(self, path: Path, *, key: bool = False) -> int | None:
        """The line of the key or of the value at `path`, or of the nearest parent that the file
        has.
        """
        at = path
        while at not in self.lines:
            if not at:
                return None
            at, key = at[:-1], True
        return self.lines[at][0 if key else 1]

    def value(self, path: Path) -> Any:
        """What the file says at `path`; None where it says nothing."""
        at = self.raw
        for step in path:
            try:
                at = at[step]
            except (KeyError, IndexError, TypeError):
                return None
        return at


def read(file: FilePath, *, name: str | None = None) -> Source:
    """The fleet in a stack file `Pulumi.<stack>.yaml`. Raises NotReadable."""
    name = name or str(file)
    text = _text(file, name)
    try:
        check_depth(text, name)
        root = yaml.compose(text, Loader=Loader)
    except yaml.YAMLError as e:
        raise NotReadable(f"{name}{_no_yaml(e, text)}") from None
    if root is None:
        raise NotReadable(f"{name}: is empty; it needs the key {KEY!r} under 'config'")
    if not isinstance(root, yaml.MappingNode):
        what = "a list" if isinstance(root, yaml.SequenceNode) else "one text"
        raise NotReadable(
            f"{name}:{root.start_mark.line + 1}: is {what}, no mapping of keys to values; "
            f"it needs the key {KEY!r} under 'config'"
        )
    key_node, value_node = _child(_child((None, root), "config", name), KEY, name)
    reader = Reader()
    try:
        raw = reader.value(value_node, (), key_node.start_mark.line + 1)
    except NotReadable as e:
        raise NotReadable(f"{name}{e}") from None
    except yaml.YAMLError as e:
        raise NotReadable(f"{name}{_no_yaml(e, text)}") from None
    return Source(
        name, raw, reader.lines, reader.written, tuple(reader.problems), frozenset(reader.unusable)
    )


def kind_of(value: Any) -> str:
    """What a value is where a mapping should be."""
    match value:
        case None:
            return "empty"
        case bool():
            return f"{str(value).lower()}"
        case int() | float():
            return f"the number {value}"
        case str():
            shortened = value if len(value) <= 40 else value[:37] + "..."
            return f"the text {json.dumps(shortened, ensure_ascii=False)}"
        case list():
            return f"a list of {len(value)} item{'' if len(value) == 1 else 's'}"
        case _:
            return "a mapping"


def _text(file: FilePath, name: str) -> str:
    try:
        mode = file.stat()
        if not stat.S_ISREG(mode.st_mode):
            # Nobody waits for what a pipe may say one day, or reads a device to its end.
            raise NotReadable(
                f"{name}: cannot be read: is {_special(mode.st_mode)}, no file; name a stack file"
            )
        if mode.st_size > _MOST_BYTES:
            raise NotReadable(
                f"{name}: has {mode.st_size} bytes; a stack file has at most "
                f"{_MOST_BYTES}: is it the right one?"
            )
        # An editor on Windows may have put a byte order mark in front.
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = e.object.count(b"\n", 0, e.start) + 1
        why = f"is no UTF-8 text: byte {e.start} is not; save it as UTF-8"
        raise NotReadable(f"{name}:{line}: cannot be read: {why}") from None
    except (OSError, ValueError) as e:
        raise NotReadable(f"{name}: cannot be read: {getattr(e, 'strerror', None) or e}") from None


def _special(mode: int) -> str:
    for kind, what in (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if kind(mode):
            return what
    return "a device"


def _no_yaml(error: yaml.YAMLError, text: str) -> str:
    """`:LINE: is no YAML: …`, to be read after the file's name."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    # At the end of the file libyaml points behind its last line.
    at = f":{min(mark.line, text.count(chr(10), 0, -1)) + 1}" if mark else ""
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    hint = next((hint for part, hint in _HINTS.items() if part in said), "")
    line = "".join(text.splitlines()[mark.line : mark.line + 1]) if mark else ""
    hint = next((hint for part, hint in _IN_LINE.items() if part in line), hint)
    return f"{at}: is no YAML: {said}{hint and '; ' + hint}"


def shown(path: Path) -> str:
    """`node_pools[0].partition.profile`; keys that are not plain words in quotes."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            plain = step if re.fullmatch(r"[A-Za-z_][\w-]*", step) else json.dumps(step)
            text += f".{plain}" if text else plain
    return text or KEY


def _child(entry: Any, key: str, name: str) -> tuple[yaml.Node, yaml.Node]:
    """The key and value nodes of a key that must be there once."""
    holder = entry[1]
    found = (
        [e for e in holder.value if e[0].value == key]
        if isinstance(holder, yaml.MappingNode)
        else []
    )
    under = "" if key == "config" else " under 'config'"
    if not found:
        raise NotReadable(
            f"{name}: has no key {key!r}{under}; a fleet stands under 'config', then {KEY!r}"
        )
    if len(found) > 1:
        lines = [e[0].start_mark.line + 1 for e in found]
        raise NotReadable(
            f"{name}:{lines[-1]}: the key {key!r}{under} is there twice; keep one, the "
            f"other is in line {lines[0]}"
        )
    return found[0][0], found[0][1]
