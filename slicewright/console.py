"""The console of the commands: its width without a terminal, and the end of its reader."""

from __future__ import annotations

import sys
from typing import Final

from rich.console import Console

from slicewright.exit_codes import CLOSED_PIPE
from slicewright.telemetry.streams import drop_output

_WIDTH_WITHOUT_TERMINAL: Final = 140
"""The line width in CI or a file, which have none. rich's default of 80 would fold every table."""


class CommandConsole(Console):
    def on_broken_pipe(self) -> None:
        """Handles a closed pipe, as caused by `head -1`.

        rich itself would exit with 1, which means "not verified" here.
        """
        self.quiet = True  # cleaning up may still print
        drop_output()
        raise SystemExit(CLOSED_PIPE)


def command_console() -> Console:
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    # Without emoji: rich would print line 100 of a file, `:100:`, as a picture.
    return CommandConsole(emoji=False, width=width)
