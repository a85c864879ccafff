"""Decides which leftovers may be deleted: proven ones, and ones that somebody saw and agreed to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from slicewright.teardown.sweep.leftovers import Leftover
from slicewright.teardown.sweep.life import Key, key_of

Choice = Literal["delete", "keep"]
_DISKS: Final = frozenset({"disk", "snapshot"})
LATE: Final = "kept: it was not listed when you confirmed; run the command again to list it"
NOT_THE_CLUSTERS: Final = "not known to belong to this cluster"


@dataclass(frozen=True, kw_only=True)
class Permission:
    disks: Choice | None = None
    logs: Choice | None = None
    unproven: Choice | None = None
    """The choice for every other kind."""
    listed: frozenset[Key] | None = None
    """The leftovers listed before the question. None: this look lists them."""

    def why_kept(self, leftover: Leftover) -> str:
        """Returns the reason for keeping a leftover. Empty: it may be deleted."""
        if not (leftover.proof or leftover.mark):
            return NOT_THE_CLUSTERS
        flag, choice = self._choice(leftover)
        of_a_kind_that_is_asked = flag != "--unproven"
        if choice == "keep" and (of_a_kind_that_is_asked or not leftover.proof):
            return f"kept: {flag} keep"
        if leftover.proof and not leftover.retained:
            return ""
        if choice == "delete":
            return "" if self.listed is None or key_of(leftover) in self.listed else LATE
        return f"kept: {_reason(leftover)}; pass {flag} delete to delete it"

    def _choice(self, leftover: Leftover) -> tuple[str, Choice | None]:
        if leftover.kind in _DISKS:
            return "--disks", self.disks
        if leftover.kind == "log group":
            return "--logs", self.logs
        return "--unproven", self.unproven


def _reason(leftover: Leftover) -> str:
    if not leftover.proof:
        return (
            "its tag or name refers to the cluster, but nothing proves that this cluster created "
            "it: it may belong to an earlier cluster, or to somebody else"
        )
    if leftover.kind == "log group":
        return "it holds the cluster's audit log"
    return "it must outlive its cluster"
