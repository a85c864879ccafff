"""Numbers as options: each has a range, and the message for another number names it."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Final

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_LONGEST: Final = 24 * 3600
_LONGEST_WAIT: Final = 7 * 24 * 60


def whole(least: int, most: int) -> Callable[[str], int]:
    """Returns a reader of whole numbers in this range."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(
                f"{_quoted(text)} is not a whole number from {least} to {most}"
            )
        return number

    return read


def minutes(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= _LONGEST_WAIT:
        raise argparse.ArgumentTypeError(
            f"{_quoted(text)} is not a number of minutes from 0 to {_LONGEST_WAIT}"
        )
    return number


def duration(text: str) -> int:
    """Returns seconds."""
    seconds = 0
    digits, unit = text[:-1], text[-1:]
    if digits.isascii() and digits.isdecimal() and unit in _UNITS and len(digits) < 10:
        seconds = int(digits) * _UNITS[unit]
    if not 1 <= seconds <= _LONGEST:
        raise argparse.ArgumentTypeError(
            f"{_quoted(text)} is not a duration from 1s to {_LONGEST // 3600}h; use for example "
            "30s or 5m"
        )
    return seconds


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
