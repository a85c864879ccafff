"""`slicewright unlock`: removes the lock of a `pulumi` that has provably ended."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from slicewright.doctor.findings import CannotAsk
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.infra import stack_file
from slicewright.locks import lock_queries
from slicewright.locks.attributes import cut_off
from slicewright.locks.backends import Backend, Directory, Unsupported, backend_of
from slicewright.locks.holders import holder_of
from slicewright.locks.lock import Lock, LockVerdict, Unreadable, judge, lock_prefix, read_lock


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "unlock",
        description="Shows who holds the locks of a stack, and removes locks whose process has "
        "ended on this host. Locks of running processes stay, and so do locks of other hosts "
        "unless you confirm with --host that you have checked that host. If no lock remains, also "
        "removes truncated attribute files of a killed `pulumi` in a directory backend, which "
        "make every command fail. Works for backends in a directory, S3 or Google Cloud Storage; "
        "on Pulumi Cloud, which does not name the holder, with --cancel only "
        "(docs/how-to/state-and-recovery.md).",
    )
    parser.add_argument("-s", "--stack", metavar="NAME", required=True, help="the stack")
    parser.add_argument(
        "--host",
        type=_host,
        metavar="NAME",
        action="append",
        default=[],
        help="confirm that no pulumi works on the stack on this other host; may be given more "
        "than once",
    )
    parser.add_argument(
        "--cancel",
        action="store_true",
        help="on Pulumi Cloud: run `pulumi cancel`; first check that no update is running",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show who holds the locks")
    parser.set_defaults(run=_run)


def _host(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("empty; write the host that the lock names")
    return text


def _run(parsed: argparse.Namespace, console: Console) -> int:
    def say(line: str) -> None:
        console.print(stack_file.plain(line), markup=False, highlight=False, soft_wrap=True)

    try:
        url = lock_queries.backend_url()
        backend = backend_of(url)
        if backend is None:
            return _unlock_pulumi_cloud(parsed, url, say)
        if parsed.cancel:
            return _say(f"--cancel is for Pulumi Cloud only; the backend is {url}", BAD_INPUT)
        return _unlock_files(parsed, backend, say)
    except Unsupported as e:
        return _say(f"{e} --stack {parsed.stack}", CANNOT_RUN)
    except CannotAsk as e:
        return _say(str(e), CANNOT_RUN)


def _unlock_files(parsed: argparse.Namespace, backend: Backend, say: Any) -> int:
    project = lock_queries.project_name()
    locks = backend.files(lock_prefix(project, parsed.stack))
    vouched = {
        host: f"you confirmed that no pulumi is working on it on {host}" for host in parsed.host
    }
    judged, unreadable = _judged(locks, vouched)
    if unused := sorted(set(parsed.host) - {verdict.lock.host for verdict in judged}):
        say(f"no lock belongs to host {', '.join(unused)}")
    for verdict in judged:
        say(f"{verdict.lock.held_by}: {verdict.why}")
        if not verdict.stale:
            say(f"  stays; {verdict.remedy}")
        elif parsed.dry_run:
            say("  would be removed")
        else:
            # This deletes no newer lock: each lock file has another name.
            backend.delete(verdict.lock.key)
            say("  removed")
    for problem in unreadable:
        say(f"{problem}\n  stays; inspect it, and delete it by hand")
    if not locks:
        say(f"stack {parsed.stack} has no lock")
    elif any(verdict.stale for verdict in judged) and not parsed.dry_run:
        say(
            f"That pulumi may have left work half done; run: slicewright recover --stack "
            f"{parsed.stack} --dry-run"
        )
    if unreadable or any(not verdict.stale for verdict in judged):
        return NOT_VERIFIED
    half_written = cut_off(backend, project, parsed.stack) if isinstance(backend, Directory) else ()
    for key in half_written:
        say(f"{key} is truncated, so every command fails with EOF; the state does not need it")
        if not parsed.dry_run:
            backend.delete(key)
        say("  would be removed" if parsed.dry_run else "  removed")
    return NOT_VERIFIED if parsed.dry_run and (judged or half_written) else VERIFIED


def _judged(
    locks: Mapping[str, bytes], vouched: Mapping[str, str]
) -> tuple[Sequence[LockVerdict], Sequence[str]]:
    judged, unreadable = [], []
    for key, content in locks.items():
        try:
            lock: Lock = read_lock(key, content)
        except Unreadable as e:
            unreadable.append(str(e))
            continue
        judged.append(judge(lock, holder_of(lock), vouched))
    return judged, unreadable


def _unlock_pulumi_cloud(parsed: argparse.Namespace, url: str, say: Any) -> int:
    if not parsed.cancel or parsed.dry_run:
        say(
            f"{url} does not name the process that works on {parsed.stack}: the stack's page there "
            "shows the running update. If that process has ended, run: slicewright unlock --stack "
            f"{parsed.stack} --cancel"
        )
        return NOT_VERIFIED
    lock_queries.pulumi("cancel", "--yes", "--non-interactive", "--stack", parsed.stack)
    say(f"cancelled; next run: slicewright recover --stack {parsed.stack} --dry-run")
    return VERIFIED


def _say(problem: str, code: int) -> int:
    print(f"slicewright unlock: {stack_file.plain(problem)}", file=sys.stderr)
    return code
