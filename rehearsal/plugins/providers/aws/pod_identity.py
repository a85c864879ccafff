"""aws:eks PodIdentityAssociation.

Source of force_new and of what is retried: hashicorp/terraform-provider-aws,
internal/service/eks/pod_identity_association.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.rehearsal.plugins.bridge.resources import (
    CreateResult,
    Resource,
    Session,
    State,
    not_simulated,
    prior_values,
)
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.aws.calls import (
    call,
    or_none,
    region_of,
    retag_eks,
    seen_tags,
)
from slicewright.rehearsal.plugins.providers.aws.retries import retried_while

_SIMULATED = ("clusterName", "namespace", "serviceAccount", "roleArn", "tags", "region")
_PROPAGATION_S = 120.0
"""The provider's limit for roles that have not spread yet (internal/service/eks/consts.go)."""


class PodIdentityAssociation(Resource):
    kind = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
    force_new = ("clusterName", "namespace", "serviceAccount", "region")
    keeps = ("region",)

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        return not_simulated(inputs, _SIMULATED)

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        arguments = {
            k: inputs[k]
            for k in ("clusterName", "namespace", "serviceAccount", "roleArn", "tags")
            if k in inputs
        }
        created = retried_while(
            session,
            _PROPAGATION_S,
            lambda e: (
                e.reason == "InvalidParameterException"
                and "Role provided in the request does not exist" in e.message
            ),
            lambda: call(session, inputs, "eks", "CreatePodIdentityAssociation", **arguments),
        )
        return CreateResult(str(created["association"]["associationId"]))

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        if "clusterName" not in inputs:  # an import, which is not simulated
            return None
        answer = or_none(
            session,
            inputs,
            "eks",
            "DescribePodIdentityAssociation",
            clusterName=inputs["clusterName"],
            associationId=_association(resource_id),
        )
        if answer is None:
            return None
        association = answer["association"]
        tags = association.get("tags", {})
        read_inputs = {
            k: association[k] for k in ("clusterName", "namespace", "serviceAccount", "roleArn")
        }
        outputs = {
            **read_inputs,
            "associationArn": association["associationArn"],
            "associationId": association["associationId"],
            "disableSessionTags": association["disableSessionTags"],
            "tags": tags,
            "tagsAll": tags,
            "region": region_of(session, inputs),
        }
        return State(
            {**read_inputs, **seen_tags(tags, inputs), **prior_values(inputs, "region")}, outputs
        )

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        where = {"clusterName": new["clusterName"], "associationId": _association(resource_id)}
        if old["roleArn"] != new["roleArn"]:
            call(
                session,
                new,
                "eks",
                "UpdatePodIdentityAssociation",
                roleArn=new["roleArn"],
                **where,
            )
        answer = call(session, new, "eks", "DescribePodIdentityAssociation", **where)
        retag_eks(session, answer["association"]["associationArn"], old, new)
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        or_none(
            session,
            inputs,
            "eks",
            "DeletePodIdentityAssociation",
            clusterName=inputs["clusterName"],
            associationId=_association(resource_id),
        )


def _association(resource_id: str) -> str:
    """An import takes it behind the cluster's name. Source: terraform-provider-aws, documentation
    of aws_eks_pod_identity_association.
    """
    return resource_id.rpartition(",")[2]
