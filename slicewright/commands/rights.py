"""`slicewright rights`: prints the least rights that the program needs in the account."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console

from slicewright.doctor import read_rights, state
from slicewright.exit_codes import BAD_INPUT, CANNOT_RUN, VERIFIED
from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.catalog import OPERATIONS, Operation
from slicewright.options import stack_files
from slicewright.teardown import sweep_rights

_MANAGED_POLICY: Final = 6144
"""Longest managed policy, in characters without white space. Source: IAM quotas."""
_INLINE_POLICIES: Final = 10_240
"""Characters of all inline policies of a role together. Source: IAM quotas."""


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "rights",
        description="Writes the rights that `pulumi up`, `refresh` and `destroy` of a stack need "
        "in its account, as JSON: an IAM policy document for EKS, a custom role as `gcloud iam "
        "roles create --file` reads it for GKE (docs/how-to/least-privilege.md).",
    )
    stack_files.add_arguments(parser)
    _add_alternatives(parser)
    parser.add_argument(
        "--state",
        action="store_true",
        help="use the names of an EKS stack's roles from its Pulumi state: for a stack created "
        "before role names included the stack's name",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="the document, and for each right its user, the reason and the source "
        "(docs/reference/rights.md)",
    )
    parser.set_defaults(run=_run)


def _add_alternatives(parser: argparse.ArgumentParser) -> None:
    """Adds the options that print other rights than those of `pulumi up`."""
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--preview",
        action="store_true",
        help="only the rights for `pulumi preview` and `refresh`, which change nothing",
    )
    instead.add_argument(
        "--doctor",
        action="store_true",
        help="the read-only rights for every check of `slicewright doctor` instead",
    )
    instead.add_argument(
        "--destroy",
        action="store_true",
        help="the rights for the sweep of `slicewright destroy` instead, needed in addition to "
        "those for `pulumi destroy`; in AWS limited to resources with the cluster's tags",
    )
    instead.add_argument(
        "--boundary",
        action="store_true",
        help="a policy for cluster.permissions_boundary instead: all rights that the roles of an "
        "EKS stack need together",
    )
    instead.add_argument(
        "--preview-role",
        action="store_true",
        help="a read-only ClusterRole for `kubectl apply` instead, without Secrets: the rights in "
        "the cluster for previews of the stack and for `slicewright drift`",
    )


def _run(parsed: argparse.Namespace, console: Console) -> int:
    names = stack_files.named(parsed)
    if len(names) != 1:
        print("slicewright rights: name one stack (-s gke-h100) or FILE", file=sys.stderr)
        return BAD_INPUT
    file = stack_files.path_of(names[0])
    name = stack_files.display_path(file)
    try:
        source = stack_files.read_source(file)
        fleet = plan.read_source(source)
        if not isinstance(fleet, plan.ExistingFleetPlan):
            # The rights of features that cannot be deployed yet are not known.
            plan.deployable(fleet, source)
    except stack_file.SpecError as e:
        print(e, file=sys.stderr)
        return BAD_INPUT
    return _rights(fleet, name, parsed)


def _rights(fleet: plan.FleetPlan, name: str, parsed: argparse.Namespace) -> int:
    if parsed.preview_role:
        return _preview_role(fleet, name, parsed)
    if isinstance(fleet, plan.ExistingFleetPlan):
        return _refused(
            f"{name}: its cluster or hosts already exist, so the program calls no cloud API; in "
            "the cluster it has the rights of the kubeconfig"
        )
    if parsed.doctor:
        return _write(fleet, read_rights.document(fleet), read_rights.needs(fleet), parsed)
    if parsed.destroy:
        return _write(fleet, sweep_rights.document(fleet), sweep_rights.needs(fleet), parsed)
    operations = manifests.READING if parsed.preview else OPERATIONS
    if isinstance(fleet, plan.GkeFleetPlan):
        if parsed.boundary or parsed.state:
            return _refused(f"{name}: --boundary and --state are for EKS stacks only")
        document = manifests.google_role(fleet, operations)
        return _write(fleet, document, manifests.rights(fleet, operations), parsed)
    return _eks_rights(fleet, name, operations, parsed)


def _eks_rights(
    fleet: plan.EksFleetPlan,
    name: str,
    operations: Sequence[Operation],
    parsed: argparse.Namespace,
) -> int:
    if parsed.state and not parsed.stack:
        return _refused("--state needs the stack's name as -s NAME; a file has no Pulumi state")
    try:
        role_names = state.role_names(parsed.stack[0]) if parsed.state else {}
    except state.UnknownState as e:
        print(f"slicewright rights: {stack_file.plain(str(e))}", file=sys.stderr)
        return CANNOT_RUN
    if parsed.boundary:
        return _write(fleet, manifests.boundary_policy(fleet, role_names), (), parsed)
    if unlimited := manifests.needs_boundary(fleet, operations):
        return _refused(
            f"{name}: cluster.autoscaler needs {', '.join(unlimited)}, which makes its holder an "
            "administrator of the account unless the role has a permissions boundary: create a "
            f"policy from the output of `slicewright rights {_stack_of(parsed)} --boundary`, and "
            "set cluster.permissions_boundary to its ARN (docs/how-to/least-privilege.md)"
        )
    document = manifests.aws_policy(fleet, operations, role_names=role_names)
    return _write(fleet, document, manifests.rights(fleet, operations), parsed)


def _preview_role(fleet: plan.FleetPlan, name: str, parsed: argparse.Namespace) -> int:
    if isinstance(fleet, plan.ExistingFleetPlan) and fleet.cluster is None:
        return _refused(f"{name}: it has hosts only, no cluster")
    if parsed.json or parsed.state:
        return _refused(
            "--preview-role prints a manifest; it cannot be combined with --json or --state"
        )
    print(json.dumps(manifests.preview_role(), indent=2))
    return VERIFIED


def _stack_of(parsed: argparse.Namespace) -> str:
    return f"-s {parsed.stack[0]}" if parsed.stack else str(parsed.files[0])


def _refused(why: str) -> int:
    print(f"slicewright rights: {why}", file=sys.stderr)
    return BAD_INPUT


def _write(
    fleet: plan.EksFleetPlan | plan.GkeFleetPlan,
    document: manifests.JsonObject,
    needs: Sequence[manifests.Need],
    parsed: argparse.Namespace,
) -> int:
    bounds = parsed.boundary and len(_packed(document)) > _MANAGED_POLICY
    if bounds:
        print(
            f"slicewright rights: the boundary has {len(_packed(document))} characters without "
            f"white space, but a managed policy may have at most {_MANAGED_POLICY} "
            "[source: IAM quotas]",
            file=sys.stderr,
        )
    elif isinstance(fleet, plan.EksFleetPlan) and (problem := _too_long(document)):
        print(f"slicewright rights: {problem}", file=sys.stderr)
    if not parsed.json:
        print(json.dumps(document, indent=2))
        return VERIFIED
    output = {
        "version": 1,
        "cloud": plan.cloud_of(fleet),
        "document": document,
        "condition": _condition(fleet, parsed),
        "rights": [asdict(need) for need in needs],
    }
    print(json.dumps(output, indent=2))
    return VERIFIED


def _too_long(policy: manifests.JsonObject) -> str:
    """Returns which kind of policy is too short for `policy`, and the alternative, or ""."""
    length = len(_packed(policy))
    if length <= _MANAGED_POLICY:
        return ""
    long = f"the policy has {length} characters without white space"
    if length <= _INLINE_POLICIES:
        return (
            f"{long}, but a managed policy may have at most {_MANAGED_POLICY}: attach it to the "
            "role that runs Pulumi as an inline policy, with `aws iam put-role-policy` [source: "
            "IAM quotas]"
        )
    return (
        f"{long}, but the inline policies of a role may have at most {_INLINE_POLICIES} together: "
        f"divide the statements among managed policies of {_MANAGED_POLICY} each [source: IAM "
        "quotas]"
    )


def _packed(policy: manifests.JsonObject) -> str:
    """Returns the policy without white space, which IAM does not count."""
    return json.dumps(policy, separators=(",", ":"))


def _condition(
    fleet: plan.EksFleetPlan | plan.GkeFleetPlan, parsed: argparse.Namespace
) -> str | None:
    """Returns the condition for granting a role that may itself grant roles, else None."""
    grants_roles = isinstance(fleet, plan.GkeFleetPlan) and not (parsed.doctor or parsed.destroy)
    return manifests.google_condition() if grants_roles else None
