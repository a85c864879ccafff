"""`slicewright-agent apply`: partitions GPUs of this host."""

from __future__ import annotations

import argparse
from typing import Any

from slicewright.node_agent.commands import options
from slicewright.node_agent.commands.input_files import read_layout
from slicewright.node_agent.host import commands as host


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "apply",
        parents=[options.layout(), options.change()],
        help="partition GPUs of this host by a layout (root)",
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    return host.apply(
        read_layout(parsed),
        deadline_s=options.deadline_s(parsed),
        dry_run=parsed.dry_run,
        wait_s=parsed.wait,
    )
