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
from infra.catalog import OPERATIONS, Operation
from slicewright.commands import stack_files
from slicewright.doctor import own_rights, state
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
    instead.add_argument(
        "--boundary",
        action="store_true",
        help="instead, a policy for cluster.permissions_boundary: the most that the roles of an "
        "EKS stack need together",
    )
    instead.add_argument(
        "--preview-role",
        action="store_true",
        help="instead, the rights inside the cluster of whoever previews the stack or looks for "
        "drift: a ClusterRole for `kubectl apply`, which reads, and no Secrets",
    )
    parser.add_argument(
        "--state",
        action="store_true",
        help="name the roles of an EKS stack as its Pulumi state has them: for a stack that was "
        "made before their names told whose they are",
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
    if parsed.preview_role:
        return _preview_role(fleet, name, parsed)
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
    if isinstance(fleet, plan.GkeFleetPlan):
        if parsed.boundary or parsed.state:
            return _refused(f"{name}: permissions boundaries and role names are AWS's")
        document = values.google_role(fleet, operations)
        return _write(fleet, document, values.rights(fleet, operations), parsed)
    return _of_eks(fleet, name, operations, parsed)


def _of_eks(
    fleet: plan.EksFleetPlan,
    name: str,
    operations: Sequence[Operation],
    parsed: argparse.Namespace,
) -> int:
    if parsed.state and not parsed.stack:
        return _refused("--state needs the stack's name, as -s NAME: a file has no Pulumi state")
    try:
        role_names = state.role_names(parsed.stack[0]) if parsed.state else {}
    except state.UnknownState as e:
        return _refused(spec.plain(str(e)))
    if parsed.boundary:
        return _write(fleet, values.boundary_policy(fleet, role_names), (), parsed)
    if unlimited := values.needs_boundary(fleet, operations):
        return _refused(
            f"{name}: cluster.autoscaler needs {', '.join(unlimited)}, which makes its holder an "
            "administrator of the account unless the role has a permissions boundary: make a "
            f"policy of what `slicewright rights {_stack_of(parsed)} --boundary` writes, and write "
            "its ARN as cluster.permissions_boundary (docs/how-to/least-privilege.md)"
        )
    document = values.aws_policy(fleet, operations, role_names=role_names)
    return _write(fleet, document, values.rights(fleet, operations), parsed)


def _preview_role(fleet: plan.FleetPlan, name: str, parsed: argparse.Namespace) -> int:
    if isinstance(fleet, plan.ByoFleetPlan) and fleet.cluster is None:
        return _refused(f"{name}: it has hosts only, and no cluster with rights in it")
    if parsed.json or parsed.state:
        return _refused("--preview-role is a manifest of its own, without --json and --state")
    print(json.dumps(values.preview_role(), indent=2))
    return PROVEN


def _stack_of(parsed: argparse.Namespace) -> str:
    return f"-s {parsed.stack[0]}" if parsed.stack else str(parsed.files[0])


def _refused(why: str) -> int:
    print(f"slicewright rights: {why}", file=sys.stderr)
    return BAD_INPUT


def _write(
    fleet: plan.EksFleetPlan | plan.GkeFleetPlan,
    document: values.JsonObject,
    needs: Sequence[values.Need],
    parsed: argparse.Namespace,
) -> int:
    bounds = parsed.boundary and len(_packed(document)) > _MANAGED_POLICY
    if bounds:
        print(
            f"slicewright rights: the boundary has {len(_packed(document))} characters without "
            f"white space, and a managed policy takes {_MANAGED_POLICY}, so that it cannot be one "
            "[source: IAM quotas]",
            file=sys.stderr,
        )
    elif isinstance(fleet, plan.EksFleetPlan) and (problem := _too_long(document)):
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
    length = len(_packed(policy))
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


def _packed(policy: values.JsonObject) -> str:
    """Without white space, which IAM does not count."""
    return json.dumps(policy, separators=(",", ":"))


def _condition(
    fleet: plan.EksFleetPlan | plan.GkeFleetPlan, parsed: argparse.Namespace
) -> str | None:
    """Of the grant of a role with which roles can be granted: without one there is none to set."""
    of_role = isinstance(fleet, plan.GkeFleetPlan) and not (parsed.doctor or parsed.destroy)
    return values.google_condition() if of_role else None
