"""`slicewright deployed`: the commit and the stack file of the last deployment that succeeded."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from slicewright.exit_codes import CANNOT_RUN, VERIFIED
from slicewright.infra import stack_file
from slicewright.preview.deployment_history import Deployment, NotAHistory, read_page
from slicewright.teardown.engine import EngineFailed, NoStack, Pulumi

_MOST_PAGES: Final = 500
"""10,000 updates without a successful one."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "deployed",
        description="Prints the commit of the last `pulumi up` that succeeded, from the history "
        "that Pulumi keeps of the stack, or nothing if nothing is deployed. A report of the next "
        "change compares against that commit (docs/how-to/gitops.md). Needs read access to the "
        "state only.",
    )
    parser.add_argument("-s", "--stack", metavar="NAME", required=True, help="the stack")
    parser.add_argument(
        "--write",
        metavar="FILE",
        help="write the deployed fleet to FILE as a stack file; if nothing is deployed, FILE is "
        "removed",
    )
    parser.add_argument(
        "--json", action="store_true", help="as JSON (docs/reference/deployed-json.md)"
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    try:
        deployment = _last(Pulumi(parsed.stack))
    except EngineFailed as e:
        return _say(str(e), CANNOT_RUN)
    except NotAHistory as e:
        return _say(f"cannot parse the output of `pulumi stack history`: {e}", CANNOT_RUN)
    if parsed.write:
        try:
            _write(Path(parsed.write), deployment)
        except OSError as e:
            return _say(f"{parsed.write}: {e.strerror}", CANNOT_RUN)
    if parsed.json:
        print(json.dumps(_as_json(parsed.stack, deployment), indent=2))
    if deployment is None:
        return _say(f"stack {parsed.stack} has no deployment", VERIFIED)
    if deployment.commit and not parsed.json:
        console.print(
            stack_file.plain(deployment.commit), markup=False, highlight=False, soft_wrap=True
        )
    if parsed.write and deployment.has_bases:
        _say(
            f"{parsed.write} is not written: the deployed fleet extends base files, which the "
            "history of a stack does not keep; compare with the stack file in a checkout of that "
            "commit (docs/how-to/review-changes.md)",
            VERIFIED,
        )
    named = deployment.commit or "no commit: it did not run in a git repository"
    return _say(f"stack {parsed.stack} was deployed at {deployment.time} from {named}", VERIFIED)


def _as_json(stack: str, deployment: Deployment | None) -> dict[str, Any]:
    last = None
    if deployment is not None:
        last = {"commit": deployment.commit or None, "time": deployment.time}
    return {"version": 1, "stack": stack, "deployment": last}


def _last(pulumi: Pulumi) -> Deployment | None:
    for number in range(1, _MOST_PAGES + 1):
        try:
            page = read_page(pulumi.history(number))
        except NoStack:
            return None
        if page.complete:
            return page.deployment
    raise NotAHistory(f"it has no end after {_MOST_PAGES} pages")


def _write(file: Path, deployment: Deployment | None) -> None:
    text = deployment.stack_file if deployment is not None else None
    if text is None:
        file.unlink(missing_ok=True)
    else:
        file.write_text(text, encoding="utf-8")


def _say(text: str, code: int) -> int:
    print(f"slicewright deployed: {stack_file.plain(text)}", file=sys.stderr)
    return code
