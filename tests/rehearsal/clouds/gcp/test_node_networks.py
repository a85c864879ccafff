"""Additional networks of a pool's nodes, and firewall rules of their VPCs, as Google takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from tests.rehearsal.clouds.conftest import Gcp

MULTI = {"networkConfig": {"datapathProvider": "ADVANCED_DATAPATH", "enableMultiNetworking": True}}
HIGH = {
    "machineType": "a3-highgpu-8g",
    "accelerators": [{"acceleratorType": "nvidia-h100-80gb", "acceleratorCount": "8"}],
    "ephemeralStorageLocalSsdConfig": {"localSsdCount": 16},
}


def project(gcp: Gcp) -> str:
    return gcp.parent.split("/")[1]


def make_networks(gcp: Gcp, count: int) -> None:
    for i in range(count):
        where = {"project": project(gcp)}
        gcp.call("compute", "networks.insert", where, name=f"gpu-{i}", autoCreateSubnetworks=False)
        gcp.call(
            "compute",
            "subnetworks.insert",
            {**where, "region": "us-central1"},
            name=f"gpu-{i}",
            network=f"projects/{project(gcp)}/global/networks/gpu-{i}",
            ipCidrRange=f"172.20.{16 * i}.0/20",
        )


def networks(*numbers: int) -> JsonObject:
    named = [{"network": f"gpu-{i}", "subnetwork": f"gpu-{i}"} for i in numbers]
    return {"additionalNodeNetworkConfigs": named}


def make(gcp: Gcp, **more: Any) -> JsonObject:
    asked = {"config": HIGH, "locations": ["us-central1-a"], "networkConfig": networks(0, 1, 2, 3)}
    return gcp.make_pool(**{**asked, **more})


def test_a_pool_has_the_interfaces_that_it_asks_for_and_holds_their_networks(gcp: Gcp) -> None:
    gcp.make_cluster(**MULTI)
    make_networks(gcp, 4)
    config = make(gcp)["networkConfig"]
    assert (
        config["additionalNodeNetworkConfigs"]
        == (networks(0, 1, 2, 3)["additionalNodeNetworkConfigs"])
    )
    where = {"project": project(gcp), "region": "us-central1", "subnetwork": "gpu-3"}
    with pytest.raises(CloudError, match=r"is already being used by .*instances/gke-pool"):
        gcp.call("compute", "subnetworks.delete", where)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"networkConfig": networks(0, 0)}, '"gpu-0" is the network of more than one interface'),
        ({"networkConfig": networks(0, 1, 2, 3, 4)}, "takes 4 additional networks, 5 were asked"),
        ({"networkConfig": networks(7)}, '"gpu-7" of network "gpu-7" does not exist'),
        ({"config": {**HIGH, "imageType": "UBUNTU_CONTAINERD"}}, "not supported on image type"),
    ],
)
def test_invalid_node_networks_are_refused(gcp: Gcp, asked: Mapping[str, Any], said: str) -> None:
    gcp.make_cluster(**MULTI)
    make_networks(gcp, 5)
    with pytest.raises(CloudError, match=said):
        make(gcp, **asked)


def test_a_cluster_must_have_multi_networking_and_for_that_dataplane_v2(gcp: Gcp) -> None:
    with pytest.raises(CloudError, match="Multi-networking requires GKE Dataplane V2"):
        gcp.make_cluster(networkConfig={"enableMultiNetworking": True})
    v2 = {"datapathProvider": "ADVANCED_DATAPATH"}
    gcp.make_cluster(network_exists=True, networkConfig=v2)
    make_networks(gcp, 4)
    with pytest.raises(CloudError, match="a cluster with multi-networking enabled"):
        make(gcp)
    update = {"desiredEnableMultiNetworking": True}
    name = {"name": gcp.cluster}
    gcp.call("container", "projects.locations.clusters.update", name, update=update)
    assert make(gcp)["networkConfig"]["additionalNodeNetworkConfigs"]
    off = {"desiredEnableMultiNetworking": False}
    with pytest.raises(CloudError, match="cannot be disabled while node pool pool has"):
        gcp.call("container", "projects.locations.clusters.update", name, update=off)


def test_a_firewall_rule_is_of_a_network_that_is_there_and_holds_it(gcp: Gcp) -> None:
    make_networks(gcp, 1)
    where = {"project": project(gcp)}
    rule: dict[str, Any] = {"name": "inside", "sourceRanges": ["172.20.0.0/20"]}
    of = {"network": f"projects/{project(gcp)}/global/networks/gpu-0"}
    allowed = {"allowed": [{"IPProtocol": "tcp"}]}
    for wrong, said in (
        ({**of}, "Exactly one of allowed and denied"),
        ({**allowed, "network": "global/networks/none"}, "cannot be found"),
        ({**of, **allowed, "sourceRanges": ["172.20.0.1/20"]}, "sourceRanges"),
    ):
        with pytest.raises(CloudError, match=said):
            gcp.call("compute", "firewalls.insert", where, **{**rule, **wrong})
    gcp.call("compute", "firewalls.insert", where, **rule, **of, **allowed)
    with pytest.raises(CloudError, match="already exists"):
        gcp.call("compute", "firewalls.insert", where, **rule, **of, **allowed)
    there = {**where, "firewall": "inside"}
    gcp.call("compute", "firewalls.patch", there, sourceRanges=["172.20.0.0/19"])
    assert gcp.call("compute", "firewalls.get", there)["sourceRanges"] == ["172.20.0.0/19"]
    gcp.call(
        "compute",
        "subnetworks.delete",
        {**where, "region": "us-central1", "subnetwork": "gpu-0"},
    )
    with pytest.raises(CloudError, match=r"is already being used by .*firewalls/inside"):
        gcp.call("compute", "networks.delete", {**where, "network": "gpu-0"})
    gcp.call("compute", "firewalls.delete", there)
    gcp.call("compute", "networks.delete", {**where, "network": "gpu-0"})
