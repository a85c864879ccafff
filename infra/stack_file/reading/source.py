"""The text of a fleet: its file, its values, and the position of every key."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, NamedTuple

import yaml

from slicewright.infra.stack_file.problem import KEY, Path, Problem
from slicewright.infra.stack_file.reading.merges import position_suffix
from slicewright.infra.stack_file.reading.nodes import Nodes
from slicewright.infra.stack_file.reading.not_readable import NotReadable
from slicewright.infra.stack_file.reading.yaml_reader import (
    NO_TEMPLATES,
    Loader,
    Reader,
    check_depth,
)

_MAX_BYTES = 4 * 1024 * 1024


_HINTS: Mapping[str, str] = {
    "mapping values are not allowed": "check that the line before has ': ' and that this line is "
    "indented like its neighbors",
    "did not find expected key": "check this line's indentation, and that every bracket and "
    "quote is closed",
    "did not find expected '-'": "check that this line is indented like its neighbors",
    "found undefined alias": "define it with & before, or write the value",
    "another document": "remove the '---' and one of the two documents",
    "for merging": "the value of << must be an alias of a mapping",
    "cannot start any token": "put the value in quotes",
    "unexpected end": "close every quote and bracket",
    "did not find expected": "close every quote and bracket",
    "control characters": "save the file as plain text",
}
"""Part of the parser's message -> remedy."""
_IN_LINE: Mapping[str, str] = {
    "\t": "indent with spaces: this line has a tab",
    "{{": NO_TEMPLATES,
    "${": NO_TEMPLATES,
}
"""Part of the line with the error -> remedy."""


@dataclass(frozen=True)
class Source:
    """A fleet as written in a file, or without a file as JSON."""

    name: str
    """The file's name as typed by the user, or a description of the text."""
    raw: Any = None
    """The value as Python objects."""
    nodes: Nodes | None = None
    """The nodes of the file, None without a file."""
    problems: tuple[Problem, ...] = ()
    """Problems of the YAML itself."""
    unusable: frozenset[Path] = frozenset()
    """Paths of unreadable values, which are None in `raw`."""
    config: yaml.Node | None = None
    """The file's `config` as a whole, None without a file."""

    @property
    def written(self) -> Any:
        """The value in the file itself, without what its bases add."""
        return self.raw

    def origin(self, path: Path, *, file: str = "") -> Origin:
        """The file that the value at `path` comes from, and the value's path there.

        file: the name of a file, if `path` counts in that file already.
        """
        return Origin(self, path)

    def position(self, path: Path, *, key: bool = False) -> tuple[int, int] | None:
        """Line and column, counted from 1, of the key or value at `path`. If the file lacks it, of
        its closest parent. An empty value has its key's position. None without a file.
        """
        return self.nodes.position(path, key=key) if self.nodes else None

    def as_written(self, path: Path) -> str | None:
        """The text of a number, boolean or null in the file: YAML reads 1.30 as 1.3."""
        return self.nodes.as_written(path) if self.nodes else None

    def setting(self, key: str) -> Any:
        """Another value of the file's `config`, such as gcp:project, None if it is missing."""
        pairs = self.config.value if isinstance(self.config, yaml.MappingNode) else ()
        return next(
            (Reader().value(node) for key_node, node in pairs if key_node.value == key), None
        )

    def value(self, path: Path) -> Any:
        """The value at `path`, None if it is missing."""
        position_suffix = self.raw
        for step in path:
            try:
                position_suffix = position_suffix[step]
            except (KeyError, IndexError, TypeError):
                return None
        return position_suffix


class Origin(NamedTuple):
    """The place of a value: the fleet as written in a file, and the path there."""

    source: Source
    path: Path


def read_single(file: FilePath, *, name: str | None = None) -> Source:
    """The fleet as written in a single file, without its bases. Raises NotReadable."""
    name = name or str(file)
    return read_text(_text(file, name), name)


