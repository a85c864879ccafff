"""Shares of GPUs by fractions on pools, nodes and pods. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from slicewright.apis.shares.allocation import CardShare, read_allocation
from slicewright.apis.shares.engines import ENGINES, EngineName
from slicewright.apis.shares.registration import (
    RegisteredCard,
    UnreadableRegistration,
    read_registration,
)
from slicewright.fleet_controller.objects.bounds import (
    EPOCH_S,
    LONGEST_NAME,
    seconds_or_epoch,
    text,
)
from slicewright.telemetry.plain import plain

_SCHEDULERS: Final[Mapping[EngineName, str]] = {"volcano": "volcano-scheduler"}
"""Label `app` of a scheduler that forgets its nodes' cards when it starts. Source: volcano-sh/
volcano v1.15.1, installer/helm/chart/volcano/templates/scheduler.yaml.
"""


@dataclass(frozen=True, kw_only=True)
class PoolShares:
    """The engine that shares the GPUs of a pool's nodes."""

    engine: EngineName
    namespace: str
    """The namespace of its scheduler."""
    memory_unit_mib: int = 1
    """MiB in one unit of requested memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PodShares:
    """The shares that a pod has requested."""

    engine: EngineName
    allocated: tuple[CardShare, ...]
    """Empty if the engine's scheduler has allocated none, or none that can be read."""


@dataclass(frozen=True, kw_only=True)
class NodeLock:
    """HAMi's lock of a node, which its device plugin releases once a pod has its cards."""

    since: float
    pod: str


def read_pool_shares(raw: Any) -> PoolShares | None:
    """Raises KeyError or TypeError. Returns None for an engine that this controller does not
    know.
    """
    if raw is None or raw["engine"] not in ENGINES:
        return None
    return PoolShares(
        engine=cast(EngineName, raw["engine"]),
        namespace=text(raw["namespace"], LONGEST_NAME),
        memory_unit_mib=max(1, int(raw.get("memoryUnitMiB", 1))),
    )


def read_pod_shares(raw: Mapping[str, Any]) -> PodShares | None:
    """None if the Pod requests no cards of any engine."""
    containers = [
        *(raw["spec"].get("initContainers") or ()),
        *(raw["spec"].get("containers") or ()),
    ]
    requested = {
        resource
        for container in containers
        for resource, quantity in ((container.get("resources") or {}).get("requests") or {}).items()
        if str(quantity) != "0"
    }
    annotations = raw["metadata"].get("annotations") or {}
    for name, engine in ENGINES.items():
        if engine.cards in requested:
            return PodShares(engine=name, allocated=_allocated(annotations.get(engine.allocation)))
    return None


def _allocated(annotation: Any) -> tuple[CardShare, ...]:
    try:
        return read_allocation(annotation) if isinstance(annotation, str) else ()
    except ValueError:
        return ()


def read_registered(notes: Mapping[str, str]) -> tuple[RegisteredCard, ...]:
    """The cards that an engine has registered on a Node. Empty if none can be read: the agent
    reports that.
    """
    for name, engine in ENGINES.items():
        if engine.registration in notes:
            try:
                return read_registration(name, notes[engine.registration])
            except UnreadableRegistration:
                return ()
    return ()


def read_lock(notes: Mapping[str, str]) -> NodeLock | None:
    """HAMi writes the time, the namespace and the name of the pod."""
    written = notes.get(ENGINES["hami"].lock, "")
    at, _, pod = written.partition(",")
    since = seconds_or_epoch(at)
    if since == EPOCH_S:
        return None
    return NodeLock(since=since, pod=plain(pod.replace(",", "/", 1))[:LONGEST_NAME])


def scheduler_started(raw: Mapping[str, Any], app: str) -> float:
    """The time when the scheduler of a Pod has last started, in seconds since the epoch. 0 if it
    is no scheduler, or does not run.
    """
    if app not in _SCHEDULERS.values():
        return EPOCH_S
    starts = [
        ((status.get("state") or {}).get("running") or {}).get("startedAt")
        for status in (raw.get("status") or {}).get("containerStatuses") or ()
    ]
    return max(map(seconds_or_epoch, starts), default=EPOCH_S)


def forgets_cards(engine: EngineName) -> bool:
    """True if the engine's scheduler knows no cards when it starts, until each node changes."""
    return engine in _SCHEDULERS
