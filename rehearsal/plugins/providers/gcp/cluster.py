"""gcp:container/cluster:Cluster.

Source of the API calls: hashicorp/terraform-provider-google-beta, resource_container_cluster.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.bridge.fields import Field, Fields, from_api, same, to_api
from slicewright.rehearsal.plugins.bridge.resources import (
    Autoname,
    CreateResult,
    Resource,
    Session,
    State,
    is_known,
    prior_values,
)
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure, ProviderError
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.gcp.calls import (
    BUSY_REASONS,
    complete,
    last,
    location_of,
    operation_error,
    or_none,
    project_of,
)
from slicewright.rehearsal.plugins.providers.gcp.node_config import NODE_CONFIG, seen_node_config

_CLUSTERS = "projects.locations.clusters"
_ENABLED = same("enabled")
_NETWORKS = ("network", "subnetwork")
_CLUSTER: Fields = {
    "description": Field(),
    "network": Field(computed=True),
    "subnetwork": Field(computed=True),
    "nodeLocations": Field(api="locations", unordered=True, computed=True),
    "minMasterVersion": Field(api="initialClusterVersion", computed=True),
    "resourceLabels": Field(),
    "releaseChannel": Field(of=same("channel"), computed=True),
    "workloadIdentityConfig": Field(of=same("workloadPool"), computed=True),
    "ipAllocationPolicy": Field(
        of={
            "clusterIpv4CidrBlock": Field(computed=True),
            "servicesIpv4CidrBlock": Field(computed=True),
            "clusterSecondaryRangeName": Field(computed=True),
            "servicesSecondaryRangeName": Field(computed=True),
            "stackType": Field(computed=True),
        },
        computed=True,
    ),
    "datapathProvider": Field(api="networkConfig.datapathProvider", computed=True),
    "enableIntranodeVisibility": Field(
        api="networkConfig.enableIntraNodeVisibility", computed=True
    ),
    "enableMultiNetworking": Field(api="networkConfig.enableMultiNetworking"),
    "loggingConfig": Field(
        of={"enableComponents": Field(api="componentConfig.enableComponents")}, computed=True
    ),
    "monitoringConfig": Field(
        of={
            "enableComponents": Field(api="componentConfig.enableComponents", computed=True),
            "managedPrometheus": Field(api="managedPrometheusConfig", of=_ENABLED, computed=True),
        },
        computed=True,
    ),
    "loggingService": Field(computed=True),
    "monitoringService": Field(computed=True),
    "verticalPodAutoscaling": Field(of=_ENABLED, computed=True),
    "enableShieldedNodes": Field(api="shieldedNodes.enabled", computed=True),
    "addonsConfig": Field(
        of={
            "httpLoadBalancing": Field(of=same("disabled")),
            "horizontalPodAutoscaling": Field(of=same("disabled")),
            "networkPolicyConfig": Field(of=same("disabled"), computed=True),
            "dnsCacheConfig": Field(of=_ENABLED),
            "gcePersistentDiskCsiDriverConfig": Field(of=_ENABLED),
            "gcsFuseCsiDriverConfig": Field(of=_ENABLED),
        },
        computed=True,
    ),
    "privateClusterConfig": Field(
        of={
            **same("enablePrivateNodes", "enablePrivateEndpoint", "masterIpv4CidrBlock"),
            "privateEndpointSubnetwork": Field(),
            "masterGlobalAccessConfig": Field(of=_ENABLED),
        },
        computed=True,
    ),
    "masterAuthorizedNetworksConfig": Field(
        of={
            "cidrBlocks": Field(many=True, of=same("cidrBlock", "displayName")),
            **same("gcpPublicCidrsAccessEnabled", "privateEndpointEnforcementEnabled"),
        },
        computed=True,
    ),
    "maintenancePolicy": Field(
        of={
            "dailyMaintenanceWindow": Field(
                api="window.dailyMaintenanceWindow",
                of={"startTime": Field(), "duration": Field(computed=True)},
            ),
            "recurringWindow": Field(
                api="window.recurringWindow",
                of={
                    "startTime": Field(api="window.startTime"),
                    "endTime": Field(api="window.endTime"),
                    "recurrence": Field(),
                },
            ),
            "maintenanceExclusions": Field(
                api="window.maintenanceExclusions",
                keyed="exclusionName",
                of={
                    **same("startTime", "endTime"),
                    "exclusionOptions": Field(
                        api="maintenanceExclusionOptions",
                        of={"scope": Field(), "endTimeBehavior": Field()},
                        computed=True,
                    ),
                },
            ),
        }
    ),
    "databaseEncryption": Field(of=same("state", "keyName"), computed=True),
    "controlPlaneEndpointsConfig": Field(
        of={
            "dnsEndpointConfig": Field(
                of={
                    **same("allowExternalTraffic", "enableK8sTokensViaDns", "enableK8sCertsViaDns"),
                    "endpoint": Field(computed=True),
                },
                computed=True,
            ),
            "ipEndpointsConfig": Field(of=_ENABLED, computed=True),
        },
        computed=True,
    ),
    "costManagementConfig": Field(of=_ENABLED, computed=True),
    "defaultMaxPodsPerNode": Field(
        api="defaultMaxPodsConstraint.maxPodsPerNode", text=True, computed=True
    ),
}
_WINDOWS = {"dailyMaintenanceWindow", "recurringMaintenanceWindow", "recurringWindow"}
_API_WINDOWS = {"dailyMaintenanceWindow", "recurringWindow"}
# Not sent to the API, or not as they are.
_CLIENT_SIDE = (
    "name",
    "project",
    "location",
    "deletionProtection",
    "removeDefaultNodePool",
    "initialNodeCount",
    "networkingMode",
    "nodeConfig",
)
# Path of a property -> its name in UpdateCluster, which takes one change per call.
_DESIRED = {
    "minMasterVersion": "desiredMasterVersion",
    "releaseChannel": "desiredReleaseChannel",
    "loggingConfig": "desiredLoggingConfig",
    "monitoringConfig": "desiredMonitoringConfig",
    "workloadIdentityConfig": "desiredWorkloadIdentityConfig",
    "verticalPodAutoscaling": "desiredVerticalPodAutoscaling",
    "nodeLocations": "desiredLocations",
    "addonsConfig": "desiredAddonsConfig",
    "enableMultiNetworking": "desiredEnableMultiNetworking",
    "ipAllocationPolicy.stackType": "desiredStackType",
    "privateClusterConfig.enablePrivateEndpoint": "desiredEnablePrivateEndpoint",
    "privateClusterConfig.enablePrivateNodes": "desiredDefaultEnablePrivateNodes",
    "masterAuthorizedNetworksConfig": "desiredMasterAuthorizedNetworksConfig",
    "databaseEncryption": "desiredDatabaseEncryption",
    "controlPlaneEndpointsConfig": "desiredControlPlaneEndpointsConfig",
}


class Cluster(Resource):
    kind = "gcp:container/cluster:Cluster"
    force_new = (
        "name",
        "location",
        "project",
        "network",
        "subnetwork",
        "initialNodeCount",
        "ipAllocationPolicy.clusterIpv4CidrBlock",
        "ipAllocationPolicy.servicesIpv4CidrBlock",
        "ipAllocationPolicy.clusterSecondaryRangeName",
        "ipAllocationPolicy.servicesSecondaryRangeName",
        "networkingMode",
        "nodeConfig",
        "description",
        "datapathProvider",
        "defaultMaxPodsPerNode",
        "privateClusterConfig.masterIpv4CidrBlock",
        "privateClusterConfig.privateEndpointSubnetwork",
        "enableAutopilot",
        "enableTpu",
        "confidentialNodes",
        "clusterIpv4Cidr",
    )
    sets = ("nodeLocations", "maintenancePolicy.maintenanceExclusions")
    keeps = (
        *(k for k, f in _CLUSTER.items() if f.computed),
        *("location", "project", "nodeConfig", "nodePools", "nodeVersion"),
        *("masterAuth", "clusterIpv4Cidr", "deletionProtection"),
        "maintenancePolicy.dailyMaintenanceWindow.duration",
    )
    autoname = Autoname("name", 40, lower=True)
    busy_reasons = BUSY_REASONS

    def defaults(self, inputs: Properties, settings: Mapping[str, str]) -> Properties:
        # As in the provider's schema: deletion protection is on unless it is set to false.
        return {"deletionProtection": True}

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        failures = []
        if inputs.get("nodePools"):
            failures.append(
                CheckFailure(
                    "nodePools",
                    "the rehearsal does not simulate inline pools; use NodePool resources",
                )
            )
        if inputs.get("enableAutopilot") is True:
            failures.append(
                CheckFailure(
                    "enableAutopilot", "must not be true: the rehearsal does not simulate Autopilot"
                )
            )
        policy = inputs.get("maintenancePolicy")
        if isinstance(policy, dict) and len(_WINDOWS & policy.keys()) != 1:
            failures.append(
                CheckFailure("maintenancePolicy", f"exactly one of {', '.join(sorted(_WINDOWS))}")
            )
        if is_known(inputs.get("loggingService")) and is_known(inputs.get("loggingConfig")):
            failures.append(CheckFailure("loggingService", "conflicts with loggingConfig"))
        return failures

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        project, location = project_of(session, inputs), location_of(session, inputs)
        parent = f"projects/{project}/locations/{location}"
        body = to_api(_CLUSTER, {k: v for k, v in inputs.items() if k not in _CLIENT_SIDE})
        for field in _NETWORKS:
            if field in body:
                body[field] = _network_path(field, body[field], project, location)
        if "masterAuthorizedNetworksConfig" in body:
            body["masterAuthorizedNetworksConfig"]["enabled"] = True
        body |= {"name": inputs["name"], "initialNodeCount": int(inputs.get("initialNodeCount", 0))}
        if inputs.get("networkingMode") == "VPC_NATIVE" or "ipAllocationPolicy" in body:
            body["ipAllocationPolicy"] = {
                "useIpAliases": True,
                **body.get("ipAllocationPolicy", {}),
            }
        if inputs.get("nodeConfig") is not None:
            body["nodeConfig"] = to_api(NODE_CONFIG, inputs["nodeConfig"], "nodeConfig")
        key = f"{parent}/clusters/{inputs['name']}"
        operation = session.cloud.call(
            "container", f"{_CLUSTERS}.create", {"parent": parent}, {"cluster": body}
        )
        session.show_status(f"waiting for operation {operation['name']}")
        error = operation_error(session, operation)
        if error is not None:
            return CreateResult(
                key, [f"Error waiting for creating GKE cluster {inputs['name']}: {error}"]
            )
        if inputs.get("removeDefaultNodePool"):
            _remove_default_pool(session, key)
        return CreateResult(key)

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        cluster = or_none(session, "container", f"{_CLUSTERS}.get", {"name": resource_id})
        if cluster is None:
            return None
        # Without a window the official provider sees no policy: flattenMaintenancePolicy.
        if not _API_WINDOWS & ((cluster.get("maintenancePolicy") or {}).get("window") or {}).keys():
            cluster = {k: v for k, v in cluster.items() if k != "maintenancePolicy"}
        imported = not inputs
        read_inputs = from_api(_CLUSTER, cluster, None if imported else inputs)
        _, project, _, location, *_ = resource_id.split("/")
        for field in _NETWORKS:
            # Whether it was given by name, path or link, it is the same network.
            live = cluster["networkConfig"][field]
            if field in inputs:
                same_one = _network_path(field, inputs[field], project, location) == live
                read_inputs[field] = inputs[field] if same_one else live
        if "minMasterVersion" in inputs:
            # It counts at creation only: a later upgrade is not drift.
            read_inputs["minMasterVersion"] = inputs["minMasterVersion"]
        return State(
            {**read_inputs, **prior_values(inputs, *_CLIENT_SIDE)},
            _outputs(cluster, resource_id.split("/"), inputs),
        )

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        changed = {k for k in {*old, *new} if old.get(k) != new.get(k) and not k.startswith("__")}
        changed -= {"deletionProtection", "removeDefaultNodePool"}
        for name in sorted(changed):
            if name == "minMasterVersion" and _is_met(session, resource_id, new.get(name)):
                continue
            if name == "resourceLabels":
                body = {"resourceLabels": new.get("resourceLabels") or {}}
                complete(
                    session,
                    session.cloud.call(
                        "container", f"{_CLUSTERS}.setResourceLabels", {"name": resource_id}, body
                    ),
                )
            elif name == "maintenancePolicy":
                policy = _maintenance_policy(session, resource_id, new.get(name))
                complete(
                    session,
                    session.cloud.call(
                        "container",
                        f"{_CLUSTERS}.setMaintenancePolicy",
                        {"name": resource_id},
                        {"maintenancePolicy": policy},
                    ),
                )
            elif updates := _updates(name, old, new):
                for update in updates:
                    complete(
                        session,
                        session.cloud.call(
                            "container",
                            f"{_CLUSTERS}.update",
                            {"name": resource_id},
                            {"update": update},
                        ),
                    )
            elif not (name in self.keeps and name not in new):
                raise ProviderError(
                    f"{name}: the rehearsal does not simulate updating this property of a cluster "
                    "in place"
                )
        if new.get("removeDefaultNodePool") and not old.get("removeDefaultNodePool"):
            _remove_default_pool(session, resource_id)
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        if inputs.get("deletionProtection", True):
            raise ProviderError(
                f"cannot destroy cluster {last(resource_id)} because deletionProtection is set to "
                "true; set it to false, run pulumi up, then destroy"
            )
        if or_none(session, "container", f"{_CLUSTERS}.get", {"name": resource_id}) is None:
            return
        operation = session.cloud.call("container", f"{_CLUSTERS}.delete", {"name": resource_id})
        session.show_status(f"waiting for operation {operation['name']}")
        complete(session, operation)


def _maintenance_policy(
    session: Session, key: str, requested: Properties | None
) -> Mapping[str, object]:
    """As the official provider sends it (expandMaintenancePolicy): with the version of the policy
    that it changes, and without a window with the exclusions that the cluster has.
    """
    cluster = session.cloud.call("container", f"{_CLUSTERS}.get", {"name": key})
    live = cluster.get("maintenancePolicy") or {}
    version = {"resourceVersion": live["resourceVersion"]} if "resourceVersion" in live else {}
    if requested is None:
        exclusions = (live.get("window") or {}).get("maintenanceExclusions") or {}
        return {**version, "window": {"maintenanceExclusions": exclusions}}
    name = "maintenancePolicy"
    policy: JsonObject = to_api(_CLUSTER, {name: requested})[name]
    return {**version, **policy}


def _network_path(field: str, network: str, project: str, location: str) -> str:
    """As the official provider sends it, and the API answers with it: ParseNetworkFieldValue,
    ParseRegionalFieldValue.
    """
    _, separator, path = network.partition("projects/")
    if separator:
        return f"projects/{path}"
    region = location.rsplit("-", 1)[0] if location.count("-") == 2 else location
    where = "global/networks" if field == "network" else f"regions/{region}/subnetworks"
    return f"projects/{project}/{where}/{network}"


def _is_met(session: Session, resource_id: str, minimum: str | None) -> bool:
    """Whether the control plane has this version or a higher one: then the provider sends nothing.

    Source: hashicorp/terraform-provider-google-beta, resource_container_cluster.go: "Only upgrade
    the master if the current version is lower than the desired version".
    """
    if minimum is None:
        return True
    live_cluster = session.cloud.call("container", f"{_CLUSTERS}.get", {"name": resource_id})
    return _numbers(minimum) <= _numbers(live_cluster["currentMasterVersion"])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]+", version))


def _updates(name: str, old: Properties, new: Properties) -> list[JsonObject]:
    """The changes of one property, or of properties in it, as UpdateCluster takes them."""
    updates: list[JsonObject] = []
    for path, desired in _DESIRED.items():
        property_, _, member = path.partition(".")
        if property_ != name:
            continue
        before, after = old.get(name), new.get(name)
        if member:
            before = (before or {}).get(member)
            after = (after or {}).get(member)
            if after is not None and before != after:
                updates.append({desired: after})
        elif after is None:
            if name not in Cluster.keeps:
                updates.append({desired: {}})
        else:
            field = _CLUSTER[name]
            value = to_api({name: field}, {name: after})
            for part in (field.api or name).split("."):
                value = value[part]
            if name == "masterAuthorizedNetworksConfig":
                value = {"enabled": True, **value}
            updates.append({desired: value})
    return updates


def _remove_default_pool(session: Session, key: str) -> None:
    """Deletes the pool without which the API creates no cluster, as the real provider does."""
    pool = f"{key}/nodePools/default-pool"
    if or_none(session, "container", f"{_CLUSTERS}.nodePools.get", {"name": pool}) is None:
        return
    operation = session.cloud.call("container", f"{_CLUSTERS}.nodePools.delete", {"name": pool})
    session.show_status(
        f"removing the default node pool: waiting for operation {operation['name']}"
    )
    complete(session, operation)


def _outputs(cluster: JsonObject, parts: list[str], inputs: Properties) -> Properties:
    labels = cluster.get("resourceLabels") or {}
    auth = {
        "clientCertificate": "",
        "clientKey": "",
        "clientCertificateConfig": {"issueClientCertificate": False},
    }
    return {
        **from_api(_CLUSTER, cluster, None),
        **{field: cluster["networkConfig"][field] for field in _NETWORKS},
        "name": cluster["name"],
        "project": parts[1],
        "location": parts[3],
        "endpoint": cluster.get("endpoint", ""),
        "masterAuth": {
            **auth,
            "clusterCaCertificate": cluster.get("masterAuth", {}).get("clusterCaCertificate", ""),
        },
        "masterVersion": cluster["currentMasterVersion"],
        "minMasterVersion": inputs.get("minMasterVersion"),
        "nodeVersion": cluster["currentNodeVersion"],
        "selfLink": cluster["selfLink"],
        "labelFingerprint": cluster["labelFingerprint"],
        "servicesIpv4Cidr": cluster["servicesIpv4Cidr"],
        "clusterIpv4Cidr": cluster["clusterIpv4Cidr"],
        "effectiveLabels": labels,
        "pulumiLabels": labels,
        "nodeConfig": seen_node_config(cluster["nodeConfig"], None),
        "nodePools": [
            {"name": p["name"], "nodeCount": p["initialNodeCount"]} for p in cluster["nodePools"]
        ],
    }
