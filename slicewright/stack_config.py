"""Values of a stack's configuration that are not slicewright's own."""

from __future__ import annotations

from pathlib import Path

from infra import spec


def setting(file: Path, key: str) -> str | None:
    """A value of the stack file's `config`, as the engine reads it; None where it has none, or a
    secret. Raises spec.NotReadable.
    """
    value = spec.read(file).setting(key)
    return str(value) if isinstance(value, str | int) else None
