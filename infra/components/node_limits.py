"""A limit of a stack file, `2` or `25%`, as the clouds' APIs take it: a count or a percentage."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class NodeLimit:
    count: int | None
    percentage: int | None

    @classmethod
    def of(cls, share: int | str | None) -> NodeLimit:
        if isinstance(share, str):
            return cls(count=None, percentage=int(share.removesuffix("%")))
        return cls(count=share, percentage=None)

    @property
    def fraction(self) -> float | None:
        return None if self.percentage is None else self.percentage / 100
