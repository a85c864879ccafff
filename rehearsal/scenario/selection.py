"""Which environment a command is about."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slicewright.rehearsal.host.processes import ENVIRONMENT_VARIABLE
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.errors import NotOneStack


@dataclass(frozen=True)
class Selection:
    """The environments of one directory, and those of them that were named."""

    directory: Path
    named: tuple[str, ...]
    exported: Environment | None
    """The environment whose exports the calling shell has evaluated; None without one."""

    @classmethod
    def of(cls, directory: Path | None, stacks: Sequence[str]) -> Selection:
        """directory: None for that of $SLICEWRIGHT_REHEARSAL, or .rehearsal without one."""
        exported = _exported() if directory is None else None
        if directory is None:
            directory = exported.root.parent if exported else Path(".rehearsal")
        return cls(directory, tuple(stacks), exported)

    def at(self, stack: str) -> Environment:
        """The stack's environment, whether it exists or not."""
        return Environment((self.directory / stack).resolve())

    def every(self) -> tuple[Environment, ...]:
        """Those that were named; else all that exist in the directory."""
        if self.named:
            return tuple(map(self.at, self.named))
        found = (self.at(path.name) for path in sorted(self.directory.glob("*")))
        return tuple(environment for environment in found if environment.exists)

    def one(self) -> Environment:
        """The one that was named; else the calling shell's; else the only one that runs.

        Raises NotOneStack where it is not clear which.
        """
        if not self.named and self.exported:
            return self.exported
        found = self.every()
        if not self.named and len(found) > 1:
            # What an interrupted run left is chosen only if there is nothing else.
            found = tuple(one for one in found if one.is_running) or found
        if len(found) == 1:
            return found[0]
        there = ", ".join(environment.stack for environment in found)
        raise NotOneStack(
            "name one stack, for example --stack gke-h100; "
            + (f"there are {there}" if there else f"none was left running in {self.directory}")
        )


def _exported() -> Environment | None:
    root = os.environ.get(ENVIRONMENT_VARIABLE)
    environment = Environment(Path(root)) if root else None
    return environment if environment and environment.exists else None
