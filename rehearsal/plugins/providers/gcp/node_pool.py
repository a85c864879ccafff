"""gcp:container/nodePool:NodePool.

Source of the API calls and their order: hashicorp/terraform-provider-google-beta,
resource_container_node_pool.go.
"""

from __future__ import annotations

import secrets
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
    is_known,
    members,
    prior_values,
)
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure, ProviderError
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.gcp.calls import (
    BUSY_REASONS,
    last,
    location_of,
    operation_error,
    or_none,
    project_of,
)
from slicewright.rehearsal.plugins.providers.gcp.node_config import (
    KEEPS,
    NODE_CONFIG,
    REPLACES,
    seen_node_config,
)

_PREFIX = "projects.locations.clusters.nodePools"
_AUTOSCALING = {
    "minNodeCount": Field(),
    "maxNodeCount": Field(),
    "totalMinNodeCount": Field(),
    "totalMaxNodeCount": Field(),
    "locationPolicy": Field(computed=True),
}
_UPGRADE = {
    **same("strategy", "maxSurge", "maxUnavailable", computed=True),
    "blueGreenSettings": Field(
        of={
            "standardRolloutPolicy": Field(
                of=same("batchNodeCount", "batchPercentage", "batchSoakDuration", computed=True),
                computed=True,
            ),
            "nodePoolSoakDuration": Field(computed=True),
        },
        computed=True,
    ),
}
_POOL: Fields = {
    "management": Field(of=same("autoRepair", "autoUpgrade", computed=True), computed=True),
    "maxPodsPerNode": Field(api="maxPodsConstraint.maxPodsPerNode", text=True, computed=True),
    "nodeLocations": Field(api="locations", unordered=True, computed=True),
    "version": Field(computed=True),
    "upgradeSettings": Field(of=_UPGRADE, computed=True),
    "networkConfig": Field(
        of={
            **same("enablePrivateNodes", computed=True),
            **same("acceleratorNetworkProfile"),
            "additionalNodeNetworkConfigs": Field(
                many=True, of=same("network", "subnetwork"), computed=True
            ),
        },
        computed=True,
    ),
    "placementPolicy": Field(of=same("type", "policyName")),
    "queuedProvisioning": Field(of=same("enabled")),
    "bestEffortProvisioning": Field(of={"enabled": Field(), "minProvisionNodes": Field(text=True)}),
}
# Property -> its name in UpdateNodePool, which takes one change per call.
_CONFIG_UPDATES = {
    "machineType": "machineType",
    "diskType": "diskType",
    "diskSizeGb": "diskSizeGb",
    "bootDisk": "bootDisk",
    "imageType": "imageType",
    "gvnic": "gvnic",
    "gcfsConfig": "gcfsConfig",
    "fastSocket": "fastSocket",
    "kubeletConfig": "kubeletConfig",
    "linuxNodeConfig": "linuxNodeConfig",
    "taintConfig": "taintConfig",
    "workloadMetadataConfig": "workloadMetadataConfig",
    "loggingVariant": "loggingConfig",
    "confidentialNodes": "confidentialNodes",
}


