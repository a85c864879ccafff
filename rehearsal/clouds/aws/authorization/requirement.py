"""Refuses what the caller's policies do not allow, where the account file says that services do.

Source: IAM user guide, policy evaluation logic for requests within a single account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import Caller, account_of
from slicewright.rehearsal.clouds.aws.authorization.check import Check
from slicewright.rehearsal.clouds.aws.authorization.ec2 import ec2_checks
from slicewright.rehearsal.clouds.aws.authorization.eks import eks_checks
from slicewright.rehearsal.clouds.aws.authorization.iam import iam_checks
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.policy_evaluation import evaluate
from slicewright.rehearsal.clouds.core.context import Context
from slicewright.rehearsal.clouds.core.errors import CloudError

_REFUSALS: Final[Mapping[str, str]] = {
    "ec2": "UnauthorizedOperation",
    "eks": "AccessDeniedException",
}
"""Service -> the error's name, where it is not AccessDenied."""
_SIGNED_AS: Final[Mapping[str, str]] = {
    "elb": "elasticloadbalancing",
    "elbv2": "elasticloadbalancing",
    "service-quotas": "servicequotas",
}
_ALWAYS_ALLOWED: Final = ("sts:GetCallerIdentity",)
"""Source: STS API reference, GetCallerIdentity."""


def require(context: Context, service: str, operation: str, region: str, body: JsonObject) -> None:
    """Raises CloudError."""
    caller = account_of(context).caller
    if not caller.enforced:
        return
    for check in _checks(context, caller, service, operation, region, body):
        if check.action not in _ALWAYS_ALLOWED and not _is_allowed(caller, check):
            raise _refusal(service, caller, check)


def _checks(
    context: Context,
    caller: Caller,
    service: str,
    operation: str,
    region: str,
    body: JsonObject,
) -> Iterator[Check]:
    account = caller.arn.split(":")[4]
    match service:
        case "aws-iam":
            yield from iam_checks(context.store, account, operation, body)
        case "eks":
            yield from eks_checks(account, operation, region, body)
        case "ec2":
            yield from ec2_checks(context.store, account, operation, region, body)
        case _:
            action = f"{_SIGNED_AS.get(service, service)}:{operation}"
            yield Check(action=action, arn="*", context={"aws:requestedregion": [region]})


def _is_allowed(caller: Caller, check: Check) -> bool:
    """Every kind of policy must allow it."""
    above = [caller.organization, *([caller.boundary] if caller.boundary is not None else [])]
    kinds = [caller.policies, *([policy] for policy in above)]
    decisions = {evaluate(kind, check.action, check.arn, check.context).decision for kind in kinds}
    return decisions == {"allowed"}


def _refusal(service: str, caller: Caller, check: Check) -> CloudError:
    return aws_error(
        _REFUSALS.get(service, "AccessDenied"),
        f"User: {caller.arn} is not authorized to perform: {check.action} on resource: "
        f"{check.arn} because no identity-based policy allows the {check.action} action",
        code=403,
    )
