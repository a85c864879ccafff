"""Checks whether the caller has the rights in an AWS account that `pulumi up` needs. Pure.

The requests are those that the policy of `slicewright rights` allows: each of its actions, with an
ARN of every kind that AWS checks it against, and with values of the condition keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Literal

from slicewright.doctor.findings import Answer, Finding, NotAnswered, checks, fails, not_asked, ok
from slicewright.infra import catalog, manifests
from slicewright.infra.catalog import Scope
from slicewright.infra.plan import EksFleetPlan

_HOME: Final[Mapping[str, str]] = {
    "aws": "us-east-1",
    "aws-us-gov": "us-gov-west-1",
    "aws-cn": "cn-north-1",
}
"""Partition -> a region that every account of the partition has. IAM is asked there."""
_LAUNCHED: Final = ("instance", "network-interface", "security-group", "subnet", "volume")
"""Resources that ec2:RunInstances is checked against, besides the image and the launch template."""
_SAMPLE: Final = "slicewright"
"""A placeholder for parts of an ARN that are unknown before the resource exists."""

Why = Literal["policies", "denied", "boundary", "organization"]


@dataclass(frozen=True, kw_only=True)
class Requests:
    """Similar requests: each of the actions, on each of the resources."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    """ARNs, or `*` if AWS checks an action against no resource."""
    context: Mapping[str, str]
    """Condition key -> value."""


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A request that IAM's policy simulator does not allow."""

    right: str
    resource: str
    why: Why
    missing_keys: tuple[str, ...] = ()
    """Condition keys of the caller's policies whose values are unknown before the real request."""


@dataclass(frozen=True, kw_only=True)
class CallerRights:
    principal: str
    """ARN of the user or role whose policies were simulated."""
    refused: Answer[tuple[Refused, ...]]
    simulated: int
    """The number of different rights that were asked for."""


def home_region(region: str) -> str:
    """The home region of the region's partition."""
    return _HOME[catalog.aws_region(region).partition]


def role_of(arn: str) -> str | None:
    """The name of the role if STS returns this ARN for a session of it, otherwise None."""
    kind, _, name = arn.split(":", 5)[5].partition("/")
    return name.partition("/")[0] if kind == "assumed-role" else None


def is_user(arn: str) -> bool:
    return arn.split(":", 5)[5].startswith("user/")


def requests(
    fleet: EksFleetPlan, account: str, role_names: Mapping[str, str] | None = None
) -> tuple[Requests, ...]:
    """Returns the requests. Requests with the same resources and context are one entry.

    account: the account number. role_names: same as for `aws_policy`.
    """
    region = fleet.cluster.region
    groups: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], set[str]] = {}
    policy = manifests.aws_policy(fleet, role_names=role_names, all_needed=True)
    for statement in policy["Statement"]:
        for action, context in product(statement["Action"], _contexts(statement)):
            where = home_region(region) if action.startswith("iam:") else region
            every = {"aws:RequestedRegion": where, **context}
            if "ec2:CreateAction" in context:
                every["aws:RequestTag/Name"] = fleet.cluster.name
            resources = _resources(action, statement, context, account)
            groups.setdefault((resources, tuple(sorted(every.items()))), set()).add(action)
    return tuple(
        Requests(actions=tuple(sorted(actions)), resources=resources, context=dict(context))
        for (resources, context), actions in sorted(groups.items())
    )


