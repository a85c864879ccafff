"""aws:eks AccessEntry and AccessPolicyAssociation.

Source of force_new and of what is retried: hashicorp/terraform-provider-aws, internal/service/eks/
access_entry.go, access_policy_association.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.bridge.fields import Field, Fields, from_api, same, to_api
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

_PROPAGATION_S = 10.0
"""As for clusters: officially 2 minutes, for an IAM that takes longer to spread."""
_ENTRY: Fields = {
    "principalArn": Field(),
    "kubernetesGroups": Field(unordered=True, computed=True),
    "type": Field(),
    "userName": Field(api="username", computed=True),
    "tags": Field(),
}


class AccessEntry(Resource):
    """Its ID is CLUSTER:PRINCIPAL."""

    kind = "aws:eks/accessEntry:AccessEntry"
    force_new = ("clusterName", "principalArn", "type", "region")
    sets = ("kubernetesGroups",)
    keeps = ("userName", "region")
    keeps_whole = ("kubernetesGroups",)

    def defaults(self, inputs: Properties, settings: Mapping[str, str]) -> Properties:
        return {"type": "STANDARD"}

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        return not_simulated(inputs, {*_ENTRY, "clusterName", "region"})

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        cluster, principal = str(inputs["clusterName"]), str(inputs["principalArn"])
        body = to_api(_ENTRY, {k: v for k, v in inputs.items() if k in _ENTRY})
        retried_while(
            session,
            _PROPAGATION_S,
            lambda e: "principalArn is invalid: invalid principal" in e.message,
            lambda: call(session, inputs, "eks", "CreateAccessEntry", clusterName=cluster, **body),
        )
        return CreateResult(f"{cluster}:{principal}")

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        entry = _entry(session, resource_id, inputs)
        if entry is None:
            return None
        cluster = {"clusterName": entry["clusterName"]}
        read_inputs = from_api(_ENTRY, entry, inputs or None) | cluster
        if "tags" not in read_inputs:
            read_inputs |= seen_tags(entry["tags"], inputs)
        outputs = {
            **from_api(_ENTRY, entry, None),
            **cluster,
            "kubernetesGroups": entry["kubernetesGroups"],
            "accessEntryArn": entry["accessEntryArn"],
            "createdAt": entry["createdAt"],
            "modifiedAt": entry["modifiedAt"],
            "tags": entry["tags"],
            "tagsAll": entry["tags"],
            "region": region_of(session, inputs),
        }
        return State({**read_inputs, **prior_values(inputs, "region")}, outputs)

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        cluster, _, principal = resource_id.partition(":")
        if any(old.get(k) != new.get(k) for k in ("kubernetesGroups", "userName")):
            call(
                session,
                new,
                "eks",
                "UpdateAccessEntry",
                clusterName=cluster,
                principalArn=principal,
                kubernetesGroups=new.get("kubernetesGroups"),
                username=new.get("userName"),
            )
        entry = _entry(session, resource_id, new) or {}
        retag_eks(session, str(entry.get("accessEntryArn")), old, new)
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        cluster, _, principal = resource_id.partition(":")
        or_none(
            session, inputs, "eks", "DeleteAccessEntry", clusterName=cluster, principalArn=principal
        )


def _entry(session: Session, resource_id: str, inputs: Properties) -> JsonObject | None:
    cluster, _, principal = resource_id.partition(":")
    answer = or_none(
        session, inputs, "eks", "DescribeAccessEntry", clusterName=cluster, principalArn=principal
    )
    return answer["accessEntry"] if answer else None


_SCOPE: Fields = {"type": Field(), "namespaces": Field(unordered=True)}
_ASSOCIATION: Fields = {**same("policyArn"), "accessScope": Field(of=_SCOPE)}


class AccessPolicyAssociation(Resource):
    """Its ID is CLUSTER#PRINCIPAL#POLICY: one with another scope has the same."""

    kind = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
    force_new = ("clusterName", "principalArn", "policyArn", "accessScope", "region")
    sets = ("accessScope.namespaces",)
    keeps = ("region",)

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        cluster, principal = str(inputs["clusterName"]), str(inputs["principalArn"])
        body = to_api(_ASSOCIATION, {k: v for k, v in inputs.items() if k in _ASSOCIATION})
        retried_while(
            session,
            _PROPAGATION_S,
            lambda e: "The specified principalArn could not be found" in e.message,
            lambda: call(
                session,
                inputs,
                "eks",
                "AssociateAccessPolicy",
                clusterName=cluster,
                principalArn=principal,
                **body,
            ),
        )
        return CreateResult(f"{cluster}#{principal}#{inputs['policyArn']}")

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        cluster, principal, policy = resource_id.split("#")
        names = {"clusterName": cluster, "principalArn": principal}
        answer = or_none(session, inputs, "eks", "ListAssociatedAccessPolicies", **names)
        of_policy = [
            associated
            for associated in (answer or {}).get("associatedAccessPolicies", [])
            if associated["policyArn"] == policy
        ]
        if not of_policy:
            return None
        (association,) = of_policy
        outputs = {
            **from_api(_ASSOCIATION, association, None),
            **names,
            "associatedAt": association["associatedAt"],
            "modifiedAt": association["modifiedAt"],
            "region": region_of(session, inputs),
        }
        read_inputs = from_api(_ASSOCIATION, association, inputs or None)
        return State({**read_inputs, **names, **prior_values(inputs, "region")}, outputs)

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        cluster, principal, policy = resource_id.split("#")
        or_none(
            session,
            inputs,
            "eks",
            "DisassociateAccessPolicy",
            clusterName=cluster,
            principalArn=principal,
            policyArn=policy,
        )
