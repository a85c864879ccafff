"""What the simulated EKS checks a request against.

Source: service authorization reference, Amazon Elastic Kubernetes Service.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.authorization.check import Check, request_tags
from slicewright.rehearsal.clouds.aws.authorization.iam import pass_role

_CLUSTER_NAMES: Final = ("clusterName", "name")
_OF_CLUSTER: Final = ("CreateCluster", "ListClusters")
_ID: Final = "some-id"
"""In place of the id that EKS gives to a resource: no policy knows it before."""


def eks_checks(account: str, operation: str, region: str, body: JsonObject) -> Iterator[Check]:
    base = f"arn:aws:eks:{region}:{account}"
    arn = eks_arn(operation, base, body) or "*"
    tags = request_tags(body.get("tags") or {})
    context = {
        "aws:requestedregion": [region],
        **tags,
        **({"eks:policyarn": [body["policyArn"]]} if "policyArn" in body else {}),
    }
    yield Check(action=f"eks:{operation}", arn=arn, context=context)
    if tags and operation.startswith("Create"):
        yield Check(action="eks:TagResource", arn=_new(operation, base, body), context=context)
    yield from _passed_roles(operation, body)


def eks_arn(operation: str, base: str, parameters: Mapping[str, Any]) -> str | None:
    """The ARN of what the operation is about; None: EKS knows none for it.

    base: arn:PARTITION:eks:REGION:ACCOUNT.
    """
    if operation in _OF_CLUSTER:
        return None
    if "resourceArn" in parameters:
        return str(parameters["resourceArn"])
    cluster = next(parameters[name] for name in _CLUSTER_NAMES if name in parameters)
    if "principalArn" in parameters and operation != "CreateAccessEntry":
        return f"{base}:access-entry/{cluster}/role/111122223333/some-role/{_ID}"
    if operation.startswith("Create") or operation == "ListNodegroups":
        return f"{base}:cluster/{cluster}"
    if group := parameters.get("nodegroupName"):
        return f"{base}:nodegroup/{cluster}/{group}/{_ID}"
    if association := parameters.get("associationId"):
        return f"{base}:podidentityassociation/{cluster}/{association}"
    if addon := parameters.get("addonName"):
        return f"{base}:addon/{cluster}/{addon}/{_ID}"
    return f"{base}:cluster/{cluster}"


def _new(operation: str, base: str, body: JsonObject) -> str:
    """The ARN of what is created, as eks:TagResource is checked against it."""
    cluster = next(body[name] for name in _CLUSTER_NAMES if name in body)
    match operation:
        case "CreateNodegroup":
            return f"{base}:nodegroup/{cluster}/{body['nodegroupName']}/{_ID}"
        case "CreateAddon":
            return f"{base}:addon/{cluster}/{body['addonName']}/{_ID}"
        case "CreateAccessEntry":
            return f"{base}:access-entry/{cluster}/role/111122223333/some-role/{_ID}"
        case "CreatePodIdentityAssociation":
            return f"{base}:podidentityassociation/{cluster}/{_ID}"
        case _:
            return f"{base}:cluster/{cluster}"


def _passed_roles(operation: str, body: JsonObject) -> Iterator[Check]:
    """The roles that the caller hands on."""
    to_eks = {"CreateCluster": "roleArn", "CreateNodegroup": "nodeRole"}
    if operation in to_eks:
        yield pass_role(body[to_eks[operation]], "eks.amazonaws.com")
    of_pods = [*(body.get("podIdentityAssociations") or ())]
    if operation in ("CreatePodIdentityAssociation", "UpdatePodIdentityAssociation"):
        of_pods.append(body)
    for association in of_pods:
        if "roleArn" in association:
            yield pass_role(association["roleArn"], "pods.eks.amazonaws.com")
