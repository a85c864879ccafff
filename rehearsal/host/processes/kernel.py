"""Processes as /proc shows them, and signals that cannot reach the wrong one (pidfds)."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Seen:
    """One process as /proc/PID/stat shows it."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    start_ticks: int
    """Clock ticks from boot to its start; unique together with the pid and the boot id."""

    @property
    def ended(self) -> bool:
        """Whether it is a zombie: it runs nothing and only waits for its parent to reap it."""
        return self.state in "ZX"


@cache
def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def see(pid: int) -> Seen | None:
    """The process that has this pid now, or None."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The second field is the command's name in parentheses and may itself hold spaces and
    # parentheses.
    fields = stat[stat.rindex(")") + 2 :].split()
    return Seen(
        pid=pid,
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
    )


def see_all() -> Iterator[Seen]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (seen := see(int(entry.name))):
            yield seen


def initial_environment(pid: int) -> frozenset[bytes]:
    """`NAME=value` entries at the process's start.

    Empty for another user's process, a zombie or a kernel thread.
    """
    try:
        return frozenset(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return frozenset()


def ancestors() -> frozenset[int]:
    """This process and its ancestors."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        seen = see(pid)
        pid = seen.parent if seen else 0
    return frozenset(found)


class Handle:
    """A pidfd: refers to one process even if its pid is reused. Close it."""

    def __init__(self, descriptor: int, seen: Seen) -> None:
        self._descriptor = descriptor
        self.seen = seen

    def send(self, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError:
            pass  # it has ended

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        os.close(self._descriptor)


def hold(seen: Seen) -> Handle | None:
    """A handle on exactly the process that was seen; None if it has ended."""
    try:
        descriptor = os.pidfd_open(seen.pid)
    except OSError:
        return None
    now = see(seen.pid)  # after opening, so that it shows the process of the descriptor
    if now is None or now.start_ticks != seen.start_ticks or now.ended:
        os.close(descriptor)
        return None
    return Handle(descriptor, now)


def wait_for_end(handles: Iterable[Handle], *, timeout_s: float, reap: Callable[[], None]) -> bool:
    """Whether all end within timeout_s. `reap` is called after each end, for children."""
    poll = select.poll()
    waiting = {handle.fileno() for handle in handles}
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + timeout_s
    while waiting:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        for descriptor, _ in poll.poll(left * 1000):
            poll.unregister(descriptor)
            waiting.discard(descriptor)
        reap()
    return True
