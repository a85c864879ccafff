"""`slicewright-agent clear`: turns MIG off on GPUs of this host."""

from __future__ import annotations

import argparse
from typing import Any

from slicewright.apis.layout import WHOLE, parse_gpus
from slicewright.node_agent.commands import options
from slicewright.node_agent.commands.exit_codes import WrongUse
from slicewright.node_agent.host import commands as host


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "clear", parents=[options.change()], help="turn MIG off on GPUs of this host (root)"
    )
    parser.add_argument("gpus", nargs="*", metavar="GPU", help="2, 0-3, GPU-<uuid>, or all")
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    if not parsed.gpus:
        raise WrongUse(
            "clear: name the GPUs (2, 0-3 or GPU-<uuid>), or write `clear all` for every GPU"
        )
    return host.apply(
        parse_gpus(",".join(parsed.gpus), WHOLE, source="clear"),
        deadline_s=options.deadline_s(parsed),
        dry_run=parsed.dry_run,
        wait_s=parsed.wait,
    )
