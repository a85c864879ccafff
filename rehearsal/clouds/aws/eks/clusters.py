"""EKS clusters. Their control planes are real; the rest of a cluster is a record."""

from __future__ import annotations

import ipaddress
import logging
import secrets
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.ec2.network_interfaces import add_security_group
from slicewright.rehearsal.clouds.aws.eks.checks import VERSIONS, refused
from slicewright.rehearsal.clouds.aws.eks.cluster_checks import (
    Change,
    check_cluster,
    check_encryption,
    check_version_change,
    config_change,
    enabled_logs,
    logging_of,
    vpc_range,
    zones_of,
)
from slicewright.rehearsal.clouds.aws.eks.creator import add_creator, has_no_access_entries
from slicewright.rehearsal.clouds.aws.eks.leftovers import keep_logs, leave_of_cluster
from slicewright.rehearsal.clouds.aws.eks.updates import Updates, in_use
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.state import (
    ACCESS_ENTRIES,
    ADDONS,
    CLUSTERS,
    NODE_GROUPS,
    POD_IDENTITIES,
    UPDATES,
    ClusterRecord,
)
from slicewright.rehearsal.clouds.core import cluster_names
from slicewright.rehearsal.clouds.core.context import Context, Methods, now_precisely
from slicewright.rehearsal.clouds.core.control_planes import Address, Login
from slicewright.rehearsal.clouds.core.locks import Locks
from slicewright.rehearsal.clouds.core.tasks import Task

log = logging.getLogger(__name__)


