"""Exit codes of every command. docs/reference/exit-codes.md explains them."""

from __future__ import annotations

from typing import Final

VERIFIED: Final = 0
"""Done, and everything that had to be verified is verified."""
NOT_VERIFIED: Final = 1
"""Done, but something was not verified, or was left behind."""
BAD_INPUT: Final = 2
"""Wrong use, or a stack file with problems."""
CANNOT_RUN: Final = 3
"""This machine cannot run the command, or the output cannot be written."""
DEGRADED: Final = 4
"""A pool has a problem that does not go away by itself."""
INTERRUPTED: Final = 130
"""The command was ended by Ctrl-C."""
HUNG_UP: Final = 129
"""The command was ended by SIGHUP: its terminal or ssh connection is gone."""
TERMINATED: Final = 143
"""The command was ended by SIGTERM, as a cancelled CI job is."""
CLOSED_PIPE: Final = 141
"""The reader of the output closed it."""
