"""Options that several commands have."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Final

from slicewright.node_agent.nvml.cold_start import with_cold_start
from slicewright.telemetry.ports import port as listening_port

_LONGEST_WAIT_S: Final = 24 * 3600


def deadline() -> argparse.ArgumentParser:
    """Returns the parent parser with the time limit of a probe."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--deadline",
        type=seconds,
        default=20.0,
        metavar="SECONDS",
        help="time limit of one probe of GPUs that have started (default 20); each GPU gets 3 "
        "seconds more to start",
    )
    return parser


def deadline_s(parsed: argparse.Namespace, *, gpus: int = 0) -> float:
    """Returns the time limit of a probe with the start of the GPUs. gpus: 0 if unknown."""
    return with_cold_start(parsed.deadline, gpus)


def layout() -> argparse.ArgumentParser:
    """Returns the parent parser with a layout, as arguments or in a file."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "layout",
        nargs="*",
        metavar="LAYOUT",
        help="GPUS:WHAT, for example 2:3g.20gb@0,3g.20gb@4, all:1g.5gb*7 or 0-3:off",
    )
    parser.add_argument(
        "-f",
        "--file",
        type=Path,
        metavar="FILE",
        help="read the layout from a file, one clause per line",
    )
    return parser


def change() -> argparse.ArgumentParser:
    """Returns the parent parser of commands that partition the GPUs of a host."""
    parser = argparse.ArgumentParser(add_help=False, parents=[deadline()])
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be done, and change nothing"
    )
    parser.add_argument(
        "--wait",
        type=_wait_seconds,
        default=0.0,
        metavar="SECONDS",
        help="how long to wait for a GPU in use, up to a day (default 0: refuse at once)",
    )
    return parser


def add_desired(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--desired", type=Path, metavar="FILE", help="the desired state of a pool's nodes"
    )


def add_service(parser: argparse.ArgumentParser, *, repeats: str, port: int) -> None:
    """Adds the options of a command that repeats something and serves its metrics.

    repeats: the repeated action in the plural, for the help of --interval.
    """
    parser.add_argument(
        "--interval",
        type=seconds,
        default=10.0,
        metavar="SECONDS",
        help=f"seconds between {repeats} (default 10)",
    )
    parser.add_argument(
        "--port",
        type=listening_port,
        default=port,
        help=f"port of /healthz, /readyz, /metrics on POD_IP (default {port})",
    )


def seconds(text: str, least: float = 0.1, most: int = 3600) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is not a number of seconds from {least:g} to {most}"
        )
    return number


def _wait_seconds(text: str) -> float:
    """Seconds to wait for other processes, with the limit of a stack file's `in_use`."""
    return seconds(text, least=0, most=_LONGEST_WAIT_S)
