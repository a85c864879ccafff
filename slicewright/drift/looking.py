"""Looks at everything that can drift. A failed question does not stop the other comparisons."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slicewright.drift.engine import engine_drift, is_compared
from slicewright.drift.findings import Between, Drift, Finding, Unseen
from slicewright.drift.gpu_operator import operator_drift
from slicewright.drift.reading import read_operator, read_scheduler_config
from slicewright.drift.resources import cloud_drift, pending_creations, program_drift
from slicewright.drift.silicon import silicon_drift
from slicewright.infra.plan import FleetPlan
from slicewright.kubeapi import ApiError, Unreachable
from slicewright.live.access import Access, NoCluster, why
from slicewright.live.looking import CannotLook, found_in
from slicewright.live.objects import UnreadObject
from slicewright.preview.steps import NotAPreview, Preview, read_preview
from slicewright.teardown.engine import EngineFailed

_Compared = tuple[Iterable[Finding], Iterable[Unseen]]


class Engine(Protocol):
    """The engine for one stack. Each method raises EngineFailed."""

    def previewed(self) -> str: ...

    def refreshed(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Looking:
    stack: str
    fleet: FleetPlan
    pulumi: Engine
    pending: tuple[str, ...]
    """URNs of resources whose creation was cut off."""
    cluster: Callable[[], Access]
    """Raises NoCluster."""
    tell: Callable[[str], None]
    holders: Callable[[], Sequence[str]]
    """Returns the current holders of the stack's locks."""
    now: Callable[[], float] = field(default=time.time)

    def look(self) -> Drift:
        """Compares everything, and changes nothing."""
        looks: dict[Between, Callable[[], _Compared]] = {
            Between.PROGRAM: lambda: program_drift(_read(self.pulumi.previewed()), self.stack),
            Between.CLOUD: self._cloud,
            Between.SILICON: self._silicon,
        }
        if self.fleet.operator is not None:
            looks[Between.OPERATOR] = self._operator
        if is_compared(self.fleet):
            looks[Between.ENGINE] = self._share_scheduler
        holders = self.holders()
        findings, unseen = ([], []) if holders else self._compare_all(looks)
        # A run that began meanwhile counts, too: the comparisons are then from different moments.
        if holders := holders or self.holders():
            findings, unseen = [], [_under_way(between, holders, self.stack) for between in looks]
        return Drift(
            stack=self.stack,
            findings=tuple(findings),
            unseen=tuple(unseen),
            compared=tuple(looks),
        )

    def _compare_all(
        self, looks: Mapping[Between, Callable[[], _Compared]]
    ) -> tuple[list[Finding], list[Unseen]]:
        findings: list[Finding] = []
        unseen: list[Unseen] = []
        for between, look in looks.items():
            self.tell(f"comparing {between.value} …")
            try:
                differences, not_seen = look()
            except (EngineFailed, NotAPreview, NoCluster, CannotLook) as e:
                unseen.append(Unseen(between=between, why=" ".join(str(e).split())))
                continue
            findings += differences
            unseen += not_seen
        return findings, unseen

    def _cloud(self) -> _Compared:
        findings, unseen = cloud_drift(_read(self.pulumi.refreshed()), self.stack)
        return findings, [*unseen, *pending_creations(self.pending, self.stack)]

    def _silicon(self) -> _Compared:
        objects = found_in(self.cluster(), pods_of=lambda pools, nodes: ())
        return silicon_drift(objects, self.fleet, self.stack, self.now())

    def _operator(self) -> _Compared:
        access = self.cluster()
        try:
            installed = read_operator(access.client(), self.fleet)
        except (ApiError, Unreachable) as e:
            raise CannotLook(why(e, access)) from None
        unseen = [
            Unseen(between=Between.OPERATOR, why=str(unread_object))
            for unread_object in installed.unread
        ]
        return operator_drift(installed, self.fleet, self.stack), unseen

    def _share_scheduler(self) -> _Compared:
        access = self.cluster()
        unread: list[UnreadObject] = []
        try:
            data = read_scheduler_config(access.client(), self.fleet, unread)
        except (ApiError, Unreachable) as e:
            raise CannotLook(why(e, access)) from None
        if unread:
            return [], [Unseen(between=Between.ENGINE, why=str(item)) for item in unread]
        return engine_drift(data, self.fleet), []


def _under_way(between: Between, holders: Sequence[str], stack: str) -> Unseen:
    return Unseen(
        between=between,
        why=f"an update is running on the stack, or was killed: {'; '.join(holders)} holds its "
        "lock",
        remedy="run drift again when it has ended; if it was killed: slicewright unlock --stack "
        f"{stack}",
    )


def _read(text: str) -> Preview:
    try:
        return read_preview(text)
    except NotAPreview as e:
        raise NotAPreview(f"cannot parse the output of pulumi: {e}") from None
