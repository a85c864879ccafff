"""The attributes that a directory as backend keeps beside each file of a stack, cut off by a kill.

A directory cannot keep a file's attributes, so the library below Pulumi writes them into a file
beside it. The file of a state is replaced in one step; that of its attributes is not. Killed
between its creation and its content, Pulumi leaves an empty one, and every later command fails with
`failed to load checkpoint: EOF`, although the state is whole. Without attributes it is read.

Source: gocloud.dev, blob/fileblob/attrs.go (setAttrs, getAttrs) and fileblob.go (writer.Close).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from slicewright.doctor.findings import CannotAsk
from slicewright.locks.backends import Directory


def cut_off(backend: Directory, project: str, stack: str) -> Sequence[str]:
    """Keys of the stack's files whose attributes end early. Raises CannotAsk.

    Only where no Pulumi works on the stack: a running one's are so for a moment.
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
    # The state, what it was before (`.bak`), and either of them compressed.
    yield from sorted((root / "stacks" / project).glob(f"{stack}.json*.attrs"))
    for kept in ("history", "backups"):
        yield from sorted((root / kept / project / stack).glob("*.attrs"))


def _whole(file: Path) -> bool:
    try:
        return isinstance(json.loads(file.read_bytes()), dict)
    except FileNotFoundError:
        return True
    except ValueError:
        return False