class NodePool(Resource):
    kind = "gcp:container/nodePool:NodePool"
    force_new = (
        "cluster",
        "location",
        "project",
        "name",
        "namePrefix",
        "initialNodeCount",
        "maxPodsPerNode",
        # Of a placement policy the provider updates nothing; a change of its type alone is shown,
        # and has no effect: resource_container_node_pool.go.
        "placementPolicy.policyName",
        "queuedProvisioning",
        "bestEffortProvisioning",
        "networkConfig.podRange",
        "networkConfig.createPodRange",
        "networkConfig.podIpv4CidrBlock",
        "networkConfig.additionalNodeNetworkConfigs",
        "networkConfig.additionalPodNetworkConfigs",
        "networkConfig.subnetwork",
        "networkConfig.acceleratorNetworkProfile",
        *REPLACES,
    )
    sets = ("nodeLocations", "nodeConfig.oauthScopes")
    keeps = (
        "nodeLocations",
        "version",
        "maxPodsPerNode",
        "location",
        "project",
        "management",
        "upgradeSettings",
        "nodeCount",
        "initialNodeCount",
        "name",
        "networkConfig",
        *KEEPS,
    )
    keeps_whole = ("nodeConfig", "nodeConfig.labels")
    busy_reasons = BUSY_REASONS
    autoname = Autoname("name", 40, lower=True, prefix_property="namePrefix")

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        failures = []
        if inputs.get("name") and inputs.get("namePrefix"):
            failures.append(CheckFailure("namePrefix", "conflicts with name"))
        scaling = inputs.get("autoscaling")
        if isinstance(scaling, dict):
            total = [
                k for k in ("totalMinNodeCount", "totalMaxNodeCount") if is_known(scaling.get(k))
            ]
            each = [k for k in ("minNodeCount", "maxNodeCount") if is_known(scaling.get(k))]
            if total and each:
                failures.append(
                    CheckFailure(
                        f"autoscaling.{each[0]}",
                        f"conflicts with {total[0]}; set limits per zone or in total, not both",
                    )
                )
        config = inputs.get("nodeConfig")
        if isinstance(config, dict):
            failures += _config_failures(config)
        return failures

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        parent = _cluster_path(session, inputs)
        name = inputs.get("name") or f"{inputs['namePrefix']}{secrets.token_hex(4)}"
        operation = session.cloud.call(
            "container",
            f"{_PREFIX}.create",
            {"parent": parent},
            {"nodePool": _request(inputs, str(name))},
        )
        key = f"{parent}/nodePools/{name}"
        session.show_status(f"waiting for operation {operation['name']}")
        error = operation_error(session, operation)
        if error is None:
            return CreateResult(key)
        if or_none(session, "container", f"{_PREFIX}.get", {"name": key}) is None:
            raise ProviderError(f"error creating NodePool {name}: {error}")
        return CreateResult(key, [f"error creating NodePool {name}: {error}"])

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        pool = or_none(session, "container", f"{_PREFIX}.get", {"name": resource_id})
        if pool is None:
            return None
        parts = resource_id.split("/")
        imported = not inputs
        read_inputs = from_api(_POOL, pool, None if imported else inputs)
        config = seen_node_config(
            pool["config"], None if imported else (inputs.get("nodeConfig") or {})
        )
        if imported:
            config.pop("taints", None)  # on purpose: pulumi/pulumi-gcp #3441
        if config and (
            imported or inputs.get("nodeConfig") is not None or set(config) - {"effectiveTaints"}
        ):
            read_inputs["nodeConfig"] = config
        scaling = pool.get("autoscaling") or {}
        if scaling.get("enabled"):
            read_inputs["autoscaling"] = from_api(
                _AUTOSCALING, scaling, None if imported else (inputs.get("autoscaling") or {})
            )
        if "nodeCount" in inputs:
            read_inputs["nodeCount"] = (
                inputs["nodeCount"]
                if inputs.get("ignoreNodeCountChanges")
                else pool["initialNodeCount"]
            )
        elif imported:
            read_inputs["nodeCount"] = pool["initialNodeCount"]
        name = {"name": pool["name"]} if "namePrefix" not in inputs else {}
        # The provider's importer takes these from the ID, the cluster's name alone; later reads
        # leave what the program gave.
        location_fields = dict(zip(("project", "location", "cluster"), parts[1:6:2], strict=True))
        where = location_fields if imported else prior_values(inputs, *_CLIENT_SIDE)
        return State({**read_inputs, **where, **name}, _outputs(pool, parts))

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        reasons = []
        for method, body in _calls(old, new):
            operation = session.cloud.call(
                "container", f"{_PREFIX}.{method}", {"name": resource_id}, body
            )
            error = operation_error(session, operation)
            if error is not None:
                reasons.append(f"error updating NodePool {last(resource_id)}: {error}")
        if not reasons:
            pool = session.cloud.call("container", f"{_PREFIX}.get", {"name": resource_id})
            if pool["status"] in ("ERROR", "RUNNING_WITH_ERROR") and old == new:
                # The update after a partial failure: nothing is left to change, and the pool has
                # not recovered.
                reasons.append(
                    f"NodePool {last(resource_id)} is {pool['status']}: "
                    f"{pool.get('statusMessage', 'no message')}"
                )
        return reasons

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        policy = inputs.get("deletionPolicy", "DELETE")
        if policy == "PREVENT":
            raise ProviderError(
                f"cannot destroy NodePool {last(resource_id)}: its deletionPolicy is PREVENT"
            )
        if (
            policy == "ABANDON"
            or or_none(session, "container", f"{_PREFIX}.get", {"name": resource_id}) is None
        ):
            return
        operation = session.cloud.call("container", f"{_PREFIX}.delete", {"name": resource_id})
        error = operation_error(session, operation)
        if error is not None:
            raise ProviderError(f"error deleting NodePool {last(resource_id)}: {error}")


