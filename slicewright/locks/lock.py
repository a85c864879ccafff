"""A lock of Pulumi's, and the conclusion from it. Pure.

File, S3 and other buckets hold one JSON file per lock, with the process, user, host and time.
Source: pulumi/pulumi, pkg/backend/diy/lock.go (lockContent, stackLockDir).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from slicewright.processes.foreign_json import NotReadable, read_object


class Unreadable(ValueError):
    """The lock is not in Pulumi's format."""


@dataclass(frozen=True, kw_only=True)
class Lock:
    key: str
    """The key of its file in the backend."""
    pid: int
    user: str
    host: str
    since: datetime
    """The time by that host's clock, with a time zone."""

    @property
    def held_by(self) -> str:
        return f"pulumi {self.pid} of {self.user} on {self.host}, since {self.since.isoformat()}"


class Holder(Enum):
    """This host's knowledge about the process that took a lock."""

    GONE = "gone"
    LIVES = "lives"
    ELSEWHERE = "elsewhere"
    """The lock's host is another one, or one whose processes are not all visible from here."""


@dataclass(frozen=True, kw_only=True)
class LockVerdict:
    lock: Lock
    stale: bool
    why: str
    remedy: str = ""


def read_lock(key: str, text: str | bytes) -> Lock:
    """Raises Unreadable."""
    try:
        content = read_object(text, "a lock")
        since = datetime.fromisoformat(str(content["timestamp"]))
        pid, user, host = (content[name] for name in ("pid", "username", "hostname"))
    except NotReadable as e:
        raise Unreadable(f"{key} is not a lock in Pulumi's format: {e}") from None
    except KeyError as e:
        raise Unreadable(f"{key} is not a lock in Pulumi's format: it has no {e.args[0]}") from None
    except ValueError:
        raise Unreadable(
            f"{key} is not a lock in Pulumi's format: its timestamp is wrong"
        ) from None
    if not isinstance(pid, int) or not isinstance(user, str) or not isinstance(host, str):
        raise Unreadable(f"{key} is not a lock in Pulumi's format: pid, username or hostname")
    lock = Lock(key=key, pid=pid, user=user, host=host, since=since)
    if since.tzinfo is None or lock.pid <= 0 or not lock.host:
        raise Unreadable(f"{key} is not a lock in Pulumi's format (no host, process or time zone)")
    return lock


def judge(lock: Lock, holder: Holder, vouched: Mapping[str, str]) -> LockVerdict:
    """vouched: host -> why no pulumi works on the stack there, according to the caller."""
    match holder:
        case Holder.GONE:
            return LockVerdict(lock=lock, stale=True, why="that process has ended on this host")
        case Holder.LIVES:
            return LockVerdict(
                lock=lock,
                stale=False,
                why="that process is running on this host",
                remedy=f"wait for it, or interrupt it: kill -INT {lock.pid}",
            )
        case Holder.ELSEWHERE:
            if lock.host in vouched:
                return LockVerdict(lock=lock, stale=True, why=vouched[lock.host])
            return LockVerdict(
                lock=lock,
                stale=False,
                why="cannot tell from here whether that process is running",
                remedy="check that host (a CI job's page shows whether it has ended); if no "
                f"pulumi is working on the stack, pass --host {lock.host}",
            )


def lock_prefix(project: str, stack: str) -> str:
    """The prefix of a stack's locks. stack: may also be organization/project/stack."""
    *_, project, stack = (project, *stack.split("/"))
    return f".pulumi/locks/organization/{project}/{stack}/"
