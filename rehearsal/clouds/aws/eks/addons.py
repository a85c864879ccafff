"""EKS add-ons: records that change in the background; nothing runs in the cluster for them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.eks.checks import VERSIONS as KUBERNETES_VERSIONS
from slicewright.rehearsal.clouds.aws.eks.checks import invalid
from slicewright.rehearsal.clouds.aws.eks.clusters import Clusters
from slicewright.rehearsal.clouds.aws.eks.pod_identities import PodIdentities
from slicewright.rehearsal.clouds.aws.eks.updates import Updates, in_use
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.state import ADDONS, NODE_GROUPS
from slicewright.rehearsal.clouds.core.context import Context, Methods, now
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.tasks import Task

ADDON_VERSIONS: Mapping[str, Sequence[str]] = {
    "vpc-cni": ("v1.21.1-eksbuild.1", "v1.20.4-eksbuild.2"),
    "kube-proxy": (
        "v1.36.0-eksbuild.2",
        "v1.35.0-eksbuild.2",
        "v1.34.1-eksbuild.2",
        "v1.33.5-eksbuild.2",
        "v1.32.9-eksbuild.2",
        "v1.31.13-eksbuild.2",
    ),
    "coredns": ("v1.13.1-eksbuild.1", "v1.12.4-eksbuild.1"),
    "aws-ebs-csi-driver": ("v1.52.0-eksbuild.1",),
    "eks-pod-identity-agent": ("v1.3.9-eksbuild.3", "v1.3.8-eksbuild.2"),
    "eks-node-monitoring-agent": ("v1.5.1-eksbuild.1", "v1.4.2-eksbuild.1"),
    "metrics-server": ("v0.8.0-eksbuild.3",),
}
"""Of each add-on; the first is the default."""

_DEPLOYMENTS = frozenset({"aws-ebs-csi-driver", "coredns", "metrics-server"})
_AGENT = "eks-pod-identity-agent"
_CHANGEABLE = ("addonVersion", "configurationValues", "serviceAccountRoleArn")


class Addons:
    def __init__(
        self, context: Context, clusters: Clusters, updates: Updates, identities: PodIdentities
    ) -> None:
        self._store = context.store
        self._tasks = context.tasks
        self._clusters = clusters
        self._updates = updates
        self._identities = identities

    def methods(self) -> Methods:
        return {
            "CreateAddon": self._create,
            "DescribeAddon": self._describe,
            "DescribeAddonVersions": _versions,
            "ListAddons": self._list,
            "UpdateAddon": self._update,
            "DeleteAddon": self._delete,
        }

    def tasks(self) -> dict[str, Task]:
        return {
            "eks.CreateAddon": self._finish_create,
            "eks.UpdateAddon": self._finish_update,
            "eks.DeleteAddon": self._finish_delete,
        }

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """An add-on whose pods find no node, or no credentials of IAM, is created, and DEGRADED
        until they do.

        Source: EKS API reference, AddonIssue (InsufficientNumberOfReplicas).
        """
        addon = self._addon(params, body)
        if addon["status"] == "ACTIVE" and (
            self._lacks_nodes(params, addon) or self._lacks_credentials(params, addon)
        ):
            issue = {
                "code": "InsufficientNumberOfReplicas",
                "message": "The add-on is unhealthy because it doesn't have the desired number of "
                "replicas.",
                "resourceIds": [],
            }
            addon = addon | {"status": "DEGRADED", "health": {"issues": [issue]}}
        return {"addon": addon}

    def _lacks_nodes(self, params: JsonObject, addon: JsonObject) -> bool:
        """Of the add-ons, those that are Deployments need a node that takes ordinary pods."""
        if addon["addonName"] not in _DEPLOYMENTS:
            return False
        groups = self._store.values(
            NODE_GROUPS, prefix=f"{params['region']}/{addon['clusterName']}/"
        )
        hard = {"NO_SCHEDULE", "NO_EXECUTE"}
        return not any(
            group["nodes"] and not hard & {t["effect"] for t in group["nodegroup"]["taints"]}
            for group in groups
        )

    def _lacks_credentials(self, params: JsonObject, addon: JsonObject) -> bool:
        """The EBS driver gets none from the nodes, whose metadata service is one hop away.

        Source: kubernetes-sigs/aws-ebs-csi-driver, docs/install.md.
        """
        if addon["addonName"] != "aws-ebs-csi-driver" or addon.get("serviceAccountRoleArn"):
            return False
        agent = self._store.get(ADDONS, f"{params['region']}/{addon['clusterName']}/{_AGENT}")
        return agent is None or not addon.get("podIdentityAssociations")

    def _list(self, params: JsonObject, body: JsonObject) -> JsonObject:
        self._clusters.find(params, body["clusterName"])
        prefix = f"{params['region']}/{body['clusterName']}/"
        return {"addons": [a["addonName"] for a in self._store.values(ADDONS, prefix=prefix)]}

    def _addon(self, params: JsonObject, body: JsonObject) -> JsonObject:
        addon = self._store.get(ADDONS, _key(params, body))
        if addon is None:
            raise aws_error(
                "ResourceNotFoundException",
                f"No addon: {body['addonName']} found in cluster: {body['clusterName']}",
                code=404,
            )
        return addon

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        cluster, name = body["clusterName"], body["addonName"]
        key = _key(params, body)
        with self._store.lock:
            self._clusters.active(params, cluster)
            if name not in ADDON_VERSIONS:
                raise invalid(
                    f"Addon {name} specified is not supported; the rehearsal's cloud knows "
                    f"{', '.join(sorted(ADDON_VERSIONS))}"
                )
            _check_version(name, body.get("addonVersion"))
            _check_settings(name, body.get("configurationValues"))
            if self._store.get(ADDONS, key):
                raise in_use("Addon already exists.")
            optional = ("configurationValues", "serviceAccountRoleArn")
            addon: JsonObject = {
                "addonName": name,
                "clusterName": cluster,
                "addonVersion": body.get("addonVersion") or ADDON_VERSIONS[name][0],
                "addonArn": f"arn:aws:eks:{params['region']}:{ACCOUNT}:addon/"
                f"{cluster}/{name}/{uuid.uuid4()}",
                "createdAt": now(),
                "modifiedAt": now(),
                "health": {"issues": []},
                "status": "CREATING",
                "tags": body.get("tags", {}),
                **{k: body[k] for k in optional if k in body},
            }
            identities = body.get("podIdentityAssociations") or []
            arns = self._identities.replace(params, cluster, addon["addonArn"], identities)
            addon |= {"podIdentityAssociations": arns} if arns else {}
            self._store.put(ADDONS, key, addon)
        self._tasks.begin("eks.CreateAddon", key=key)
        return {"addon": addon}

    def _finish_create(self, arguments: JsonObject) -> None:
        self._set(arguments["key"], "CREATING", status="ACTIVE")

    def _update(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = _key(params, body)
        with self._store.lock:
            addon = self._addon(params, body)
            if addon["status"] != "ACTIVE":
                raise in_use(
                    f"Addon {body['addonName']} cannot be updated as it is currently in "
                    f"{addon['status']} state"
                )
            _check_version(body["addonName"], body.get("addonVersion"))
            _check_settings(body["addonName"], body.get("configurationValues"))
            fields: JsonObject = {k: body[k] for k in _CHANGEABLE if k in body}
            if "podIdentityAssociations" in body:
                identities = body["podIdentityAssociations"] or []
                fields["podIdentityAssociations"] = self._identities.replace(
                    params, body["clusterName"], addon["addonArn"], identities
                )
            parameters = {
                k[:1].upper() + k[1:]: body[k]
                for k in (*_CHANGEABLE, "resolveConflicts")
                if k in body
            }
            update = self._updates.begin(key, "AddonUpdate", parameters)
            self._set(key, "ACTIVE", status="UPDATING")
        self._tasks.begin("eks.UpdateAddon", key=key, update=update["id"], fields=fields)
        return {"update": update}

    def _finish_update(self, arguments: JsonObject) -> None:
        key = arguments["key"]
        with self._store.lock:
            self._updates.close(key, arguments["update"], None)
            self._set(key, "UPDATING", **arguments["fields"], status="ACTIVE", modifiedAt=now())

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = _key(params, body)
        with self._store.lock:
            addon = self._addon(params, body)
            if addon["status"] == "UPDATING":
                raise in_use(f"Addon {body['addonName']} is being updated")
            self._set(key, addon["status"], status="DELETING")
        self._tasks.begin("eks.DeleteAddon", key=key)
        return {"addon": addon | {"status": "DELETING"}}

    def _finish_delete(self, arguments: JsonObject) -> None:
        region, cluster, _ = arguments["key"].split("/")
        with self._store.lock:
            addon = self._store.get(ADDONS, arguments["key"])
            if addon is not None:
                self._identities.end(region, cluster, addon["addonArn"])
            self._store.delete(ADDONS, arguments["key"])

    def _set(self, key: str, status_before: str, **fields: Any) -> None:
        """Changes an add-on that still has this status."""
        with self._store.lock:
            addon = self._store.get(ADDONS, key)
            if addon is not None and addon["status"] == status_before:
                self._store.put(ADDONS, key, addon | fields)


def _versions(params: JsonObject, body: JsonObject) -> JsonObject:
    """All at once. kube-proxy is for its own Kubernetes; of the others each version is for all.

    An add-on that EKS does not have is none of the answer.
    """
    requested, kubernetes = body.get("addonName"), body.get("kubernetesVersion")
    descriptions = [
        {"addonName": name, "type": "networking", "addonVersions": fitting}
        for name in ADDON_VERSIONS
        if requested in (None, name)
        and (
            fitting := [
                description
                for v in ADDON_VERSIONS[name]
                if (description := _describe_version(name, v, kubernetes))
            ]
        )
    ]
    return {"addons": descriptions}


def _describe_version(name: str, version: str, kubernetes: str | None) -> JsonObject | None:
    """One version of an add-on; None where it is not for this Kubernetes."""
    minor = ".".join(version.removeprefix("v").split(".")[:2])
    fits = [v for v in KUBERNETES_VERSIONS if name != "kube-proxy" or v == minor]
    fits = [v for v in fits if kubernetes in (None, v)]
    if not fits:
        return None
    default = name == "kube-proxy" or version == ADDON_VERSIONS[name][0]
    return {
        "addonVersion": version,
        "architecture": ["amd64", "arm64"],
        "compatibilities": [{"clusterVersion": v, "defaultVersion": default} for v in fits],
    }


def _check_version(name: str, version: str | None) -> None:
    """Source: hashicorp/terraform-provider-aws #33385."""
    if version and version not in ADDON_VERSIONS[name]:
        raise invalid(
            f"Addon version specified is not supported; the rehearsal's cloud knows {name} "
            f"{', '.join(ADDON_VERSIONS[name])}"
        )


