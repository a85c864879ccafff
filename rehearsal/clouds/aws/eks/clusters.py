"""EKS clusters. Their control planes are real; the rest of a cluster is a record."""

from __future__ import annotations

import logging
import secrets
from typing import Any

from kubeapi import JsonObject
from rehearsal.clouds.aws.eks.checks import VERSIONS, check_cluster, invalid
from rehearsal.clouds.aws.eks.updates import Updates
from rehearsal.clouds.aws.errors import aws_error
from rehearsal.clouds.aws.iam import ACCOUNT
from rehearsal.clouds.aws.state import ADDONS, CLUSTERS, NODE_GROUPS, UPDATES, ClusterRecord
from rehearsal.clouds.core import cluster_names
from rehearsal.clouds.core.context import Context, Methods, now
from rehearsal.clouds.core.tasks import Task

log = logging.getLogger(__name__)


class Clusters:
    def __init__(self, context: Context, updates: Updates) -> None:
        self._context = context
        self._store = context.store
        self._updates = updates

    def methods(self) -> Methods:
        return {
            "CreateCluster": self._create,
            "DescribeCluster": lambda params, body: {
                "cluster": self.find(params, body["name"])["cluster"]
            },
            "ListClusters": self._list,
            "UpdateClusterConfig": self._update_config,
            "DeleteCluster": self._delete,
        }

    def tasks(self) -> dict[str, Task]:
        return {
            "eks.CreateCluster": self._finish_create,
            "eks.DeleteCluster": self._finish_delete,
        }

    def restart_control_planes(self) -> None:
        """For active clusters whose processes have ended, for example with the machine."""
        for key, item in self._store.items(CLUSTERS):
            if item["cluster"]["status"] == "ACTIVE":
                address = self._context.planes.start(item["cluster"]["name"])
                self._set(
                    key, endpoint=address.server, certificateAuthority={"data": address.ca_data}
                )

    def find(self, params: JsonObject, name: str) -> ClusterRecord:
        """Raises CloudError when the region has no such cluster."""
        item = self._store.get(CLUSTERS, f"{params['region']}/{name}")
        if item is None:
            raise aws_error(
                "ResourceNotFoundException", f"No cluster found for name: {name}.", code=404
            )
        return item

    def active(self, params: JsonObject, name: str) -> ClusterRecord:
        """Raises CloudError when the cluster is in another status, too."""
        item = self.find(params, name)
        if item["cluster"]["status"] != "ACTIVE":
            raise aws_error(
                "ResourceInUseException",
                f"Cluster '{name}' is not in ACTIVE status, it is {item['cluster']['status']}",
                code=409,
            )
        return item

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name, region = body["name"], params["region"]
        key = f"{region}/{name}"
        with self._store.lock:
            if self._store.get(CLUSTERS, key):
                raise aws_error(
                    "ResourceInUseException", f"Cluster already exists with name: {name}", code=409
                )
            vpc = check_cluster(self._context, region, body)
            try:
                cluster_names.claim(self._store, name, owner=key)
            except cluster_names.NameTaken as e:
                raise aws_error("ResourceInUseException", str(e), code=409) from None
            cluster = _filled(body, region=region, vpc=vpc)
            self._store.put(CLUSTERS, key, ClusterRecord(cluster=cluster))
        self._context.tasks.begin("eks.CreateCluster", key=key)
        return {"cluster": cluster}

    def _finish_create(self, arguments: JsonObject) -> None:
        key = arguments["key"]
        name = key.partition("/")[2]
        try:
            address = self._context.planes.start(name)
        except Exception as e:
            # Whatever the reason is, the caller that waits for the cluster must see it.
            log.exception("cluster %s", name)
            issue = {
                "code": "InternalFailure",
                "message": f"the rehearsal's control plane did not start: {type(e).__name__}: {e}",
            }
            self._set(key, status="FAILED", health={"issues": [issue]})
            return
        self._set(
            key,
            status="ACTIVE",
            endpoint=address.server,
            certificateAuthority={"data": address.ca_data},
        )

    def _set(self, key: str, **fields: Any) -> None:
        with self._store.lock:
            item = self._store.get(CLUSTERS, key)
            if item is not None:
                item["cluster"] |= fields
                self._store.put(CLUSTERS, key, item)

    def _list(self, params: JsonObject, body: JsonObject) -> JsonObject:
        found = self._store.items(CLUSTERS, prefix=f"{params['region']}/")
        return {"clusters": [key.partition("/")[2] for key, _ in found]}

    def _update_config(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name = body["name"]
        key = f"{params['region']}/{name}"
        changes = {k: v for k, v in body.items() if k not in ("name", "clientRequestToken")}
        if len(changes) != 1:
            raise invalid(
                "Only one type of update can be allowed, got "
                f"{', '.join(sorted(changes)) or 'none'}."
            )
        with self._store.lock:
            item = self.active(params, name)
            for field, value in changes.items():
                current = item["cluster"].get(field)
                item["cluster"][field] = (
                    {**current, **value} if isinstance(current, dict) else value
                )
            self._store.put(CLUSTERS, key, item)
        return {"update": self._updates.record(key, "ConfigUpdate", {}, status="Successful")}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name = body["name"]
        key = f"{params['region']}/{name}"
        with self._store.lock:
            item = self.find(params, name)
            if item["cluster"].get("deletionProtection"):
                raise aws_error(
                    "InvalidRequestException",
                    f"Cannot delete cluster {name}: deletion protection is enabled.",
                )
            if self._store.values(NODE_GROUPS, prefix=f"{key}/"):
                raise aws_error(
                    "ResourceInUseException", "Cluster has nodegroups attached", code=409
                )
            item["cluster"]["status"] = "DELETING"
            self._store.put(CLUSTERS, key, item)
        self._context.tasks.begin("eks.DeleteCluster", key=key)
        return {"cluster": item["cluster"]}

    def _finish_delete(self, arguments: JsonObject) -> None:
        key = arguments["key"]
        name = key.partition("/")[2]
        self._context.planes.remove(name)
        for kind in (ADDONS, UPDATES):
            for owned, _ in list(self._store.items(kind, prefix=f"{key}/")):
                self._store.delete(kind, owned)
        self._store.delete(CLUSTERS, key)
        cluster_names.release(self._store, name)


def _filled(body: JsonObject, *, region: str, vpc: str) -> JsonObject:
    """The cluster with what EKS fills in."""
    name = body["name"]
    network = body["resourcesVpcConfig"]
    services: JsonObject = {"serviceIpv4Cidr": "10.100.0.0/16", "ipFamily": "ipv4"}
    access = body.get("accessConfig") or {}
    return {
        "name": name,
        "arn": f"arn:aws:eks:{region}:{ACCOUNT}:cluster/{name}",
        "createdAt": now(),
        "version": body.get("version") or VERSIONS[-1],
        "platformVersion": "eks.4",
        "roleArn": body["roleArn"],
        "resourcesVpcConfig": {
            "subnetIds": network["subnetIds"],
            "securityGroupIds": network.get("securityGroupIds", []),
            "clusterSecurityGroupId": f"sg-0{secrets.token_hex(8)}",
            "vpcId": vpc,
            "endpointPublicAccess": network.get("endpointPublicAccess", True),
            "endpointPrivateAccess": network.get("endpointPrivateAccess", False),
            "publicAccessCidrs": network.get("publicAccessCidrs", ["0.0.0.0/0"]),
        },
        "kubernetesNetworkConfig": services | (body.get("kubernetesNetworkConfig") or {}),
        "logging": body.get("logging") or {"clusterLogging": [{"types": [], "enabled": False}]},
        "identity": {
            "oidc": {
                "issuer": f"https://oidc.eks.{region}.amazonaws.com/id/"
                f"{secrets.token_hex(16).upper()}"
            }
        },
        "status": "CREATING",
        "accessConfig": {
            "authenticationMode": access.get("authenticationMode", "CONFIG_MAP"),
            "bootstrapClusterCreatorAdminPermissions": access.get(
                "bootstrapClusterCreatorAdminPermissions", True
            ),
        },
        "upgradePolicy": body.get("upgradePolicy") or {"supportType": "EXTENDED"},
        "deletionProtection": body.get("deletionProtection", False),
        "tags": body.get("tags", {}),
        "health": {"issues": []},
    }
