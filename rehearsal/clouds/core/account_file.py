"""Files beside the stored state, E/cloud, in which a person says what an account is like."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

T = TypeVar("T")


class AccountFileError(Exception):
    """An account file cannot be used; the message has a line for each problem."""


def read(path: Path, kind: type[T]) -> T | None:
    """The file's JSON as this dataclass; None without the file. Raises AccountFileError."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    # Imported here: the file is rarely there, and pydantic takes a while to load.
    from pydantic import ValidationError

    try:
        account: T = _adapter(cast(Hashable, kind)).validate_json(text)
    except ValidationError as e:
        members = ", ".join(kind.__dataclass_fields__)  # type: ignore[attr-defined]
        raise AccountFileError(
            "\n".join(
                f"{path}: {'.'.join(map(str, p['loc'])) or 'the file'}: {p['msg']}"
                for p in e.errors()
            )
            + f"\nIts members are {members}; without the file the account is an ordinary one."
        ) from None
    return account


@cache
def _adapter(kind: Hashable) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(cast(Any, kind))


def write(environment: Path, name: str, settings: Mapping[str, object]) -> None:
    """Never half of it: a call may read the file at any time."""
    path = environment / "cloud" / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(settings))
    new.replace(path)
