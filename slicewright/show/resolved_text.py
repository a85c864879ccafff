"""Writes a merged fleet as one stack file, with the files that each part comes from."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import yaml

from slicewright.infra.stack_file import KEY, LayeredSource, Path, Source, is_plain_string, plain

_POOLS = "node_pools"
_NEEDS_NO_QUOTES = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_INDENT = "    "


def resolved_text(source: Source) -> str:
    """The stack file with every key of the merged fleet. The fleet must be a mapping."""
    lines = ["config:", f"  {KEY}:"]
    for key, value in source.raw.items():
        if key == _POOLS and isinstance(value, list) and value:
            lines += _pools(source, value)
        else:
            lines += _part(source, (key,), {key: value}, _INDENT)
    return "\n".join(lines) + "\n"


def _pools(source: Source, pools: Sequence[Any]) -> Iterator[str]:
    yield f"{_INDENT}{_POOLS}:"
    for i, pool in enumerate(pools):
        yield from _part(source, (_POOLS, i), [pool], f"{_INDENT}  ")


def _part(source: Source, path: Path, value: Any, indent: str) -> Iterator[str]:
    if isinstance(source, LayeredSource):
        yield f"{indent}# {plain(', '.join(source.files_of(path)))}"
    for line in _dumped(value).removesuffix("\n").split("\n"):
        yield f"{indent}{line}"


class _Dumper(yaml.SafeDumper):
    """Quotes every string that the engine might read as something else."""

    def ignore_aliases(self, data: Any) -> bool:
        """Returns True: the same value twice is written twice."""
        return True


def _represent_string(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    is_safe = _NEEDS_NO_QUOTES.fullmatch(text) is not None and is_plain_string(text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_safe else '"')


def _represent_float(dumper: _Dumper, number: float) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:float", json.dumps(number))


_Dumper.add_representer(str, _represent_string)
_Dumper.add_representer(float, _represent_float)


def _dumped(value: Any) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=sys.maxsize)
    return text
