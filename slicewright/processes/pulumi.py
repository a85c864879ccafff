"""Runs this machine's `pulumi`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from slicewright.processes.programs import Ended, Program, follow, run

_READ_S: Final = 300.0
"""The limit for reading or writing a state in its backend."""
_COMPUTE_S: Final = 3600.0
"""The limit for a preview or a refresh, which asks the cloud about each resource."""
_DESTROY_S: Final = 6 * 3600.0
_COMPUTES: Final = frozenset({"preview", "refresh"})
_WRITES: Final = frozenset({"cancel", "destroy", "import"})
"""Commands that are not killed when they are asked to stop: they save the state."""


def run_pulumi(*arguments: str, standard_input: str = "") -> Ended:
    """Runs a command to its end, whatever its exit code. Raises ProgramFailed and Interrupted."""
    return run(_program(arguments, standard_input.encode()))


def follow_pulumi(
    *arguments: str,
    receive: Callable[[bytes], None],
    idle: Callable[[], None] = lambda: None,
    variables: Mapping[str, str] | None = None,
) -> Ended:
    """Passes the output on while the command runs. Raises ProgramFailed.

    variables: additions to the environment.
    """
    program = replace(_program(arguments, variables=variables or {}), merged=True)
    return follow(program, receive, idle)


def _program(
    arguments: tuple[str, ...],
    standard_input: bytes = b"",
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Program:
    words = set(arguments[:2])
    saves = bool(words & _WRITES) or ("refresh" in words and "--yes" in arguments)
    limit_s = _COMPUTE_S if words & _COMPUTES else _READ_S
    return Program(
        argv=("pulumi", *arguments),
        name=f"`{name_of(arguments)}`",
        limit_s=_DESTROY_S if "destroy" in words else limit_s,
        environment={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true", **variables},
        standard_input=standard_input,
        grace_s=None if saves else 10.0,
    )


def name_of(arguments: tuple[str, ...]) -> str:
    """Returns the command without its options: `pulumi stack export`."""
    words = ["pulumi", arguments[0]]
    if arguments[0] == "stack":
        words.append(arguments[1])
    return " ".join(words)
