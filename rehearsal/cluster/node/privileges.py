"""What this process may do with namespaces, and where it may not, what allows it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_SYS_ADMIN: Final = 21
"""Bit of CAP_SYS_ADMIN. Source: linux/capability.h."""
_SETTINGS: Final = (
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("user.max_user_namespaces", "0", "10000"),
)
"""Setting, the value that forbids, one that allows. Sources: Debian's and Ubuntu's kernels;
user_namespaces(7).
"""


@dataclass(frozen=True, kw_only=True)
class Privileges:
    root: bool
    sys_admin: bool
    """Whether it may mount without a user namespace. Root in an ordinary container may not."""
    filtered: bool
    """Whether seccomp filters its system calls, as container runtimes do."""
    forbidding: tuple[tuple[str, str, str], ...] = ()
    """Settings of the kernel that forbid user namespaces: name, value, and one that allows."""


@cache
def own() -> Privileges:
    """Of this process."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return Privileges(
        root=os.geteuid() == 0,
        sys_admin=bool(int(status["CapEff"], 16) >> _SYS_ADMIN & 1),
        filtered=status.get("Seccomp", "0").strip() == "2",
        forbidding=tuple(_forbidding()),
    )


def missing(of: Privileges) -> str:
    """What to allow, for a process that could not make a mount namespace."""
    in_container = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
    if of.sys_admin:
        return (
            "This process has CAP_SYS_ADMIN, so a filter of its container refuses: start the "
            f"container with {in_container}."
        )
    settings = " ".join(f"{name}={right}" for name, _, right in of.forbidding)
    found = ", ".join(f"{name} is {value}" for name, value, _ in of.forbidding)
    ways = []
    if of.root:
        ways.append(f"start the container with --cap-add SYS_ADMIN {in_container}")
    else:
        ways.append("run it as root")
    if settings:
        ways.append(f"allow user namespaces ({found}): sysctl -w {settings}")
    elif of.filtered and not of.root:
        ways.append(f"in a container, start that with {in_container}")
    who = "is root without CAP_SYS_ADMIN" if of.root else "is not root"
    return f"This process {who}, and user namespaces are not allowed: {', or '.join(ways)}."


def _forbidding() -> Iterator[tuple[str, str, str]]:
    for name, wrong, right in _SETTINGS:
        try:
            value = Path("/proc/sys", *name.split(".")).read_text().strip()
        except OSError:
            continue  # not every kernel has it
        if value == wrong:
            yield name, value, right
