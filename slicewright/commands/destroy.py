"""`slicewright destroy`: deletes all resources of a stack, and the leftovers in its cloud."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from slicewright.doctor.findings import CannotAsk
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.infra import plan, stack_file
from slicewright.kubeapi import Client
from slicewright.live.access import NoCluster
from slicewright.options import cluster_options, stack_files
from slicewright.options.ranges import minutes
from slicewright.processes import signals
from slicewright.stack_config import setting
from slicewright.teardown.access import NoAccess, client_of
from slicewright.teardown.adopted_operator import AdoptedOperator
from slicewright.teardown.cluster_contents import Clock
from slicewright.teardown.engine import EngineFailed, Pulumi
from slicewright.teardown.report import Report, as_json, lines_of
from slicewright.teardown.subject import Subject, subject_of
from slicewright.teardown.sweep.account import Account
from slicewright.teardown.teardown import Choices, Refused, Stopped, Teardown

_WAIT_MINUTES: Final = 20
"""AWS may hold a network interface for a quarter of an hour. Google collects endpoint groups later
than that only if a load balancer still uses them.
"""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "destroy",
        description="Shows the dependents of a stack and asks for confirmation. Removes load "
        "balancers, GPU pods and claims while the cluster can still delete their cloud resources, "
        "runs `pulumi destroy`, and deletes leftovers of the cluster whose tags prove that they "
        "belong to it. Can be interrupted and run again (docs/how-to/tear-down.md).",
    )
    parser.add_argument("-s", "--stack", metavar="NAME", required=True, help="the stack")
    parser.add_argument(
        "--file",
        metavar="FILE",
        type=Path,
        help="the stack file (default: Pulumi.NAME.yaml of the project)",
    )
    parser.add_argument(
        "-y",
        "--yes",
        action="store_true",
        help="do not ask for confirmation; required without a terminal",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="show the stack's dependents and the leftovers in the cloud; change nothing",
    )
    _add_choices(parser)
    parser.add_argument(
        "--unreachable",
        action="store_true",
        help="continue if the cluster does not answer, without inspecting or draining it",
    )
    _add_waits(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the result as JSON; progress and Pulumi's output go to stderr",
    )
    parser.set_defaults(run=_run)


def _add_choices(parser: argparse.ArgumentParser) -> None:
    """Adds the options for resources that may hold data, or may belong to others."""
    parser.add_argument(
        "--disks",
        choices=("delete", "keep"),
        help="delete or keep disks and snapshots whose volumes have the policy Retain, and disks "
        "and snapshots with the cluster's tags that are not proven to belong to it. Without this "
        "option, destroy refuses to run if the first kind exists, and keeps the second. Deletes "
        "only disks and snapshots that were listed",
    )
    parser.add_argument(
        "--logs",
        choices=("delete", "keep"),
        help="delete or keep the log group of an EKS control plane; without this option, a group "
        "that holds the audit log, or is older than the cluster, is kept",
    )
    parser.add_argument(
        "--unproven",
        choices=("delete", "keep"),
        help="delete or keep other resources with the cluster's tags or names that are not proven "
        "to belong to it (default: keep). Deletes only resources that were listed",
    )


def _add_waits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--wait",
        metavar="MINUTES",
        type=minutes,
        default=float(_WAIT_MINUTES),
        help="time limit for retrying deletions that the cloud refuses (default: %(default)g)",
    )
    parser.add_argument(
        "--drain-wait",
        metavar="MINUTES",
        type=minutes,
        default=5.0,
        help="time limit for pods, for load balancers and for volumes to disappear "
        "(default: %(default)g each)",
    )


def _run(parsed: argparse.Namespace, console: Console) -> int:
    if parsed.json:
        console = Console(stderr=True, emoji=False, width=console.width)
    file = parsed.file or stack_files.path_of(parsed.stack)
    try:
        fleet = stack_files.read_plan(file)
    except stack_file.SpecError as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    try:
        report = _destroy(_teardown(parsed, fleet, file, console), parsed, console)
    except _NoTerminal as e:
        return _say(str(e), BAD_INPUT)
    except _Declined:
        return _say("not destroyed: nothing was changed", NOT_VERIFIED)
    except Refused as e:
        return _say(str(e), NOT_VERIFIED)
    except (CannotAsk, Stopped, EngineFailed) as e:
        return _say(str(e), CANNOT_RUN)
    except KeyboardInterrupt as e:
        return _say("interrupted; run it again to continue", signals.exit_code(e))
    if parsed.json:
        print(json.dumps(as_json(report), indent=2))
    if report.unknown:
        return CANNOT_RUN
    return VERIFIED if report.clean or parsed.dry_run else NOT_VERIFIED


def _teardown(
    parsed: argparse.Namespace, fleet: plan.FleetPlan, file: Path, console: Console
) -> Teardown:
    """Raises CannotAsk."""
    subject = subject_of(fleet)
    connect: Callable[[str], Client] = client_of
    if isinstance(fleet, plan.ExistingFleetPlan) and fleet.cluster is not None:
        connect = _by_stack_file(file, fleet.cluster)
    return Teardown(
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
        tell=_teller(console),
        connect=connect,
        dangling=_dangling(fleet, file),
    )


def _destroy(teardown: Teardown, parsed: argparse.Namespace, console: Console) -> Report:
    """Shows the stack's dependents, asks for confirmation, and destroys it unless it is a dry run.

    Raises _NoTerminal, _Declined, Refused, CannotAsk, Stopped and EngineFailed.
    """
    report = teardown.look()
    _show(report, console)
    if parsed.dry_run:
        return report
    if not report.obstacles:
        _ask(report, parsed)
    report = teardown.run(report)
    # The cluster's dependents were shown before the confirmation.
    _show(replace(report, inventory=None, inventory_unknown=""), console)
    return report


def _by_stack_file(file: Path, cluster: plan.ExistingClusterPlan) -> Callable[[str], Client]:
    """Connects with the user's kubeconfig as `pulumi up` does; the state has at most its path."""

    def connect(_: str) -> Client:
        try:
            return cluster_options.existing_access(file, cluster).client()
        except NoCluster as e:
            raise NoAccess(str(e)) from None

    return connect


