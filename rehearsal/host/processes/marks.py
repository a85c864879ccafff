"""The two environment variables by which descendants of recorded processes are found."""

from __future__ import annotations

from pathlib import Path

from slicewright.rehearsal.host.processes import kernel

ENVIRONMENT_VARIABLE = "SLICEWRIGHT_REHEARSAL"
"""The environment's directory. Users export it too, so it alone marks no process."""
PROCESS_VARIABLE = "SLICEWRIGHT_REHEARSAL_PROCESS"
"""The recorded process that this one is or descends from; set by `start` only."""


def marks(environment: Path, name: str) -> dict[str, str]:
    """The variables of a process that is to be ended together with process `name`."""
    return {ENVIRONMENT_VARIABLE: str(environment.resolve()), PROCESS_VARIABLE: name}


def marked(environment: Path, name: str | None = None) -> list[kernel.Seen]:
    """Running processes with both marks: of this environment, and of `name` (None: any name).

    Without this process and its ancestors.
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
