"""`slicewright check`: reports every problem in stack files."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from slicewright.exit_codes import BAD_INPUT, VERIFIED
from slicewright.infra import stack_file
from slicewright.options import stack_files
from slicewright.show.notes_text import show_notes


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("check")
    stack_files.add_arguments(parser)
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    names = stack_files.named(parsed)
    if not names:
        print("slicewright check: name a stack (-s gke-h100) or a FILE", file=sys.stderr)
        return BAD_INPUT
    failed = False
    for name in names:
        file = stack_files.path_of(name)
        label = name if str(file) == name else stack_files.display_path(file)
        try:
            fleet = stack_files.read_plan(file, name=label)
        except stack_file.SpecError as e:
            failed = True
            console.print(str(e), markup=False, highlight=False, soft_wrap=True)
        else:
            console.print(
                f"{label}: ok, {len(fleet.pools)} pool{'s' if len(fleet.pools) != 1 else ''}",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
            show_notes(fleet, console, today=datetime.now(UTC).date())
    return BAD_INPUT if failed else VERIFIED
