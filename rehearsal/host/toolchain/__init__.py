"""The programs that a rehearsal runs and that are not ours: found on PATH, downloaded, or built,
once per user and machine.
"""

from __future__ import annotations

import os

from rehearsal.host.toolchain.acquisition import obtain
from rehearsal.host.toolchain.cache import Report
from rehearsal.host.toolchain.errors import MissingPrerequisite, ToolchainError
from rehearsal.host.toolchain.found import Found
from rehearsal.host.toolchain.paths import Toolchain
from rehearsal.host.toolchain.settings import from_environment
from rehearsal.host.toolchain.tools import TOOLS

__all__ = ["Found", "MissingPrerequisite", "Toolchain", "ToolchainError", "ensure", "survey"]


def ensure(report: Report) -> Toolchain:
    """The whole toolchain, obtained where it is missing. `report` gets a line for whatever takes
    time.

    Raises ToolchainError when a tool cannot be had. The first run on a machine can take a quarter
    of an hour, every later one a fraction of a second.
    """
    return assemble(survey(report))


def survey(report: Report) -> tuple[Found, ...]:
    """As `ensure`, with where each tool came from and what that took."""
    return obtain(TOOLS, from_environment(os.environ), report)


def assemble(found: tuple[Found, ...]) -> Toolchain:
    return Toolchain(
        **{field: path.absolute() for one in found for field, path in one.paths.items()}
    )
