"""The `slicewright` command: its subcommands, its console, and its early exits."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from rich.console import Console

from slicewright.apis.version import VERSION
from slicewright.exit_codes import (
    BAD_INPUT,
    CANNOT_RUN,
    CLOSED_PIPE,
    DEGRADED,
    INTERRUPTED,
    NOT_VERIFIED,
    VERIFIED,
)

__all__ = [
    "BAD_INPUT",
    "CANNOT_RUN",
    "CLOSED_PIPE",
    "DEGRADED",
    "INTERRUPTED",
    "NOT_VERIFIED",
    "VERIFIED",
    "main",
]

COMMANDS: Final = (
    "check",
    "plan",
    "optimise",
    "preview-report",
    "deployed",
    "rights",
    "doctor",
    "status",
    "rollout",
    "load",
    "drift",
    "import-file",
    "unlock",
    "recover",
    "destroy",
    "rehearse",
)
"""Subcommands in the order of the help. Each is a module of slicewright.commands, with _ for -."""
_WIDTH_WITHOUT_TERMINAL = 140
"""The line width in CI or a file, which have none. rich's default of 80 would fold every table."""


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    if sys.stdout is None:
        print(
            "slicewright: stdout is closed, so the result cannot be written; open it, or "
            "redirect it to /dev/null",
            file=sys.stderr,
        )
        return CANNOT_RUN
    try:
        try:
            return _run(arguments)
        finally:
            # Python would handle a failing flush at exit with a different exit code.
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return CLOSED_PIPE
    except OSError as e:
        # Commands handle errors of the files that they read and write. Any other error comes from
        # the output, which has no name.
        _drop_output()
        print(
            f"slicewright: {e.filename or 'the output cannot be written'}: {e.strerror}",
            file=sys.stderr,
        )
        return CANNOT_RUN


def _run(arguments: list[str] | None) -> int:
    argv = sys.argv[1:] if arguments is None else arguments
    parser = _parser(argv)
    parsed = parser.parse_args(argv)
    if parsed.command is None:
        parser.print_help()
        return VERIFIED
    # Without emoji: rich would print line 100 of a file, `:100:`, as a picture.
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    console = _Console(emoji=False, width=width)
    try:
        code: int = parsed.run(parsed, console)
    except KeyboardInterrupt:
        console.print("interrupted", style="yellow")
        return INTERRUPTED
    return code


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Handles a closed pipe, as caused by `head -1`.

        rich itself would exit with 1, which means "not verified" here.
        """
        self.quiet = True  # cleaning up may still print
        _drop_output()
        raise SystemExit(CLOSED_PIPE)


def _drop_output() -> None:
    """Keeps Python from failing again when it closes stdout with unwritten output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Returns a parser with the command that `argv` begins with, else with all commands, for the
    help and for errors.

    Importing all commands takes almost half as long again as `plan` does, and eight times as long
    as `rehearse`.
    """
    parser = argparse.ArgumentParser(
        prog="slicewright",
        description="Fleets of partitioned GPUs on GKE and EKS, verified on every node.",
        epilog="`slicewright COMMAND --help` explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    named = [name for name in argv[:1] if name in COMMANDS]
    for name in named or COMMANDS:
        module = import_module(f"slicewright.commands.{name.replace('-', '_')}")
        module.add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
