"""EKS Pod Identity: which role the pods of a service account have.

Source: EKS user guide, "Assign an IAM role to a Kubernetes service account" and "Configure Pods to
access AWS services with service accounts".
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.boundaries import with_boundary
from slicewright.rehearsal.clouds.aws.eks.checks import invalid
from slicewright.rehearsal.clouds.aws.eks.clusters import Clusters
from slicewright.rehearsal.clouds.aws.eks.updates import in_use
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT, find_role, known_role, trusts
from slicewright.rehearsal.clouds.aws.state import ADDONS, POD_IDENTITIES
from slicewright.rehearsal.clouds.core.context import Context, Methods, now

AGENT = "eks-pod-identity-agent"
"""The add-on without which an association has no effect."""
PRINCIPAL = "pods.eks.amazonaws.com"
_CHANGEABLE = ("roleArn", "targetRoleArn", "disableSessionTags", "policy")


class PodIdentities:
    def __init__(self, context: Context, clusters: Clusters) -> None:
        self._context = context
        self._store = context.store
        self._clusters = clusters

    def methods(self) -> Methods:
        return {
            "CreatePodIdentityAssociation": self._create,
            "DescribePodIdentityAssociation": lambda params, body: {
                "association": self._find(params, body)
            },
            "ListPodIdentityAssociations": self._list,
            "UpdatePodIdentityAssociation": self._update,
            "DeletePodIdentityAssociation": self._delete,
        }

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            self._clusters.active(params, body["clusterName"])
            return {"association": self.associate(params, body)}

    def associate(
        self, params: JsonObject, body: JsonObject, *, owner: str | None = None
    ) -> JsonObject:
        """owner: ARN of the add-on that it is of. Raises CloudError."""
        region, cluster = params["region"], body["clusterName"]
        with self._store.lock:
            _check_role(self._context, body["roleArn"])
            for existing in self._store.values(POD_IDENTITIES, prefix=f"{region}/{cluster}/"):
                if all(existing[k] == body[k] for k in ("namespace", "serviceAccount")):
                    raise in_use(f"Association already exists: {existing['associationId']}")
            identity = f"a-{secrets.token_hex(9)[:17]}"
            association: JsonObject = {
                "clusterName": cluster,
                "namespace": body["namespace"],
                "serviceAccount": body["serviceAccount"],
                "associationId": identity,
                "associationArn": f"arn:aws:eks:{region}:{ACCOUNT}:podidentityassociation/"
                f"{cluster}/{identity}",
                "createdAt": now(),
                "modifiedAt": now(),
                "tags": body.get("tags", {}),
                "disableSessionTags": body.get("disableSessionTags", False),
                **{k: body[k] for k in _CHANGEABLE if k in body},
                **({"ownerArn": owner} if owner is not None else {}),
            }
            return self._store.put(POD_IDENTITIES, f"{region}/{cluster}/{identity}", association)

    def replace(
        self, params: JsonObject, cluster: str, owner: str, requested: Sequence[JsonObject]
    ) -> list[str]:
        """Gives an add-on these associations and no others; their ARNs. Raises CloudError."""
        for identity in requested:
            _check_role(self._context, identity["roleArn"])
        self.end(params["region"], cluster, owner)
        names = {"clusterName": cluster, "namespace": "kube-system"}
        associations = [
            self.associate(params, {**identity, **names}, owner=owner) for identity in requested
        ]
        return [association["associationArn"] for association in associations]

    def end(self, region: str, cluster: str, owner: str) -> None:
        """Of an add-on."""
        for key, association in list(
            self._store.items(POD_IDENTITIES, prefix=f"{region}/{cluster}/")
        ):
            if association.get("ownerArn") == owner:
                self._store.delete(POD_IDENTITIES, key)

    def _list(self, params: JsonObject, body: JsonObject) -> JsonObject:
        self._clusters.find(params, body["clusterName"])
        prefix = f"{params['region']}/{body['clusterName']}/"
        summaries = (
            *("clusterName", "namespace", "serviceAccount"),
            *("associationArn", "associationId", "ownerArn"),
        )
        return {
            "associations": [
                {k: association[k] for k in summaries if k in association}
                for association in self._store.values(POD_IDENTITIES, prefix=prefix)
                if all(
                    association[k] == body[k] for k in ("namespace", "serviceAccount") if k in body
                )
            ]
        }

    def _update(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            association = self._find(params, body)
            if "roleArn" in body:
                _check_role(self._context, body["roleArn"])
            changed = {k: body[k] for k in _CHANGEABLE if k in body}
            association |= changed | {"modifiedAt": now()}
            self._store.put(POD_IDENTITIES, _key(params, body), association)
        return {"association": association}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            association = self._find(params, body)
            self._store.delete(POD_IDENTITIES, _key(params, body))
        return {"association": association}

    def _find(self, params: JsonObject, body: JsonObject) -> JsonObject:
        self._clusters.find(params, body["clusterName"])
        association = self._store.get(POD_IDENTITIES, _key(params, body))
        if association is None:
            raise aws_error(
                "ResourceNotFoundException",
                f"Association not found: {body['associationId']}",
                code=404,
            )
        return association


def role_of_pods(
    context: Context, region: str, cluster: str, namespace: str, service_account: str
) -> JsonObject | None:
    """The role that the pods of a service account have; None without the agent on the nodes, an
    association, or the role.
    """
    key = f"{region}/{cluster}"
    agent = context.store.get(ADDONS, f"{key}/{AGENT}")
    if agent is None or agent["status"] not in ("ACTIVE", "UPDATING"):
        return None
    for association in context.store.values(POD_IDENTITIES, prefix=f"{key}/"):
        if (association["namespace"], association["serviceAccount"]) == (
            namespace,
            service_account,
        ):
            role = find_role(context, association["roleArn"])
            if role is None or not _may_be_had_by_pods(role):
                return None
            return with_boundary(context, role)
    return None


def _check_role(context: Context, arn: str) -> None:
    """hashicorp/terraform-provider-aws retries on the first message: new roles spread slowly
    (internal/service/eks/pod_identity_association.go). The second: aws/aws-cdk #31522.
    """
    role = known_role(context, arn)
    if role is None:
        raise invalid(f"Role provided in the request does not exist. ({arn})")
    if not _may_be_had_by_pods(role):
        raise invalid(
            "Trust policy of the role provided is invalid. Follow the official documentation to "
            "resolve the issue."
        )


def _may_be_had_by_pods(role: JsonObject) -> bool:
    return all(trusts(role, PRINCIPAL, a) for a in ("sts:AssumeRole", "sts:TagSession"))


def _key(params: JsonObject, body: JsonObject) -> str:
    return f"{params['region']}/{body['clusterName']}/{body['associationId']}"
