"""Values of a stack's configuration that are not slicewright's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def setting(file: Path, key: str) -> str | None:
    """A value of the stack file's `config`; None where it has none, or a secret."""
    value = _value(file, key)
    return str(value) if isinstance(value, str | int) else None


def _value(file: Path, key: str) -> Any:
    config: Any = yaml.safe_load(file.read_text(encoding="utf-8")).get("config")
    return config.get(key) if isinstance(config, dict) else None
