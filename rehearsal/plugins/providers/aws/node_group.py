"""aws:eks/nodeGroup:NodeGroup.

Source of the API calls and force_new: hashicorp/terraform-provider-aws,
internal/service/eks/node_group.go.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.bridge.fields import Field, Fields, from_api, same, to_api
from slicewright.rehearsal.plugins.bridge.resources import (
    Autoname,
    CreateResult,
    Resource,
    Session,
    State,
    is_known,
    members,
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

_REPAIR = {
    **same("enabled", "maxUnhealthyNodeThresholdCount", "maxUnhealthyNodeThresholdPercentage"),
    **same("maxParallelNodesRepairedCount", "maxParallelNodesRepairedPercentage"),
    "nodeRepairConfigOverrides": Field(
        many=True,
        of={
            "nodeMonitoringCondition": Field(),
            "nodeUnhealthyReason": Field(),
            "minRepairWaitTimeMins": Field(),
            "repairAction": Field(),
        },
    ),
}
_GROUP: Fields = {
    "nodeRoleArn": Field(api="nodeRole"),
    "subnetIds": Field(api="subnets", unordered=True),
    "scalingConfig": Field(of=same("desiredSize", "minSize", "maxSize")),
    "amiType": Field(computed=True),
    "capacityType": Field(computed=True),
    "diskSize": Field(computed=True),
    "instanceTypes": Field(computed=True),
    "labels": Field(),
    "taints": Field(
        many=True, of={"key": Field(), "value": Field(), "effect": Field()}, unordered=False
    ),
    "launchTemplate": Field(
        of={"id": Field(computed=True), "name": Field(computed=True), "version": Field()}
    ),
    "updateConfig": Field(
        of={
            "maxUnavailable": Field(computed=True),
            "maxUnavailablePercentage": Field(),
            "updateStrategy": Field(computed=True),
        },
        computed=True,
    ),
    "nodeRepairConfig": Field(of=_REPAIR, computed=True),
    "version": Field(computed=True),
    "releaseVersion": Field(computed=True),
    "tags": Field(),
}
_EXTRA_FIELDS = (
    "clusterName",
    "nodeGroupName",
    "nodeGroupNamePrefix",
    "forceUpdateVersion",
    "region",
)
_EFFECTS = ("NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE")


class NodeGroup(Resource):
    kind = "aws:eks/nodeGroup:NodeGroup"
    force_new = (
        "amiType",
        "capacityType",
        "clusterName",
        "diskSize",
        "instanceTypes",
        "launchTemplate.id",
        "launchTemplate.name",
        "nodeGroupName",
        "nodeGroupNamePrefix",
        "nodeRoleArn",
        "remoteAccess",
        "subnetIds",
        "region",
    )
    sets = ("subnetIds", "taints")
    keeps = (
        "amiType",
        "capacityType",
        "diskSize",
        "instanceTypes",
        "version",
        "releaseVersion",
        "updateConfig",
        "nodeRepairConfig",
        "region",
        "launchTemplate.id",
        "launchTemplate.name",
    )
    autoname = Autoname("nodeGroupName", 63, prefix_property="nodeGroupNamePrefix")
    default_timeout_s = 3600.0

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        failures = not_simulated(inputs, {*_GROUP, *_EXTRA_FIELDS})
        scaling = inputs.get("scalingConfig")
        if isinstance(scaling, dict):
            for name, least in (("maxSize", 1), ("minSize", 0), ("desiredSize", 0)):
                if is_known(scaling.get(name)) and int(scaling[name]) < least:
                    failures.append(
                        CheckFailure(
                            f"scalingConfig.{name}",
                            f"expected to be at least {least}, got {scaling[name]}",
                        )
                    )
        for index, taint in enumerate(members(inputs.get("taints"))):
            effect = taint.get("effect") if isinstance(taint, dict) else None
            if is_known(effect) and effect not in _EFFECTS:
                failures.append(
                    CheckFailure(
                        f"taints[{index}].effect",
                        f"expected one of {', '.join(_EFFECTS)}, got {effect!r}",
                    )
                )
        return (
            failures
            + _template_failures(inputs.get("launchTemplate"))
            + _update_failures(inputs.get("updateConfig"))
        )

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        cluster = str(inputs["clusterName"])
        name = str(
            inputs.get("nodeGroupName") or f"{inputs['nodeGroupNamePrefix']}{secrets.token_hex(8)}"
        )
        body = to_api(_GROUP, {k: v for k, v in inputs.items() if k not in _EXTRA_FIELDS})
        call(
            session,
            inputs,
            "eks",
            "CreateNodegroup",
            clusterName=cluster,
            nodegroupName=name,
            **body,
        )
        session.show_status("waiting for the node group to become ACTIVE")
        group = wait_until(
            session,
            f"EKS Node Group ({cluster}:{name}) create",
            lambda: _settled(session, inputs, cluster, name),
        )
        resource_id = f"{cluster}:{name}"
        if group["status"] != "ACTIVE":
            return CreateResult(resource_id, [_failure_text(resource_id, "create", group)])
        return CreateResult(resource_id)

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        cluster, _, name = resource_id.partition(":")
        group = _group(session, inputs, cluster, name)
        if group is None:
            return None
        prior = inputs or None
        ordered = {
            **group,
            "taints": _in_order(group.get("taints", []), inputs.get("taints") or []),
        }
        read_inputs = from_api(_GROUP, ordered, prior) | {"clusterName": cluster}
        if "nodeGroupNamePrefix" not in inputs:
            read_inputs["nodeGroupName"] = name
        if "tags" not in read_inputs:
            read_inputs |= seen_tags(group.get("tags", {}), inputs)
        outputs = {
            **from_api(_GROUP, group, None),
            "clusterName": cluster,
            "nodeGroupName": name,
            "arn": group["nodegroupArn"],
            "status": group["status"],
            "resources": [
                {
                    "autoscalingGroups": group["resources"]["autoScalingGroups"],
                    "remoteAccessSecurityGroupId": "",
                },
            ],
            "labels": group.get("labels", {}),
            "taints": group.get("taints", []),
            "tags": group.get("tags", {}),
            "tagsAll": group.get("tags", {}),
            "region": region_of(session, inputs),
        }
        return State(
            {
                **read_inputs,
                **prior_values(inputs, "nodeGroupNamePrefix", "forceUpdateVersion", "region"),
            },
            outputs,
        )

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        cluster, _, name = resource_id.partition(":")
        where = {"clusterName": cluster, "nodegroupName": name}
        reasons: list[str] = []
        version: JsonObject = {
            k: new[k] for k in ("version", "releaseVersion") if k in new and old.get(k) != new[k]
        }
        if (old.get("launchTemplate") or {}).get("version") != (
            new.get("launchTemplate") or {}
        ).get("version"):
            version["launchTemplate"] = new["launchTemplate"]
        if version:
            force = new.get("forceUpdateVersion")
            started = call(
                session, new, "eks", "UpdateNodegroupVersion", **where, force=force, **version
            )
            reasons += _finish(session, new, where, started["update"])
        config = _config_changes(old, new)
        if config and not reasons:
            started = call(session, new, "eks", "UpdateNodegroupConfig", **where, **config)
            reasons += _finish(session, new, where, started["update"])
        group = _group(session, new, cluster, name)
        if group is not None:
            retag_eks(session, group["nodegroupArn"], old, new)
            if not reasons and group["status"] in ("CREATE_FAILED", "DEGRADED", "DELETE_FAILED"):
                # An update does not repair a failed group, and must not report success.
                reasons.append(
                    _failure_text(resource_id, "update", group)
                    + "; EKS cannot repair it, replace it (pulumi up --replace URN)"
                )
        return reasons

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        cluster, _, name = resource_id.partition(":")
        if _group(session, inputs, cluster, name) is None:
            return
        call(session, inputs, "eks", "DeleteNodegroup", clusterName=cluster, nodegroupName=name)
        session.show_status("waiting for the node group to be deleted")

        def gone() -> str | None:
            group = _group(session, inputs, cluster, name)
            if group is None:
                return ""
            return (
                _failure_text(resource_id, "delete", group)
                if group["status"] == "DELETE_FAILED"
                else None
            )

        failure = wait_until(session, f"EKS Node Group ({resource_id}) delete", gone)
        if failure:
            raise ProviderError(failure)


def _template_failures(template: Any) -> list[CheckFailure]:
    if not isinstance(template, dict):
        return []
    failures = []
    if bool(template.get("id")) == bool(template.get("name")):
        failures.append(CheckFailure("launchTemplate", "must have exactly one of id and name"))
    if str(template.get("version", "")).startswith("$"):
        failures.append(
            CheckFailure(
                "launchTemplate.version",
                "must be a number, such as the template's latestVersion: $Latest and $Default "
                "never show a change",
            )
        )
    return failures


def _update_failures(config: Any) -> list[CheckFailure]:
    if not isinstance(config, dict):
        return []
    limits = [k for k in ("maxUnavailable", "maxUnavailablePercentage") if is_known(config.get(k))]
    return (
        [
            CheckFailure(
                "updateConfig",
                "must have only one of maxUnavailable and maxUnavailablePercentage",
            )
        ]
        if len(limits) == 2
        else []
    )


def _in_order(taints: list[JsonObject], prior: list[JsonObject]) -> list[JsonObject]:
    """The taints, the requested ones first and in their order."""
    return [t for a in prior for t in taints if _same_taint(t, a)] + [
        t for t in taints if not any(_same_taint(t, a) for a in prior)
    ]


def _same_taint(taint: JsonObject, other: JsonObject) -> bool:
    return (taint.get("key"), taint.get("effect")) == (other.get("key"), other.get("effect"))


def _group(session: Session, inputs: Properties, cluster: str, name: str) -> JsonObject | None:
    answer = or_none(
        session, inputs, "eks", "DescribeNodegroup", clusterName=cluster, nodegroupName=name
    )
    return answer["nodegroup"] if answer else None


def _settled(session: Session, inputs: Properties, cluster: str, name: str) -> JsonObject | None:
    group = _group(session, inputs, cluster, name)
    if group is None:
        raise ProviderError(
            f"EKS Node Group ({cluster}:{name}) disappeared while it was being created"
        )
    return group if group["status"] not in ("CREATING", "UPDATING") else None


def _failure_text(resource_id: str, verb: str, group: JsonObject) -> str:
    issues = "; ".join(
        f"{i['code']}: {i['message']}" for i in group.get("health", {}).get("issues", [])
    )
    state = f"unexpected state '{group['status']}', wanted target 'ACTIVE'. last error: {issues}"
    return f"waiting for EKS Node Group ({resource_id}) {verb}: {state}"


def _config_changes(old: Properties, new: Properties) -> JsonObject:
    changes: JsonObject = {}
    before, after = old.get("labels") or {}, new.get("labels") or {}
    if before != after:
        changes["labels"] = {
            "addOrUpdateLabels": {k: v for k, v in after.items() if before.get(k) != v},
            "removeLabels": [k for k in before if k not in after],
        }
    taints_before, taints_after = old.get("taints") or [], new.get("taints") or []
    fresh = [t for t in taints_after if t not in taints_before]
    gone = [t for t in taints_before if not any(_same_taint(t, n) for n in taints_after)]
    if fresh or gone:
        changes["taints"] = {"addOrUpdateTaints": fresh, "removeTaints": gone}
    for name in ("scalingConfig", "updateConfig", "nodeRepairConfig"):
        if old.get(name) != new.get(name) and new.get(name) is not None:
            changes |= to_api({name: _GROUP[name]}, {name: new[name]})
    return changes


def _finish(
    session: Session, inputs: Properties, where: JsonObject, update: JsonObject
) -> list[str]:
    def poll() -> JsonObject | None:
        arguments = {
            "name": where["clusterName"],
            "nodegroupName": where["nodegroupName"],
            "updateId": update["id"],
        }
        eks_update: JsonObject = call(session, inputs, "eks", "DescribeUpdate", **arguments)[
            "update"
        ]
        return eks_update if eks_update["status"] != "InProgress" else None

    resource_id = f"{where['clusterName']}:{where['nodegroupName']}"
    done = wait_until(session, f"EKS Node Group ({resource_id}) update {update['id']}", poll)
    if done["status"] == "Successful":
        return []
    errors = "; ".join(f"{e['errorCode']}: {e['errorMessage']}" for e in done["errors"])
    return [
        f"waiting for EKS Node Group ({resource_id}) update ({update['id']}): "
        f"{done['status']}: {errors}"
    ]
