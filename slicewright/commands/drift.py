"""`slicewright drift`: reports differences from the declared stack, and how to fix them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from slicewright.doctor.findings import CannotAsk
from slicewright.drift.comparisons import DriftCheck
from slicewright.drift.findings import Drift, as_json
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.infra import plan, stack_file
from slicewright.kubeapi.kubeconfig import BadKubeconfig, context_of
from slicewright.live.access import Access, NoCluster
from slicewright.locks import lock_queries
from slicewright.options import cluster_options
from slicewright.processes.foreign_json import read_object
from slicewright.teardown.engine import EngineFailed, Pulumi
from slicewright.teardown.subject import State, state_of


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "drift",
        description="Compares the program with Pulumi's state, the state with the cloud, the "
        "declared layouts with the agents' readings of the GPUs, and the declared GPU operator "
        "with the installed one. Prints the command that fixes each difference, and changes "
        "nothing (docs/reference/drift.md).",
    )
    parser.add_argument("-s", "--stack", metavar="NAME", required=True, help="the stack")
    cluster_options.add_arguments(
        parser, default="from the stack's state; for an existing cluster, from the stack file"
    )
    parser.add_argument("--json", action="store_true", help="as JSON; progress goes to stderr")
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    try:
        named = cluster_options.stack_of(parsed)
    except stack_file.SpecError as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    assert named is not None, "-s is required"
    fleet = named[1]
    if isinstance(fleet, plan.ExistingFleetPlan) and fleet.cluster is None:
        return _say(
            f"{parsed.stack} lists hosts without Kubernetes, which are not in Pulumi's state; "
            "run `slicewright-agent verify` on each host to compare it with its layout",
            BAD_INPUT,
        )
    pulumi = Pulumi(parsed.stack)
    try:
        state = state_of(pulumi.exported())
    except EngineFailed as e:
        return _say(str(e), CANNOT_RUN)
    progress = Console(stderr=True, emoji=False, width=console.width)

    def tell(line: str) -> None:
        progress.print(Text(stack_file.plain(line)), style="dim", soft_wrap=True)

    drift = DriftCheck(
        stack=parsed.stack,
        fleet=fleet,
        pulumi=pulumi,
        pending=tuple(state.pending),
        cluster=cache(_cluster(parsed, named, state)),
        tell=tell,
        holders=lambda: _holders(parsed.stack, tell),
    ).look()
    if parsed.json:
        print(json.dumps(as_json(drift), indent=2))
    else:
        _show(drift, console)
    return exit_code(drift)


def _holders(stack: str, tell: Callable[[str], None]) -> tuple[str, ...]:
    """Returns who works on the stack, or nothing if its backend cannot tell."""
    try:
        return lock_queries.holders(stack)
    except CannotAsk as e:
        tell(f"cannot tell if an update is running on the stack: {e}")
        return ()


def exit_code(drift: Drift) -> int:
    """Returns NOT_VERIFIED for any finding, even if other comparisons could not be made."""
    if drift.findings:
        return NOT_VERIFIED
    return CANNOT_RUN if drift.unseen else VERIFIED


def _cluster(
    parsed: argparse.Namespace, named: tuple[Path, plan.FleetPlan], state: State
) -> Callable[[], Access]:
    """Returns the cluster that the options name, else the one in the stack's state; never
    kubectl's current context.
    """

    def from_options() -> Access:
        return cluster_options.access_of(parsed, named)

    def from_state() -> Access:
        if state.kubeconfig is None:
            raise NoCluster(
                "the stack's state has no readable kubeconfig: nothing is deployed, or it is "
                f"encrypted; run `pulumi stack output kubeconfig --show-secrets -s {parsed.stack} "
                f"| slicewright drift -s {parsed.stack} --kubeconfig -`"
            )
        try:
            return Access(
                context_of(read_object(state.kubeconfig, "a kubeconfig", secret=True), Path.cwd())
            )
        except (BadKubeconfig, ValueError) as e:
            raise NoCluster(f"the kubeconfig in the stack's state cannot be used: {e}") from None

    existing = isinstance(named[1], plan.ExistingFleetPlan)
    return from_options if existing or parsed.kubeconfig or parsed.context else from_state


def _show(drift: Drift, console: Console) -> None:
    def say(line: str) -> None:
        console.print(Text(stack_file.plain(line)), soft_wrap=True)

    if drift.findings:
        table = Table(title=f"drift of stack {drift.stack}", title_justify="left")
        for column in ("between", "where", "what", "fixed by"):
            table.add_column(column, overflow="fold")
        heals = list(dict.fromkeys(f.heal for f in drift.findings if f.heal))
        for finding in drift.findings:
            fixed_by = f"command {heals.index(finding.heal) + 1}" if finding.heal else "—"
            cells = (finding.comparison.value, finding.where, finding.difference, fixed_by)
            table.add_row(*(Text(stack_file.plain(cell)) for cell in cells))
        console.print(table)
        # Below the table, so that they can be copied.
        for number, heal in enumerate(heals, 1):
            say(f"command {number}: {heal}")
    for comparison in drift.unseen:
        say(f"not compared, {comparison.comparison.value}: {comparison.why}")
        if comparison.remedy:
            say(f"  → {comparison.remedy}")
    if not drift.findings and not drift.unseen:
        compared = "; ".join(comparison.value for comparison in drift.compared)
        say(f"stack {drift.stack}: no drift ({compared})")


def _say(problem: str, code: int) -> int:
    print(f"slicewright drift: {stack_file.plain(problem)}", file=sys.stderr)
    return code
