"""`slicewright plan`: shows the fleet of a stack file, and the effect of a change."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, VERIFIED
from slicewright.infra import manifests, plan, stack_file
from slicewright.options import stack_files


def add_parser(commands: Any) -> None:
    parser = commands.add_parser("plan")
    stack_files.add_arguments(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="the plan of one stack file as JSON (docs/reference/plan-json.md)",
    )
    parser.add_argument(
        "--diff",
        nargs=2,
        metavar=("A", "B"),
        help="compare two stacks or files: show what would change, and how",
    )
    parser.add_argument(
        "--hosts-dir",
        type=Path,
        metavar="DIR",
        help="write to DIR an Ansible inventory and, for each host, the layout file for "
        "`slicewright-agent apply --file` (docs/how-to/bare-hosts-with-ansible.md)",
    )
    parser.add_argument(
        "--resolved",
        action="store_true",
        help="print the fleet as one stack file, merged with the files that `extends` names: each "
        "key and pool with the files that it comes from (docs/how-to/share-between-stacks.md)",
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    from slicewright.show import plan_json, plan_text

    names = stack_files.named(parsed)
    if problem := _wrong_use(parsed, names):
        print(f"slicewright plan: {problem}", file=sys.stderr)
        return BAD_INPUT
    if parsed.resolved:
        return _show_resolved(names[0])
    fleets = _read([*(parsed.diff or ()), *names])
    if fleets is None:
        return BAD_INPUT
    files = _host_files(fleets) if parsed.hosts_dir else {}
    if parsed.hosts_dir and not files:
        print(
            f"slicewright plan: --hosts-dir: {names[0]} has no hosts; list them under `hosts` "
            "(docs/reference/stack-file.md), or omit the option",
            file=sys.stderr,
        )
        return BAD_INPUT
    try:
        written = _write(parsed.hosts_dir, files) if files else []
    except OSError as e:
        print(f"slicewright plan: {e.filename}: {e.strerror}", file=sys.stderr)
        return CANNOT_RUN
    if parsed.diff:
        change = plan.compare(*(fleet for _, fleet in fleets))
        if parsed.json:
            print(json.dumps(plan_json.change_json(change), indent=2))
        else:
            plan_text.show_changes(change, console)
    elif parsed.json:
        print(json.dumps(plan_json.as_json(fleets[0][1], today=datetime.now(UTC).date()), indent=2))
    else:
        for n, (name, fleet) in enumerate(fleets):
            if n:
                console.print()
            plan_text.show_plan(name, fleet, console, today=datetime.now(UTC).date())
        if written:
            plan_text.show_written(written, console)
    return VERIFIED


def _show_resolved(name: str) -> int:
    from slicewright.show.resolved_text import resolved_text

    try:
        source = stack_files.read_source(stack_files.path_of(name))
        plan.read_source(source)
    except stack_file.SpecError as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    print(resolved_text(source), end="")
    return VERIFIED


def _host_files(fleets: Sequence[tuple[str, plan.FleetPlan]]) -> Mapping[str, str]:
    ((_, fleet),) = fleets
    return manifests.host_files(fleet.hosts) if isinstance(fleet, plan.ExistingFleetPlan) else {}


def _write(directory: Path, files: Mapping[str, str]) -> list[Path]:
    """Writes each file atomically. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, content in files.items():
        new = directory / ".slicewright.new"
        new.write_text(content, encoding="utf-8")
        written.append(new.replace(directory / name))
    return written


def _wrong_use(parsed: argparse.Namespace, names: Sequence[str]) -> str | None:
    if parsed.diff and names:
        return f"--diff takes exactly two stacks; omit {', '.join(names)}"
    if not parsed.diff and not names:
        return "name at least one stack (-s gke-h100) or FILE, or compare two with --diff A B"
    if parsed.hosts_dir and (parsed.diff or len(names) > 1):
        return "--hosts-dir writes the hosts of one plan; name one stack (-s hosts-a100) or FILE"
    if parsed.resolved and (parsed.diff or parsed.json or parsed.hosts_dir or len(names) > 1):
        return (
            "--resolved prints one stack file: name one stack (-s prod) or FILE, without --diff, "
            "--json and --hosts-dir"
        )
    if parsed.json and len(names) > 1:
        return f"--json writes one plan; name one stack or FILE, not {', '.join(names)}"
    return None


def _read(names: Sequence[str]) -> list[tuple[str, plan.FleetPlan]] | None:
    """Returns every plan with its title, or prints the problems of all files and returns None."""
    fleets, failed = [], False
    for name in names:
        file = stack_files.path_of(name)
        try:
            fleet = stack_files.read_plan(file)
        except stack_file.SpecError as e:
            failed = True
            print(e, file=sys.stderr)
        else:
            fleets.append((Path(name).name, fleet))
    return None if failed else fleets
