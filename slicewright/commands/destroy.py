"""`slicewright destroy`: everything that a stack made, and what clouds leave of it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from infra import plan, spec
from kubeapi import Client
from slicewright.commands import cluster_options, stack_files
from slicewright.doctor.findings import CannotAsk
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, INTERRUPTED, NOT_PROVEN, PROVEN
from slicewright.live.access import NoCluster
from slicewright.stack_config import setting
from slicewright.teardown.access import NoAccess, client_of
from slicewright.teardown.account import Account
from slicewright.teardown.adopted import AdoptedOperator
from slicewright.teardown.engine import EngineFailed, Pulumi
from slicewright.teardown.inside import Clock
from slicewright.teardown.report import Report, lines_of
from slicewright.teardown.subject import Subject, subject_of
from slicewright.teardown.teardown import Choices, Refused, Stopped, Teardown

_WAIT_MINUTES: Final = 20
"""AWS may hold a network interface for a quarter of an hour; Google collects endpoint groups later
than that only where a load balancer still uses them.
"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "destroy",
        help="destroy a stack in order, and prove that nothing of it is left",
        description="Shows what depends on a stack and asks; takes load balancers, GPU pods and "
        "claims away while their cluster can still delete what belongs to them, runs `pulumi "
        "destroy`, and deletes what the cloud leaves behind of the cluster, as far as its tags "
        "prove whose it is. Can be interrupted and run again (docs/how-to/tear-down.md).",
    )
    parser.add_argument("-s", "--stack", metavar="NAME", required=True, help="the stack")
    parser.add_argument(
        "--file",
        metavar="FILE",
        type=Path,
        help="its stack file (default: stacks/Pulumi.NAME.yaml of the project)",
    )
    parser.add_argument(
        "-y", "--yes", action="store_true", help="do not ask; needed where there is no terminal"
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="show what depends on the stack and what is left in the cloud, and change nothing",
    )
    parser.add_argument(
        "--disks",
        choices=("delete", "keep"),
        help="what becomes of disks and snapshots that are to outlive their volumes (policy "
        "Retain), and of those with the cluster's tags that nothing proves to be of this cluster; "
        "without it, the first kind is refused and the second kept. It deletes only what was shown",
    )
    parser.add_argument(
        "--logs",
        choices=("delete", "keep"),
        help="what becomes of the log group of an EKS control plane; without it, one that holds "
        "the audit log, or is older than the cluster, is kept",
    )
    parser.add_argument(
        "--unproven",
        choices=("delete", "keep"),
        help="what becomes of the rest that has the cluster's tags or names and that nothing "
        "proves to be of this cluster; without it, it is kept. It deletes only what was shown",
    )
    parser.add_argument(
        "--unreachable",
        action="store_true",
        help="go on although the cluster does not answer: nothing in it is looked at or drained",
    )
    parser.add_argument(
        "--wait",
        metavar="MINUTES",
        type=_minutes,
        default=float(_WAIT_MINUTES),
        help="how long to retry what the cloud still holds (default: %(default)g)",
    )
    parser.add_argument(
        "--drain-wait",
        metavar="MINUTES",
        type=_minutes,
        default=5.0,
        help="how long to wait for pods, load balancers and volumes to go, each (default: "
        "%(default)g)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="the result as JSON; progress and Pulumi's output go to stderr",
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    if parsed.json:
        console = Console(stderr=True, emoji=False, width=console.width)
    file = parsed.file or stack_files.path_of(parsed.stack)
    try:
        fleet = plan.read_file(file, name=stack_files.shown(file))
    except spec.SpecError as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    subject = subject_of(fleet)
    connect: Callable[[str], Client] = client_of
    if isinstance(fleet, plan.ByoFleetPlan) and fleet.cluster is not None:
        connect = _by_stack_file(file, fleet.cluster)
    tell = _teller(console)
    try:
        teardown = Teardown(
            stack=parsed.stack,
            subject=subject,
            account=_account(subject, file),
            pulumi=Pulumi(parsed.stack),
            clock=Clock(now=time.monotonic, sleep=time.sleep),
            choices=Choices(
                disks=parsed.disks,
                logs=parsed.logs,
                unproven=parsed.unproven,
                unreachable=parsed.unreachable,
                dry_run=parsed.dry_run,
                wait_s=parsed.wait * 60,
                drain_wait_s=parsed.drain_wait * 60,
            ),
            tell=tell,
            connect=connect,
            dangling=_dangling(fleet, file),
        )
        report = teardown.look()
        _show(report, console)
        if not parsed.dry_run:
            if not report.obstacles:
                _ask(report, parsed)
            report = teardown.run(report)
            # What depends on the cluster was shown before it was asked.
            _show(replace(report, inventory=None, inventory_unknown=""), console)
    except _NotAsked as e:
        return _say(str(e), BAD_INPUT)
    except _Declined:
        return _say("not destroyed: nothing was changed", NOT_PROVEN)
    except Refused as e:
        return _say(str(e), NOT_PROVEN)
    except (CannotAsk, Stopped, EngineFailed) as e:
        return _say(str(e), CANNOT_RUN)
    except KeyboardInterrupt:
        print(
            "slicewright destroy: interrupted; run it again, and it goes on where it was",
            file=sys.stderr,
        )
        return INTERRUPTED
    if parsed.json:
        print(json.dumps({"version": 1, **asdict(report)}, indent=2))
    if report.unknown:
        return CANNOT_RUN
    return PROVEN if report.clean or parsed.dry_run else NOT_PROVEN


def _by_stack_file(file: Path, cluster: plan.ByoClusterPlan) -> Callable[[str], Client]:
    """The user's own kubeconfig, as `pulumi up` finds it: the state has its path at most."""

    def connect(_: str) -> Client:
        try:
            return cluster_options.of_existing(file, cluster).client()
        except NoCluster as e:
            raise NoAccess(str(e)) from None

    return connect


def _dangling(fleet: plan.FleetPlan, file: Path) -> Callable[[], Sequence[str]]:
    """Of an operator that the stack adopted; nothing else names what a stack has made."""
    if not isinstance(fleet, plan.ByoFleetPlan) or not fleet.operator.existing:
        return tuple
    cluster = fleet.cluster
    if cluster is None:
        return tuple
    return AdoptedOperator(
        policy=fleet.operator.cluster_policy,
        namespace=fleet.operator.namespace,
        connect=lambda: cluster_options.of_existing(file, cluster).client(),
    ).dangling


class _NotAsked(Exception):
    """There is no terminal to ask on."""


class _Declined(Exception):
    """Whoever was asked does not want it."""


def _ask(report: Report, parsed: argparse.Namespace) -> None:
    if parsed.yes:
        return
    if not sys.stdin.isatty():
        raise _NotAsked("there is no terminal to ask on; pass --yes, or --dry-run to look only")
    print(
        f"Resources of stack {parsed.stack} that this deletes: {report.resources}. Type the "
        "stack's name to go on: ",
        end="",
        flush=True,
        file=sys.stderr,
    )
    if sys.stdin.readline().strip() != parsed.stack:
        raise _Declined


def _account(subject: Subject, file: Path) -> Account | None:
    """None: the stack has no cloud account. Raises CannotAsk."""
    match subject.cloud:
        case "eks":
            from slicewright.teardown.aws import AwsAccount

            profile = setting(file, "aws:profile")
            return AwsAccount(subject.cluster, subject.location, profile)
        case "gke":
            from slicewright.teardown.google import GoogleProject

            project = setting(file, "gcp:project")
            if project is None:
                raise CannotAsk(f"{file}: gcp:project is not set, so there is no project to ask")
            return GoogleProject(subject.cluster, subject.location, project)
        case "byo":
            return None


def _teller(console: Console) -> Callable[[str], None]:
    def tell(line: str) -> None:
        console.print(spec.plain(line), markup=False, highlight=False, soft_wrap=True)

    return tell


def _show(report: Report, console: Console) -> None:
    for line in lines_of(report):
        console.print(spec.plain(line), markup=False, highlight=False, soft_wrap=True)


def _say(problem: str, code: int) -> int:
    print(f"slicewright destroy: {spec.plain(problem)}", file=sys.stderr)
    return code


def _minutes(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes from 0 on")
    return found
