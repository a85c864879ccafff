"""`slicewright unlock`: removes the lock of a `pulumi` that has provably ended."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from infra import spec
from slicewright.doctor.findings import CannotAsk
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_PROVEN, PROVEN
from slicewright.locks import asking
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


def _run(parsed: argparse.Namespace, console: Console) -> int:
    def say(line: str) -> None:
        console.print(spec.plain(line), markup=False, highlight=False, soft_wrap=True)

    try:
        url = asking.backend_url()
        backend = backend_of(url)
        if backend is None:
            return _of_cloud(parsed, url, say)
        if parsed.cancel:
            return _say(f"--cancel is for Pulumi Cloud, and the backend is {url}", BAD_INPUT)
        return _of_files(parsed, backend, say)
    except Unsupported as e:
        return _say(f"{e} --stack {parsed.stack}", CANNOT_RUN)
    except CannotAsk as e:
        return _say(str(e), CANNOT_RUN)


def _of_files(parsed: argparse.Namespace, backend: Backend, say: Any) -> int:
    project = asking.project_name()
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
    asking.pulumi("cancel", "--yes", "--non-interactive", "--stack", parsed.stack)
    say(f"cancelled; then: slicewright recover --stack {parsed.stack} --dry-run")
    return PROVEN


def _say(problem: str, code: int) -> int:
    print(f"slicewright unlock: {spec.plain(problem)}", file=sys.stderr)
    return code
