"""Exit codes of `slicewright-agent`. `apply` and `clear` have more of them: `host.commands`."""

from typing import Final

OK: Final = 0
MISMATCH: Final = 1
UNKNOWN: Final = 2
WRONG_USE: Final = 2
RESTART_NEEDED: Final = 3
WRONG_DEVICE: Final = 4
"""A container was allotted another device than it requested."""


class WrongUse(Exception):
    """The command line is wrong. The message has the cause and the remedy."""
