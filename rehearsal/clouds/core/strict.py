"""How pydantic reads the files that people write: fault file and account files."""

from __future__ import annotations


class Strict:
    """Base of such a file's dataclasses: unknown members and values of another type are refused."""

    __pydantic_config__ = {"extra": "forbid", "strict": True}  # noqa: RUF012 - pydantic's name
