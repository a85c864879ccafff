"""aws:eks Cluster and Addon.

Source of force_new: hashicorp/terraform-provider-aws, internal/service/eks/cluster.go, addon.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from kubeapi import JsonObject
from rehearsal.plugins.bridge.fields import Field, Fields, from_api, same, to_api
from rehearsal.plugins.bridge.resources import (
    Autoname,
    CreateResult,
    Resource,
    Session,
    State,
    kept,
    not_simulated,
)
from rehearsal.plugins.bridge.waiting import wait_until
from rehearsal.plugins.engine.plugin import CheckFailure, ProviderError
from rehearsal.plugins.engine.properties import Properties
from rehearsal.plugins.providers.aws.calls import (
    call,
    or_none,
    region_of,
    retag_eks,
    seen_tags,
)

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
    "kubernetesNetworkConfig": Field(
        of=same("serviceIpv4Cidr", "ipFamily", computed=True), computed=True
    ),
    "upgradePolicy": Field(of=same("supportType"), computed=True),
    "deletionProtection": Field(default=False),
    "tags": Field(),
}
_OWN = (
    "name",
    "bootstrapSelfManagedAddons",
    "enabledClusterLogTypes",
    "region",
    "defaultAddonsToRemove",
)
# One call of UpdateClusterConfig each: EKS takes one kind of change per call.
_UPDATES = (
    "vpcConfig",
    "accessConfig",
    "upgradePolicy",
    "deletionProtection",
    "enabledClusterLogTypes",
)


class Cluster(Resource):
    kind = "aws:eks/cluster:Cluster"
    force_new = (
        "name",
        "roleArn",
        "region",
        "kubernetesNetworkConfig",
        "bootstrapSelfManagedAddons",
        "encryptionConfig",
        "accessConfig.bootstrapClusterCreatorAdminPermissions",
        "outpostConfig",
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
        return not_simulated(inputs, {*_CLUSTER, *_OWN})

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        name = str(inputs["name"])
        body = to_api(_CLUSTER, {k: v for k, v in inputs.items() if k not in _OWN})
        if inputs.get("enabledClusterLogTypes"):
            body["logging"] = {
                "clusterLogging": [{"types": inputs["enabledClusterLogTypes"], "enabled": True}]
            }
        body["bootstrapSelfManagedAddons"] = inputs.get("bootstrapSelfManagedAddons")
        call(session, inputs, "eks", "CreateCluster", name=name, **body)
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
        imported = not inputs
        seen = from_api(_CLUSTER, cluster, None if imported else inputs) | {"name": cluster["name"]}
        if "tags" not in seen:
            seen |= seen_tags(cluster.get("tags", {}), inputs)
        if "upgradePolicy" in inputs and "upgradePolicy" not in seen:
            seen["upgradePolicy"] = inputs["upgradePolicy"]
        logs = [
            t
            for group in cluster["logging"]["clusterLogging"]
            if group["enabled"]
            for t in group["types"]
        ]
        if logs or "enabledClusterLogTypes" in inputs:
            seen["enabledClusterLogTypes"] = sorted(logs)
        state = {
            **seen,
            **kept(inputs, "region", "bootstrapSelfManagedAddons", "defaultAddonsToRemove"),
        }
        return State(state, _outputs(cluster, region_of(session, inputs)))

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        if old.get("version") != new.get("version") and "version" in new:
            raise ProviderError(
                "version: the rehearsal does not simulate upgrades: its control planes run one "
                "version of Kubernetes"
            )
        for name in _UPDATES:
            if old.get(name) == new.get(name):
                continue
            if name == "enabledClusterLogTypes":
                body: JsonObject = {"logging": _logging(old.get(name) or [], new.get(name) or [])}
            elif name == "deletionProtection":
                body = {name: bool(new.get(name))}
            else:
                body = to_api(_CLUSTER, {name: new[name]}) if name in new else {}
            if body:
                call(session, new, "eks", "UpdateClusterConfig", name=resource_id, **body)
        cluster = _cluster(session, new, resource_id) or {}
        retag_eks(session, str(cluster.get("arn")), old, new)
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        if _cluster(session, inputs, resource_id) is None:
            return
        call(session, inputs, "eks", "DeleteCluster", name=resource_id)
        session.show_status("waiting for the cluster to be deleted")
        wait_until(
            session,
            f"EKS Cluster ({resource_id}) delete",
            lambda: True if _cluster(session, inputs, resource_id) is None else None,
        )


def _cluster(session: Session, inputs: Properties, name: str) -> JsonObject | None:
    found = or_none(session, inputs, "eks", "DescribeCluster", name=name)
    return found["cluster"] if found else None


def _settled(session: Session, inputs: Properties, name: str) -> JsonObject | None:
    cluster = _cluster(session, inputs, name)
    if cluster is None:
        raise ProviderError(f"EKS Cluster ({name}) disappeared while it was being created")
    return cluster if cluster["status"] not in ("CREATING", "PENDING", "UPDATING") else None


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
    shown = from_api(_CLUSTER, cluster, None)
    network = cluster["resourcesVpcConfig"]
    authority = cluster.get("certificateAuthority") or {"data": ""}
    return {
        **shown,
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
            **shown["vpcConfig"],
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
    "preserve",
    "resolveConflictsOnCreate",
    "resolveConflictsOnUpdate",
    "region",
)


class Addon(Resource):
    kind = "aws:eks/addon:Addon"
    force_new = ("addonName", "clusterName", "region")
    keeps = ("addonVersion", "configurationValues", "region")

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
        call(
            session,
            inputs,
            "eks",
            "CreateAddon",
            clusterName=cluster,
            addonName=name,
            resolveConflicts=conflicts,
            **body,
        )

        def active() -> JsonObject | None:
            addon = call(
                session, inputs, "eks", "DescribeAddon", clusterName=cluster, addonName=name
            )["addon"]
            return addon if addon["status"] != "CREATING" else None

        wait_until(session, f"EKS Add-On ({cluster}:{name}) create", active)
        return CreateResult(f"{cluster}:{name}")

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        cluster, _, name = resource_id.partition(":")
        found = or_none(
            session, inputs, "eks", "DescribeAddon", clusterName=cluster, addonName=name
        )
        if found is None:
            return None
        addon = found["addon"]
        seen = from_api(_ADDON, addon, inputs or None) | {"addonName": name, "clusterName": cluster}
        outputs = {
            **from_api(_ADDON, addon, None),
            "addonName": name,
            "clusterName": cluster,
            "arn": addon["addonArn"],
            "createdAt": addon["createdAt"],
            "modifiedAt": addon["modifiedAt"],
            "tags": addon.get("tags", {}),
            "tagsAll": addon.get("tags", {}),
            "region": region_of(session, inputs),
        }
        return State(
            {
                **seen,
                **kept(inputs, *(k for k in _ADDON_OWN if k not in ("addonName", "clusterName"))),
            },
            outputs,
        )

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        cluster, _, name = resource_id.partition(":")
        changed = {k: new[k] for k in _ADDON if k != "tags" and k in new and old.get(k) != new[k]}
        if changed:
            conflicts = new.get("resolveConflictsOnUpdate")
            call(
                session,
                new,
                "eks",
                "UpdateAddon",
                clusterName=cluster,
                addonName=name,
                resolveConflicts=conflicts,
                **changed,
            )
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
