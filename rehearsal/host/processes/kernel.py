"""What /proc says about processes, and signals that cannot hit the wrong one."""

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
    """Clock ticks from boot to its start; with the pid and the boot it names one process for
    ever.
    """

    @property
    def ended(self) -> bool:
        """A zombie runs nothing and holds nothing; only its parent can make it disappear."""
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
    """`NAME=value` entries that the process was started with; empty for another user's process, a
    zombie or a kernel thread.
    """
    try:
        return frozenset(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return frozenset()


def ancestors() -> frozenset[int]:
    """This process and those that it descends from."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        seen = see(pid)
        pid = seen.parent if seen else 0
    return frozenset(found)


class Handle:
    """Holds on to one process: its pid may pass to another, this cannot. Close it."""

    def __init__(self, descriptor: int, seen: Seen) -> None:
        self._descriptor = descriptor
        self.seen = seen

    def send(self, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError:
            pass  # it ended meanwhile, which is what was wanted

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
    now = see(seen.pid)  # read after opening: what is seen now is what the descriptor holds
    if now is None or now.start_ticks != seen.start_ticks or now.ended:
        os.close(descriptor)
        return None
    return Handle(descriptor, now)


def wait_for_end(handles: Iterable[Handle], *, timeout_s: float, reap: Callable[[], None]) -> bool:
    """True when all have ended within timeout_s. `reap` is called after each end, so that own
    children leave no zombies.
    """
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
