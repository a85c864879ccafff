"""`slicewright preview-report`: a preview as a report for a pull request, and a guard."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from infra import plan, spec
from slicewright.commands import stack_files
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_PROVEN, PROVEN
from slicewright.stack_config import texts


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "preview-report",
        help="what a `pulumi preview` would do, as Markdown for a pull request; refuses what "
        "ends pods or deletes data unless the stack file acknowledges it",
        description="Reads what `pulumi preview --json` printed, and writes Markdown: what ends, "
        "rolls, changes in place, is made, and costs. Exits with 1 while a node pool, a cluster "
        "or another thing that pods need would be replaced or deleted and the stack file does "
        "not acknowledge that (docs/how-to/review-changes.md).",
    )
    parser.add_argument(
        "-s",
        "--stack",
        metavar="NAME",
        required=True,
        help="stacks/Pulumi.NAME.yaml of the project, or a stack file",
    )
    parser.add_argument(
        "--before",
        metavar="FILE",
        help="the stack file as it was: tells what rolls, and what it cost",
    )
    parser.add_argument(
        "preview", metavar="PREVIEW", help="output of `pulumi preview --json`; - reads stdin"
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    from slicewright.preview import losses, markdown, steps

    file = stack_files.path_of(parsed.stack)
    try:
        after = plan.read_file(file, name=stack_files.shown(file))
        before = plan.read_file(Path(parsed.before), name=parsed.before) if parsed.before else None
        acknowledged = _acknowledged(file, markdown.ACKNOWLEDGE_KEY)
        preview = steps.read_preview(_text(parsed.preview))
    except spec.SpecError as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    except _WrongKey as e:
        print(f"slicewright preview-report: {e}", file=sys.stderr)
        return BAD_INPUT
    except steps.NotAPreview as e:
        print(
            f"slicewright preview-report: {parsed.preview} is not what `pulumi preview --json` "
            f"prints: {e}",
            file=sys.stderr,
        )
        return BAD_INPUT
    except (OSError, UnicodeDecodeError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is not UTF-8"
        print(f"slicewright preview-report: {parsed.preview}: {why}", file=sys.stderr)
        return CANNOT_RUN
    found = losses.guard(preview, acknowledged)
    fleets = markdown.Fleets(after=after, before=before)
    sys.stdout.write(markdown.report(_stack_name(file), preview, found, fleets))
    if preview.errors:
        print("slicewright preview-report: the preview failed", file=sys.stderr)
        return NOT_PROVEN
    if found.open:
        named = ", ".join(loss.step.name for loss in found.open)
        print(
            f"slicewright preview-report: not acknowledged in {stack_files.shown(file)}: {named}",
            file=sys.stderr,
        )
        return NOT_PROVEN
    return PROVEN


class _WrongKey(Exception):
    """What the stack file acknowledges cannot be read."""


def _acknowledged(file: Path, key: str) -> tuple[str, ...]:
    from slicewright.preview.losses import CODE

    found = texts(file, key)
    if found is None:
        raise _WrongKey(
            f"{stack_files.shown(file)}: {key} must be a list of strings, each as the report "
            "writes it: NAME:CODE"
        )
    for one in found:
        if not CODE.fullmatch(one):
            raise _WrongKey(
                f"{stack_files.shown(file)}: {key}: {one!r} acknowledges nothing; write it as the "
                "report does, for example a100:1f0c3a2b"
            )
    return found


def _text(preview: str) -> str:
    if preview == "-":
        return sys.stdin.buffer.read().decode()
    return Path(preview).read_bytes().decode()


def _stack_name(file: Path) -> str:
    return file.stem.removeprefix("Pulumi.")
