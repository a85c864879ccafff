"""One look at a cluster, and one look after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator

from kubeapi import ApiError, Unreachable
from slicewright.live.access import Access, NoCluster, why
from slicewright.live.fleet import Fleet, fleet_of
from slicewright.live.reading import Found, NotInstalled, PodsOf, drained, read

_EVERY_S = 2.0
_SHARE = 10
"""A look at a large fleet costs its API server some work: there is one in at most a tenth of the
time.
"""


class CannotLook(Exception):
    """The cluster cannot be read; the message says why, and what to do."""


def look(access: Access, wanted: Collection[str] | None) -> Fleet:
    """The state now. wanted: names of pools; None for all. Raises CannotLook."""
    return fleet_of(found_in(access), wanted, time.time())


def found_in(access: Access, *, pods_of: PodsOf = drained) -> Found:
    """pods_of: names of the nodes whose pods are read. Raises CannotLook."""
    try:
        try:
            return read(access.client(), pods_of=pods_of)
        except ApiError as e:
            if e.status != 401:
                raise
            # A token may end before its time; once more with a new one.
            access.refused()
            return read(access.client(), pods_of=pods_of)
    except NoCluster as e:
        raise CannotLook(str(e)) from None
    except (ApiError, Unreachable) as e:
        raise CannotLook(why(e, access)) from None
    except NotInstalled:
        raise CannotLook(
            f"context {access.context.name} ({access.context.server}) has no GPUPools: slicewright "
            "is not installed in this cluster; `pulumi up` does it, or name another cluster with "
            "--context"
        ) from None


def looks(
    look: Callable[[], Fleet], pause: Callable[[float], None] = time.sleep
) -> Iterator[Fleet | CannotLook]:
    """One look after another, for ever. The first one raises CannotLook; a later one that fails is
    yielded, and another look follows.

    pause: waits so many seconds.
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
