"""The simulated EKS: clusters and add-ons. Node groups stand in eks_groups."""

from __future__ import annotations

import logging
import secrets
import uuid
from typing import Any

from kubeapi import JsonObject
from rehearsal.clouds.aws.eks_checks import VERSIONS, check_cluster, invalid
from rehearsal.clouds.aws.eks_groups import Groups
from rehearsal.clouds.aws.eks_nodes import GROUPS
from rehearsal.clouds.aws.iam import ACCOUNT
from rehearsal.clouds.core.context import CLUSTER_NAMES, Context, Methods, now
from rehearsal.clouds.core.errors import CloudError, aws_error

CLUSTERS, ADDONS, UPDATES = "eks/clusters", "eks/addons", "eks/updates"
_ADDONS = {
    "vpc-cni": "v1.21.1-eksbuild.1",
    "kube-proxy": "v1.36.0-eksbuild.2",
    "coredns": "v1.13.1-eksbuild.1",
    "aws-ebs-csi-driver": "v1.52.0-eksbuild.1",
    "eks-pod-identity-agent": "v1.3.9-eksbuild.3",
    "eks-node-monitoring-agent": "v1.5.1-eksbuild.1",
    "metrics-server": "v0.8.0-eksbuild.3",
}
log = logging.getLogger(__name__)


