"""Ending recorded processes and whatever descends from them."""

from __future__ import annotations

import contextlib
import itertools
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from slicewright.rehearsal.host.processes import children, kernel, records
from slicewright.rehearsal.host.processes.errors import StillRunning
from slicewright.rehearsal.host.processes.marks import marked
from slicewright.rehearsal.host.processes.records import Recorded

_GRACE_S = 10.0
_KILL_S = 10.0
"""A killed process is gone at once, unless it is in uninterruptible sleep (state D)."""


def stop(record: Recorded, *, grace_s: float = _GRACE_S) -> None:
    """Ends the process: SIGTERM to its group; after grace_s SIGKILL to it and its descendants.

    Returns when all have ended and the record is removed. A record whose pid now belongs to another
    process is removed, and that process is not touched. Raises StillRunning for a process
    that survives SIGKILL.
    """
    _stop((record,), grace_s)


def stop_all(
    environment: Path, order: Sequence[str] = (), *, grace_s: float = _GRACE_S
) -> list[str]:
    """Ends every process of the environment; returns the names of those with anything running.

    order: name patterns (`kubelet-*`) in the order in which to end them; the rest follow by stop
    rank. Processes of the same rank end in parallel.
    """

    def rank(record: Recorded) -> tuple[int, int]:
        matching = (i for i, pattern in enumerate(order) if fnmatchcase(record.name, pattern))
        return next(matching, len(order)), record.stop_rank

    if not records.directory(environment).is_dir():
        return []
    ended = []
    for _, batch in itertools.groupby(sorted(records.recorded(environment), key=rank), key=rank):
        together = tuple(batch)
        ended += [r.name for r in together if records.is_alive(r) or marked(environment, r.name)]
        _stop(together, grace_s)
    return ended


def end_leftovers(environment: Path) -> list[str]:
    """Ends what an earlier run left running, even if that was killed; returns what was found.

    First the recorded processes in their order, then any others with this environment's marks (in
    the result as `process PID`).
    """
    ended = stop_all(environment, grace_s=5.0)
    ended += [f"process {stray.pid}" for stray in marked(environment)]
    _kill(lambda: marked(environment))
    # A process that was ending may have started another meanwhile, whose record is still there.
    stop_all(environment)
    for path in records.directory(environment).glob("*.json"):
        if records.load(environment, path.stem) is None:
            path.unlink(missing_ok=True)  # unreadable, and whatever it described is gone
    return ended


def end_descendants(environment: Path, name: str) -> None:
    """Ends the descendants of an ended process of that name."""
    _kill(lambda: marked(environment, name))


def _stop(together: Collection[Recorded], grace_s: float) -> None:
    # An outdated record must not end the descendants of a newer process of that name.
    together = [
        record
        for record in together
        if records.load(record.environment, record.name) in (record, None)
    ]
    with _held(_members(together)) as handles:
        for handle in handles:
            handle.send(signal.SIGTERM)
        if not kernel.wait_for_end(handles, timeout_s=grace_s, reap=children.reap):
            for handle in handles:
                handle.send(signal.SIGKILL)
            if not kernel.wait_for_end(handles, timeout_s=_KILL_S, reap=children.reap):
                raise _unkillable(handle.seen for handle in handles)
    for record in together:
        end_descendants(record.environment, record.name)
        children.reap()
        records.remove(record)


def _members(together: Iterable[Recorded]) -> list[kernel.Seen]:
    """The recorded processes that still run, and their groups.

    A group counts only while its leader runs: afterwards its id may be reused.
    """
    groups = {record.pid for record in together if records.seen(record)}
    return (
        [seen for seen in kernel.see_all() if seen.group in groups and not seen.ended]
        if groups
        else []
    )


def _kill(find: Callable[[], list[kernel.Seen]]) -> None:
    """SIGKILL until `find` finds nothing: processes may fork meanwhile."""
    deadline = time.monotonic() + _KILL_S
    while found := find():
        if time.monotonic() > deadline:
            raise _unkillable(found)
        with _held(found) as handles:
            for handle in handles:
                handle.send(signal.SIGKILL)
            kernel.wait_for_end(handles, timeout_s=deadline - time.monotonic(), reap=children.reap)


@contextlib.contextmanager
def _held(found: Iterable[kernel.Seen]) -> Iterator[list[kernel.Handle]]:
    handles = [handle for seen in found if (handle := kernel.hold(seen))]
    try:
        yield handles
    finally:
        for handle in handles:
            handle.close()


def _unkillable(found: Iterable[kernel.Seen]) -> StillRunning:
    pids = ", ".join(str(seen.pid) for seen in found)
    return StillRunning(
        f"processes survived SIGKILL for {_KILL_S:.0f} s: {pids}; see where the kernel holds "
        f"them with `ps -o pid,stat,wchan -p {pids.replace(' ', '')}`"
    )
