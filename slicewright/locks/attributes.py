"""Attribute files of a directory backend that were cut off by a kill.

A directory cannot store a file's attributes, so Pulumi's storage library writes them into a file
next to it. The file of a state is replaced in one step, but its attribute file is not. If Pulumi is
killed between the creation of that file and its content, the file stays empty, and every later
command fails with `failed to load checkpoint: EOF`, although the state is intact. A state without
an attribute file is read.

Source: gocloud.dev, blob/fileblob/attrs.go (setAttrs, getAttrs) and fileblob.go (writer.Close).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from slicewright.doctor.findings import CannotAsk
from slicewright.locks.backends import Directory


def cut_off(backend: Directory, project: str, stack: str) -> Sequence[str]:
    """Keys of the stack's truncated attribute files. Raises CannotAsk.

    Call it only while no Pulumi works on the stack: a running one has such files for a moment.
    """
    *_, project, stack = (project, *stack.split("/"))
    try:
        return [
            str(file.relative_to(backend.root))
            for file in _attributes(backend.root / ".pulumi", project, stack)
            if not _whole(file)
        ]
    except OSError as e:
        raise CannotAsk(f"{e.filename}: {e.strerror}") from None


def _attributes(root: Path, project: str, stack: str) -> Iterator[Path]:
    # The state, the previous state (`.bak`), and compressed forms of both.
    yield from sorted((root / "stacks" / project).glob(f"{stack}.json*.attrs"))
    for directory in ("history", "backups"):
        yield from sorted((root / directory / project / stack).glob("*.attrs"))


def _whole(file: Path) -> bool:
    try:
        return isinstance(json.loads(file.read_bytes()), dict)
    except FileNotFoundError:
        return True
    except ValueError:
        return False