_CLIENT_SIDE = (
    "cluster",
    "location",
    "project",
    "namePrefix",
    "initialNodeCount",
    "ignoreNodeCountChanges",
    "deletionPolicy",
    "nodeDrainConfigs",
)


def _config_failures(config: JsonObject) -> list[CheckFailure]:
    failures = []
    effects = ("NO_SCHEDULE", "PREFER_NO_SCHEDULE", "NO_EXECUTE")
    for index, taint in enumerate(members(config.get("taints"))):
        effect = taint.get("effect") if isinstance(taint, dict) else None
        if is_known(effect) and effect not in effects:
            failures.append(
                CheckFailure(
                    f"nodeConfig.taints[{index}].effect",
                    f"expected one of {', '.join(effects)}, got {effect!r}",
                )
            )
    if is_known(config.get("diskSizeGb")) and int(config["diskSizeGb"]) < 10:
        failures.append(
            CheckFailure(
                "nodeConfig.diskSizeGb", f"expected to be at least 10, got {config['diskSizeGb']}"
            )
        )
    drivers = ("GPU_DRIVER_VERSION_UNSPECIFIED", "INSTALLATION_DISABLED", "DEFAULT", "LATEST")
    for index, gpu in enumerate(members(config.get("guestAccelerators"))):
        driver = (
            (gpu.get("gpuDriverInstallationConfig") or {}).get("gpuDriverVersion")
            if isinstance(gpu, dict)
            else None
        )
        if is_known(driver) and driver not in drivers:
            at = (
                f"nodeConfig.guestAccelerators[{index}]"
                ".gpuDriverInstallationConfig.gpuDriverVersion"
            )
            failures.append(
                CheckFailure(at, f"expected one of {', '.join(drivers)}, got {driver!r}")
            )
    return failures


def _cluster_path(session: Session, inputs: Mapping[str, Any]) -> str:
    """The path for `cluster`, which is a name or such a path."""
    cluster = str(inputs["cluster"])
    if cluster.startswith("projects/"):
        return cluster
    project, location = project_of(session, inputs), location_of(session, inputs)
    return f"projects/{project}/locations/{location}/clusters/{cluster}"


def _request(inputs: Properties, name: str) -> JsonObject:
    handled = {*_CLIENT_SIDE, "name", "nodeCount", "autoscaling", "nodeConfig"}
    pool = to_api(_POOL, {k: v for k, v in inputs.items() if k not in handled})
    scaling = inputs.get("autoscaling")
    count = inputs.get("nodeCount", inputs.get("initialNodeCount"))
    if count is None:
        count = (scaling or {}).get("minNodeCount", 0)
    pool |= {"name": name, "initialNodeCount": int(count)}
    if inputs.get("nodeConfig") is not None:
        pool["config"] = to_api(NODE_CONFIG, inputs["nodeConfig"], "nodeConfig")
    if scaling is not None:
        pool["autoscaling"] = {"enabled": True, **to_api(_AUTOSCALING, scaling, "autoscaling")}
    drains = inputs.get("nodeDrainConfigs")
    if drains:
        pool["nodeDrainConfig"] = to_api(_DRAIN, drains[0], "nodeDrainConfigs[0]")
    return pool


