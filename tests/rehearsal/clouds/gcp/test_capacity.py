"""Machines that GKE does not get, loses, or must not have: stock, spot, repair, quota."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.account import write_account
from slicewright.rehearsal.clouds.gcp.gke.quotas import EMPTY

H100 = [{"acceleratorType": "nvidia-h100-80gb", "acceleratorCount": "8"}]


def inject(environment: Path, *faults: dict[str, Any]) -> None:
    (environment / "faults.json").write_text(json.dumps(faults))


def settle(gcp) -> None:
    gcp.cloud.look_around()
    assert gcp.cloud.tasks.wait(120)


def created(gcp, **fields: Any) -> dict[str, Any]:
    """The operation that makes a pool, done, whatever came of it."""
    asked = {"name": "pool", "initialNodeCount": 4, "locations": ["us-central1-c"], **fields}
    where = {"parent": gcp.cluster}
    found: dict[str, Any] = gcp.settle(
        gcp.call(
            "container",
            "projects.locations.clusters.nodePools.create",
            where,
            nodePool=asked,
        )
    )
    return found


def test_a_pool_that_meets_a_stock_out_keeps_what_it_got(gcp) -> None:
    gcp.make_cluster()
    inject(gcp.environment, {"fault": "stock-out", "pool": "pool", "node": 2})
    error = created(gcp)["error"]["message"]
    assert "Expected 4, running 2, transitioning 2" in error
    assert "[GCE_STOCKOUT]" in error
    pool = gcp.pool()
    assert (pool["status"], pool["statusMessage"]) == ("RUNNING_WITH_ERROR", error)
    assert [c["code"] for c in pool["conditions"]] == ["GCE_STOCKOUT"]
    assert len(gcp.nodes("pool")) == 2


def test_a_range_for_pods_that_is_full_gives_no_more_nodes(gcp) -> None:
    gcp.network()
    where = {"project": "acme", "region": "us-central1", "subnetwork": "sub"}
    # Room for four nodes of 110 pods: GKE gives each of them a block of 256 addresses.
    ranges = [{"rangeName": "pods", "ipCidrRange": "10.20.0.0/22"}]
    more = [{"rangeName": "services", "ipCidrRange": "10.30.0.0/20"}]
    gcp.call("compute", "subnetworks.patch", where, secondaryIpRanges=ranges + more)
    policy = {"clusterSecondaryRangeName": "pods", "servicesSecondaryRangeName": "services"}
    gcp.make_cluster(network_exists=True, ipAllocationPolicy={"useIpAliases": True, **policy})
    assert len(gcp.nodes("default-pool")) == 3
    error = created(gcp, name="small", initialNodeCount=1)
    assert "error" not in error
    error = created(gcp, name="large", initialNodeCount=2)["error"]["message"]
    assert "Expected 2, running 0" in error
    assert "[IP_SPACE_EXHAUSTED]: Instance 'gke-main-large-" in error
    assert "IP space of 'projects/acme/regions/us-central1/subnetworks/sub-pods-" in error
    gcp.wait(gcp.on_pool("delete", "small"))
    # A node of 32 pods has a block of 64.
    pods = {"maxPodsPerNode": "32"}
    assert "error" not in created(gcp, name="dense", initialNodeCount=4, maxPodsConstraint=pods)
    assert (
        "[IP_SPACE_EXHAUSTED]" in created(gcp, name="one", initialNodeCount=1)["error"]["message"]
    )


def test_a_pool_without_a_single_machine_is_in_error(gcp) -> None:
    gcp.make_cluster()
    inject(gcp.environment, {"fault": "stock-out", "pool": "pool"})
    assert "running 0" in created(gcp)["error"]["message"]
    assert gcp.pool()["status"] == "ERROR"


def test_one_zone_without_stock_does_not_stop_the_other(gcp) -> None:
    gcp.make_cluster()
    inject(gcp.environment, {"fault": "stock-out", "pool": "pool", "zone": "us-central1-a"})
    created(gcp, initialNodeCount=1, locations=["us-central1-a", "us-central1-c"])
    zones = [n["metadata"]["labels"]["topology.kubernetes.io/zone"] for n in gcp.nodes("pool")]
    assert zones == ["us-central1-c"]


def test_the_pool_is_completed_when_there_is_stock_again(gcp) -> None:
    gcp.make_cluster()
    inject(gcp.environment, {"fault": "stock-out", "pool": "pool", "node": 2})
    created(gcp)
    settle(gcp)
    assert len(gcp.nodes("pool")) == 2, "it is still out of stock"
    inject(gcp.environment)
    settle(gcp)
    assert len(gcp.nodes("pool")) == 4
    assert gcp.pool()["status"] == "RUNNING"
    assert "conditions" not in gcp.pool()


def test_an_instance_that_is_deleted_by_hand_comes_back_under_its_name(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(initialNodeCount=2)
    before = {n["metadata"]["name"]: n["status"]["nodeInfo"]["bootID"] for n in gcp.nodes("pool")}
    gone = gcp.nodes("pool")[0]["metadata"]
    zone = gone["labels"]["topology.kubernetes.io/zone"]
    wrong = {"project": "acme", "zone": "us-east1-b", "instance": gone["name"]}
    with pytest.raises(CloudError, match="was not found"):
        gcp.call("compute", "instances.delete", wrong)
    gcp.call("compute", "instances.delete", {**wrong, "zone": zone})
    assert gcp.cloud.tasks.wait(120)
    after = {n["metadata"]["name"]: n["status"]["nodeInfo"]["bootID"] for n in gcp.nodes("pool")}
    assert {name for name in before if after[name] != before[name]} == {gone["name"]}


@pytest.mark.parametrize("fault", ["spot-preemption", "node-repair"])
def test_a_machine_that_goes_comes_back_under_its_name(gcp, fault: str) -> None:
    gcp.make_cluster()
    gcp.make_pool(initialNodeCount=2)
    before = {n["metadata"]["name"]: n["status"]["nodeInfo"]["bootID"] for n in gcp.nodes("pool")}
    inject(gcp.environment, {"fault": fault, "pool": "pool", "node": 1})
    settle(gcp)
    after = {n["metadata"]["name"]: n["status"]["nodeInfo"]["bootID"] for n in gcp.nodes("pool")}
    assert set(after) == set(before)
    assert sum(after[name] != boot for name, boot in before.items()) == 1
    settle(gcp)
    again = {n["metadata"]["name"]: n["status"]["nodeInfo"]["bootID"] for n in gcp.nodes("pool")}
    assert again == after, "it happened twice"


def test_an_event_waits_for_its_node(gcp) -> None:
    gcp.make_cluster()
    inject(gcp.environment, {"fault": "spot-preemption", "pool": "pool"})
    settle(gcp)
    gcp.make_pool()
    before = gcp.nodes("pool")[0]["status"]["nodeInfo"]["bootID"]
    settle(gcp)
    assert gcp.nodes("pool")[0]["status"]["nodeInfo"]["bootID"] != before


def test_an_upgrade_recreates_every_node(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(initialNodeCount=2)
    before = {n["metadata"]["name"] for n in gcp.nodes("pool")}
    gcp.wait(gcp.on_pool("update", nodeVersion="-"))
    assert not before & {n["metadata"]["name"] for n in gcp.nodes("pool")}


def test_a_new_project_cannot_take_the_default_pool_of_a_regional_cluster(gcp) -> None:
    write_account(gcp.environment, EMPTY)
    with pytest.raises(
        CloudError,
        match=r"resource \"SSD_TOTAL_GB\": request requires '300.0' and is short '50.0'. project "
        r"has a quota of '250.0' with '250.0' available",
    ) as caught:
        gcp.make_cluster()
    assert (caught.value.code, caught.value.reason) == (403, "PERMISSION_DENIED")
    assert "container.cluster" not in gcp.cloud.inventory()


def test_programs_own_disks_fit_a_new_project(gcp) -> None:
    write_account(gcp.environment, EMPTY)
    gcp.make_cluster(nodeConfig={"diskType": "pd-standard", "diskSizeGb": 20})


@pytest.mark.parametrize(("spot", "quota"), [(True, "PREEMPTIBLE_NVIDIA"), (False, '"NVIDIA')])
def test_a_new_project_has_no_gpus(gcp, spot: bool, quota: str) -> None:
    gcp.make_cluster(nodeConfig={"diskType": "pd-standard"})
    write_account(gcp.environment, EMPTY)
    config = {"machineType": "a3-highgpu-8g", "accelerators": H100, "spot": spot}
    with pytest.raises(CloudError, match=f"{quota}_H100_GPUS.*requires '8.0' and is short '8.0'"):
        gcp.make_pool(config={**config, "diskSizeGb": 100})


def test_every_quota_that_is_too_small_is_named(gcp) -> None:
    gcp.make_cluster()
    limits = {"SSD_TOTAL_GB": 0, "NVIDIA_H100_GPUS": 4}
    inject(
        gcp.environment, *({"fault": "quota", "quota": k, "limit": v} for k, v in limits.items())
    )
    config = {"machineType": "a3-highgpu-8g", "accelerators": H100}
    with pytest.raises(CloudError) as caught:
        gcp.make_pool(config=config)
    assert "(1) Insufficient regional quota" in caught.value.message
    assert '"SSD_TOTAL_GB"' in caught.value.message


def test_a_resize_counts_what_it_adds(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool()
    inject(gcp.environment, {"fault": "quota", "quota": "SSD_TOTAL_GB", "limit": 500})
    gcp.wait(gcp.on_pool("setSize", nodeCount=2))
    with pytest.raises(CloudError, match=r"is short '100\.0'"):
        gcp.on_pool("setSize", nodeCount=3)
    gcp.wait(gcp.on_pool("setSize", nodeCount=1))
