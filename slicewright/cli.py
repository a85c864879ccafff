"""The `slicewright` command: its subcommands, its console, and its early exits."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from slicewright.commands import COMMANDS, parser_of
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
    "COMMANDS",
    "DEGRADED",
    "INTERRUPTED",
    "NOT_VERIFIED",
    "TERMINATED",
    "VERIFIED",
    "main",
]


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
    first = next((word for word in argv if word != "--"), "")
    with _collector_paused():
        parser = parser_of(first if first in COMMANDS else None)
    parsed = parser.parse_args(argv)
    if parsed.command is None:
        parser.print_help()
        return VERIFIED
    # Imported here: Ctrl-C is answered from the first moment.
    from slicewright.console import command_console

    code: int = parsed.run(parsed, command_console())
    return code


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pauses Python's garbage collector: during the imports it would find nothing, and take a
    tenth of the time of `check`.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


if __name__ == "__main__":
    sys.exit(main())
