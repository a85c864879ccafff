"""The interface of a cloud account for a sweep, and the results of questions and deletions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.teardown.sweep.leftovers import Leftover
from slicewright.teardown.sweep.life import Life


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The leftovers that one look shows."""

    leftovers: Sequence[Leftover]
    not_asked: Sequence[NotAnswered]
    """Unanswered questions. The leftovers of those kinds are unknown."""


@dataclass(frozen=True, kw_only=True)
class DeletionRefused:
    """A deletion that the account always refuses, because a right is missing."""

    why: str


@dataclass(frozen=True, kw_only=True)
class DeletionPostponed:
    """A deletion that is refused for now: the resource is in use, or the cloud is busy."""

    why: str


Outcome = DeletionPostponed | DeletionRefused | None
"""None: deleted, being deleted, or already gone."""


class Account(Protocol):
    """Raises CannotAsk if no more questions are possible, for example after credentials expire."""

    def cluster_exists(self) -> Answer[bool]: ...

    def life(self) -> Answer[Life]:
        """The cloud's facts about the existing cluster. Empty if there is no cluster."""

    def look(self, life: Life) -> Listing:
        """Resources that have the cluster's mark, or are in the networks of this life."""

    def delete(self, leftover: Leftover) -> Outcome: ...
