"""The simulated EKS: managed node groups, their updates, and what goes wrong with them after they
were accepted.
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

from kubeapi import JsonObject
from rehearsal.clouds.aws.eks_checks import (
    check_labels,
    check_launch_template,
    check_nodegroup,
    check_scaling,
    check_taints,
    invalid,
    launch_template_version,
    why_nodes_cannot_join,
)
from rehearsal.clouds.aws.eks_nodes import GROUPS, target
from rehearsal.clouds.aws.iam import ACCOUNT
from rehearsal.clouds.core import node_group as fleet
from rehearsal.clouds.core.context import Context, Methods, now
from rehearsal.clouds.core.errors import aws_error
from rehearsal.clouds.core.node_api import NotReady
from rehearsal.clouds.core.node_object import KUBERNETES, kubernetes_taints
from rehearsal.clouds.core.tasks import Task

if TYPE_CHECKING:
    from rehearsal.clouds.aws.eks import Eks


_RELEASE = "20260714"
log = logging.getLogger(__name__)


class Groups:
    def __init__(self, context: Context, clusters: Eks) -> None:
        self._context = context
        self._store = context.store
        self._clusters = clusters

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
        }

    def _group(self, params: JsonObject, body: JsonObject) -> JsonObject:
        self._clusters.cluster(params, body["clusterName"])
        found = self._store.get(
            GROUPS, f"{params['region']}/{body['clusterName']}/{body['nodegroupName']}"
        )
        if found is None:
            raise aws_error(
                "ResourceNotFoundException",
                f"No node group found for name: {body['nodegroupName']}.",
                code=404,
            )
        return found

    def _list(self, params: JsonObject, body: JsonObject) -> JsonObject:
        self._clusters.cluster(params, body["clusterName"])
        prefix = f"{params['region']}/{body['clusterName']}/"
        return {
            "nodegroups": [
                g["nodegroup"]["nodegroupName"]
                for k, g in self._store.items(GROUPS)
                if k.startswith(prefix)
            ]
        }

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        region, name = params["region"], body["clusterName"]
        key = f"{region}/{name}/{body['nodegroupName']}"
        with self._store.lock:
            cluster = self._clusters.active_cluster(params, name)["cluster"]
            if self._store.get(GROUPS, key):
                raise aws_error(
                    "ResourceInUseException",
                    f"NodeGroup already exists with name {body['nodegroupName']} and "
                    f"cluster name {name}",
                    code=409,
                )
            check_nodegroup(self._context, region, cluster, body)
            group = self._filled(region, cluster, body)
            item = {
                "key": key,
                "region": region,
                "cluster": name,
                "nodegroup": group,
                "generation": 1,
                "kubelet_version": _kubelet_version(group["version"]),
                "nodes": [],
                "applied": _applied(group),
            }
            self._store.put(GROUPS, key, item)
        self._context.tasks.begin("eks.CreateNodegroup", key=key)
        return {"nodegroup": group}

    def _filled(self, region: str, cluster: JsonObject, body: JsonObject) -> JsonObject:
        scaling = body.get("scalingConfig") or {}
        version = body.get("version") or cluster["version"]
        group = {
            "nodegroupName": body["nodegroupName"],
            "nodegroupArn": f"arn:aws:eks:{region}:{ACCOUNT}:nodegroup/{cluster['name']}/"
            f"{body['nodegroupName']}/{uuid.uuid4()}",
            "clusterName": cluster["name"],
            "version": version,
            "releaseVersion": body.get("releaseVersion")
            or f"{_kubelet_version(version).split('-')[0]}-{_RELEASE}",
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
            problem = {"code": issue[0], "message": issue[1], "resourceIds": []}
            self._set(key, status="CREATE_FAILED", health={"issues": [problem]})
        else:
            self._set(key, status="ACTIVE", health={"issues": []})

    def _converge(self, key: str) -> tuple[str, str] | None:
        """Brings the group's nodes to what the group says; a health issue where that cannot be
        done.
        """
        item = self._store.get(GROUPS, key)
        if item is None:
            return None
        issue = why_nodes_cannot_join(self._context, item["region"], item["nodegroup"])
        if issue and item["nodegroup"]["scalingConfig"]["desiredSize"] > 0:
            return issue
        api = self._context.planes.nodes(item["cluster"])
        try:
            fleet.converge(
                self._store,
                GROUPS,
                key,
                api,
                target(self._context, item),
                timeout_s=self._context.ready_timeout_s,
            )
        except NotReady as e:
            return "NodeCreationFailure", f"Instances failed to join the kubernetes cluster: {e}"
        except fleet.NoRoom as e:
            code, _, message = str(e).partition(": ")
            return code, message
        except Exception as e:
            log.exception("node group %s", key)
            return "InternalFailure", f"the rehearsal's cloud: {type(e).__name__}: {e}"
        return None

    def _update_config(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            item = self._usable(params, body)
            group = item["nodegroup"]
            labels, taints = body.get("labels") or {}, body.get("taints") or {}
            gone = set(labels.get("removeLabels") or ())
            group["labels"] = {k: v for k, v in group["labels"].items() if k not in gone} | (
                labels.get("addOrUpdateLabels") or {}
            )
            group["taints"] = _changed_taints(group["taints"], taints)
            if body.get("scalingConfig"):
                group["scalingConfig"] |= body["scalingConfig"]
            if body.get("updateConfig"):
                group["updateConfig"] = body["updateConfig"]
            if body.get("nodeRepairConfig"):
                group["nodeRepairConfig"] = body["nodeRepairConfig"]
            check_scaling(group["scalingConfig"])
            check_labels(group["labels"])
            check_taints(group["taints"])
            return self._begin_update(item, "ConfigUpdate")

    def _update_version(self, params: JsonObject, body: JsonObject) -> JsonObject:
        region = params["region"]
        with self._store.lock:
            item = self._usable(params, body)
            group = item["nodegroup"]
            if body.get("launchTemplate"):
                if "launchTemplate" not in group:
                    raise invalid(
                        "You cannot add a launch template to a node group that was created "
                        "without one."
                    )
                wanted = body["launchTemplate"]
                if wanted.get("id", group["launchTemplate"]["id"]) != group["launchTemplate"]["id"]:
                    raise invalid("Only the version of the launch template can be changed.")
                check_launch_template(
                    self._context,
                    region,
                    {
                        "launchTemplate": {
                            "id": group["launchTemplate"]["id"],
                            "version": wanted.get("version", "$Default"),
                        }
                    },
                )
                group["launchTemplate"] = launch_template_version(
                    self._context,
                    region,
                    {**wanted, "id": group["launchTemplate"]["id"], "name": None},
                )
            group["version"] = body.get("version") or group["version"]
            group["releaseVersion"] = body.get("releaseVersion") or group["releaseVersion"]
            item["kubelet_version"] = _kubelet_version(group["version"])
            item["generation"] += 1
            return self._begin_update(item, "VersionUpdate")

    def _begin_update(self, item: JsonObject, kind: str) -> JsonObject:
        item["nodegroup"] |= {"status": "UPDATING", "modifiedAt": now()}
        self._store.put(GROUPS, item["key"], item)
        update = self._clusters.record_update(item["key"], kind, {}, status="InProgress")
        self._context.tasks.begin("eks.UpdateNodegroup", key=item["key"], update=update["id"])
        return {"update": update}

    def _finish_update(self, arguments: JsonObject) -> None:
        issue = self._converge(arguments["key"])
        # In this order: who sees the group ACTIVE again finds its update closed.
        self._clusters.close_update(arguments["key"], arguments["update"], issue)
        self._set(arguments["key"], status="ACTIVE")

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
            self._store.put(GROUPS, item["key"], item)
        self._context.tasks.begin("eks.DeleteNodegroup", key=item["key"])
        return {"nodegroup": item["nodegroup"]}

    def _finish_delete(self, arguments: JsonObject) -> None:
        key = arguments["key"]
        item = self._store.get(GROUPS, key)
        if item is None:
            return
        try:
            fleet.dissolve(self._store, GROUPS, key, self._context.planes.nodes(item["cluster"]))
        except Exception as e:
            log.exception("node group %s", key)
            problem = {
                "code": "InternalFailure",
                "message": f"the rehearsal's cloud: {type(e).__name__}: {e}",
                "resourceIds": [],
            }
            self._set(key, status="DELETE_FAILED", health={"issues": [problem]})
            return
        self._store.delete(GROUPS, key)

    def _usable(self, params: JsonObject, body: JsonObject) -> JsonObject:
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
            item = self._store.get(GROUPS, key)
            if item is not None:
                item["nodegroup"] |= fields
                self._store.put(GROUPS, key, item)


def _kubelet_version(version: str) -> str:
    """The patch release that the simulated AMI of this minor carries."""
    patch = KUBERNETES if KUBERNETES.startswith(f"{version}.") else f"{version}.5"
    return f"{patch}-eks-a1b2c3d"


def _applied(group: JsonObject) -> JsonObject:
    return {"labels": group["labels"], "taints": kubernetes_taints(group["taints"])}


def _changed_taints(taints: list[JsonObject], change: JsonObject) -> list[JsonObject]:
    gone = {
        (t["key"], t["effect"])
        for t in [*(change.get("removeTaints") or ()), *(change.get("addOrUpdateTaints") or ())]
    }
    return [t for t in taints if (t["key"], t["effect"]) not in gone] + list(
        change.get("addOrUpdateTaints") or ()
    )