class Clusters:
    def __init__(self, context: Context, updates: Updates) -> None:
        self._context = context
        self._store = context.store
        self._updates = updates
        self._planes = Locks()
        """Each held while the control plane starts or ends: a cluster may be deleted while it is
        being created.
        """

    def methods(self) -> Methods:
        return {
            "CreateCluster": self._create,
            "DescribeCluster": self._describe,
            "DescribeClusterVersions": _versions,
            "ListClusters": self._list,
            "UpdateClusterConfig": self._update_config,
            "UpdateClusterVersion": self._update_version,
            "AssociateEncryptionConfig": self._encrypt,
            "DeleteCluster": self._delete,
        }

    def tasks(self) -> dict[str, Task]:
        return {
            "eks.CreateCluster": self._finish_create,
            "eks.UpdateCluster": self._finish_update,
            "eks.DeleteCluster": self._finish_delete,
        }

    def restart_control_planes(self) -> None:
        """For active clusters whose processes have ended, for example with the machine."""
        for key, item in self._store.items(CLUSTERS):
            if item["cluster"]["status"] in ("ACTIVE", "UPDATING"):
                address = self._start(key)
                self._set(
                    key, endpoint=address.server, certificateAuthority={"data": address.ca_data}
                )

    def _start(self, key: str) -> Address:
        region, _, name = key.partition("/")
        options = ("--cluster-name", name, "--region", region, "--output", "json")
        return self._context.planes.start(
            name, login=Login(command="aws", arguments=("eks", "get-token", *options))
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
        """Raises CloudError when the cluster is in another status, too.

        Source: eksctl-io/eksctl #2244.
        """
        item = self.find(params, name)
        if item["cluster"]["status"] != "ACTIVE":
            raise refused(f"Cluster '{name}' is not in ACTIVE status")
        return item

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        # With the lock: never between an update's end and its effect.
        with self._store.lock:
            return {"cluster": self.find(params, body["name"])["cluster"]}

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
            cluster = _filled(body, region=region, vpc=vpc, services=self._services(region, vpc))
            zones = zones_of(self._context, region, cluster["resourcesVpcConfig"]["subnetIds"])
            network = cluster["resourcesVpcConfig"]
            network["clusterSecurityGroupId"] = add_security_group(self._context, region, vpc, name)
            creator = account_of(self._context).caller.principal
            record = ClusterRecord(cluster=cluster, zones=zones, creator=creator)
            self._store.put(CLUSTERS, key, record)
            keep_logs(self._context, region, cluster)
            access = body.get("accessConfig") or {}
            if access.get("bootstrapClusterCreatorAdminPermissions") is not False:
                add_creator(self._context, region, cluster)
        self._context.tasks.begin("eks.CreateCluster", key=key)
        return {"cluster": cluster}

    def _services(self, region: str, vpc: str) -> str:
        """EKS keeps the addresses of Services out of the VPC's range.

        Source: EKS API reference, KubernetesNetworkConfigRequest.
        """
        default = ipaddress.IPv4Network("10.100.0.0/16")
        inside = vpc_range(self._context, region, vpc).subnet_of(
            ipaddress.IPv4Network("10.0.0.0/8")
        )
        return "172.20.0.0/16" if inside else str(default)

    def _finish_create(self, arguments: JsonObject) -> None:
        with self._planes.lock(arguments["key"]):
            self._start_plane(arguments["key"])

    def _start_plane(self, key: str) -> None:
        name = key.partition("/")[2]
        item = self._store.get(CLUSTERS, key)
        if item is None or item["cluster"]["status"] != "CREATING":
            return
        try:
            address = self._start(key)
        except Exception as e:
            # Whatever the reason is, the caller that waits for the cluster must see it.
            log.exception("cluster %s", name)
            issue = {
                "code": "InternalFailure",
                "message": f"the rehearsal's control plane did not start: {type(e).__name__}: {e}",
            }
            self._set(key, status="FAILED", health={"issues": [issue]})
            return
        with self._store.lock:
            item = self._store.get(CLUSTERS, key)
            if item is not None and item["cluster"]["status"] == "CREATING":
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
        clusters = self._store.items(CLUSTERS, prefix=f"{params['region']}/")
        return {"clusters": [key.partition("/")[2] for key, _ in clusters]}

    def _update_config(self, params: JsonObject, body: JsonObject) -> JsonObject:
        requested = {k: v for k, v in body.items() if k not in ("name", "clientRequestToken")}
        with self._store.lock:
            item = self.find(params, body["name"])
            change = config_change(self._context, params["region"], item, requested)
            return self._begin_update(params, item, change)

    def _update_version(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """The simulated control plane goes on running the one version that it has."""
        version = body["version"]
        with self._store.lock:
            item = self.find(params, body["name"])
            check_version_change(item["cluster"], version)
            parameters = {"Version": version, "PlatformVersion": "eks.4"}
            change = Change("VersionUpdate", parameters, {"version": version})
            return self._begin_update(params, item, change)

    def _encrypt(self, params: JsonObject, body: JsonObject) -> JsonObject:
        config = body["encryptionConfig"]
        with self._store.lock:
            item = self.find(params, body["clusterName"])
            if item["cluster"].get("encryptionConfig"):
                raise refused("Encryption is already enabled for this cluster")
            check_encryption(self._context, config, params["region"])
            change = Change(
                "AssociateEncryptionConfig",
                {"EncryptionConfig": config},
                {"encryptionConfig": config},
            )
            return self._begin_update(params, item, change)

    def _begin_update(self, params: JsonObject, item: ClusterRecord, change: Change) -> JsonObject:
        name = item["cluster"]["name"]
        key = f"{params['region']}/{name}"
        self._updates.refuse_second(key, change.kind)
        if item["cluster"]["status"] != "ACTIVE":
            raise in_use(
                f"Cannot {change.kind} because cluster {name} is {item['cluster']['status']}"
            )
        update = self._updates.begin(key, change.kind, change.parameters)
        self._set(key, status="UPDATING")
        self._context.tasks.begin(
            "eks.UpdateCluster", key=key, update=update["id"], fields=change.fields
        )
        return {"update": update}

    def _finish_update(self, arguments: JsonObject) -> None:
        key = arguments["key"]
        with self._store.lock:
            # In this order: a caller that sees the cluster ACTIVE again finds its update closed.
            self._updates.close(key, arguments["update"], None)
            before = self._store.get(CLUSTERS, key)
            self._set(key, **arguments["fields"], status="ACTIVE")
            item = self._store.get(CLUSTERS, key)
            if item is not None and before is not None:
                keep_logs(self._context, key.partition("/")[0], item["cluster"])
                if has_no_access_entries(before["cluster"]):
                    add_creator(self._context, key.partition("/")[0], item["cluster"])

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name = body["name"]
        key = f"{params['region']}/{name}"
        with self._store.lock:
            item = self.find(params, name)
            # EKS user guide, "Protect EKS clusters from accidental deletion": of active clusters.
            if item["cluster"].get("deletionProtection") and item["cluster"]["status"] == "ACTIVE":
                raise aws_error(
                    "InvalidRequestException",
                    f"Cannot delete cluster {name}: deletion protection is enabled.",
                )
            if self._store.values(NODE_GROUPS, prefix=f"{key}/"):
                raise in_use("Cluster has nodegroups attached")
            self._updates.refuse_second(key, "delete")
            item["cluster"]["status"] = "DELETING"
            self._store.put(CLUSTERS, key, item)
        self._context.tasks.begin("eks.DeleteCluster", key=key)
        return {"cluster": item["cluster"]}

    def _finish_delete(self, arguments: JsonObject) -> None:
        with self._planes.lock(arguments["key"]):
            self._delete_all(arguments["key"])

    def _delete_all(self, key: str) -> None:
        name = key.partition("/")[2]
        item = self._store.get(CLUSTERS, key)
        if item is not None:
            api = self._context.planes.nodes(name)
            leave_of_cluster(self._context, key.partition("/")[0], item["cluster"], api)
        self._context.planes.remove(name)
        for kind in (ACCESS_ENTRIES, ADDONS, POD_IDENTITIES, UPDATES):
            for owned, _ in list(self._store.items(kind, prefix=f"{key}/")):
                self._store.delete(kind, owned)
        self._store.delete(CLUSTERS, key)
        cluster_names.release(self._store, name)


_IN_STANDARD_SUPPORT = 4
"""Newest versions: each for 14 months. Source: EKS user guide, Kubernetes version lifecycle."""


def _versions(params: JsonObject, body: JsonObject) -> JsonObject:
    """All at once, without their dates."""
    requested = body.get("clusterVersions") or VERSIONS
    return {
        "clusterVersions": [
            {
                "clusterVersion": version,
                "clusterType": "eks",
                "defaultVersion": version == VERSIONS[-1],
                "versionStatus": "STANDARD_SUPPORT"
                if version in VERSIONS[-_IN_STANDARD_SUPPORT:]
                else "EXTENDED_SUPPORT",
            }
            for version in VERSIONS
            if version in requested
        ]
    }


def _filled(body: JsonObject, *, region: str, vpc: str, services: str) -> JsonObject:
    """The cluster with what EKS fills in."""
    name = body["name"]
    network = body["resourcesVpcConfig"]
    addresses: JsonObject = {
        "serviceIpv4Cidr": services,
        "ipFamily": "ipv4",
        "elasticLoadBalancing": {"enabled": False},
    }
    access = body.get("accessConfig") or {}
    optional = ("encryptionConfig", "zonalShiftConfig")
    return {
        "name": name,
        "arn": f"arn:aws:eks:{region}:{ACCOUNT}:cluster/{name}",
        "createdAt": now_precisely(),
        "version": body.get("version") or VERSIONS[-1],
        "platformVersion": "eks.4",
        "roleArn": body["roleArn"],
        "resourcesVpcConfig": {
            "subnetIds": network["subnetIds"],
            "securityGroupIds": network.get("securityGroupIds", []),
            "vpcId": vpc,
            "endpointPublicAccess": network.get("endpointPublicAccess", True),
            "endpointPrivateAccess": network.get("endpointPrivateAccess", False),
            "publicAccessCidrs": network.get("publicAccessCidrs", ["0.0.0.0/0"]),
        },
        "kubernetesNetworkConfig": addresses | (body.get("kubernetesNetworkConfig") or {}),
        "logging": logging_of(enabled_logs(body.get("logging") or {"clusterLogging": []})),
        "identity": {
            "oidc": {
                "issuer": f"https://oidc.eks.{region}.amazonaws.com/id/"
                f"{secrets.token_hex(16).upper()}"
            }
        },
        "status": "CREATING",
        "accessConfig": {
            "authenticationMode": access.get("authenticationMode", "CONFIG_MAP"),
        },
        "upgradePolicy": body.get("upgradePolicy") or {"supportType": "EXTENDED"},
        "deletionProtection": body.get("deletionProtection", False),
        "tags": body.get("tags", {}),
        "health": {"issues": []},
        **{k: body[k] for k in optional if body.get(k)},
    }
