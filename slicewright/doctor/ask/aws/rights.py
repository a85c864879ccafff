"""Asks IAM's policy simulator which actions the caller may take. It simulates and calls nothing
else.

Source: IAM API reference, SimulatePrincipalPolicy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from slicewright.doctor.ask.aws.session import AwsSession, code_of
from slicewright.doctor.checks.eks.cluster import Identity
from slicewright.doctor.checks.eks.rights import (
    CallerRights,
    Refused,
    Requests,
    is_user,
    requests,
    role_of,
)
from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.infra.plan import EksFleetPlan

_RIGHT = "iam:SimulatePrincipalPolicy"


def ask_rights(
    session: AwsSession,
    fleet: EksFleetPlan,
    identity: Identity,
    role_names: Mapping[str, str],
) -> Answer[CallerRights]:
    """role_names: the stack's existing roles."""
    iam = session.client("iam", session.home)
    principal = _principal(session, iam, identity.arn)
    if isinstance(principal, NotAnswered):
        return principal
    every = requests(fleet, identity.account, role_names)
    refused = session.answer(
        _RIGHT,
        lambda: tuple(
            refusal for group in every for refusal in _refused(session, iam, principal, group)
        ),
    )
    if isinstance(refused, NotAnswered):
        refused = NotAnswered(
            why=f"{refused.why}; it is unknown whether rights are missing", remedy=refused.remedy
        )
    simulated = len({action for group in every for action in group.actions})
    return CallerRights(principal=principal, refused=refused, simulated=simulated)


def _principal(session: AwsSession, iam: Any, arn: str) -> Answer[str]:
    """Returns the ARN of the caller's user or role, since the simulator does not accept sessions.

    A session's ARN lacks the path of its role, so IAM is asked for the role.
    """
    if is_user(arn):
        return arn
    role = role_of(arn)
    if role is None:
        return NotAnswered(
            why=f"IAM's policy simulator accepts only users and roles, and {arn} is neither",
            remedy="use a role that has the rights that `slicewright rights` prints",
        )
    return session.answer("iam:GetRole", lambda: str(iam.get_role(RoleName=role)["Role"]["Arn"]))


def _refused(session: AwsSession, iam: Any, principal: str, group: Requests) -> Iterator[Refused]:
    """Asks for one action at a time if IAM refuses to simulate the actions together."""
    try:
        results = _simulated(iam, principal, group, group.actions)
    except session.errors.ClientError as e:
        if code_of(e) not in ("InvalidInput", "InvalidInputException") or len(group.actions) == 1:
            raise
        results = [
            result
            for action in group.actions
            for result in _simulated(iam, principal, group, [action])
        ]
    for result in results:
        yield from _of_result(result)


def _simulated(
    iam: Any, principal: str, group: Requests, actions: Sequence[str]
) -> list[Mapping[str, Any]]:
    pages: Iterable[Mapping[str, Any]] = iam.get_paginator("simulate_principal_policy").paginate(
        PolicySourceArn=principal,
        ActionNames=list(actions),
        ResourceArns=list(group.resources),
        ContextEntries=[
            {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}
            for key, value in group.context.items()
        ],
    )
    return [result for page in pages for result in page["EvaluationResults"]]


def _of_result(result: Mapping[str, Any]) -> Iterator[Refused]:
    """Reads decisions per resource if there are any: the overall one may hide a refusal."""
    whole = {
        "EvalResourceName": result.get("EvalResourceName", "*"),
        "EvalResourceDecision": result["EvalDecision"],
        "MissingContextValues": result.get("MissingContextValues", ()),
        "PermissionsBoundaryDecisionDetail": result.get("PermissionsBoundaryDecisionDetail", {}),
    }
    organization = result.get("OrganizationsDecisionDetail", {}).get("AllowedByOrganizations", True)
    for evaluation in result.get("ResourceSpecificResults") or (whole,):
        decision = evaluation["EvalResourceDecision"]
        if decision == "allowed":
            continue
        bounded = evaluation.get("PermissionsBoundaryDecisionDetail", {}).get(
            "AllowedByPermissionsBoundary", True
        )
        yield Refused(
            right=result["EvalActionName"],
            resource=evaluation["EvalResourceName"],
            why="organization"
            if not organization
            else "boundary"
            if not bounded
            else "denied"
            if decision == "explicitDeny"
            else "policies",
            missing_keys=tuple(evaluation.get("MissingContextValues", ())),
        )
