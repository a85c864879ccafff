"""What a simulated Google project has before a stack comes into it."""

from __future__ import annotations

from typing import Any

from slicewright.rehearsal.clouds.gcp.projects import project_number
from slicewright.rehearsal.clouds.service import Cloud


def let_gke_make_networks(cloud: Cloud, project: str) -> None:
    """As gpu_network needs it. In a project without other bindings."""
    _bind(cloud, project, **{"roles/compute.networkAdmin": [_robot(project)]})


def make_network(
    cloud: Cloud,
    project: str,
    region: str,
    name: str = "corporate",
    *,
    subnet: str = "gpu",
    pods: str = "pods",
    services: str = "services",
) -> None:
    """As a network team would."""
    cloud.call("compute", "networks.insert", {"project": project}, {"name": name})
    asked = {
        "name": subnet,
        "network": f"projects/{project}/global/networks/{name}",
        "ipCidrRange": "10.64.0.0/20",
        "secondaryIpRanges": [
            {"rangeName": pods, "ipCidrRange": "10.68.0.0/14"},
            {"rangeName": services, "ipCidrRange": "10.72.0.0/20"},
        ],
    }
    cloud.call("compute", "subnetworks.insert", {"project": project, "region": region}, asked)


def make_cluster(cloud: Cloud, project: str, location: str, name: str) -> None:
    """In a network that `make_network` made; with a pool of GKE's own."""
    cluster = {
        "name": name,
        "initialNodeCount": 1,
        "network": "corporate",
        "subnetwork": "gpu",
        "workloadIdentityConfig": {"workloadPool": f"{project}.svc.id.goog"},
    }
    parent = {"parent": f"projects/{project}/locations/{location}"}
    cloud.call("container", "projects.locations.clusters.create", parent, {"cluster": cluster})
    assert cloud.tasks.wait(60)


def share(cloud: Cloud, *, host: str, project: str) -> None:
    """As "Setting up clusters with Shared VPC" in GKE's documentation."""
    cloud.call("compute", "projects.enableXpnHost", {"project": host}, {})
    attached = {"xpnResource": {"id": project, "type": "PROJECT"}}
    cloud.call("compute", "projects.enableXpnResource", {"project": host}, attached)
    robot = _robot(project)
    apis = f"serviceAccount:{project_number(project)}@cloudservices.gserviceaccount.com"
    roles: dict[str, Any] = {
        "roles/container.hostServiceAgentUser": [robot],
        "roles/compute.networkUser": [apis, robot],
    }
    _bind(cloud, host, **roles)


def _robot(project: str) -> str:
    account = f"service-{project_number(project)}@container-engine-robot.iam.gserviceaccount.com"
    return f"serviceAccount:{account}"


def _bind(cloud: Cloud, project: str, **roles: list[str]) -> None:
    """In place of the bindings that the project has."""
    bindings = [{"role": role, "members": members} for role, members in roles.items()]
    policy = {"policy": {"bindings": bindings}}
    cloud.call("cloudresourcemanager", "projects.setIamPolicy", {"resource": project}, policy)
