"""Clusters in networks that exist: the project's own, and those that a host project shares."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.projects import project_number
from tests.rehearsal.clouds.conftest import Gcp
from tests.rehearsal.clouds.gcp.google_client import HttpError, client

HOST = "net-host"
NETWORK = f"projects/{HOST}/global/networks/shared"
SUBNETWORK = f"projects/{HOST}/regions/us-central1/subnetworks/gpu-nodes"
NUMBER = project_number("acme")
ROBOT = f"serviceAccount:service-{NUMBER}@container-engine-robot.iam.gserviceaccount.com"
APIS = f"serviceAccount:{NUMBER}@cloudservices.gserviceaccount.com"
HOST_AGENT = {"role": "roles/container.hostServiceAgentUser", "members": [ROBOT]}
NETWORK_USER = {"role": "roles/compute.networkUser", "members": [ROBOT, APIS]}


@pytest.fixture
def host(gcp: Gcp) -> Gcp:
    """A VPC of another project, not shared yet."""
    gcp.call("compute", "networks.insert", {"project": HOST}, name="shared")
    gcp.call(
        "compute",
        "subnetworks.insert",
        {"project": HOST, "region": "us-central1"},
        name="gpu-nodes",
        network=NETWORK,
        ipCidrRange="10.20.0.0/20",
        secondaryIpRanges=[
            {"rangeName": "pods", "ipCidrRange": "10.24.0.0/14"},
            {"rangeName": "services", "ipCidrRange": "10.28.0.0/20"},
        ],
    )
    return gcp


def share(gcp: Gcp, *bindings: dict[str, object]) -> None:
    compute = client(gcp.cloud.call, "compute")
    compute.call("projects.enableXpnHost", project=HOST)
    attached = {"xpnResource": {"id": "acme", "type": "PROJECT"}}
    compute.call("projects.enableXpnResource", project=HOST, body=attached)
    policies = client(gcp.cloud.call, "cloudresourcemanager")
    body = {"policy": {"bindings": list(bindings)}}
    policies.call("projects.setIamPolicy", resource=HOST, body=body)


def make(gcp: Gcp, **ranges: str) -> dict[str, object]:
    """The operation, as Google's own client reads it."""
    policy = {"clusterSecondaryRangeName": "pods", "servicesSecondaryRangeName": "services"}
    asked = {
        "name": "main",
        "initialNodeCount": 1,
        "network": NETWORK,
        "subnetwork": SUBNETWORK,
        "ipAllocationPolicy": {"useIpAliases": True, **(ranges or policy)},
    }
    found: dict[str, object] = client(gcp.cloud.call, "container").call(
        "projects.locations.clusters.create", parent=gcp.parent, body={"cluster": asked}
    )
    return found


def test_a_cluster_in_a_shared_vpc_says_where_it_is(host: Gcp) -> None:
    share(host, HOST_AGENT, NETWORK_USER)
    host.wait(make(host))
    found = host.call("container", "projects.locations.clusters.get", {"name": host.cluster})
    assert (found["network"], found["subnetwork"]) == ("shared", "gpu-nodes")
    assert found["networkConfig"]["network"] == NETWORK
    assert found["networkConfig"]["subnetwork"] == SUBNETWORK
    where = {"project": HOST, "region": "us-central1", "subnetwork": "gpu-nodes"}
    with pytest.raises(CloudError, match="is already being used by 'projects/acme/zones/"):
        host.call("compute", "subnetworks.delete", where)


def test_a_vpc_that_is_not_shared_with_the_project_is_refused(host: Gcp) -> None:
    with pytest.raises(HttpError, match="not a service project of the Shared VPC") as caught:
        make(host)
    assert caught.value.status_code == 403


def test_gkes_service_agent_needs_its_role_in_the_host_project(host: Gcp) -> None:
    share(host, NETWORK_USER)
    with pytest.raises(HttpError, match=r"container\.hostServiceAgent\.use") as caught:
        make(host)
    assert caught.value.status_code == 403


def test_without_rights_on_the_subnetwork_the_operation_fails(host: Gcp) -> None:
    share(host, HOST_AGENT)
    done = host.settle(make(host))
    assert "Required 'compute.subnetworks.get' permission" in done["error"]["message"]
    found = host.call("container", "projects.locations.clusters.get", {"name": host.cluster})
    assert found["status"] == "ERROR"


def test_gke_makes_no_ranges_in_the_subnetwork_of_another_project(host: Gcp) -> None:
    share(host, HOST_AGENT, NETWORK_USER)
    with pytest.raises(HttpError, match="need secondary ranges that exist"):
        make(host, servicesSecondaryRangeName="services")


def test_a_range_that_the_subnetwork_lacks_is_refused(host: Gcp) -> None:
    share(host, HOST_AGENT, NETWORK_USER)
    with pytest.raises(HttpError, match='Secondary range "none" does not exist'):
        make(host, clusterSecondaryRangeName="none", servicesSecondaryRangeName="services")
