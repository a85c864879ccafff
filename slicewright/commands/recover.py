"""`slicewright recover`: after a `pulumi up` that was killed."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from infra import spec
from infra.recovery import CannotAdopt, Recovered, add_planned_creations, recover
from slicewright.doctor.findings import CannotAsk
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_PROVEN, PROVEN
from slicewright.recovery.asking import ask


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "recover",
        help="after a killed `pulumi up`: take over what it was creating",
        description="Finds in Pulumi's state the resources whose creation was cut off, by a killed "
        "engine or a lost machine, and takes over those that the cloud has, so that the next "
        "`pulumi up` neither makes them twice nor fails because they exist. Runs `pulumi stack "
        "export`, `stack import` and `refresh` (docs/how-to/interrupted-up.md).",
    )
    parser.add_argument("-s", "--stack", metavar="NAME", help="the stack (default: the selected)")
    parser.add_argument(
        "--adopt",
        metavar="URN",
        action="append",
        default=[],
        help="a resource that `pulumi up` would create and the cloud has, as after an `already "
        "exists` because the provider died alone; may be given more than once",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would be taken over")
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    stack = ("--stack", parsed.stack) if parsed.stack else ()
    try:
        exported = json.loads(_pulumi("stack", "export", *stack))
        if parsed.adopt:
            previewed = json.loads(_pulumi("preview", "--json", "--non-interactive", *stack))
            exported = add_planned_creations(exported, previewed, parsed.adopt)
        found = recover(exported)
        unclear: Mapping[str, str] = {}
        if found.unknown:
            answers = ask(found)
            found, unclear = recover(exported, answers.ids), answers.open
        _show(found, unclear, console)
        if (found.adopted or found.repeatable) and not parsed.dry_run:
            _import(found, stack)
        if (found.adopted or found.repeatable) and not parsed.dry_run:
            # Of the rest it clears nothing: pending creations outlive a refresh.
            _pulumi("refresh", "--yes", "--skip-preview", "--non-interactive", *stack, shown=True)
    except _Failed as e:
        print(f"slicewright recover: {e}", file=sys.stderr)
        return CANNOT_RUN
    except CannotAsk as e:
        print(f"slicewright recover: {e}", file=sys.stderr)
        return CANNOT_RUN
    except CannotAdopt as e:
        print(f"slicewright recover: {e}", file=sys.stderr)
        return BAD_INPUT
    except (ValueError, KeyError) as e:
        print(f"slicewright recover: what pulumi prints cannot be read: {e}", file=sys.stderr)
        return CANNOT_RUN
    return NOT_PROVEN if found.unknown else PROVEN


def _show(found: Recovered, unclear: Mapping[str, str], console: Console) -> None:
    def say(line: str) -> None:
        # URNs stay whole, so that they can be copied.
        console.print(spec.plain(line), markup=False, highlight=False, soft_wrap=True)

    for urn, identity in found.adopted:
        say(f"take over, if it exists: {urn}\n  as {identity}")
    for urn in found.repeatable:
        say(f"made again by the next up: {urn}")
    for urn in found.unknown:
        say(f"stays pending: {urn}")
        say(
            "  "
            + unclear.get(
                urn,
                "Only the cloud knows its id. Look there, then run `pulumi refresh` on a terminal: "
                "it asks for the id, or clears it.",
            )
        )
    if not (found.adopted or found.repeatable or found.unknown):
        say("no creation was cut off")


def _import(found: Recovered, stack: Sequence[str]) -> None:
    # A file, because the state may be large. It holds secrets only as ciphertext.
    with tempfile.TemporaryDirectory(prefix="slicewright-") as directory:
        file = Path(directory) / "state.json"
        file.touch(mode=0o600)
        file.write_text(json.dumps(found.deployment))
        _pulumi("stack", "import", "--file", str(file), *stack)


class _Failed(Exception):
    pass


def _pulumi(*arguments: str, shown: bool = False) -> str:
    """What it prints. Raises _Failed with what it says where it fails."""
    environment = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        done = subprocess.run(
            ["pulumi", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=None if shown else subprocess.PIPE,
            stderr=None if shown else subprocess.PIPE,
            text=True,
            check=False,
        )
    except OSError as e:
        raise _Failed(f"pulumi does not start ({e.strerror}); install it, or mend PATH") from None
    if done.returncode:
        said = (done.stderr or "").strip() or "see above"
        if said.endswith("checkpoint: EOF"):
            said += "; `slicewright unlock` mends that, where the backend is a directory"
        raise _Failed(f"`pulumi {' '.join(arguments[:2])}` failed: {said}")
    return done.stdout or ""
