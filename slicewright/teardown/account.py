"""What a sweep needs of a cloud account, and the results of its questions and deletions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.teardown.leftovers import Leftover
from slicewright.teardown.life import Life


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is left at one look."""

    left: Sequence[Leftover]
    not_asked: Sequence[NotAnswered]
    """Questions without an answer: nothing is known of those kinds."""


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A deletion that the account refuses, however often it is asked: a right is missing."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Held:
    """A deletion that is refused for now: something uses the resource, or the cloud is busy."""

    why: str


Outcome = Held | Refused | None
"""None: deleted, or being deleted, or already gone."""


class Account(Protocol):
    """Raises CannotAsk where no question can be asked any more, as when credentials expire."""

    def cluster_is_there(self) -> Answer[bool]: ...

    def life(self) -> Answer[Life]:
        """What the cloud says of the cluster that is there; an empty one without it."""

    def look(self, life: Life) -> Found:
        """What has the cluster's mark, or lies in the networks of this life."""

    def delete(self, leftover: Leftover) -> Outcome: ...