_DRAIN: Fields = same("respectPdbDuringNodePoolDeletion")


def _calls(old: Properties, new: Properties) -> list[tuple[str, JsonObject]]:
    """Method and body of the calls from old to new: one per property, as the real provider does."""
    calls: list[tuple[str, JsonObject]] = []

    def changed(name: str) -> bool:
        return bool(old.get(name) != new.get(name))

    if changed("autoscaling"):
        scaling = new.get("autoscaling")
        body = (
            {"enabled": True, **to_api(_AUTOSCALING, scaling, "autoscaling")}
            if scaling is not None
            else {"enabled": False}
        )
        calls.append(("setAutoscaling", {"autoscaling": body}))
    calls += [
        ("update", body)
        for body in _config_bodies(old.get("nodeConfig") or {}, new.get("nodeConfig") or {})
    ]
    if changed("nodeCount") and new.get("nodeCount") is not None:
        calls.append(("setSize", {"nodeCount": int(new["nodeCount"])}))
    if changed("management") and new.get("management") is not None:
        calls.append(("setManagement", {"management": new["management"]}))
    if changed("version") and new.get("version") is not None:
        calls.append(("update", {"nodeVersion": new["version"]}))
    if changed("nodeLocations") and new.get("nodeLocations") is not None:
        calls.append(("update", {"locations": new["nodeLocations"]}))
    if changed("upgradeSettings") and new.get("upgradeSettings") is not None:
        calls.append(
            ("update", {"upgradeSettings": {"strategy": "SURGE", **new["upgradeSettings"]}})
        )
    private = (new.get("networkConfig") or {}).get("enablePrivateNodes")
    if changed("networkConfig") and private is not None:
        calls.append(("update", {"nodeNetworkConfig": {"enablePrivateNodes": private}}))
    if changed("nodeDrainConfigs"):
        drains = new.get("nodeDrainConfigs") or [{}]
        calls.append(
            ("update", {"nodeDrainConfig": to_api(_DRAIN, drains[0], "nodeDrainConfigs[0]")})
        )
    return calls


def _config_bodies(old: JsonObject, new: JsonObject) -> list[JsonObject]:
    bodies: list[JsonObject] = []
    for name, api in _CONFIG_UPDATES.items():
        if old.get(name) != new.get(name) and new.get(name) is not None:
            value = to_api({name: NODE_CONFIG[name]}, {name: new[name]}, "nodeConfig")
            bodies.append({api: value[api]})
    if old.get("fastSocket") is not None and new.get("fastSocket") is None:
        # The provider sends an empty block; what it reads back then is not enabled, but is there.
        bodies.append({"fastSocket": {}})
    if old.get("labels") != new.get("labels"):
        bodies.append({"labels": {"labels": new.get("labels") or {}}})
    if old.get("taints") != new.get("taints"):
        bodies.append({"taints": {"taints": new.get("taints") or []}})
    if old.get("resourceLabels") != new.get("resourceLabels"):
        bodies.append({"resourceLabels": {"labels": new.get("resourceLabels") or {}}})
    if old.get("tags") != new.get("tags"):
        bodies.append({"tags": {"tags": new.get("tags") or []}})
    return bodies


def _outputs(pool: JsonObject, parts: list[str]) -> Properties:
    outputs = from_api(_POOL, pool, None)
    scaling = pool.get("autoscaling") or {}
    if scaling.get("enabled"):
        outputs["autoscaling"] = from_api(_AUTOSCALING, scaling, None)
    return {
        **outputs,
        "nodeConfig": seen_node_config(pool["config"], None),
        "name": pool["name"],
        "nodeCount": pool["initialNodeCount"],
        "initialNodeCount": pool["initialNodeCount"],
        "project": parts[1],
        "location": parts[3],
        "cluster": parts[5],
        "instanceGroupUrls": pool["instanceGroupUrls"],
        "managedInstanceGroupUrls": [
            u.replace("instanceGroupManagers", "instanceGroups") for u in pool["instanceGroupUrls"]
        ],
    }