def _contexts(statement: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """Yields one value of each key at a time, so that every value of a list is asked for."""
    keys = {k: v for test in statement.get("Condition", {}).values() for k, v in test.items()}
    listed = [
        # A single name stands for all patterns of a tag.
        [(key, _filled(value)) for value in (_several(patterns)[: 1 if "Tag/" in key else None])]
        for key, patterns in keys.items()
    ]
    yield from (dict(chosen) for chosen in product(*listed))


def _resources(
    action: str, statement: Mapping[str, Any], context: Mapping[str, str], account: str
) -> tuple[str, ...]:
    listed = _several(statement["Resource"])
    if "ec2:LaunchTemplate" in context and listed == ["*"]:
        template = context["ec2:LaunchTemplate"].split(":")
        head = ":".join(template[:4])
        kinds = (f"{head}:{account}:{kind}/{_SAMPLE}" for kind in (*_LAUNCHED, "launch-template"))
        return (*kinds, f"{head}::image/{_SAMPLE}")
    scope = catalog.aws_rights().scopes.get(action)
    service = context.get("iam:AWSServiceName")
    # A statement has the kinds of all its actions, but AWS checks each action against its own kind.
    relevant = [
        arn for arn in listed if scope is None or _kinds_of(arn) & {*_kinds(scope, context)}
    ]
    relevant = [arn for arn in relevant or listed if service is None or f"/{service}/" in arn]
    return tuple(sorted(_owned(arn, account) for arn in relevant))


def _kinds(scope: Scope, context: Mapping[str, str]) -> Sequence[str]:
    maker = context.get("ec2:CreateAction")
    if maker is not None:
        # Launch templates create instances and volumes. The catalog does not say so.
        return catalog.aws_rights().scopes[f"ec2:{maker}"].makes or ("instance", "volume")
    new = any(key.startswith("aws:RequestTag/") for key in context)
    return scope.makes if new else scope.uses


def _kinds_of(arn: str) -> frozenset[str]:
    """Returns the scopes by their names in the catalog. Some cover only a part of the roles."""
    if arn == "*":
        return frozenset({"*"})
    service, resource = arn.split(":", 5)[2], arn.split(":", 5)[5]
    if service == "kms":
        return frozenset({"secrets-key"})
    if "/aws-service-role/" in arn:
        return frozenset({"service-linked-role"})
    if service == "iam":
        name = resource.rpartition("/")[2]
        # The second pattern is for stacks whose roles were created before their names told the
        # owner.
        of_pods = name.endswith(".autoscaler") or name.startswith("eks-autoscaler-")
        return frozenset({"role", *(["pod-role"] if of_pods else [])})
    kind = resource.partition("/")[0]
    return frozenset({"pod-identity" if kind == "podidentityassociation" else kind})


def _owned(arn: str, account: str) -> str:
    if arn == "*":
        return arn
    *head, owner, resource = arn.split(":", 5)
    return ":".join((*head, account if owner == "*" else owner, _filled(resource)))


def _filled(pattern: str) -> str:
    return pattern.replace("*", _SAMPLE)


def _several(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


@checks("aws-rights")
def findings(answer: Answer[CallerRights], *, account: str, rights: str) -> Iterator[Finding]:
    """rights: the command that prints this stack's policy."""
    subject = "rights of this identity"
    if isinstance(answer, NotAnswered):
        yield not_asked(subject, answer)
        return
    subject = f"rights of {answer.principal}"
    if isinstance(answer.refused, NotAnswered):
        yield not_asked(subject, answer.refused)
        return
    unsure = {r.right: r for r in answer.refused if _open(r)}
    for why in ("policies", "denied", "boundary", "organization"):
        lacking = sorted({r.right for r in answer.refused if r.why == why and not _open(r)})
        if lacking:
            yield fails(
                subject,
                f"{_REFUSALS[why]}: {', '.join(lacking)}",
                _remedy(why, answer.principal, account, rights),
            )
            for right in lacking:
                unsure.pop(right, None)
    for right, refused in sorted(unsure.items()):
        yield not_asked(subject, NotAnswered(why=_why_open(right, refused)))
    if not answer.refused:
        yield ok(
            subject,
            f"all {answer.simulated} rights that the stack needs, by IAM's policy simulator",
        )


_REFUSALS: Final[Mapping[Why, str]] = {
    "policies": "no policy of this identity allows",
    "denied": "a policy of this identity denies",
    "boundary": "its permissions boundary does not allow",
    "organization": "a service control policy of the organization does not allow",
}


def _open(refused: Refused) -> bool:
    """True if the account may still allow the request.

    The simulator does not know the values of all condition keys, nor the policy of a KMS key.
    """
    by_key = refused.right.startswith("kms:") and refused.why == "policies"
    return by_key or bool(refused.missing_keys)


def _why_open(right: str, refused: Refused) -> str:
    if refused.missing_keys:
        return f"whether {right} is allowed depends on {', '.join(refused.missing_keys)}"
    return (
        f"no policy of this identity allows {right}; the policy of the key {refused.resource} may "
        "allow it, but the simulator does not know that policy"
    )


def _remedy(why: Why, principal: str, account: str, rights: str) -> str:
    kind, _, path = principal.split(":", 5)[5].partition("/")
    name = path.rpartition("/")[2]
    partition = principal.split(":")[1]
    match why:
        case "policies":
            return (
                f"{rights} > policy.json; aws iam create-policy --policy-name slicewright "
                f"--policy-document file://policy.json; aws iam attach-{kind}-policy "
                f"--{kind}-name {name} --policy-arn "
                f"arn:{partition}:iam::{account}:policy/slicewright"
            )
        case "denied":
            return (
                f"aws iam list-attached-{kind}-policies --{kind}-name {name} lists its policies; "
                "ask an administrator to change the statement that denies it"
            )
        case "boundary":
            return (
                f"aws iam get-{kind} --{kind}-name {name} names the boundary; ask an administrator "
                f"to add the rights that {rights} prints"
            )
        case "organization":
            return (
                "ask an administrator of the organization to allow it: aws organizations "
                f"list-policies-for-target --target-id {account} --filter SERVICE_CONTROL_POLICY"
            )
