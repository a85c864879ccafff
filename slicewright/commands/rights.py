"""`slicewright rights`: what the program must be allowed to do in the account, and no more."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console

from infra import plan, spec, values
from infra.catalog import OPERATIONS
from slicewright.commands import stack_files
from slicewright.doctor import own_rights
from slicewright.exit_codes import BAD_INPUT, PROVEN
from slicewright.teardown import own_rights as sweep_rights

_MANAGED_POLICY: Final = 6144
"""Characters that a managed policy may have, white space aside. Source: IAM quotas."""
_INLINE_POLICIES: Final = 10_240
"""Those of all inline policies of a role. Source: the same."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "rights",
        help="the rights that a stack needs: an AWS policy, or a Google custom role",
        description="Writes the rights that `pulumi up`, `refresh` and `destroy` of a stack need "
        "in its account, as JSON: an IAM policy document for EKS, a custom role as `gcloud iam "
        "roles create --file` reads it for GKE (docs/how-to/least-privilege.md).",
    )
    stack_files.add_arguments(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--preview",
        action="store_true",
        help="only what `pulumi preview` and `refresh` need: nothing that changes the account",
    )
    instead.add_argument(
        "--doctor",
        action="store_true",
        help="instead, what `slicewright doctor` needs to ask everything: it only reads",
    )
    instead.add_argument(
        "--destroy",
        action="store_true",
        help="instead, what `slicewright destroy` needs to sweep the account, beside what `pulumi "
        "destroy` needs; in AWS, of what has the cluster's tags only",
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
        source = plan.source_of(file, name=name)
        fleet = plan.read_source(source)
        if not isinstance(fleet, plan.ByoFleetPlan):
            # The rights for what cannot be built yet are not known.
            plan.deployable(fleet, source)
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
    if parsed.doctor:
        return _write(fleet, own_rights.document(fleet), own_rights.needs(fleet), parsed)
    if parsed.destroy:
        return _write(fleet, sweep_rights.document(fleet), sweep_rights.needs(fleet), parsed)
    operations = values.READING if parsed.preview else OPERATIONS
    document = (
        values.aws_policy(fleet, operations)
        if isinstance(fleet, plan.EksFleetPlan)
        else values.google_role(fleet, operations)
    )
    return _write(fleet, document, values.rights(fleet, operations), parsed)


def _write(
    fleet: plan.EksFleetPlan | plan.GkeFleetPlan,
    document: values.JsonObject,
    needs: Sequence[values.Need],
    parsed: argparse.Namespace,
) -> int:
    if isinstance(fleet, plan.EksFleetPlan) and (problem := _too_long(document)):
        print(f"slicewright rights: {problem}", file=sys.stderr)
    if not parsed.json:
        print(json.dumps(document, indent=2))
        return PROVEN
    shown = {
        "version": 1,
        "cloud": plan.cloud_of(fleet),
        "document": document,
        "condition": _condition(fleet, parsed),
        "rights": [asdict(need) for need in needs],
    }
    print(json.dumps(shown, indent=2))
    return PROVEN


def _too_long(policy: values.JsonObject) -> str:
    """Where it does not go, and where it does; empty where it goes anywhere."""
    length = len(json.dumps(policy, separators=(",", ":")))
    if length <= _MANAGED_POLICY:
        return ""
    long = f"the policy has {length} characters without white space"
    if length <= _INLINE_POLICIES:
        return (
            f"{long}, and a managed policy takes {_MANAGED_POLICY}: give it to the role that runs "
            "Pulumi as an inline policy, with `aws iam put-role-policy` [source: IAM quotas]"
        )
    return (
        f"{long}, and a role takes {_INLINE_POLICIES} of inline policies: divide its statements "
        f"among managed policies of {_MANAGED_POLICY} each [source: IAM quotas]"
    )


def _condition(
    fleet: plan.EksFleetPlan | plan.GkeFleetPlan, parsed: argparse.Namespace
) -> str | None:
    """Of the grant of a role with which roles can be granted: without one there is none to set."""
    of_role = isinstance(fleet, plan.GkeFleetPlan) and not (parsed.doctor or parsed.destroy)
    return values.google_condition() if of_role else None