class Eks:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._groups = Groups(context, self)
        context.tasks.register(
            {
                "eks.CreateCluster": self._finish_create,
                "eks.DeleteCluster": self._finish_delete,
                **self._groups.tasks(),
            }
        )

    def methods(self) -> Methods:
        return {
            "CreateCluster": self._create,
            "DescribeCluster": lambda params, body: {
                "cluster": self.cluster(params, body["name"])["cluster"]
            },
            "ListClusters": self._list,
            "UpdateClusterConfig": self._update_config,
            "DeleteCluster": self._delete,
            "DescribeUpdate": self._describe_update,
            "CreateAddon": self._create_addon,
            "DescribeAddon": lambda params, body: {"addon": self._addon(params, body)},
            "UpdateAddon": self._update_addon,
            "DeleteAddon": self._delete_addon,
            "TagResource": self._tag,
            "UntagResource": self._untag,
            **self._groups.methods(),
        }

    def inventory(self) -> list[JsonObject]:
        found: list[JsonObject] = [
            {"kind": "eks.cluster", "name": key} for key, _ in self._store.items(CLUSTERS)
        ]
        found += [
            {"kind": "eks.nodegroup", "name": key, "nodes": len(g["nodes"])}
            for key, g in self._store.items(GROUPS)
        ]
        return found + [{"kind": "eks.addon", "name": key} for key, _ in self._store.items(ADDONS)]

    def revive(self) -> None:
        """Control planes of active clusters that have ended with the machine, say, are started
        again.
        """
        for key, item in self._store.items(CLUSTERS):
            if item["cluster"]["status"] == "ACTIVE":
                address = self._context.planes.start(item["cluster"]["name"])
                self._set(
                    key, endpoint=address.server, certificateAuthority={"data": address.ca_data}
                )

    # Used by groups as well.

    def cluster(self, params: JsonObject, name: str) -> JsonObject:
        item = self._store.get(CLUSTERS, f"{params['region']}/{name}")
        if item is None:
            raise aws_error(
                "ResourceNotFoundException", f"No cluster found for name: {name}.", code=404
            )
        return item

    def active_cluster(self, params: JsonObject, name: str) -> JsonObject:
        item = self.cluster(params, name)
        if item["cluster"]["status"] != "ACTIVE":
            raise aws_error(
                "ResourceInUseException",
                f"Cluster '{name}' is not in ACTIVE status, it is {item['cluster']['status']}",
                code=409,
            )
        return item

    def record_update(
        self, owner: str, kind: str, parameters: JsonObject, *, status: str
    ) -> JsonObject:
        update = {
            "id": str(uuid.uuid4()),
            "status": status,
            "type": kind,
            "params": [{"type": k, "value": str(v)} for k, v in parameters.items()],
            "createdAt": now(),
            "errors": [],
        }
        self._store.put(UPDATES, f"{owner}/{update['id']}", update)
        return update

    def close_update(self, owner: str, identity: str, error: tuple[str, str] | None) -> None:
        with self._store.lock:
            update = self._store.get(UPDATES, f"{owner}/{identity}")
            if update is None:
                return
            update["status"] = "Failed" if error else "Successful"
            if error:
                update["errors"] = [
                    {"errorCode": error[0], "errorMessage": error[1], "resourceIds": []}
                ]
            self._store.put(UPDATES, f"{owner}/{identity}", update)

    # Methods.

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name, region = body["name"], params["region"]
        key = f"{region}/{name}"
        with self._store.lock:
            if self._store.get(CLUSTERS, key):
                raise aws_error(
                    "ResourceInUseException", f"Cluster already exists with name: {name}", code=409
                )
            vpc = check_cluster(self._context, region, body)
            taken = self._store.get(CLUSTER_NAMES, name)
            if taken and taken["owner"] != key:
                raise aws_error(
                    "ResourceInUseException",
                    f"The rehearsal already has a cluster named {name} ({taken['owner']}); "
                    "one name per environment.",
                    code=409,
                )
            self._store.put(CLUSTER_NAMES, name, {"owner": key})
            cluster = _filled(body, region=region, vpc=vpc["VpcId"])
            self._store.put(CLUSTERS, key, {"cluster": cluster})
        self._context.tasks.begin("eks.CreateCluster", key=key)
        return {"cluster": cluster}

    def _finish_create(self, arguments: JsonObject) -> None:
        key = arguments["key"]
        name = key.partition("/")[2]
        try:
            address = self._context.planes.start(name)
        except Exception as e:
            # Whatever stops a control plane from starting is the simulated region's trouble; who
            # waits for it must be told.
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
        return {
            "clusters": [
                k.partition("/")[2]
                for k, _ in self._store.items(CLUSTERS)
                if k.startswith(f"{params['region']}/")
            ]
        }

    def _update_config(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name = body["name"]
        changes = {k: v for k, v in body.items() if k not in ("name", "clientRequestToken")}
        if len(changes) != 1:
            raise invalid(
                "Only one type of update can be allowed, got "
                f"{', '.join(sorted(changes)) or 'none'}."
            )
        with self._store.lock:
            item = self.active_cluster(params, name)
            for field, value in changes.items():
                current = item["cluster"].get(field)
                item["cluster"][field] = (
                    {**current, **value} if isinstance(current, dict) else value
                )
            self._store.put(CLUSTERS, f"{params['region']}/{name}", item)
        owner = f"{params['region']}/{name}"
        return {"update": self.record_update(owner, "ConfigUpdate", changes, status="Successful")}

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name = body["name"]
        key = f"{params['region']}/{name}"
        with self._store.lock:
            item = self.cluster(params, name)
            if item["cluster"].get("deletionProtection"):
                raise aws_error(
                    "InvalidRequestException",
                    f"Cannot delete cluster {name}: deletion protection is enabled.",
                )
            if any(k.startswith(f"{key}/") for k, _ in self._store.items(GROUPS)):
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
            for owned in [k for k, _ in self._store.items(kind) if k.startswith(f"{key}/")]:
                self._store.delete(kind, owned)
        self._store.delete(CLUSTERS, key)
        self._store.delete(CLUSTER_NAMES, name)

    def _describe_update(self, params: JsonObject, body: JsonObject) -> JsonObject:
        owner = "/".join(
            filter(
                None,
                (
                    params["region"],
                    body["name"],
                    body.get("nodegroupName") or body.get("addonName"),
                ),
            )
        )
        update = self._store.get(UPDATES, f"{owner}/{body['updateId']}")
        if update is None:
            raise aws_error(
                "ResourceNotFoundException", f"No update found for ID: {body['updateId']}", code=404
            )
        return {"update": update}

    def _addon(self, params: JsonObject, body: JsonObject) -> JsonObject:
        found = self._store.get(
            ADDONS, f"{params['region']}/{body['clusterName']}/{body['addonName']}"
        )
        if found is None:
            raise aws_error(
                "ResourceNotFoundException",
                f"No addon: {body['addonName']} found in cluster: {body['clusterName']}",
                code=404,
            )
        return found

    def _create_addon(self, params: JsonObject, body: JsonObject) -> JsonObject:
        cluster, name = body["clusterName"], body["addonName"]
        with self._store.lock:
            self.active_cluster(params, cluster)
            if name not in _ADDONS:
                raise invalid(
                    f"Addon {name} specified is not supported; the rehearsal's cloud knows "
                    f"{', '.join(sorted(_ADDONS))}"
                )
            key = f"{params['region']}/{cluster}/{name}"
            if self._store.get(ADDONS, key):
                raise aws_error("ResourceInUseException", "Addon already exists.", code=409)
            addon: JsonObject = {
                "addonName": name,
                "clusterName": cluster,
                "addonVersion": body.get("addonVersion") or _ADDONS[name],
                "addonArn": f"arn:aws:eks:{params['region']}:{ACCOUNT}:addon/"
                f"{cluster}/{name}/{uuid.uuid4()}",
                "createdAt": now(),
                "modifiedAt": now(),
                "health": {"issues": []},
                "status": "ACTIVE",
                "tags": body.get("tags", {}),
                **{
                    k: body[k]
                    for k in ("configurationValues", "serviceAccountRoleArn")
                    if k in body
                },
            }
            return {"addon": self._store.put(ADDONS, key, addon)}

    def _update_addon(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            addon = self._addon(params, body)
            addon |= {
                k: body[k]
                for k in ("addonVersion", "configurationValues", "serviceAccountRoleArn")
                if k in body
            }
            addon["modifiedAt"] = now()
            key = f"{params['region']}/{body['clusterName']}/{body['addonName']}"
            self._store.put(ADDONS, key, addon)
        return {"update": self.record_update(key, "AddonUpdate", {}, status="Successful")}

    def _delete_addon(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            addon = self._addon(params, body)
            self._store.delete(
                ADDONS, f"{params['region']}/{body['clusterName']}/{body['addonName']}"
            )
        return {"addon": addon | {"status": "DELETING"}}

    def _tag(self, params: JsonObject, body: JsonObject) -> JsonObject:
        return self._retag(params, body["resourceArn"], add=body["tags"], remove=[])

    def _untag(self, params: JsonObject, body: JsonObject) -> JsonObject:
        return self._retag(params, body["resourceArn"], add={}, remove=body["tagKeys"])

    def _retag(
        self, params: JsonObject, arn: str, *, add: JsonObject, remove: list[str]
    ) -> JsonObject:
        with self._store.lock:
            for kind, inner, field in (
                (CLUSTERS, "cluster", "arn"),
                (GROUPS, "nodegroup", "nodegroupArn"),
                (ADDONS, None, "addonArn"),
            ):
                for key, item in self._store.items(kind):
                    thing = item[inner] if inner else item
                    if thing[field] == arn:
                        thing["tags"] = {
                            k: v
                            for k, v in (thing.get("tags", {}) | add).items()
                            if k not in remove
                        }
                        self._store.put(kind, key, item)
                        return {}
        raise aws_error("NotFoundException", f"The resource {arn} does not exist.", code=404)


def _filled(body: JsonObject, *, region: str, vpc: str) -> JsonObject:
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
                "issuer": f"https://oidc.eks.{region}.amazonaws.com/id/{secrets.token_hex(16).upper()}"
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


__all__ = ["ADDONS", "CLUSTERS", "CloudError", "Eks"]
