"""`slicewright schema`: prints the JSON schema of stack files."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from slicewright.exit_codes import VERIFIED


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "schema",
        description="Prints the JSON schema of stack files. An editor with yaml-language-server "
        "completes and checks a stack file whose first line names the schema's path "
        "(docs/reference/init.md).",
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    from slicewright.infra.stack_file import json_schema

    print(json_schema.text(), end="")
    return VERIFIED
