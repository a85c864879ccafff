"""`slicewright preview-report`: reports a preview for a pull request, and guards against loss."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.infra import plan, stack_file
from slicewright.live.access import NoCluster
from slicewright.live.looking import CannotLook, read_objects
from slicewright.live.objects import UnreadObject, lines_of
from slicewright.options import cluster_options, stack_files
from slicewright.processes.foreign_files import NotAFile, read_bytes

if TYPE_CHECKING:
    from slicewright.fleet_controller.objects.node import Node
    from slicewright.fleet_controller.objects.pool import Pool
    from slicewright.preview.steps import Preview

_MOST_UNREAD = 10


@dataclass(frozen=True, kw_only=True)
class _Change:
    """The change to report: the fleets, the preview, and the codes in the stack file."""

    before: plan.FleetPlan | None
    """None: without --before."""
    after: plan.FleetPlan
    acknowledged: tuple[str, ...]
    preview: Preview


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "preview-report",
        description="Reads the output of `pulumi preview --json`, and writes Markdown: the pods "
        "and data that are lost, the rollouts, the changes in place, the new resources, and the "
        "cost. Exits with 1 if a node pool, a cluster or another resource that pods need would be "
        "replaced or deleted and the stack file does not acknowledge it "
        "(docs/how-to/review-changes.md).",
    )
    parser.add_argument(
        "-s",
        "--stack",
        metavar="NAME",
        required=True,
        help="the stack file Pulumi.NAME.yaml of the project, or the path of a stack file",
    )
    parser.add_argument(
        "--before",
        metavar="FILE",
        help="the stack file before the change: adds rollouts and the previous cost to the report",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="also read the cluster: the order in which nodes in service roll, the number of "
        "evicted pods, the duration, and the pods that end with replaced pools",
    )
    cluster_options.add_arguments(parser)
    parser.add_argument(
        "preview", metavar="PREVIEW", help="output of `pulumi preview --json`; - reads stdin"
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    if parsed.preview == "-" and parsed.kubeconfig == "-":
        return _say("PREVIEW and --kubeconfig cannot both be stdin", BAD_INPUT)
    file = stack_files.path_of(parsed.stack)
    try:
        change = _read(parsed, file)
    except stack_file.SpecError as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    except _BadInput as e:
        return _say(str(e), BAD_INPUT)
    except NotAFile as e:
        return _say(f"{parsed.preview}: {e}", CANNOT_RUN)
    try:
        living, unread = _living(parsed, file, change) if parsed.live else ("", ())
    except (NoCluster, CannotLook) as e:
        return _say(f"--live: {stack_file.plain(str(e))}", cluster_options.code_of(e))
    return _report(file, change, living, unread)


def _read(parsed: argparse.Namespace, file: Path) -> _Change:
    """Raises SpecError, _BadInput and NotAFile."""
    from slicewright.preview import markdown, steps

    source = stack_files.read_source(file)
    after = plan.read_source(source)
    before = _read_before(parsed.before) if parsed.before else None
    acknowledged = _acknowledged(source, markdown.ACKNOWLEDGE_KEY)
    try:
        preview = steps.read_preview(read_bytes(parsed.preview))
    except steps.NotAPreview as e:
        raise _BadInput(f"{parsed.preview} is not output of `pulumi preview --json`: {e}") from None
    return _Change(before=before, after=after, acknowledged=acknowledged, preview=preview)


def _read_before(name: str) -> plan.FleetPlan:
    """Raises SpecError, and _BadInput if the base files of the old stack file are missing."""
    try:
        source = stack_file.read(Path(name), name=name)
    except stack_file.BaseNotReadable as e:
        raise _BadInput(
            f"--before: {stack_file.plain(str(e))}; a stack file with extends is compared in a "
            "checkout of its commit, beside its base files (docs/how-to/review-changes.md)"
        ) from None
    except stack_file.NotReadable as e:
        raise stack_file.unreadable(str(e), name) from None
    return plan.read_source(source)


def _report(file: Path, change: _Change, living: str, unread: Sequence[UnreadObject]) -> int:
    """Writes the report, and returns the exit code. living: the section on nodes in service."""
    from slicewright.preview import fleets, losses, markdown

    preview = change.preview
    verdict = losses.guard(preview, change.acknowledged)
    compared = fleets.Fleets(after=change.after, before=change.before, living=living)
    sys.stdout.write(markdown.report(_stack_name(file), preview, verdict, compared))
    if preview.errors:
        return _say("the preview failed", NOT_VERIFIED)
    if verdict.open:
        names = ", ".join(loss.step.name for loss in verdict.open)
        return _say(f"not acknowledged in {stack_files.display_path(file)}: {names}", NOT_VERIFIED)
    for line in lines_of(unread, _MOST_UNREAD):
        _say(f"--live: {line}", CANNOT_RUN)
    return CANNOT_RUN if unread else VERIFIED


def _say(message: str, code: int) -> int:
    print(f"slicewright preview-report: {message}", file=sys.stderr)
    return code


def _living(
    parsed: argparse.Namespace, file: Path, change: _Change
) -> tuple[str, Sequence[UnreadObject]]:
    """Returns the section of the report, and the objects that could not be read for it.

    Raises NoCluster or CannotLook.
    """
    from slicewright.live.coming import affected, coming
    from slicewright.preview import living
    from slicewright.preview.losses import pools_that_end

    def pods_of(pools: Sequence[Pool], nodes: Sequence[Node]) -> list[str]:
        ends = pools_that_end(change.preview, [pool.name for pool in pools])
        return affected(change.after.pools, pools, nodes, ends)

    access = cluster_options.access_of(parsed, (file, change.after))
    cluster = read_objects(access, pods_of=pods_of)
    ends = pools_that_end(change.preview, [pool.name for pool in cluster.pools])
    ahead = coming(change.after.pools, cluster, time.time(), ends)
    return living.section(ahead, cluster.unread, cluster.unread_objects), cluster.unread_objects


class _BadInput(Exception):
    """The preview, or the acknowledgements in the stack file, are malformed."""


def _acknowledged(source: stack_file.Source, key: str) -> tuple[str, ...]:
    from slicewright.preview.losses import CODE

    try:
        entries = source.setting(key)
    except stack_file.NotReadable as e:
        raise _BadInput(f"{source.name}{e}") from None
    if entries is None:
        return ()
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise _BadInput(
            f"{source.name}: {key} must be a list of strings NAME:CODE, copied from the report"
        )
    for entry in entries:
        if not CODE.fullmatch(entry):
            raise _BadInput(
                f"{source.name}: {key}: {entry!r} is not an acknowledgement; copy it from the "
                "report, for example a100:1f0c3a2b"
            )
    return tuple(entries)


def _stack_name(file: Path) -> str:
    return file.stem.removeprefix("Pulumi.")
