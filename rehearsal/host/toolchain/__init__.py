"""The tools that a rehearsal runs: found on PATH, downloaded or built once per user."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from slicewright.rehearsal.host.toolchain import workload_tools
from slicewright.rehearsal.host.toolchain.acquisition import obtain
from slicewright.rehearsal.host.toolchain.errors import MissingPrerequisite, ToolchainError
from slicewright.rehearsal.host.toolchain.found import Found
from slicewright.rehearsal.host.toolchain.paths import Toolchain
from slicewright.rehearsal.host.toolchain.reporting import Report, Reporter
from slicewright.rehearsal.host.toolchain.settings import from_environment
from slicewright.rehearsal.host.toolchain.tools import TOOLS

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Found",
    "MissingPrerequisite",
    "Reporter",
    "Toolchain",
    "ToolchainError",
    "ensure",
    "reporter",
    "survey",
]


def ensure(report: Report, groups: Collection[str] = ()) -> Toolchain:
    """The tools of every rehearsal and those of `groups` (see workload_tools.py), obtained where
    they are missing: up to 20 minutes once, then a fraction of a second.

    report: prints one line; pass `reporter(console)` for progress in place on a terminal. Raises
    ToolchainError.
    """
    tools = assemble(survey(report, groups))
    if workload_tools.TRITON not in groups:
        return tools
    # Imported late, as below.
    from slicewright.rehearsal.host.toolchain import triton

    return replace(tools, triton=triton.ensure(from_environment(os.environ), report))


def survey(report: Report, groups: Collection[str] = ()) -> tuple[Found, ...]:
    """As `ensure`, without Triton, with where each tool came from and how long obtaining took."""
    return obtain((*TOOLS, *workload_tools.of(groups)), from_environment(os.environ), report)


def reporter(console: Console) -> Reporter:
    """Shows progress on `console`: lines that update in place on a terminal, else log lines."""
    # Imported late: the processes of a rehearsal import this package for its paths only.
    from slicewright.rehearsal.host.toolchain import terminal

    return terminal.reporter(console)


def assemble(found: tuple[Found, ...]) -> Toolchain:
    return Toolchain(
        **{field: path.absolute() for one in found for field, path in one.paths.items()}
    )
