"""`slicewright import-file`: writes a file for `pulumi import` that adopts existing node pools."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rich.console import Console

from slicewright.exit_codes import BAD_INPUT, VERIFIED
from slicewright.infra import manifests, plan, stack_file
from slicewright.options import stack_files
from slicewright.processes.foreign_files import NotAFile, read_bytes
from slicewright.processes.foreign_json import NotReadable, read_object
from slicewright.stack_config import setting


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "import-file",
        description="Reads the file that `pulumi preview --import-file` writes, and prints the "
        "part that adopts the stack's node pools, with their IDs (docs/how-to/adopt-pools.md). "
        "Calls no cloud API.",
    )
    parser.add_argument(
        "preview", metavar="PREVIEW", help="output of `pulumi preview --import-file`"
    )
    parser.add_argument(
        "pools",
        nargs="*",
        metavar="POOL",
        help="an existing pool (default: all pools that the preview would create)",
    )
    parser.add_argument(
        "-s",
        "--stack",
        required=True,
        metavar="NAME",
        help="the stack file Pulumi.NAME.yaml of the project, or the path of a stack file",
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    file = stack_files.path_of(parsed.stack)
    try:
        fleet = stack_files.read_plan(file)
    except stack_file.SpecError as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    if isinstance(fleet, plan.ExistingFleetPlan):
        return _say(f"{parsed.stack} has cloud: byo; the program never creates nodes for it")
    project = setting(file, "gcp:project")
    if project is None and isinstance(fleet, plan.GkeFleetPlan):
        return _say(
            f"{stack_files.display_path(file)} has no gcp:project, which the IDs of pools contain"
        )
    try:
        preview = read_object(read_bytes(parsed.preview), "a list of resources to import")
    except NotAFile as e:
        return _say(f"{parsed.preview}: {e}")
    except NotReadable as e:
        return _say(
            f"{parsed.preview} is not a JSON object as written by `pulumi preview --import-file`: "
            f"{e}"
        )
    try:
        adopting = manifests.import_file(fleet, project, preview, parsed.pools)
    except manifests.NoSuchPool as e:
        return _say(f"{parsed.preview}: {e}")
    print(json.dumps(adopting, indent=2))
    return VERIFIED


def _say(problem: str) -> int:
    print(f"slicewright import-file: {stack_file.plain(problem)}", file=sys.stderr)
    return BAD_INPUT
