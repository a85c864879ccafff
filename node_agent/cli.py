"""The command `slicewright-agent`, which the agent's pod runs, too.

Exit codes, with 2 for wrong use. `verify`: 0 match, 1 mismatch, 2 unknown. `prove`:
0 every device computed, 1 one did not, 2 it could not be tried. `show`: 0, or 2
if the driver does not answer. `apply` and `clear`: 0 done, 1 refused or rolled back, 2 the
driver does not answer, 4 a GPU reset or reboot is needed, 5 the rollback failed. `watch`: 0 stopped
by SIGTERM or SIGINT, or (--desired) its container is outdated and the kubelet must create a new
one, 2 cannot start, 3 its fork server ended and it must be restarted.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from typing import Final

from slicewright.apis.desired_state import DesiredError
from slicewright.apis.layout import LayoutError
from slicewright.apis.version import VERSION
from slicewright.node_agent.commands.exit_codes import RESTART_NEEDED, UNKNOWN, WRONG_USE, WrongUse
from slicewright.node_agent.nvml.prober import ForkServerEnded
from slicewright.telemetry.plain import plain_stream
from slicewright.telemetry.streams import drop_output, open_closed_streams, replace_unencodable

COMMANDS: Final = ("show", "verify", "prove", "apply", "clear", "watch", "attribution")
"""Commands in the order of the help. Each is a module of slicewright.node_agent.commands."""
_SERVICES: Final = (["watch"], ["attribution"])
"""Commands whose only output is their log, on stderr."""


def main(arguments: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if arguments is None else arguments
    if open_closed_streams() and list(argv[:1]) not in _SERVICES:
        print(
            "slicewright-agent: stdout is closed, so the result cannot be written; open it, or "
            "redirect it to /dev/null",
            file=sys.stderr,
        )
        return UNKNOWN
    replace_unencodable()
    with redirect_stdout(plain_stream(sys.stdout)), redirect_stderr(plain_stream(sys.stderr)):
        return _run(argv)


def _run(arguments: Sequence[str]) -> int:
    parsed = parser_for(arguments).parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
        sys.stdout.flush()
        return code
    except (WrongUse, DesiredError, LayoutError) as e:
        _print_problem(str(e))
        return WRONG_USE
    except ForkServerEnded as e:
        _print_problem(f"{e}; restart the agent")
        return RESTART_NEEDED
    except BrokenPipeError:
        # `show | head`: the reader has closed the pipe, and another flush at exit would fail again.
        drop_output()
        return 128 + signal.SIGPIPE
    except OSError as e:
        # For example a full disk with `show > file`.
        _print_problem(f"{e.filename or parsed.command}: {e.strerror or e}")
        drop_output()
        return UNKNOWN
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def parser_for(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Returns a parser with the command that `arguments` begins with, else with all commands, for
    the help and for errors.

    Each process imports a single command: the fork server of `watch` must be forked while it is
    small, and a zipapp compiles its modules at every start.
    """
    parser = argparse.ArgumentParser(
        prog="slicewright-agent", description="Show, verify and partition this machine's GPUs."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    named = [name for name in arguments[:1] if name in COMMANDS]
    for name in named or COMMANDS:
        import_module(f"slicewright.node_agent.commands.{name}").add_parser(commands)
    return parser


def _print_problem(message: str) -> None:
    lines = (f"slicewright-agent: {line}" for line in message.splitlines())
    print("\n".join(lines), file=sys.stderr)