def read_text(text: str, name: str) -> Source:
    """The fleet in the text of a stack file. Raises NotReadable.

    name: the file's name in messages.
    """
    try:
        check_depth(text, name)
        root = yaml.compose(text, Loader=Loader)
    except yaml.YAMLError as e:
        raise NotReadable(f"{name}{_syntax_error(e, text)}") from None
    if root is None:
        raise NotReadable(f"{name}: is empty; it must have the key {KEY} under config")
    if not isinstance(root, yaml.MappingNode):
        kind = "a list" if isinstance(root, yaml.SequenceNode) else "a string"
        raise NotReadable(
            f"{name}{position_suffix(root)}: is {kind}, not a mapping; it must have the key {KEY} "
            "under config"
        )
    config = _child(root, "config", name)[1]
    for mapping in (root, config):
        _refuse_duplicates(mapping, name)
    key_node, value_node = _child(config, KEY, name)
    reader = Reader()
    try:
        raw = reader.value(value_node)
    except NotReadable as e:
        raise NotReadable(f"{name}{e}") from None
    return Source(
        name,
        raw,
        Nodes(key_node, value_node, reader.merges),
        tuple(reader.problems),
        frozenset(reader.unusable),
        config,
    )


def _text(file: FilePath, name: str) -> str:
    try:
        mode = file.stat()
        if not stat.S_ISREG(mode.st_mode):
            # Reading a pipe or a device may block, or never end.
            raise NotReadable(f"{name}: cannot be read: is {_file_type(mode.st_mode)}, not a file")
        if mode.st_size > _MAX_BYTES:
            raise NotReadable(
                f"{name}: has {mode.st_size} bytes, but a stack file may have at most "
                f"{_MAX_BYTES}; check that it is the right file"
            )
        # Editors on Windows may write a byte order mark.
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = e.object.count(b"\n", 0, e.start) + 1
        raise NotReadable(
            f"{name}:{line}: cannot be read: byte {e.start} is not valid UTF-8; save it as UTF-8"
        ) from None
    except (OSError, ValueError) as e:
        raise NotReadable(f"{name}: cannot be read: {getattr(e, 'strerror', None) or e}") from None


def _file_type(mode: int) -> str:
    for kind, description in (
        (stat.S_ISDIR, "a directory"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    ):
        if kind(mode):
            return description
    return "a device"


def _syntax_error(error: yaml.YAMLError, text: str) -> str:
    """`:LINE: is not valid YAML: …`, to follow the file's name."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = ""
    if mark:
        # At the end of the file, libyaml points past the last line.
        last = text.count("\n", 0, -1)
        where = f":{last + 1}" if mark.line > last else f":{mark.line + 1}:{mark.column + 1}"
    message = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    hint = next((hint for part, hint in _HINTS.items() if part in message), "")
    line = "".join(text.splitlines()[mark.line : mark.line + 1]) if mark else ""
    hint = next((hint for part, hint in _IN_LINE.items() if part in line), hint)
    return f"{where}: is not valid YAML: {message}{hint and '; ' + hint}"


def _refuse_duplicates(mapping: yaml.Node, name: str) -> None:
    """Refuses duplicate keys outside the fleet, which Pulumi refuses, too."""
    first: dict[str, int] = {}
    for key, _ in mapping.value if isinstance(mapping, yaml.MappingNode) else ():
        text = key.value if isinstance(key, yaml.ScalarNode) else None
        if text is None:
            continue
        if text in first:
            raise NotReadable(
                f"{name}{position_suffix(key)}: duplicate key {text}; remove one: the other is on "
                f"line {first[text]}"
            )
        first[text] = key.start_mark.line + 1


def _child(holder: yaml.Node, key: str, name: str) -> tuple[yaml.Node, yaml.Node]:
    """The key and value nodes of a required key."""
    entries = (
        [e for e in holder.value if e[0].value == key]
        if isinstance(holder, yaml.MappingNode)
        else []
    )
    if not entries:
        under = "" if key == "config" else " under config"
        raise NotReadable(
            f"{name}: has no key {key}{under}; the fleet must be under config, then {KEY}"
        )
    return entries[0][0], entries[0][1]
