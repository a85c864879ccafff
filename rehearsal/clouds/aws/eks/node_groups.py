"""EKS managed node groups, and how they fail after EKS has accepted them."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.ec2.bottlerocket_data import is_bottlerocket
from slicewright.rehearsal.clouds.aws.eks.capacity import launchable
from slicewright.rehearsal.clouds.aws.eks.checks import (
    VERSIONS,
    HealthIssue,
    check_labels,
    check_launch_template,
    check_nodegroup,
    check_release,
    check_repair_config,
    check_scaling,
    check_taints,
    check_update_config,
    default_release,
    invalid,
    kubelet_version,
    launch_template_version,
    why_nodes_cannot_join,
)
from slicewright.rehearsal.clouds.aws.eks.clusters import Clusters
from slicewright.rehearsal.clouds.aws.eks.interfaces import check_interfaces, why_unreachable
from slicewright.rehearsal.clouds.aws.eks.leftovers import leave_of_nodes
from slicewright.rehearsal.clouds.aws.eks.nodes import desired_nodes, node_settings
from slicewright.rehearsal.clouds.aws.eks.placement import check_placement
from slicewright.rehearsal.clouds.aws.eks.quotas import check_one_more, check_size
from slicewright.rehearsal.clouds.aws.eks.template_data import instance_types_of
from slicewright.rehearsal.clouds.aws.eks.updates import Updates
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT, make_instance_profile
from slicewright.rehearsal.clouds.aws.state import (
    CLUSTERS,
    INSTANCE_PROFILES,
    NODE_GROUPS,
    NodeGroupRecord,
)
from slicewright.rehearsal.clouds.core.context import Context, Methods, now
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.locks import Locks
from slicewright.rehearsal.clouds.core.node_api import NotReady
from slicewright.rehearsal.clouds.core.node_group import NoCapacity, NodeGroup
from slicewright.rehearsal.clouds.core.taints import changed_taints
from slicewright.rehearsal.clouds.core.tasks import Task

log = logging.getLogger(__name__)


class NodeGroups:
    def __init__(self, context: Context, clusters: Clusters, updates: Updates) -> None:
        self._context = context
        self._store = context.store
        self._clusters = clusters
        self._updates = updates
        self._converging = Locks()
        self._retried: set[str] = set()
        """Keys of the groups whose missing instances are being launched."""

    def methods(self) -> Methods:
        return {
            "CreateNodegroup": self._create,
            "DescribeNodegroup": lambda params, body: {
                "nodegroup": self._group(params, body)["nodegroup"]
            },
            "ListNodegroups": self._list,
            "UpdateNodegroupConfig": self._update_config,
            "UpdateNodegroupVersion": self._update_version,
            "DeleteNodegroup": self._delete,
        }

    def tasks(self) -> dict[str, Task]:
        return {
            "eks.CreateNodegroup": self._finish_create,
            "eks.UpdateNodegroup": self._finish_update,
            "eks.DeleteNodegroup": self._finish_delete,
            "eks.nodegroups.retry": self._finish_retry,
            "eks.nodegroups.scale": self._finish_scale,
        }

    def _group(self, params: JsonObject, body: JsonObject) -> NodeGroupRecord:
        self._clusters.find(params, body["clusterName"])
        group = self._store.get(NODE_GROUPS, _key(params, body))
        if group is None:
            raise aws_error(
                "ResourceNotFoundException",
                f"No node group found for name: {body['nodegroupName']}.",
                code=404,
            )
        return group

    def _list(self, params: JsonObject, body: JsonObject) -> JsonObject:
        self._clusters.find(params, body["clusterName"])
        groups = self._store.values(
            NODE_GROUPS, prefix=f"{params['region']}/{body['clusterName']}/"
        )
        return {"nodegroups": [g["nodegroup"]["nodegroupName"] for g in groups]}

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        region, name = params["region"], body["clusterName"]
        key = _key(params, body)
        with self._store.lock:
            cluster = self._clusters.active(params, name)["cluster"]
            if self._store.get(NODE_GROUPS, key):
                raise aws_error(
                    "ResourceInUseException",
                    f"NodeGroup already exists with name {body['nodegroupName']} and "
                    f"cluster name {name}",
                    code=409,
                )
            check_one_more(self._context, region, name)
            check_size(self._context, body.get("scalingConfig") or {})
            template = check_nodegroup(self._context, region, cluster, body)
            check_interfaces(self._context, region, body, template)
            check_placement(self._context, region, body, template)
            group = self._filled(region, cluster, body)
            make_instance_profile(self._context, _profile(group), group["nodeRole"])
            item: NodeGroupRecord = {
                "key": key,
                "region": region,
                "cluster": name,
                "nodegroup": group,
                "generation": 1,
                "kubelet_version": kubelet_version(group["version"]),
                "nodes": [],
                "applied": node_settings(group),
            }
            self._store.put(NODE_GROUPS, key, item)
        self._context.tasks.begin("eks.CreateNodegroup", key=key)
        return {"nodegroup": group}

    def _filled(self, region: str, cluster: JsonObject, body: JsonObject) -> JsonObject:
        """The node group with what EKS fills in."""
        scaling = body.get("scalingConfig") or {}
        version = body.get("version") or cluster["version"]
        group = {
            "nodegroupName": body["nodegroupName"],
            "nodegroupArn": f"arn:aws:eks:{region}:{ACCOUNT}:nodegroup/{cluster['name']}/"
            f"{body['nodegroupName']}/{uuid.uuid4()}",
            "clusterName": cluster["name"],
            "version": version,
            "releaseVersion": body.get("releaseVersion")
            or default_release(version, body.get("amiType")),
            "createdAt": now(),
            "modifiedAt": now(),
            "status": "CREATING",
            "capacityType": body.get("capacityType", "ON_DEMAND"),
            "scalingConfig": {
                "minSize": scaling.get("minSize", 1),
                "desiredSize": scaling.get("desiredSize", 2),
                "maxSize": scaling.get("maxSize", 2),
            },
            "instanceTypes": body.get("instanceTypes")
            or ([] if body.get("launchTemplate") else ["t3.medium"]),
            "subnets": body["subnets"],
            "amiType": body.get("amiType") or "AL2023_x86_64_STANDARD",
            "nodeRole": body["nodeRole"],
            "labels": body.get("labels", {}),
            "taints": body.get("taints", []),
            "updateConfig": {"maxUnavailable": 1, **(body.get("updateConfig") or {})},
            "tags": body.get("tags", {}),
            "health": {"issues": []},
            "resources": {
                "autoScalingGroups": [{"name": f"eks-{body['nodegroupName']}-{uuid.uuid4()}"}]
            },
        }
        if "maxUnavailablePercentage" in group["updateConfig"]:
            del group["updateConfig"]["maxUnavailable"]
        if body.get("launchTemplate"):
            group["launchTemplate"] = launch_template_version(
                self._context, region, body["launchTemplate"]
            )
        else:
            group["diskSize"] = body.get("diskSize", 20)
        if body.get("nodeRepairConfig"):
            group["nodeRepairConfig"] = body["nodeRepairConfig"]
        return group

    def _finish_create(self, arguments: JsonObject) -> None:
        key = arguments["key"]
        issue = self._converge(key)
        if issue:
            self._set(key, status="CREATE_FAILED", health={"issues": [issue.api_form()]})
        else:
            self._set(key, status="ACTIVE", health={"issues": []})

    def retry(self) -> None:
        """Auto Scaling groups go on launching what was refused; a group that has it all is ACTIVE.

        One that failed as it was created stays CREATE_FAILED.
        """
        for key, item in self._store.items(NODE_GROUPS):
            if item["nodegroup"]["status"] == "DEGRADED" and key not in self._retried:
                # Its template or subnets may have been deleted meanwhile.
                with suppress(CloudError):
                    self._retry(key, item)

    def _retry(self, key: str, item: NodeGroupRecord) -> None:
        desired = desired_nodes(self._context, item).counts
        types = instance_types_of(self._context, item)
        counts, _ = launchable(self._context, item, types, desired)
        # Nothing is missing where only an update found no room for its surge.
        complete = len(item["nodes"]) >= sum(desired.values())
        if complete or sum(counts.values()) > len(item["nodes"]):
            self._retried.add(key)
            self._context.tasks.begin("eks.nodegroups.retry", key=key, launch=not complete)

    def _finish_retry(self, arguments: JsonObject) -> None:
        key = arguments["key"]
        try:
            issue = self._converge(key) if arguments["launch"] else None
            with self._store.lock:
                item = self._store.get(NODE_GROUPS, key)
                # An update that began meanwhile ends by itself.
                if item is not None and item["nodegroup"]["status"] == "DEGRADED":
                    self._set_health(key, issue)
        finally:
            self._retried.discard(key)

    def resize(self, key: str, desired: int) -> bool:
        """Of its Auto Scaling group, which EKS does not count as an update of the node group.

        False where it is being made or deleted, or has that size.
        """
        with self._store.lock:
            item = self._scalable(key)
            if item is None or not self._set_desired(item, desired):
                return False
        self._context.tasks.begin("eks.nodegroups.scale", key=key)
        return True

    def terminate(self, key: str, node: str) -> bool:
        """Ends one instance of the Auto Scaling group, which is one smaller then.

        False where the group is being changed, is as small as it may be, or has no such node.
        """
        with self._store.lock:
            item = self._scalable(key)
            if (
                item is None
                or all(n["name"] != node for n in item["nodes"])
                or not self._set_desired(
                    item, item["nodegroup"]["scalingConfig"]["desiredSize"] - 1
                )
            ):
                return False
        self._context.tasks.begin("eks.nodegroups.scale", key=key, node=node)
        return True

    def _scalable(self, key: str) -> NodeGroupRecord | None:
        item = self._store.get(NODE_GROUPS, key)
        steady = item is not None and item["nodegroup"]["status"] in ("ACTIVE", "DEGRADED")
        return item if steady else None

    def _set_desired(self, item: NodeGroupRecord, desired: int) -> bool:
        scaling = item["nodegroup"]["scalingConfig"]
        desired = min(max(desired, scaling["minSize"]), scaling["maxSize"])
        if desired == scaling["desiredSize"]:
            return False
        scaling["desiredSize"] = desired
        self._store.put(NODE_GROUPS, item["key"], item)
        return True

    def _finish_scale(self, arguments: JsonObject) -> None:
        key, node = arguments["key"], arguments.get("node")
        item = self._store.get(NODE_GROUPS, key)
        if node is not None and item is not None:
            with self._converging.lock(key):
                self._nodes(item).end(node)
        issue = self._converge(key)
        with self._store.lock:
            if self._scalable(key) is not None:
                self._set_health(key, issue)

    def _set_health(self, key: str, issue: HealthIssue | None) -> None:
        short = issue is not None and issue.code == "AsgInstanceLaunchFailures"
        self._set(
            key,
            status="DEGRADED" if short else "ACTIVE",
            health={"issues": [issue.api_form()] if issue and short else []},
        )

    def _converge(self, key: str) -> HealthIssue | None:
        """Gives the group the nodes it asks for; returns what went wrong."""
        with self._converging.lock(key):  # an update and a launch that is tried again
            return self._converged(key)

    def _converged(self, key: str) -> HealthIssue | None:
        item = self._store.get(NODE_GROUPS, key)
        if item is None:
            return None
        issue = why_nodes_cannot_join(
            self._context, item["region"], item["nodegroup"]
        ) or why_unreachable(self._context, item)
        if issue and item["nodegroup"]["scalingConfig"]["desiredSize"] > 0:
            return issue
        try:
            desired = desired_nodes(self._context, item)
            counts, shortage = launchable(
                self._context, item, instance_types_of(self._context, item), desired.counts
            )
            self._nodes(item).converge(
                replace(desired, counts=counts), timeout_s=self._context.ready_timeout_s
            )
        except NotReady as e:
            return HealthIssue(
                "NodeCreationFailure", f"Instances failed to join the kubernetes cluster: {e}"
            )
        except NoCapacity as e:
            return HealthIssue(e.code, str(e))
        except Exception as e:
            log.exception("node group %s", key)
            return _internal_failure(e)
        return shortage

    def _update_config(self, params: JsonObject, body: JsonObject) -> JsonObject:
        if not {*body} - {"clusterName", "nodegroupName", "clientRequestToken"}:
            raise invalid("No update parameters were provided for the node group")
        with self._store.lock:
            item = self._updatable(params, body)
            group = item["nodegroup"]
            labels, taints = body.get("labels") or {}, body.get("taints") or {}
            gone = set(labels.get("removeLabels") or ())
            group["labels"] = {k: v for k, v in group["labels"].items() if k not in gone} | (
                labels.get("addOrUpdateLabels") or {}
            )
            group["taints"] = changed_taints(
                group["taints"],
                add=taints.get("addOrUpdateTaints") or (),
                remove=taints.get("removeTaints") or (),
            )
            if body.get("scalingConfig"):
                group["scalingConfig"] |= body["scalingConfig"]
            if body.get("updateConfig"):
                group["updateConfig"] = body["updateConfig"]
            if body.get("nodeRepairConfig"):
                group["nodeRepairConfig"] = body["nodeRepairConfig"]
            check_update_config(group["updateConfig"])
            check_repair_config(group.get("nodeRepairConfig") or {})
            check_scaling(group["scalingConfig"])
            check_size(self._context, group["scalingConfig"])
            check_labels(group["labels"])
            check_taints(group["taints"])
            return self._begin_update(item, "ConfigUpdate", _config_parameters(body))

    def _update_version(self, params: JsonObject, body: JsonObject) -> JsonObject:
        region = params["region"]
        with self._store.lock:
            item = self._updatable(params, body)
            group = item["nodegroup"]
            if body.get("launchTemplate"):
                if "launchTemplate" not in group:
                    raise invalid(
                        "You cannot add a launch template to a node group that was created "
                        "without one."
                    )
                requested = body["launchTemplate"]
                if (
                    requested.get("id", group["launchTemplate"]["id"])
                    != group["launchTemplate"]["id"]
                ):
                    raise invalid("Only the version of the launch template can be changed.")
                data = check_launch_template(
                    self._context,
                    region,
                    {
                        "launchTemplate": {
                            "id": group["launchTemplate"]["id"],
                            "version": requested.get("version", "$Default"),
                        },
                        "capacityType": group["capacityType"],
                    },
                    bottlerocket=is_bottlerocket(group["amiType"]),
                )
                check_interfaces(self._context, region, group, data)
                check_placement(self._context, region, group, data)
                group["launchTemplate"] = launch_template_version(
                    self._context,
                    region,
                    {**requested, "id": group["launchTemplate"]["id"], "name": None},
                )
            version = body.get("version") or group["version"]
            _check_newer(
                version, group, self._clusters.find(params, body["clusterName"])["cluster"]
            )
            check_release(version, body.get("releaseVersion"), group["amiType"])
            newest = default_release(version, group["amiType"])
            # Without a release, the newest of the version, unless only the template changes.
            release = group["releaseVersion"] if body.get("launchTemplate") else newest
            group["version"] = version
            group["releaseVersion"] = body.get("releaseVersion") or (
                newest if body.get("version") else release
            )
            item["kubelet_version"] = kubelet_version(group["version"])
            item["generation"] += 1
            parameters = {"Version": group["version"], "ReleaseVersion": group["releaseVersion"]}
            return self._begin_update(item, "VersionUpdate", parameters)

    def _nodes(self, item: NodeGroupRecord) -> NodeGroup:
        api = self._context.planes.nodes(item["cluster"])
        return NodeGroup(self._store, NODE_GROUPS, item["key"], api)

    def _begin_update(
        self, item: NodeGroupRecord, kind: str, parameters: Mapping[str, object]
    ) -> JsonObject:
        item["nodegroup"] |= {"status": "UPDATING", "modifiedAt": now()}
        self._store.put(NODE_GROUPS, item["key"], item)
        update = self._updates.begin(item["key"], kind, parameters)
        self._context.tasks.begin("eks.UpdateNodegroup", key=item["key"], update=update["id"])
        return {"update": update}

    def _finish_update(self, arguments: JsonObject) -> None:
        issue = self._converge(arguments["key"])
        # In this order: a caller that sees the group ACTIVE again finds its update closed.
        self._updates.close(arguments["key"], arguments["update"], issue)
        self._set_health(arguments["key"], issue)

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            item = self._group(params, body)
            if item["nodegroup"]["status"] not in (
                "ACTIVE",
                "CREATE_FAILED",
                "DEGRADED",
                "DELETE_FAILED",
            ):
                raise aws_error(
                    "ResourceInUseException",
                    f"Nodegroup is in status {item['nodegroup']['status']}",
                    code=409,
                )
            item["nodegroup"]["status"] = "DELETING"
            self._store.put(NODE_GROUPS, item["key"], item)
        self._context.tasks.begin("eks.DeleteNodegroup", key=item["key"])
        return {"nodegroup": item["nodegroup"]}

    def _finish_delete(self, arguments: JsonObject) -> None:
        key = arguments["key"]
        item = self._store.get(NODE_GROUPS, key)
        if item is None:
            return
        cluster = self._store.get(CLUSTERS, f"{item['region']}/{item['cluster']}")
        try:
            self._nodes(item).remove_nodes()
            if cluster is not None:
                leave_of_nodes(self._context, item, cluster["cluster"])
        except Exception as e:
            log.exception("node group %s", key)
            issues = [_internal_failure(e).api_form()]
            self._set(key, status="DELETE_FAILED", health={"issues": issues})
            return
        self._store.delete(INSTANCE_PROFILES, _profile(item["nodegroup"]))
        self._store.delete(NODE_GROUPS, key)

    def _updatable(self, params: JsonObject, body: JsonObject) -> NodeGroupRecord:
        item = self._group(params, body)
        if item["nodegroup"]["status"] not in ("ACTIVE", "DEGRADED"):
            raise aws_error(
                "ResourceInUseException",
                "Nodegroup cannot be updated as it is currently not in Active State, it "
                f"is {item['nodegroup']['status']}",
                code=409,
            )
        return item

    def _set(self, key: str, **fields: Any) -> None:
        with self._store.lock:
            item = self._store.get(NODE_GROUPS, key)
            if item is not None:
                item["nodegroup"] |= fields
                self._store.put(NODE_GROUPS, key, item)


def _check_newer(version: str, group: JsonObject, cluster: JsonObject) -> None:
    """A node group is never newer than its cluster, and never goes back. Raises CloudError."""
    if version not in VERSIONS or not (
        VERSIONS.index(group["version"])
        <= VERSIONS.index(version)
        <= VERSIONS.index(cluster["version"])
    ):
        raise invalid(
            f"Requested Nodegroup version {version} is invalid: the node group's version is "
            f"{group['version']}, the cluster's {cluster['version']}"
        )


def _config_parameters(body: JsonObject) -> dict[str, object]:
    """What UpdateNodegroupConfig asks for, by the API's UpdateParamType."""
    labels, taints = body.get("labels") or {}, body.get("taints") or {}
    scaling, update = body.get("scalingConfig") or {}, body.get("updateConfig") or {}
    parameters = {
        "LabelsToAdd": labels.get("addOrUpdateLabels"),
        "LabelsToRemove": labels.get("removeLabels"),
        "TaintsToAdd": taints.get("addOrUpdateTaints"),
        "TaintsToRemove": taints.get("removeTaints"),
        "MinSize": scaling.get("minSize"),
        "MaxSize": scaling.get("maxSize"),
        "DesiredSize": scaling.get("desiredSize"),
        "MaxUnavailable": update.get("maxUnavailable"),
        "MaxUnavailablePercentage": update.get("maxUnavailablePercentage"),
        "UpdateStrategy": update.get("updateStrategy"),
        "NodeRepairConfig": body.get("nodeRepairConfig"),
    }
    return {k: v for k, v in parameters.items() if v not in (None, [], {})}


def _internal_failure(e: Exception) -> HealthIssue:
    return HealthIssue("InternalFailure", f"the rehearsal's cloud: {type(e).__name__}: {e}")


def _profile(group: JsonObject) -> str:
    """The name of the node group's instance profile: eks-UUID."""
    return f"eks-{group['nodegroupArn'].rpartition('/')[2]}"


def _key(params: JsonObject, body: JsonObject) -> str:
    return f"{params['region']}/{body['clusterName']}/{body['nodegroupName']}"
