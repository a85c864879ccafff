"""Private nodes and control plane endpoints, as Google's own client sees them."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError
from tests.rehearsal.clouds.conftest import Gcp
from tests.rehearsal.clouds.gcp.google_client import HttpError, client

CLUSTERS = "projects.locations.clusters"
PRIVATE = {"enablePrivateEndpoint": True, "enablePrivateNodes": True}


def call(gcp: Gcp, method: str, **arguments: Any) -> Any:
    return client(gcp.cloud.call, "container").call(f"{CLUSTERS}.{method}", **arguments)


def make(gcp: Gcp, **fields: Any) -> Any:
    """The operation."""
    gcp.network()
    asked = {"name": "main", "initialNodeCount": 1, "network": "net", **fields}
    return call(gcp, "create", parent=gcp.parent, body={"cluster": asked})


def update(gcp: Gcp, **change: Any) -> Any:
    gcp.wait(call(gcp, "update", name=gcp.cluster, body={"update": change}))
    return call(gcp, "get", name=gcp.cluster)


def test_the_nodes_of_a_private_cluster_are_private_unless_the_pool_says_otherwise(
    gcp: Gcp,
) -> None:
    cluster = gcp.make_cluster(privateClusterConfig={"enablePrivateNodes": True})
    assert cluster["networkConfig"]["defaultEnablePrivateNodes"] is True
    assert cluster["nodePools"][0]["networkConfig"]["enablePrivateNodes"] is True
    public = gcp.make_pool(
        config={"machineType": "e2-standard-4"}, networkConfig={"enablePrivateNodes": False}
    )
    assert public["networkConfig"]["enablePrivateNodes"] is False


def test_another_default_counts_for_pools_made_from_then_on(gcp: Gcp) -> None:
    gcp.make_cluster()
    found = update(gcp, desiredDefaultEnablePrivateNodes=True)
    assert found["networkConfig"]["defaultEnablePrivateNodes"] is True
    assert found["nodePools"][0]["networkConfig"]["enablePrivateNodes"] is False


def test_nodes_are_recreated_to_lose_their_external_addresses(gcp: Gcp) -> None:
    gcp.make_cluster()
    before = {n["metadata"]["name"] for n in gcp.nodes("default-pool")}
    pools = client(gcp.cloud.call, "container")
    body = {"nodeNetworkConfig": {"enablePrivateNodes": True}}
    name = f"{gcp.cluster}/nodePools/default-pool"
    gcp.wait(pools.call(f"{CLUSTERS}.nodePools.update", name=name, body=body))
    assert not before & {n["metadata"]["name"] for n in gcp.nodes("default-pool")}


def test_a_private_endpoint_needs_authorized_networks_that_may_be_none(gcp: Gcp) -> None:
    with pytest.raises(HttpError, match="Master authorized networks must be enabled if private"):
        make(gcp, privateClusterConfig=PRIVATE)


def test_a_private_endpoint_without_other_networks_is_made(gcp: Gcp) -> None:
    authorized = {"enabled": True, "cidrBlocks": []}
    gcp.wait(make(gcp, privateClusterConfig=PRIVATE, masterAuthorizedNetworksConfig=authorized))
    found = call(gcp, "get", name=gcp.cluster)
    ip = found["controlPlaneEndpointsConfig"]["ipEndpointsConfig"]
    assert (ip["enabled"], ip["enablePublicEndpoint"]) == (True, False)
    with pytest.raises(HttpError, match="Master authorized networks must be enabled"):
        update(gcp, desiredMasterAuthorizedNetworksConfig={"enabled": False})


def test_public_addresses_at_a_private_endpoint_fail_the_operation(gcp: Gcp) -> None:
    authorized = {"enabled": True, "cidrBlocks": [{"cidrBlock": "203.0.113.0/24"}]}
    done = gcp.settle(
        make(gcp, privateClusterConfig=PRIVATE, masterAuthorizedNetworksConfig=authorized)
    )
    assert '"203.0.113.0/24" is not a reserved network' in done["error"]["message"]


def test_every_control_plane_has_a_dns_name_which_lets_users_in_only_when_asked(gcp: Gcp) -> None:
    dns = gcp.make_cluster()["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]
    assert dns["endpoint"].endswith(".us-central1.gke.goog")
    assert dns["allowExternalTraffic"] is False
    opened = {"dnsEndpointConfig": {"allowExternalTraffic": True}}
    found = update(gcp, desiredControlPlaneEndpointsConfig=opened)
    endpoints = found["controlPlaneEndpointsConfig"]
    assert endpoints["dnsEndpointConfig"] == {**dns, "allowExternalTraffic": True}
    assert endpoints["ipEndpointsConfig"]["enabled"] is True


def test_a_network_with_a_router_cannot_be_deleted_and_has_one_nat_for_all(gcp: Gcp) -> None:
    gcp.network()
    compute = client(gcp.cloud.call, "compute")
    where = {"project": "acme", "region": "us-central1"}
    nat = {
        "name": "nat",
        "natIpAllocateOption": "AUTO_ONLY",
        "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
    }
    network = "projects/acme/global/networks/net"
    body = {"name": "one", "network": network, "nats": [nat]}
    compute.call("routers.insert", **where, body=body)
    with pytest.raises(HttpError, match="conflicts with another one"):
        compute.call("routers.insert", **where, body={**body, "name": "two"})
    gcp.call("compute", "subnetworks.delete", {**where, "subnetwork": "sub"})
    with pytest.raises(CloudError, match=r"already being used by .*routers/one"):
        gcp.call("compute", "networks.delete", {"project": "acme", "network": "net"})
