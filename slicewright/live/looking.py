"""Reads the state of a cluster, once or repeatedly."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, TypeVar

from slicewright.kubeapi import ApiError, Client, Unreachable, list_all
from slicewright.kubeapi.client import path_of
from slicewright.live import objects
from slicewright.live.access import Access, NoCluster, error_message
from slicewright.live.fleet import fleet_of
from slicewright.live.objects import UnreadObject
from slicewright.live.reading import ClusterObjects, NotInstalled, PodsOf, Raw, drained, read
from slicewright.live.views import Fleet

_T = TypeVar("_T")
_NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
_FEW_OBJECTS: Final = 3
_EVERY_S = 2.0
_SHARE = 10
"""Reading a large fleet loads its API server, so readings take at most a tenth of the time."""


class CannotLook(Exception):
    """The cluster cannot be read; the message gives the reason and the remedy."""


def look(access: Access, names: Collection[str] | None) -> Fleet:
    """Returns the current state of the named pools, or of all for None. Raises CannotLook."""
    return fleet_of(read_objects(access), names, time.time())


def read_objects(access: Access, *, pods_of: PodsOf = drained) -> ClusterObjects:
    """Reads the cluster; `pods_of` returns the nodes whose pods are read. Raises CannotLook."""
    try:
        return _ask(access, lambda client: read(client, pods_of=pods_of))
    except NotInstalled:
        raise CannotLook(
            f"context {access.context.name} ({access.context.server}) has no GPUPools: slicewright "
            "is not installed in this cluster; run `pulumi up`, or choose another cluster with "
            "--context"
        ) from None


def read_pods(access: Access) -> Sequence[Raw]:
    """Returns the pods of all namespaces that have not ended. Raises CannotLook."""
    raws = _ask(
        access, lambda client: list_all(client, path_of("v1", "pods"), fieldSelector=_NOT_ENDED)
    )
    unread: list[UnreadObject] = []
    pods = [*objects.pods(raws.items, unread)]
    if unread:
        reasons = "; ".join(objects.lines_of(unread, _FEW_OBJECTS))
        raise CannotLook(f"context {access.context.name} ({access.context.server}): {reasons}")
    return pods


def _ask(access: Access, request: Callable[[Client], _T]) -> _T:
    """Returns the answer to a request. Raises CannotLook."""
    try:
        try:
            return request(access.client())
        except ApiError as e:
            if e.status != 401:
                raise
            # A token may end before its time; once more with a new one.
            access.refused()
            return request(access.client())
    except NoCluster as e:
        raise CannotLook(str(e)) from None
    except (ApiError, Unreachable) as e:
        raise CannotLook(error_message(e, access)) from None


def looks(
    look: Callable[[], Fleet], pause: Callable[[float], None] = time.sleep
) -> Iterator[Fleet | CannotLook]:
    """Reads the state repeatedly, without end.

    If the first reading fails, it raises CannotLook; later failures are yielded. `pause` waits the
    given number of seconds.
    """
    started = time.monotonic()
    yield look()
    while True:
        pause(max(_EVERY_S, _SHARE * (time.monotonic() - started)))
        started = time.monotonic()
        try:
            yield look()
        except CannotLook as e:
            yield e