def _check_settings(name: str, text: str | None) -> None:
    """EKS has a JSON Schema for each version of an add-on; checked is only that part of them which
    decides whether NetworkPolicies are enforced.

    Sources: cookpad/terraform-aws-eks #331, aws/containers-roadmap #2216 (the messages);
    aws/amazon-vpc-cni-k8s, charts/aws-vpc-cni/values.yaml (the keys).
    """
    if text is None:
        return
    try:
        settings = yaml.safe_load(text)
    except yaml.YAMLError:
        settings = text
    if not isinstance(settings, dict):
        raise _not_of_the_schema(f"$: {_kind(settings)} found, object expected")
    policy = settings.get("enableNetworkPolicy", "")
    if name == "vpc-cni" and not isinstance(policy, str):
        raise _not_of_the_schema(f"$.enableNetworkPolicy: {_kind(policy)} found, string expected")
    if name != "vpc-cni" and "enableNetworkPolicy" in settings:
        raise _not_of_the_schema(
            "$.enableNetworkPolicy: is not defined in the schema and the schema does not allow "
            "additional properties"
        )


def _not_of_the_schema(error: str) -> CloudError:
    return invalid(
        "ConfigurationValue provided in request is not supported: Json schema validation failed "
        f"with error: [{error}]"
    )


def _kind(value: object) -> str:
    """JSON Schema's word for it."""
    names = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"))
    if value is None:
        return "null"
    kinds = (word for kind, word in names if isinstance(value, kind))
    return next(kinds, "array" if isinstance(value, list) else "object")


def _key(params: JsonObject, body: JsonObject) -> str:
    return f"{params['region']}/{body['clusterName']}/{body['addonName']}"
