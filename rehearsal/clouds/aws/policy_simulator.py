"""IAM's SimulatePrincipalPolicy, of the caller and its policies as the account file states them.

Sources: IAM API reference, SimulatePrincipalPolicy and EvaluationResult; IAM user guide, policy
evaluation logic. Of the actions that IAM does not simulate in one call ("require different
authorization information") no list is published: here it is iam:PassRole beside any other, as in
awslabs and community reports of that error.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import Caller, account_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.policy_evaluation import Context as Keys
from slicewright.rehearsal.clouds.aws.policy_evaluation import Evaluation, evaluate
from slicewright.rehearsal.clouds.core.context import Context, Methods

_APART = frozenset({"iam:PassRole"})
_FEWEST = 100
"""Results of one answer, unless the request says otherwise."""


class PolicySimulator:
    def __init__(self, context: Context) -> None:
        self._context = context

    def methods(self) -> Methods:
        return {"SimulatePrincipalPolicy": self._simulate}

    def _simulate(self, params: JsonObject, body: JsonObject) -> JsonObject:
        caller = account_of(self._context).caller
        if body["PolicySourceArn"] != caller.principal:
            raise aws_error(
                "NoSuchEntity",
                f"The principal with ARN {body['PolicySourceArn']} cannot be found.",
                code=404,
            )
        actions = body["ActionNames"]
        apart = _APART & {*actions}
        if apart and len({*actions}) > 1:
            rest = [action for action in actions if action not in apart]
            raise aws_error(
                "InvalidInput",
                f"Invalid Input Actions: [{','.join(rest)}] and [{','.join(sorted(apart))}] "
                "require different authorization information.",
            )
        keys: Keys = {
            entry["ContextKeyName"].lower(): entry.get("ContextKeyValues", [])
            for entry in body.get("ContextEntries", ())
        }
        arns = body.get("ResourceArns") or ["*"]
        evaluations = [_result(caller, action, arns, keys) for action in actions]
        first, size = int(body.get("Marker", 0)), body.get("MaxItems", _FEWEST)
        last = first + size
        more = last < len(evaluations)
        return {
            "EvaluationResults": evaluations[first:last],
            "IsTruncated": more,
            **({"Marker": str(last)} if more else {}),
        }


def _result(caller: Caller, action: str, arns: Iterable[str], keys: Keys) -> JsonObject:
    by_arn = {arn: _resource_decision(caller, action, arn, keys) for arn in arns}
    decisions = {by_resource["EvalResourceDecision"] for by_resource in by_arn.values()}
    organization = all(
        evaluate([caller.organization], action, arn, keys).decision == "allowed" for arn in by_arn
    )
    result: JsonObject = {
        "EvalActionName": action,
        "EvalDecision": next(
            decision
            for decision in ("explicitDeny", "implicitDeny", "allowed")
            if decision in decisions
        ),
        "OrganizationsDecisionDetail": {"AllowedByOrganizations": organization},
    }
    if set(by_arn) == {"*"}:
        (only,) = by_arn.values()
        copied_fields = ("MissingContextValues", "PermissionsBoundaryDecisionDetail")
        return result | {"EvalResourceName": "*"} | {k: only[k] for k in copied_fields if k in only}
    return result | {"ResourceSpecificResults": list(by_arn.values())}


def _resource_decision(caller: Caller, action: str, arn: str, keys: Keys) -> JsonObject:
    evaluation = evaluate(caller.policies, action, arn, keys)
    above = [evaluate([caller.organization], action, arn, keys)]
    detail: JsonObject = {}
    if caller.boundary is not None:
        boundary = evaluate([caller.boundary], action, arn, keys)
        above.append(boundary)
        detail["PermissionsBoundaryDecisionDetail"] = {
            "AllowedByPermissionsBoundary": boundary.decision == "allowed"
        }
    every = [evaluation, *above]
    return {
        "EvalResourceName": arn,
        "EvalResourceDecision": _together(every),
        "MissingContextValues": sorted(
            {key for evaluation_part in every for key in evaluation_part.missing}
        ),
        **detail,
    }


def _together(evaluations: list[Evaluation]) -> Any:
    """All kinds of policies must allow."""
    decisions = {evaluation.decision for evaluation in evaluations}
    order = ("explicitDeny", "implicitDeny", "allowed")
    return next(decision for decision in order if decision in decisions)
