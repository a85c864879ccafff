"""`slicewright rights`: what the program must be allowed to do in the account, and no more."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from rich.console import Console

from infra import plan, spec, values
from infra.catalog import OPERATIONS
from slicewright.commands import stack_files
from slicewright.exit_codes import BAD_INPUT, PROVEN


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "rights",
        help="the rights that a stack needs: an AWS policy, or a Google custom role",
        description="Writes the rights that `pulumi up`, `refresh` and `destroy` of a stack need "
        "in its account, as JSON: an IAM policy document for EKS, a custom role as `gcloud iam "
        "roles create --file` reads it for GKE (docs/how-to/least-privilege.md).",
    )
    stack_files.add_arguments(parser)
    parser.add_argument(
        "--preview",
        action="store_true",
        help="only what `pulumi preview` and `refresh` need: nothing that changes the account",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="each right with what needs it, why, and the source, beside the document "
        "(docs/reference/rights.md)",
    )
    parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace, console: Console) -> int:
    names = stack_files.named(parsed)
    if len(names) != 1:
        print("slicewright rights: name one stack (-s s0) or FILE", file=sys.stderr)
        return BAD_INPUT
    file = stack_files.path_of(names[0])
    name = stack_files.shown(file)
    try:
        fleet = plan.read_file(file, name=name)
        if not isinstance(fleet, plan.ByoFleetPlan):
            # The rights for what cannot be built yet are not known.
            plan.deployable(fleet, spec.read(file, name=name))
    except spec.SpecError as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    if isinstance(fleet, plan.ByoFleetPlan):
        print(
            f"slicewright rights: {name}: its cluster or hosts exist without "
            "this program, which calls no cloud for them; rights in the cluster are those of its "
            "kubeconfig",
            file=sys.stderr,
        )
        return BAD_INPUT
    operations = values.READING if parsed.preview else OPERATIONS
    document = (
        values.aws_policy(fleet, operations)
        if isinstance(fleet, plan.EksFleetPlan)
        else values.google_role(fleet, operations)
    )
    if not parsed.json:
        print(json.dumps(document, indent=2))
        return PROVEN
    told = {
        "version": 1,
        "cloud": plan.cloud_of(fleet),
        "document": document,
        "condition": (values.google_condition() if isinstance(fleet, plan.GkeFleetPlan) else None),
        "rights": [asdict(need) for need in values.rights(fleet, operations)],
    }
    print(json.dumps(told, indent=2))
    return PROVEN
