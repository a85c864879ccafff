"""The option for the port of a program's endpoints."""

from __future__ import annotations

import argparse
from typing import Final

_LARGEST: Final = 65535


def port(text: str) -> int:
    """Reads a port of the command line; 0 chooses a free one."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= _LARGEST:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a port from 0 to {_LARGEST}")
    return number