def _dangling(fleet: plan.FleetPlan, file: Path) -> Callable[[], Sequence[str]]:
    """Returns a check for leftovers in an adopted operator, the only object outside the state that
    names resources of the stack.
    """
    if not isinstance(fleet, plan.ExistingFleetPlan) or not fleet.operator.existing:
        return tuple
    cluster = fleet.cluster
    if cluster is None:
        return tuple
    return AdoptedOperator(
        policy=fleet.operator.cluster_policy,
        namespace=fleet.operator.namespace,
        connect=lambda: cluster_options.existing_access(file, cluster).client(),
    ).dangling


class _NoTerminal(Exception):
    """There is no terminal to ask for confirmation on."""


class _Declined(Exception):
    """The user answered no."""


def _ask(report: Report, parsed: argparse.Namespace) -> None:
    if parsed.yes:
        return
    if not sys.stdin.isatty():
        raise _NoTerminal(
            "no terminal to ask for confirmation on; pass --yes, or --dry-run to change nothing"
        )
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
            from slicewright.teardown.sweep.aws import AwsAccount

            profile = setting(file, "aws:profile")
            return AwsAccount(subject.cluster, subject.location, profile)
        case "gke":
            from slicewright.teardown.sweep.google import GoogleProject

            project = setting(file, "gcp:project")
            if project is None:
                raise CannotAsk(f"{file}: gcp:project is not set, so the project is unknown")
            return GoogleProject(subject.cluster, subject.location, project)
        case "byo":
            return None


def _teller(console: Console) -> Callable[[str], None]:
    def tell(line: str) -> None:
        console.print(stack_file.plain(line), markup=False, highlight=False, soft_wrap=True)

    return tell


def _show(report: Report, console: Console) -> None:
    for line in lines_of(report):
        console.print(stack_file.plain(line), markup=False, highlight=False, soft_wrap=True)


def _say(problem: str, code: int) -> int:
    print(f"slicewright destroy: {stack_file.plain(problem)}", file=sys.stderr)
    return code
