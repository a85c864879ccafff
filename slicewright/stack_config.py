"""Reads settings in a stack's configuration that are not slicewright's own."""

from __future__ import annotations

from pathlib import Path

from slicewright.infra import stack_file


def setting(file: Path, key: str) -> str | None:
    """Returns a value of the stack file's `config`, read in the same way as the engine.

    None if the value is missing or is a secret. Raises spec.NotReadable.
    """
    value = stack_file.read(file).setting(key)
    return str(value) if isinstance(value, str | int) else None
