"""Edits of a rehearsal's stack file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml


@contextmanager
def edited_fleet(stack_file: Path) -> Iterator[dict[str, Any]]:
    """Yields the fleet of a stack file; what else the engine has written there stays."""
    stack = yaml.safe_load(stack_file.read_text())
    yield stack["config"]["slicewright:fleet"]
    stack_file.write_text(yaml.safe_dump(stack, sort_keys=False))
