"""The rights that are listed for a stack against the calls that it made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slicewright.infra import catalog, manifests, plan
from slicewright.rehearsal.clouds.aws.authorization import eks_arn
from slicewright.rehearsal.clouds.aws.policy_evaluation import evaluate
from slicewright.rehearsal.clouds.core.call_log import LoggedCall
from slicewright.teardown import sweep_rights

_SIGNED_AS = {
    "aws-iam": "iam",
    "elb": "elasticloadbalancing",
    "elbv2": "elasticloadbalancing",
}
_SETS_BOUNDARY = ("iam:CreateRole", "iam:PutRolePermissionsBoundary")
_AGGREGATED = "aggregatedList"
Fleet = plan.EksFleetPlan | plan.GkeFleetPlan


def differences(fleet: Fleet, calls: Sequence[LoggedCall]) -> list[str]:
    """Of a whole life, from `up` to `destroy`: what `not_allowed` and `unused` find. Whether the
    rights of updates are used is left to lives with changes.
    """
    lasting = tuple(operation for operation in catalog.OPERATIONS if operation != "update")
    return [*not_allowed([fleet], calls), *unused([fleet], calls, lasting)]


def not_allowed(fleets: Sequence[Fleet], calls: Sequence[LoggedCall]) -> list[str]:
    """Calls that the listed rights of none of these fleets allow: a stack was changed from one to
    the next, and whoever did it had the rights of both.
    """
    listed = {need.right for fleet in fleets for need in manifests.rights(fleet)}
    found = [
        f"{call.service} {call.operation} needs {right}, which is not listed"
        for right, call in _used(fleets[0], calls).items()
        if right not in listed
    ]
    eks = [fleet for fleet in fleets if isinstance(fleet, plan.EksFleetPlan)]
    # With the rights that only a boundary makes safe: the listed ones are compared.
    policies = [manifests.aws_policy(fleet, all_needed=True) for fleet in eks]
    if policies:
        statements = [statement for policy in policies for statement in policy["Statement"]]
        found += sorted({text for call in calls if (text := _refused(statements, call))})
    return found


def unused(
    fleets: Sequence[Fleet], calls: Sequence[LoggedCall], operations: Sequence[catalog.Operation]
) -> list[str]:
    """Rights listed for these operations, without a stated reason, that no call used."""
    used = _used(fleets[0], calls)
    needs = {need for fleet in fleets for need in manifests.rights(fleet, operations)}
    return [
        f"{need.right} is listed for the {need.operation} of {need.type}, and no call used it"
        for need in sorted(needs)
        if need.why is None and need.right not in used
    ]


def without_sweep(fleet: Fleet, calls: Sequence[LoggedCall]) -> list[LoggedCall]:
    """Without those of the sweep of `slicewright destroy`, which has rights of its own."""
    of_sweep = {n.right for n in sweep_rights.needs(fleet)} - {
        n.right for n in manifests.rights(fleet)
    }
    return [call for call in calls if right_of(call.service, call.operation) not in of_sweep]


def right_of(service: str, operation: str) -> str:
    """The right of one name with a call, as the sweep's are listed."""
    if service in ("compute", "container"):
        collection, _, verb = operation.removeprefix("projects.locations.").rpartition(".")
        return f"{service}.{collection}.{'list' if verb == _AGGREGATED else verb}"
    return f"{_SIGNED_AS.get(service, service)}:{operation}"


def _used(fleet: Fleet, calls: Sequence[LoggedCall]) -> Mapping[str, LoggedCall]:
    """Right -> a call that needed it."""
    known = (
        catalog.aws_rights() if isinstance(fleet, plan.EksFleetPlan) else catalog.google_rights()
    )
    return {
        right: call
        for call in calls
        for right in known.rights_for(f"{call.service} {call.operation}")
    }


def _refused(statements: Sequence[Mapping[str, Any]], call: LoggedCall) -> str | None:
    """Why the statements do not allow this call; None: they do, as far as the log tells."""
    service = call.service.removeprefix("aws-")
    for arn, context in _checked(service, call.operation, call.parameters):
        action = f"{service}:{call.operation}"
        if not any(_allows(one, action, arn, context) for one in statements):
            return f"the policy does not allow {action} on {arn or 'anything'} with {context}"
    return None


def _checked(
    service: str, operation: str, parameters: Mapping[str, Any]
) -> Iterable[tuple[str | None, Mapping[str, Sequence[str]]]]:
    """Each ARN that AWS would check, as far as the parameters tell; None: any. And the values of
    condition keys.
    """
    region = str(parameters["region"])
    partition = catalog.aws().regions[region].partition
    context: dict[str, Sequence[str]] = {"aws:RequestedRegion": [region]}
    if service == "iam":
        role = f"arn:{partition}:iam::000000000000:role/{parameters['RoleName']}"
        named = {"iam:PolicyARN": "PolicyArn", "iam:PermissionsBoundary": "PermissionsBoundary"}
        context |= {key: [parameters[of]] for key, of in named.items() if of in parameters}
        return [(role, {**context, **_tags(parameters.get("Tags", ()))})]
    if service == "eks":
        base = f"arn:{partition}:eks:{region}:000000000000"
        if policy := parameters.get("policyArn"):
            context["eks:policyArn"] = [str(policy)]
        return [(eks_arn(operation, base, parameters), context)]
    made = [
        (
            f"arn:{partition}:ec2:{region}:000000000000:"
            f"{of['ResourceType']}/{of['ResourceType']}-1",
            {**context, **_tags(of["Tags"])},
        )
        for of in parameters.get("TagSpecifications", ())
    ]
    return made or [(None, context)]


def _tags(tags: Iterable[Mapping[str, str]]) -> Mapping[str, Sequence[str]]:
    by_key = {f"aws:RequestTag/{tag['Key']}": [tag["Value"]] for tag in tags}
    keys = [tag["Key"] for tag in tags]
    return {**by_key, **({"aws:TagKeys": keys} if keys else {})}


def _allows(
    statement: Mapping[str, Any],
    action: str,
    arn: str | None,
    context: Mapping[str, Sequence[str]],
) -> bool:
    """The log tells neither which tags a resource has that exists, nor the boundary of a role."""
    untold = {
        key
        for keys in statement.get("Condition", {}).values()
        for key in keys
        if key not in context
        and (
            (arn is None and key.startswith("aws:ResourceTag/"))
            or (action not in _SETS_BOUNDARY and key == "iam:PermissionsBoundary")
        )
    }
    told = {
        operator: {key: wanted for key, wanted in keys.items() if key not in untold}
        for operator, keys in statement.get("Condition", {}).items()
    }
    known = {**statement, "Condition": told, **({"Resource": "*"} if arn is None else {})}
    values_of = {key.lower(): values for key, values in context.items()}
    found = evaluate([{"Statement": known}], action, arn or "*", values_of)
    return found.decision == "allowed"
