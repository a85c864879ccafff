"""`slicewright recover`: repairs the state after a `pulumi up` that was killed."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from slicewright.doctor.findings import CannotAsk
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.infra import stack_file
from slicewright.infra.recovery import CannotAdopt, Recovered, add_planned_creations, recover
from slicewright.processes.foreign_json import NotReadable, read_object
from slicewright.processes.programs import ProgramFailed
from slicewright.processes.pulumi import follow_pulumi, name_of, run_pulumi
from slicewright.processes.pulumi_state import read_state
from slicewright.processes.signals import Interrupted
from slicewright.recovery.account_queries import ask


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "recover",
        description="Finds resources in Pulumi's state whose creation was interrupted by a killed "
        "engine or a lost machine, and adopts those that exist in the cloud, so that the next "
        "`pulumi up` neither creates them twice nor fails because they exist. Runs `pulumi stack "
        "export`, `stack import` and `refresh` (docs/how-to/interrupted-up.md).",
    )
    parser.add_argument(
        "-s", "--stack", metavar="NAME", help="the stack (default: the selected one)"
    )
    parser.add_argument(
        "--adopt",
        metavar="URN",
        action="append",
        default=[],
        help="a resource that `pulumi up` would create although it exists in the cloud, for "
        "example after `already exists` because only the provider died; may be repeated",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be adopted")
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    stack = ("--stack", parsed.stack) if parsed.stack else ()
    try:
        exported = _exported(stack)
        if parsed.adopt:
            exported = add_planned_creations(exported, _previewed(stack), parsed.adopt)
        recovered = recover(exported)
        unclear: Mapping[str, str] = {}
        if recovered.unknown:
            answers = ask(recovered)
            recovered, unclear = recover(exported, answers.ids), answers.open
        _show(recovered, unclear, console)
        if (recovered.adopted or recovered.repeatable) and not parsed.dry_run:
            _import(recovered, stack)
        if (recovered.adopted or recovered.repeatable) and not parsed.dry_run:
            # A refresh does not clear the other pending creations.
            _refresh(stack)
    except _Failed as e:
        print(f"slicewright recover: {e}", file=sys.stderr)
        return CANNOT_RUN
    except CannotAsk as e:
        print(f"slicewright recover: {e}", file=sys.stderr)
        return CANNOT_RUN
    except CannotAdopt as e:
        print(f"slicewright recover: {e}", file=sys.stderr)
        return BAD_INPUT
    return NOT_VERIFIED if recovered.unknown else VERIFIED


def _show(recovered: Recovered, unclear: Mapping[str, str], console: Console) -> None:
    def say(line: str) -> None:
        # URNs stay whole, so that they can be copied.
        console.print(stack_file.plain(line), markup=False, highlight=False, soft_wrap=True)

    for urn, identity in recovered.adopted:
        say(f"adopt, if it exists: {urn}\n  as {identity}")
    for urn in recovered.repeatable:
        say(f"the next `pulumi up` recreates: {urn}")
    for urn in recovered.unknown:
        say(f"stays pending: {urn}")
        say(
            "  "
            + unclear.get(
                urn,
                "Only the cloud knows its ID. Look it up there, then run `pulumi refresh` on a "
                "terminal, which asks for the ID or clears the creation.",
            )
        )
    if not (recovered.adopted or recovered.repeatable or recovered.unknown):
        say("no creation was interrupted")


def _import(recovered: Recovered, stack: Sequence[str]) -> None:
    # A file, because the state may be large. It holds secrets only as ciphertext.
    with tempfile.TemporaryDirectory(prefix="slicewright-") as directory:
        file = Path(directory) / "state.json"
        file.touch(mode=0o600)
        file.write_text(json.dumps(recovered.deployment))
        _pulumi("stack", "import", "--file", str(file), *stack)


class _Failed(Exception):
    pass


def _exported(stack: Sequence[str]) -> Mapping[str, Any]:
    """Raises _Failed."""
    output = _pulumi("stack", "export", *stack)
    try:
        return read_state(output)
    except NotReadable as e:
        raise _Failed(f"cannot parse the output of `pulumi stack export`: {e}") from None


def _previewed(stack: Sequence[str]) -> Mapping[str, Any]:
    """Raises _Failed."""
    output = _pulumi("preview", "--json", "--non-interactive", *stack)
    try:
        preview = read_object(output, "a preview")
        if not _are_steps(preview.get("steps") or []):
            raise NotReadable("expected a preview, got JSON whose steps are not in Pulumi's format")
    except NotReadable as e:
        raise _Failed(f"cannot parse the output of `pulumi preview`: {e}") from None
    return preview


def _are_steps(steps: Any) -> bool:
    return isinstance(steps, list) and all(
        isinstance(step, dict)
        and isinstance(step.get("op"), str)
        and isinstance(step.get("urn"), str)
        and (step["op"] != "create" or isinstance(step.get("newState"), dict))
        for step in steps
    )


def _pulumi(*arguments: str) -> bytes:
    """Runs pulumi and returns its output. Raises _Failed with its error message."""
    try:
        ended = run_pulumi(*arguments)
    except ProgramFailed as e:
        raise _Failed(str(e)) from None
    if ended.code:
        message = ended.complaint
        if message.endswith("checkpoint: EOF"):
            message += "; if the backend is a directory, `slicewright unlock` fixes that"
        raise _Failed(f"`{name_of(arguments)}` failed: {message}")
    return ended.stdout


def _refresh(stack: Sequence[str]) -> None:
    """Shows the output. Raises _Failed."""

    def show(part: bytes) -> None:
        sys.stdout.write(part.decode(errors="replace"))
        sys.stdout.flush()

    arguments = ("refresh", "--yes", "--skip-preview", "--non-interactive", *stack)
    try:
        ended = follow_pulumi(*arguments, receive=show)
    except ProgramFailed as e:
        raise _Failed(str(e)) from None
    if ended.signal is not None:
        raise Interrupted(ended.signal)
    if ended.code:
        raise _Failed("`pulumi refresh` failed: see above")
