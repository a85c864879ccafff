"""The two environment variables by which descendants of recorded processes are found again."""

from __future__ import annotations

from pathlib import Path

from rehearsal.host.processes import kernel

ENVIRONMENT_VARIABLE = "SLICEWRIGHT_REHEARSAL"
"""The environment's directory. People export it too, to use `pulumi` by hand, so it alone condemns
no process.
"""
PROCESS_VARIABLE = "SLICEWRIGHT_REHEARSAL_PROCESS"
"""The recorded process that this one is or descends from; set by `start` only, never exported by
people.
"""


def marks(environment: Path, name: str) -> dict[str, str]:
    """What the environment of a process must contain to be ended with process `name` of this
    rehearsal.
    """
    return {ENVIRONMENT_VARIABLE: str(environment.resolve()), PROCESS_VARIABLE: name}


def marked(environment: Path, name: str | None = None) -> list[kernel.Seen]:
    """Running processes that carry both marks: of this environment, and of `name` (None: of any
    process).

    Never this process or one that it descends from: who asks for an end is not part of it.
    """
    ours = f"{ENVIRONMENT_VARIABLE}={environment.resolve()}".encode()
    wanted = f"{PROCESS_VARIABLE}={name}".encode()
    prefix = f"{PROCESS_VARIABLE}=".encode()
    spared = kernel.ancestors()
    found = []
    for seen in kernel.see_all():
        if seen.ended or seen.pid in spared:
            continue
        entries = kernel.initial_environment(seen.pid)
        if ours in entries and (
            wanted in entries if name is not None else any(e.startswith(prefix) for e in entries)
        ):
            found.append(seen)
    return found
