"""`python -m slicewright.rehearsal.host.toolchain`: obtains the tools and prints where each is.

Exit codes: 0 every tool is there; 1 a tool cannot be obtained; 2 wrong usage; 3 the machine lacks a
prerequisite (C compiler, Go and every way to install it, disk space); 130 interrupted. Progress
goes to stderr, the table to stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from slicewright.rehearsal.host.toolchain import triton, workload_tools
from slicewright.rehearsal.host.toolchain.acquisition import obtain
from slicewright.rehearsal.host.toolchain.errors import ToolchainError
from slicewright.rehearsal.host.toolchain.found import Found
from slicewright.rehearsal.host.toolchain.reporting import Reporter
from slicewright.rehearsal.host.toolchain.settings import (
    CLEAR,
    DOWNLOAD,
    MIRROR,
    Settings,
    from_environment,
)
from slicewright.rehearsal.host.toolchain.terminal import reporter
from slicewright.rehearsal.host.toolchain.tools import TOOLS

_ALL = "all"
Row = dict[str, str | float]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m slicewright.rehearsal.host.toolchain",
        description="Obtains the tools of the rehearsal: from PATH, the cache, their publishers' "
        "releases, or by building them.",
        epilog=f"Environment: {DOWNLOAD}=never, {MIRROR}=URL in place of https://github.com, "
        f"{CLEAR}=1, XDG_CACHE_HOME.",
    )
    parser.add_argument(
        "--with",
        dest="groups",
        metavar="GROUP",
        action="append",
        default=[],
        choices=(*workload_tools.GROUPS, _ALL),
        help="obtain the tools of this group too, which only some rehearsals need; may be repeated:"
        f" {', '.join(workload_tools.GROUPS)}, or {_ALL} for those that `make test-all` runs",
    )
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.add_argument(
        "--no-download",
        action="store_true",
        help="download no releases; build what is not installed",
    )
    parser.add_argument(
        "--clear-go-cache", action="store_true", help="build with temporary Go caches"
    )
    parsed = parser.parse_args(arguments)
    try:
        settings = from_environment(os.environ)
        if parsed.no_download:
            settings = replace(settings, download=False)
        if parsed.clear_go_cache:
            settings = replace(settings, clear_go_cache=True)
        groups = parsed.groups
        if _ALL in groups:
            groups = [*workload_tools.OF_TESTS, *(set(groups) - {_ALL, *workload_tools.OF_TESTS})]
        tools = (*TOOLS, *workload_tools.of(groups))
        report = reporter(Console(stderr=True, highlight=False))
        rows = _rows(obtain(tools, settings, report))
        if reason := _leave_out_triton(parsed.groups):
            report(f"without Triton, whose tests are skipped: {reason}")
        elif workload_tools.TRITON in groups:
            rows.append(_triton(settings, report))
    except ToolchainError as e:
        print(f"toolchain: {e}", file=sys.stderr)
        return e.exit_code
    except KeyboardInterrupt:
        print(
            "toolchain: interrupted; complete tools are kept, the unfinished one is removed",
            file=sys.stderr,
        )
        return 130
    print(json.dumps(rows, indent=2) if parsed.json else _table(rows))
    return 0


def _leave_out_triton(groups: Sequence[str]) -> str | None:
    """Why everything that this machine can run has no Triton; None where it is asked for by name,
    so that what it lacks is an error.
    """
    return None if workload_tools.TRITON in groups or _ALL not in groups else triton.why_not_here()


def _triton(settings: Settings, report: Reporter) -> Row:
    began = time.monotonic()
    path = triton.ensure(settings, report)
    return {
        "tool": path.name,
        "version": triton.VERSION,
        "from": "PyPI",
        "seconds": round(time.monotonic() - began, 1),
        "path": str(path),
    }


def _rows(found: Sequence[Found]) -> list[Row]:
    return [
        {
            "tool": path.name,
            "version": one.tool.version,
            "from": one.origin if one.fresh or one.origin == "PATH" else f"cache ({one.origin})",
            "seconds": one.seconds,
            "path": str(path),
        }
        for one in found
        for path in one.paths.values()
    ]


def _table(made: Sequence[Row]) -> str:
    head = ("TOOL", "VERSION", "FROM", "TOOK", "PATH")
    rows = [
        (str(r["tool"]), str(r["version"]), str(r["from"]), _took(r["seconds"]), str(r["path"]))
        for r in made
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(4)]
    return "\n".join(
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[4]])
        for row in (head, *rows)
    )


def _took(seconds: str | float) -> str:
    return f"{seconds:g} s" if seconds else "-"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
