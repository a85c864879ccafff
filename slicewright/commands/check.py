"""`slicewright check`: reports every problem in stack files."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, date, datetime
from typing import Any

from rich.console import Console

from slicewright.exit_codes import BAD_INPUT, VERIFIED
from slicewright.infra import stack_file
from slicewright.options import stack_files
from slicewright.show.notes_text import show_notes


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("check")
    stack_files.add_arguments(parser)
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument(
        "--json",
        action="store_true",
        help="as JSON, with a stable code for each problem (docs/reference/check-json.md)",
    )
    formats.add_argument(
        "--sarif",
        action="store_true",
        help="as SARIF 2.1.0, which code scanning shows beside the lines of the file",
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    names = stack_files.named(parsed)
    if not names:
        print("slicewright check: name a stack (-s gke-h100) or a FILE", file=sys.stderr)
        return BAD_INPUT
    today = datetime.now(UTC).date()
    if parsed.json or parsed.sarif:
        return _write(names, today, sarif=parsed.sarif)
    failed = False
    for name in names:
        file = stack_files.path_of(name)
        label = _label(name)
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
            show_notes(fleet, console, today=today)
    return BAD_INPUT if failed else VERIFIED


def _write(names: list[str], today: date, *, sarif: bool) -> int:
    from slicewright.show import checked_files

    files = []
    for name in names:
        file = stack_files.path_of(name)
        # A path relative to the current directory, as code scanning expects it.
        label = stack_files.display_path(file)
        try:
            fleet = stack_files.read_plan(file, name=label)
        except stack_file.SpecError as e:
            files.append(checked_files.refused_file(label, e))
        else:
            files.append(checked_files.accepted_file(label, fleet, today))
    write = checked_files.as_sarif if sarif else checked_files.as_json
    print(json.dumps(write(files), indent=2))
    return VERIFIED if all(file.accepted for file in files) else BAD_INPUT


def _label(name: str) -> str:
    """Returns the file's name in messages: as typed, or the path of a stack's file."""
    file = stack_files.path_of(name)
    return name if str(file) == name else stack_files.display_path(file)
