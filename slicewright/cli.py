"""The `slicewright` command: its subcommands, its console, and its early exits."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final

from slicewright.apis.version import VERSION
from slicewright.exit_codes import (
    BAD_INPUT,
    CANNOT_RUN,
    CLOSED_PIPE,
    DEGRADED,
    INTERRUPTED,
    NOT_VERIFIED,
    TERMINATED,
    VERIFIED,
)
from slicewright.processes import signals
from slicewright.telemetry.streams import drop_output, open_closed_streams, replace_unencodable

__all__ = [
    "BAD_INPUT",
    "CANNOT_RUN",
    "CLOSED_PIPE",
    "DEGRADED",
    "INTERRUPTED",
    "NOT_VERIFIED",
    "TERMINATED",
    "VERIFIED",
    "main",
]

COMMANDS: Final = (
    "init",
    "check",
    "plan",
    "optimise",
    "schema",
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


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    try:
        with signals.raised():
            return _main(arguments)
    except KeyboardInterrupt as e:
        with suppress(OSError):
            print("slicewright: interrupted", file=sys.stderr)
        drop_output()
        return signals.exit_code(e)


def _main(arguments: list[str] | None) -> int:
    if open_closed_streams():
        print(
            "slicewright: stdout is closed, so the result cannot be written; open it, or "
            "redirect it to /dev/null",
            file=sys.stderr,
        )
        return CANNOT_RUN
    replace_unencodable()
    try:
        try:
            return _run(arguments)
        finally:
            # Python would handle a failing flush at exit with a different exit code.
            sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
        return CLOSED_PIPE
    except OSError as e:
        # Commands handle errors of the files that they read and write. Any other error comes from
        # the output, which has no name.
        drop_output()
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
    # Imported here: Ctrl-C is answered from the first moment.
    from slicewright.console import command_console

    code: int = parsed.run(parsed, command_console())
    return code


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
