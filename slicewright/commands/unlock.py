"""`slicewright unlock`: removes the lock of a `pulumi` that has provably ended."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from infra import spec
from slicewright.doctor.findings import CannotAsk
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_PROVEN, PROVEN
from slicewright.locks.attributes import cut_off
from slicewright.locks.backends import Backend, Directory, Unsupported, backend_of
from slicewright.locks.holders import holder_of
from slicewright.locks.lock import Judged, Lock, Unreadable, judge, lock_prefix, read_lock


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "unlock",
        help="after a killed `pulumi`: remove the lock that it left, if it has provably ended",
        description="Says whose locks a stack has, and removes those whose process has ended on "
        "this host. That of a living process stays; that of another host, too, unless you say "
        "with --host that you have looked there. Where none is left, it also removes attributes "
        "that a killed `pulumi` left empty beside a state in a directory, so that no command could "
        "read it. For backends that are a directory, S3 or Google Cloud Storage; on Pulumi Cloud, "
        "which does not say whose, with --cancel only (docs/how-to/state-and-recovery.md).",
    )
    parser.add_argument("-s", "--stack", metavar="NAME", required=True, help="the stack")
    parser.add_argument(
        "--host",
        type=_host,
        metavar="NAME",
        action="append",
        default=[],
        help="no pulumi works on the stack on this other host: I have looked; may be given more "
        "than once",
    )
    parser.add_argument(
        "--cancel",
        action="store_true",
        help="on Pulumi Cloud: runs `pulumi cancel`; only after checking that nothing runs there",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say whose the locks are")
    parser.set_defaults(run=_run)


def _host(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; write the host that the lock names")
    return text


class _Cannot(Exception):
    """The message says why, and what to do."""


def _run(parsed: argparse.Namespace, console: Console) -> int:
    def say(line: str) -> None:
        console.print(spec.plain(line), markup=False, highlight=False, soft_wrap=True)

    try:
        url = _backend_url()
        backend = backend_of(url)
        if backend is None:
            return _of_cloud(parsed, url, say)
        if parsed.cancel:
            return _say(f"--cancel is for Pulumi Cloud, and the backend is {url}", BAD_INPUT)
        return _of_files(parsed, backend, say)
    except Unsupported as e:
        return _say(f"{e} --stack {parsed.stack}", CANNOT_RUN)
    except (CannotAsk, _Cannot) as e:
        return _say(str(e), CANNOT_RUN)


def _of_files(parsed: argparse.Namespace, backend: Backend, say: Any) -> int:
    project = _project()
    found = backend.files(lock_prefix(project, parsed.stack))
    vouched = {host: f"you say that no pulumi works on it on {host}" for host in parsed.host}
    judged, unreadable = _judged(found, vouched)
    if unused := sorted(set(parsed.host) - {one.lock.host for one in judged}):
        say(f"no lock belongs to host {', '.join(unused)}")
    for one in judged:
        say(f"{one.lock.held_by}: {one.why}")
        if not one.stale:
            say(f"  stays; {one.remedy}")
        elif parsed.dry_run:
            say("  would be removed")
        else:
            # This file and no other: a lock that is taken meanwhile has another name.
            backend.delete(one.lock.key)
            say("  removed")
    for problem in unreadable:
        say(f"{problem}\n  stays; look at it, and delete it by hand")
    if not found:
        say(f"stack {parsed.stack} has no lock")
    elif any(one.stale for one in judged) and not parsed.dry_run:
        say(
            f"What that pulumi was doing may be half done: slicewright recover --stack "
            f"{parsed.stack} --dry-run"
        )
    if unreadable or any(not one.stale for one in judged):
        return NOT_PROVEN
    half_written = cut_off(backend, project, parsed.stack) if isinstance(backend, Directory) else ()
    for key in half_written:
        say(
            f"{key} ends early, which makes every command fail with EOF; the state does not need it"
        )
        if not parsed.dry_run:
            backend.delete(key)
        say("  would be removed" if parsed.dry_run else "  removed")
    return NOT_PROVEN if parsed.dry_run and (judged or half_written) else PROVEN


def _judged(
    found: Mapping[str, bytes], vouched: Mapping[str, str]
) -> tuple[Sequence[Judged], Sequence[str]]:
    judged, unreadable = [], []
    for key, content in found.items():
        try:
            lock: Lock = read_lock(key, content)
        except Unreadable as e:
            unreadable.append(str(e))
            continue
        judged.append(judge(lock, holder_of(lock), vouched))
    return judged, unreadable


def _of_cloud(parsed: argparse.Namespace, url: str, say: Any) -> int:
    if not parsed.cancel or parsed.dry_run:
        say(
            f"{url} does not say who works on {parsed.stack}: the stack's page there shows the "
            "update that it considers running. If that has ended, run: slicewright unlock --stack "
            f"{parsed.stack} --cancel"
        )
        return NOT_PROVEN
    _pulumi("cancel", "--yes", "--non-interactive", "--stack", parsed.stack)
    say(f"cancelled; then: slicewright recover --stack {parsed.stack} --dry-run")
    return PROVEN


def _backend_url() -> str:
    try:
        return str(json.loads(_pulumi("whoami", "--verbose", "--json"))["url"])
    except (ValueError, KeyError, TypeError) as e:
        raise _Cannot(f"what `pulumi whoami` prints cannot be read: {e}") from None


def _project() -> str:
    """Its name, by which the backend files its stacks."""
    here = Path.cwd()
    file = next((f for at in (here, *here.parents) if (f := at / "Pulumi.yaml").is_file()), None)
    if file is None:
        raise _Cannot(f"{here} is in no project: there is no Pulumi.yaml, here or above")
    try:
        return str(yaml.safe_load(file.read_text(encoding="utf-8"))["name"])
    except (OSError, yaml.YAMLError, KeyError, TypeError, UnicodeDecodeError):
        raise _Cannot(f"{file}: it has no name") from None


def _pulumi(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["pulumi", *arguments],
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as e:
        raise _Cannot(f"pulumi does not start ({e.strerror}); install it, or mend PATH") from None
    if done.returncode:
        said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise _Cannot(f"`pulumi {arguments[0]}` failed: {said}")
    return done.stdout


def _say(problem: str, code: int) -> int:
    print(f"slicewright unlock: {spec.plain(problem)}", file=sys.stderr)
    return code
