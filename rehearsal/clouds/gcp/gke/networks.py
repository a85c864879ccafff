"""The VPC and the subnetwork of a cluster: its project's own, or those that a host project shares.

Sources: Google's "Setting up clusters with Shared VPC"; the refusals in Google's words as in
terraform-google-modules/terraform-google-kubernetes-engine #616 (host service agent) and #302
(subnetwork).
"""

from __future__ import annotations

from dataclasses import dataclass

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.gke.defaults import region_of
from slicewright.rehearsal.clouds.gcp.projects import project_number
from slicewright.rehearsal.clouds.gcp.state import NETWORKS, POLICIES, SHARED_VPCS, SUBNETWORKS

_HOST_AGENT = "roles/container.hostServiceAgentUser"
_NETWORK_USER = "roles/compute.networkUser"


@dataclass(frozen=True, kw_only=True)
class ClusterNetwork:
    """Paths as in `projects/P/global/networks/N`."""

    network: str
    subnetwork: str

    def answer_fields(self) -> JsonObject:
        """The fields of a cluster that say it."""
        return {
            "network": self.network.rpartition("/")[2],
            "subnetwork": self.subnetwork.rpartition("/")[2],
        }

    def in_network_config(self) -> JsonObject:
        return {"network": self.network, "subnetwork": self.subnetwork}


def network_of(cluster: JsonObject) -> ClusterNetwork:
    """Of a stored cluster."""
    config = cluster["networkConfig"]
    return ClusterNetwork(network=config["network"], subnetwork=config["subnetwork"])


def check_network(
    store: Store, project: str, location: str, requested: JsonObject
) -> ClusterNetwork:
    """What the request names. Raises CloudError unless it is there and fits together."""
    owner, name = _parts(str(requested.get("network") or "default"), project)
    if owner != project:
        _check_shared(store, owner, project)
    network = store.get(NETWORKS, f"{owner}/{name}")
    if network is None:
        raise google_error(400, f'Network "{name}" does not exist in project {owner}.')
    region = region_of(location)
    subnet_owner, subnet_name = _parts(str(requested.get("subnetwork") or ""), owner)
    subnets = [
        s
        for s in store.values(SUBNETWORKS, prefix=f"{subnet_owner}/{region}/")
        if s["network"] == network["selfLink"] and subnet_name in ("", s["name"])
    ]
    if not subnets:
        subject = f'Subnetwork "{subnet_name}"' if subnet_name else "A subnetwork"
        raise google_error(400, f'{subject} of network "{name}" does not exist in region {region}.')
    policy = requested.get("ipAllocationPolicy") or {}
    _check_ranges(subnets[0], policy)
    if owner != project and not policy.get("clusterSecondaryRangeName"):
        # GKE adds no ranges to the subnetworks of another project.
        raise google_error(
            400,
            "Clusters in a Shared VPC need secondary ranges that exist: "
            "ip_allocation_policy.cluster_secondary_range_name is not set.",
        )
    return ClusterNetwork(
        network=f"projects/{owner}/global/networks/{name}",
        subnetwork=f"projects/{owner}/regions/{region}/subnetworks/{subnets[0]['name']}",
    )


def check_subnetwork_rights(store: Store, project: str, cluster: JsonObject) -> None:
    """Raises CloudError unless GKE and Google APIs may make machines in a shared subnetwork.

    GKE finds it out when it makes them, so the operation fails.
    """
    subnetwork = network_of(cluster).subnetwork
    host = subnetwork.split("/")[1]
    if host == project:
        return
    for agent in (_gke_agent(project), f"{project_number(project)}@cloudservices"):
        if not _may(store, host, _NETWORK_USER, f"{agent}.gserviceaccount.com"):
            raise google_error(
                403,
                "Google Compute Engine: Required 'compute.subnetworks.get' permission for "
                f"'{subnetwork}'.",
            )


def _parts(path: str, default: str) -> tuple[str, str]:
    """Project and name of a name, a path or a link."""
    *_, last = path.split("/")
    _, separator, rest = path.partition("projects/")
    return (rest.split("/")[0] if separator else default), last


def _check_shared(store: Store, host: str, project: str) -> None:
    if project not in (store.get(SHARED_VPCS, host) or {}).get("projects", ()):
        raise google_error(
            403,
            f"Project {project} is not a service project of the Shared VPC host project {host}.",
        )
    agent = f"{_gke_agent(project)}.gserviceaccount.com"
    if not _may(store, host, _HOST_AGENT, agent):
        raise google_error(
            403,
            "Kubernetes Engine Service Agent is missing required permissions on this project: "
            f'required "container.hostServiceAgent.use" permission(s) for "projects/{host}".',
        )


def _check_ranges(subnetwork: JsonObject, policy: JsonObject) -> None:
    ranges = {r["rangeName"] for r in subnetwork.get("secondaryIpRanges", [])}
    for field in ("clusterSecondaryRangeName", "servicesSecondaryRangeName"):
        if policy.get(field) and policy[field] not in ranges:
            raise google_error(
                400,
                f'Secondary range "{policy[field]}" does not exist in subnetwork '
                f'"{subnetwork["name"]}"; it has {sorted(ranges)}.',
            )


def may_as_gke(store: Store, project: str, role: str) -> bool:
    """Whether GKE's service agent of the project has a role on it."""
    return _may(store, project, role, f"{_gke_agent(project)}.gserviceaccount.com")


def _gke_agent(project: str) -> str:
    return f"service-{project_number(project)}@container-engine-robot.iam"


def _may(store: Store, project: str, role: str, email: str) -> bool:
    """Of grants on the project only; on single subnetworks they are not simulated."""
    bindings = (store.get(POLICIES, project) or {}).get("bindings", ())
    return any(b["role"] == role and f"serviceAccount:{email}" in b["members"] for b in bindings)
