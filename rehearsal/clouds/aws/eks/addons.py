"""EKS add-ons: recorded and ACTIVE at once; nothing runs in the cluster for them."""

from __future__ import annotations

import uuid

from kubeapi import JsonObject
from rehearsal.clouds.aws.eks.checks import invalid
from rehearsal.clouds.aws.eks.clusters import Clusters
from rehearsal.clouds.aws.eks.updates import Updates
from rehearsal.clouds.aws.errors import aws_error
from rehearsal.clouds.aws.iam import ACCOUNT
from rehearsal.clouds.aws.state import ADDONS
from rehearsal.clouds.core.context import Context, Methods, now

_DEFAULT_VERSIONS = {
    "vpc-cni": "v1.21.1-eksbuild.1",
    "kube-proxy": "v1.36.0-eksbuild.2",
    "coredns": "v1.13.1-eksbuild.1",
    "aws-ebs-csi-driver": "v1.52.0-eksbuild.1",
    "eks-pod-identity-agent": "v1.3.9-eksbuild.3",
    "eks-node-monitoring-agent": "v1.5.1-eksbuild.1",
    "metrics-server": "v0.8.0-eksbuild.3",
}


class Addons:
    def __init__(self, context: Context, clusters: Clusters, updates: Updates) -> None:
        self._store = context.store
        self._clusters = clusters
        self._updates = updates

    def methods(self) -> Methods:
        return {
            "CreateAddon": self._create,
            "DescribeAddon": lambda params, body: {"addon": self._addon(params, body)},
            "UpdateAddon": self._update,
            "DeleteAddon": self._delete,
        }

    def _addon(self, params: JsonObject, body: JsonObject) -> JsonObject:
        found = self._store.get(ADDONS, _key(params, body))
        if found is None:
            raise aws_error(
                "ResourceNotFoundException",
                f"No addon: {body['addonName']} found in cluster: {body['clusterName']}",
                code=404,
            )
        return found

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        cluster, name = body["clusterName"], body["addonName"]
        key = _key(params, body)
        with self._store.lock:
            self._clusters.active(params, cluster)
            if name not in _DEFAULT_VERSIONS:
                raise invalid(
                    f"Addon {name} specified is not supported; the rehearsal's cloud knows "
                    f"{', '.join(sorted(_DEFAULT_VERSIONS))}"
                )
            if self._store.get(ADDONS, key):
                raise aws_error("ResourceInUseException", "Addon already exists.", code=409)
            optional = ("configurationValues", "serviceAccountRoleArn")
            addon: JsonObject = {
                "addonName": name,
                "clusterName": cluster,
                "addonVersion": body.get("addonVersion") or _DEFAULT_VERSIONS[name],
                "addonArn": f"arn:aws:eks:{params['region']}:{ACCOUNT}:addon/"
                f"{cluster}/{name}/{uuid.uuid4()}",
                "createdAt": now(),
                "modifiedAt": now(),
                "health": {"issues": []},
                "status": "ACTIVE",
                "tags": body.get("tags", {}),
                **{k: body[k] for k in optional if k in body},
            }
            return {"addon": self._store.put(ADDONS, key, addon)}

    def _update(self, params: JsonObject, body: JsonObject) -> JsonObject:
        changeable = ("addonVersion", "configurationValues", "serviceAccountRoleArn")
        key = _key(params, body)
        with self._store.lock:
            addon = self._addon(params, body)
            addon |= {k: body[k] for k in changeable if k in body}
            addon["modifiedAt"] = now()
            self._store.put(ADDONS, key, addon)
        return {"update": self._updates.record(key, "AddonUpdate", {}, status="Successful")}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            addon = self._addon(params, body)
            self._store.delete(ADDONS, _key(params, body))
        return {"addon": addon | {"status": "DELETING"}}


def _key(params: JsonObject, body: JsonObject) -> str:
    return f"{params['region']}/{body['clusterName']}/{body['addonName']}"
