"""aws:eks Cluster and Addon.

Source of force_new: hashicorp/terraform-provider-aws, internal/service/eks/cluster.go, addon.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.bridge.fields import Field, Fields, from_api, same, to_api
from slicewright.rehearsal.plugins.bridge.resources import (
    Autoname,
    CreateResult,
    Resource,
    Session,
    State,
    not_simulated,
    prior_values,
)
from slicewright.rehearsal.plugins.bridge.waiting import wait_until
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure, ProviderError
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.aws.calls import (
    call,
    or_none,
    region_of,
    retag_eks,
    seen_tags,
)
from slicewright.rehearsal.plugins.providers.aws.retries import retried_while

_VPC = {
    "subnetIds": Field(unordered=True),
    "securityGroupIds": Field(unordered=True),
    "endpointPublicAccess": Field(computed=True),
    "endpointPrivateAccess": Field(default=False),
    "publicAccessCidrs": Field(unordered=True, computed=True),
}
_CLUSTER: Fields = {
    "roleArn": Field(),
    "version": Field(computed=True),
    "vpcConfig": Field(api="resourcesVpcConfig", of=_VPC),
    "accessConfig": Field(
        of=same("authenticationMode", "bootstrapClusterCreatorAdminPermissions", computed=True),
        computed=True,
    ),
    "encryptionConfig": Field(
        of={"provider": Field(of=same("keyArn")), "resources": Field(unordered=True)}
    ),
    "kubernetesNetworkConfig": Field(
        of=same("serviceIpv4Cidr", "ipFamily", computed=True), computed=True
    ),
    "zonalShiftConfig": Field(of=same("enabled")),
    "upgradePolicy": Field(of=same("supportType"), computed=True),
    "deletionProtection": Field(default=False),
    "tags": Field(),
}
_EXTRA_FIELDS = (
    "name",
    "bootstrapSelfManagedAddons",
    "enabledClusterLogTypes",
    "region",
    "defaultAddonsToRemove",
)
_ENDPOINT = ("endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs")
_PROPAGATION_S = 10.0
"""How long CreateCluster is retried for a role that EKS does not know yet; officially 2 minutes,
for an IAM that takes longer to spread than the rehearsal's.
"""
_ROLE_NOT_SPREAD = (
    "does not exist",
    "Error in role params",
    "Role could not be assumed because the trusted entity is not correct",
    "The provided role doesn't have the Amazon EKS Managed Policies associated with it",
    "IAM role's policy must include",
)


class Cluster(Resource):
    kind = "aws:eks/cluster:Cluster"
    force_new = (
        "name",
        "roleArn",
        "region",
        "kubernetesNetworkConfig.ipFamily",
        "kubernetesNetworkConfig.serviceIpv4Cidr",
        "bootstrapSelfManagedAddons",
        "accessConfig.bootstrapClusterCreatorAdminPermissions",
        "computeConfig.nodeRoleArn",
        "outpostConfig",
        "remoteNetworkConfig",
    )
    sets = (
        "vpcConfig.subnetIds",
        "vpcConfig.securityGroupIds",
        "vpcConfig.publicAccessCidrs",
        "enabledClusterLogTypes",
    )
    keeps = (
        *("vpcConfig.clusterSecurityGroupId", "vpcConfig.vpcId", "vpcConfig.endpointPublicAccess"),
        "version",
        "accessConfig",
        "kubernetesNetworkConfig",
        "upgradePolicy",
        "region",
        "vpcConfig.publicAccessCidrs",
    )
    autoname = Autoname("name", 100)

    def defaults(self, inputs: Properties, settings: Mapping[str, str]) -> Properties:
        return {"bootstrapSelfManagedAddons": True}

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        return not_simulated(inputs, {*_CLUSTER, *_EXTRA_FIELDS})

    def replaced_by(self, old: Properties, new: Properties) -> Sequence[str]:
        """EKS can encrypt the secrets of a living cluster, and not stop doing it."""
        removed = old.get("encryptionConfig") and not new.get("encryptionConfig")
        return ("encryptionConfig",) if removed else ()

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        name = str(inputs["name"])
        body = to_api(_CLUSTER, {k: v for k, v in inputs.items() if k not in _EXTRA_FIELDS})
        if inputs.get("enabledClusterLogTypes"):
            body["logging"] = {
                "clusterLogging": [{"types": inputs["enabledClusterLogTypes"], "enabled": True}]
            }
        body["bootstrapSelfManagedAddons"] = inputs.get("bootstrapSelfManagedAddons")
        if "encryptionConfig" in body:
            body["encryptionConfig"] = [body["encryptionConfig"]]
        retried_while(
            session,
            _PROPAGATION_S,
            lambda e: (
                e.reason == "InvalidParameterException"
                and any(words in e.message for words in _ROLE_NOT_SPREAD)
            ),
            lambda: call(session, inputs, "eks", "CreateCluster", name=name, **body),
        )
        session.show_status("waiting for the cluster to become ACTIVE")
        cluster = wait_until(
            session, f"EKS Cluster ({name}) create", lambda: _settled(session, inputs, name)
        )
        if cluster["status"] != "ACTIVE":
            return CreateResult(
                name,
                [
                    f"waiting for EKS Cluster ({name}) create: unexpected state "
                    f"'{cluster['status']}': {_issues(cluster)}"
                ],
            )
        return CreateResult(name)

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        cluster = _cluster(session, inputs, resource_id)
        if cluster is None:
            return None
        cluster = _with_unreturned_fields(cluster, inputs)
        imported = not inputs
        read_inputs = from_api(_CLUSTER, cluster, None if imported else inputs) | {
            "name": cluster["name"]
        }
        if "tags" not in read_inputs:
            read_inputs |= seen_tags(cluster.get("tags", {}), inputs)
        if "upgradePolicy" in inputs and "upgradePolicy" not in read_inputs:
            read_inputs["upgradePolicy"] = inputs["upgradePolicy"]
        logs = [
            t
            for group in cluster["logging"]["clusterLogging"]
            if group["enabled"]
            for t in group["types"]
        ]
        if logs or "enabledClusterLogTypes" in inputs:
            read_inputs["enabledClusterLogTypes"] = sorted(logs)
        state = {
            **read_inputs,
            **prior_values(inputs, "region", "bootstrapSelfManagedAddons", "defaultAddonsToRemove"),
        }
        return State(state, _outputs(cluster, region_of(session, inputs)))

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        def config(**body: JsonObject | bool) -> None:
            answer = call(session, new, "eks", "UpdateClusterConfig", name=resource_id, **body)
            _finish(session, new, resource_id, answer["update"])

        # In the order of the official provider, which waits for each update: EKS makes one at a
        # time.
        if old.get("version") != new.get("version") and "version" in new:
            version = new["version"]
            answer = call(
                session, new, "eks", "UpdateClusterVersion", name=resource_id, version=version
            )
            _finish(session, new, resource_id, answer["update"])
        mode = (new.get("accessConfig") or {}).get("authenticationMode")
        if mode is not None and mode != (old.get("accessConfig") or {}).get("authenticationMode"):
            config(accessConfig={"authenticationMode": mode})
        if new.get("encryptionConfig") and not old.get("encryptionConfig"):
            encryption = [
                to_api(_CLUSTER, {"encryptionConfig": new["encryptionConfig"]})["encryptionConfig"]
            ]
            answer = call(
                session,
                new,
                "eks",
                "AssociateEncryptionConfig",
                clusterName=resource_id,
                encryptionConfig=encryption,
            )
            _finish(session, new, resource_id, answer["update"])
        logs = (old.get("enabledClusterLogTypes") or [], new.get("enabledClusterLogTypes") or [])
        if sorted(logs[0]) != sorted(logs[1]):
            config(logging=_logging(*logs))
        for name in ("upgradePolicy", "zonalShiftConfig"):
            if old.get(name) != new.get(name) and new.get(name):
                config(**to_api(_CLUSTER, {name: new[name]}))
        if bool(old.get("deletionProtection")) != bool(new.get("deletionProtection")):
            config(deletionProtection=bool(new.get("deletionProtection")))
        for names in (_ENDPOINT, ("subnetIds",), ("securityGroupIds",)):
            part = _vpc_part(old, new, names)
            if part is not None:
                config(resourcesVpcConfig=part)
        cluster = _cluster(session, new, resource_id) or {}
        retag_eks(session, str(cluster.get("arn")), old, new)
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        if _cluster(session, inputs, resource_id) is None:
            return
        retried_while(
            session,
            session.timeout_s,
            lambda e: e.reason == "ResourceInUseException" and "in progress" in e.message,
            lambda: call(session, inputs, "eks", "DeleteCluster", name=resource_id),
        )
        session.show_status("waiting for the cluster to be deleted")
        wait_until(
            session,
            f"EKS Cluster ({resource_id}) delete",
            lambda: True if _cluster(session, inputs, resource_id) is None else None,
        )


def _cluster(session: Session, inputs: Properties, name: str) -> JsonObject | None:
    answer = or_none(session, inputs, "eks", "DescribeCluster", name=name)
    return answer["cluster"] if answer else None


def _settled(session: Session, inputs: Properties, name: str) -> JsonObject | None:
    cluster = _cluster(session, inputs, name)
    if cluster is None:
        raise ProviderError(f"EKS Cluster ({name}) disappeared while it was being created")
    return cluster if cluster["status"] not in ("CREATING", "PENDING", "UPDATING") else None


def _with_unreturned_fields(cluster: JsonObject, inputs: Properties) -> JsonObject:
    """The cluster with what EKS does not tell: the official provider shows what was asked for.

    Source: aws/containers-roadmap #185.
    """
    access = cluster.get("accessConfig") or {}
    admin_permissions = (inputs.get("accessConfig") or {}).get(
        "bootstrapClusterCreatorAdminPermissions", True
    )
    completed = {
        "accessConfig": {**access, "bootstrapClusterCreatorAdminPermissions": admin_permissions}
    }
    encryption = cluster.get("encryptionConfig")
    return {
        **cluster,
        **(completed if access else {}),
        **({"encryptionConfig": encryption[0]} if encryption else {}),
    }


def _vpc_part(old: Properties, new: Properties, names: Sequence[str]) -> JsonObject | None:
    """The request for a change of these members of vpcConfig; None where they are the same."""
    before, after = old.get("vpcConfig") or {}, new.get("vpcConfig") or {}

    def value(config: Mapping[str, Any], name: str) -> Any:
        member = config.get(name)
        if isinstance(member, list):
            return sorted(member)
        return member if member is not None else {"endpointPublicAccess": True}.get(name, False)

    if all(value(before, name) == value(after, name) for name in names):
        return None
    requested = {k: after[k] for k in names if k in after}
    if names is _ENDPOINT:
        requested |= {k: value(after, k) for k in ("endpointPrivateAccess", "endpointPublicAccess")}
    return requested


def _finish(session: Session, inputs: Properties, name: str, update: JsonObject) -> None:
    """Waits for an update of the cluster. Raises ProviderError when it failed."""

    def poll() -> JsonObject | None:
        answer = call(session, inputs, "eks", "DescribeUpdate", name=name, updateId=update["id"])
        eks_update: JsonObject = answer["update"]
        return eks_update if eks_update["status"] != "InProgress" else None

    done = wait_until(session, f"EKS Cluster ({name}) update {update['id']}", poll)
    if done["status"] != "Successful":
        errors = "; ".join(f"{e['errorCode']}: {e['errorMessage']}" for e in done["errors"])
        raise ProviderError(
            f"waiting for EKS Cluster ({name}) update ({update['id']}): {done['status']}: {errors}"
        )


def _issues(thing: JsonObject) -> str:
    issues = thing.get("health", {}).get("issues", [])
    return (
        "; ".join(f"{i['code']}: {i['message']}" for i in issues) or "EKS reported no health issue"
    )


def _logging(old: list[str], new: list[str]) -> JsonObject:
    off = [t for t in old if t not in new]
    groups = [{"types": new, "enabled": True}] if new else []
    return {"clusterLogging": [*groups, *([{"types": off, "enabled": False}] if off else [])]}


def _outputs(cluster: JsonObject, region: str) -> Properties:
    """cluster: as `_with_unreturned_fields` gives it."""
    outputs = from_api(_CLUSTER, cluster, None)
    network = cluster["resourcesVpcConfig"]
    authority = cluster.get("certificateAuthority") or {"data": ""}
    return {
        **outputs,
        "name": cluster["name"],
        "arn": cluster["arn"],
        "clusterId": "",
        "endpoint": cluster.get("endpoint", ""),
        "certificateAuthority": {"data": authority["data"]},
        "identities": [{"oidcs": [{"issuer": cluster["identity"]["oidc"]["issuer"]}]}],
        "status": cluster["status"],
        "version": cluster["version"],
        "platformVersion": cluster["platformVersion"],
        "createdAt": cluster["createdAt"],
        "vpcConfig": {
            **outputs["vpcConfig"],
            "vpcId": network["vpcId"],
            "clusterSecurityGroupId": network["clusterSecurityGroupId"],
        },
        "tags": cluster.get("tags", {}),
        "tagsAll": cluster.get("tags", {}),
        "region": region,
    }


_ADDON: Fields = {
    "addonVersion": Field(computed=True),
    "serviceAccountRoleArn": Field(),
    "configurationValues": Field(computed=True),
    "tags": Field(),
}
_ADDON_OWN = (
    "addonName",
    "clusterName",
    "podIdentityAssociations",
    "preserve",
    "resolveConflictsOnCreate",
    "resolveConflictsOnUpdate",
    "region",
)


class Addon(Resource):
    kind = "aws:eks/addon:Addon"
    force_new = ("addonName", "clusterName", "region")
    keeps = ("addonVersion", "configurationValues", "region")
    sets = ("podIdentityAssociations",)

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        failures = not_simulated(inputs, {*_ADDON, *_ADDON_OWN})
        values = inputs.get("configurationValues")
        if isinstance(values, str):
            try:
                json.loads(values)
            except ValueError as e:
                # EKS accepts YAML too; programs write JSON, and only that is checked here.
                failures.append(CheckFailure("configurationValues", f"is not JSON: {e}"))
        return failures

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        body = to_api(_ADDON, {k: v for k, v in inputs.items() if k in _ADDON})
        cluster, name = str(inputs["clusterName"]), str(inputs["addonName"])
        conflicts = inputs.get("resolveConflictsOnCreate")
        retried_while(
            session,
            _PROPAGATION_S,
            lambda e: e.reason == "InvalidParameterException" and "does not exist" in e.message,
            lambda: call(
                session,
                inputs,
                "eks",
                "CreateAddon",
                clusterName=cluster,
                addonName=name,
                resolveConflicts=conflicts,
                podIdentityAssociations=inputs.get("podIdentityAssociations") or None,
                **body,
            ),
        )

        def active() -> JsonObject | None:
            addon = call(
                session, inputs, "eks", "DescribeAddon", clusterName=cluster, addonName=name
            )["addon"]
            # An add-on that is DEGRADED, coredns without nodes, is waited for as well.
            return addon if addon["status"] not in ("CREATING", "DEGRADED") else None

        wait_until(session, f"EKS Add-On ({cluster}:{name}) create", active)
        return CreateResult(f"{cluster}:{name}")

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        cluster, _, name = resource_id.partition(":")
        answer = or_none(
            session, inputs, "eks", "DescribeAddon", clusterName=cluster, addonName=name
        )
        if answer is None:
            return None
        addon = answer["addon"]
        read_inputs = from_api(_ADDON, addon, inputs or None) | {
            "addonName": name,
            "clusterName": cluster,
        }
        identities = _identities(session, inputs, addon)
        if identities or inputs.get("podIdentityAssociations") is not None:
            read_inputs["podIdentityAssociations"] = identities
        outputs = {
            **from_api(_ADDON, addon, None),
            "addonName": name,
            "clusterName": cluster,
            "podIdentityAssociations": identities,
            "arn": addon["addonArn"],
            "createdAt": addon["createdAt"],
            "modifiedAt": addon["modifiedAt"],
            "tags": addon.get("tags", {}),
            "tagsAll": addon.get("tags", {}),
            "region": region_of(session, inputs),
        }
        return State(
            {
                **read_inputs,
                **prior_values(inputs, *(k for k in _ADDON_OWN if k not in read_inputs)),
            },
            outputs,
        )

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        cluster, _, name = resource_id.partition(":")
        changed = {k: new[k] for k in _ADDON if k != "tags" and k in new and old.get(k) != new[k]}
        identities = "podIdentityAssociations"
        if (old.get(identities) or []) != (new.get(identities) or []):
            changed[identities] = new.get(identities) or []
        if changed:
            conflicts = new.get("resolveConflictsOnUpdate")
            answer = call(
                session,
                new,
                "eks",
                "UpdateAddon",
                clusterName=cluster,
                addonName=name,
                resolveConflicts=conflicts,
                **changed,
            )
            update = {"name": cluster, "addonName": name, "updateId": answer["update"]["id"]}

            def done() -> JsonObject | None:
                eks_update: JsonObject = call(session, new, "eks", "DescribeUpdate", **update)[
                    "update"
                ]
                return eks_update if eks_update["status"] != "InProgress" else None

            wait_until(session, f"EKS Add-On ({cluster}:{name}) update", done)
        addon = call(session, new, "eks", "DescribeAddon", clusterName=cluster, addonName=name)[
            "addon"
        ]
        retag_eks(session, addon["addonArn"], old, new)
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        cluster, _, name = resource_id.partition(":")
        or_none(
            session,
            inputs,
            "eks",
            "DeleteAddon",
            clusterName=cluster,
            addonName=name,
            preserve=inputs.get("preserve"),
        )

        def gone() -> bool | None:
            answer = or_none(
                session, inputs, "eks", "DescribeAddon", clusterName=cluster, addonName=name
            )
            return None if answer else True

        wait_until(session, f"EKS Add-On ({cluster}:{name}) delete", gone)


def _identities(session: Session, inputs: Properties, addon: JsonObject) -> list[JsonObject]:
    """The add-on's pod identity associations, of which it tells the ARNs only."""
    identities = []
    for arn in addon.get("podIdentityAssociations", []):
        answer = call(
            session,
            inputs,
            "eks",
            "DescribePodIdentityAssociation",
            clusterName=addon["clusterName"],
            associationId=arn.rpartition("/")[2],
        )["association"]
        identities.append(
            {"roleArn": answer["roleArn"], "serviceAccount": answer["serviceAccount"]}
        )
    return identities
