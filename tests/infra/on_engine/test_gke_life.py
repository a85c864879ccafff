"""The life of a GKE stack through the real engine, each step against what GKE accepts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from slicewright.rehearsal.clouds.gcp.account import write_account
from slicewright.rehearsal.host.toolchain import Toolchain
from tests.infra.cloud_engine import PROJECT, CloudEngine, cloud_engine
from tests.infra.google_project import let_gke_make_networks, make_network, share


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[CloudEngine]:
    with cloud_engine(tmp_path_factory.mktemp("gke"), toolchain) as engine:
        yield engine


def pool(name: str, zone: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "machine_type": "a2-highgpu-1g",
        "zones": [f"us-central1-{zone}"],
        "nodes": {"count": 1},
        "partition": {"mode": "native", "profile": "1g.5gb"},
        **more,
    }


def reserved(name: str, **keys: str) -> dict[str, Any]:
    return pool(name, "c", capacity={"mode": "reservation", **keys})


def reserve(engine: CloudEngine, *reservations: dict[str, Any]) -> None:
    """These are all that the project has."""
    write_account(engine.directory.parent, {"reservations": list(reservations)})


def fleet(*pools: dict[str, Any]) -> dict[str, Any]:
    cluster = {"name": "main", "location": "us-central1"}
    return {"cloud": "gke", "cluster": cluster, "node_pools": list(pools)}


def test_up_and_up_again_and_refresh_are_clean_in_any_order_of_the_pools(
    engine: CloudEngine,
) -> None:
    one, two = pool("one", "c"), pool("two", "f")
    engine.deploy(fleet(one, two))
    zones = {n["metadata"]["labels"]["topology.kubernetes.io/zone"] for n in engine.nodes("main")}
    assert zones == {"us-central1-a", "us-central1-c", "us-central1-f"}
    engine.assert_settled(fleet(two, one))


def test_fast_socket_on_and_off_again_leaves_no_difference(engine: CloudEngine) -> None:
    for features in ({"fast_socket": True}, {"fast_socket": False}):
        asked = fleet(pool("one", "c", features=features), pool("two", "f"))
        up = engine.deploy(asked)
        assert up.steps.get("gke-one") == "updated", up.output
        engine.assert_no_changes(asked)


def test_another_reservation_replaces_a_pool_of_reserved_machines(
    engine: CloudEngine,
) -> None:
    week = {"name": "week", "zone": "us-central1-c", "machine_type": "a2-highgpu-1g", "count": 1}
    reserve(engine, week, {**week, "name": "open", "specific": False})
    one, two = reserved("one", reservation="week"), pool("two", "f")
    for capacity in (one, reserved("one", fallback="none")):
        up = engine.deploy(fleet(capacity, two))
        assert "1 replaced" in up.output
        engine.assert_settled(fleet(capacity, two))


def test_flex_start_and_queued_pools_start_empty_and_show_no_difference(
    engine: CloudEngine,
) -> None:
    empty = {"min": 0, "max": 2}
    flex = {"mode": "flex-start", "max_run_hours": 24}
    asked = fleet(
        pool("one", "c", nodes=empty, capacity=flex),
        pool("two", "f", nodes=empty, capacity="queued"),
    )
    up = engine.deploy(asked)
    assert "2 replaced" in up.output
    engine.assert_settled(asked)
    pools = {n["metadata"]["labels"]["cloud.google.com/gke-nodepool"] for n in engine.nodes("main")}
    assert pools == {"system"}


@pytest.mark.long(
    "in the clouds without the engine: tests/infra/in_clouds/test_changes_in_clouds.py"
)
def test_upgrades_change_in_place_and_placement_replaces(engine: CloudEngine) -> None:
    """The provider itself would show the second, and do nothing."""
    empty = {"min": 0, "max": 2}
    before = {"nodes": empty, "capacity": {"mode": "flex-start", "max_run_hours": 24}}
    two = pool("two", "f", nodes=empty, capacity="queued")
    for asked, said in (
        ({"nodes": empty, "location_policy": "ANY"}, "1 replaced"),
        ({"nodes": empty, "upgrade": "blue-green"}, "1 updated"),
        ({"nodes": empty, "upgrade": {"mode": "surge", "max_surge": 1}}, "1 updated"),
        ({"nodes": empty, "placement": "compact"}, "1 replaced"),
    ):
        up = engine.up(fleet(pool("one", "c", **asked), two))
        assert (up.code, said in up.output) == (0, True), (before, asked, up.output)
        engine.assert_settled(fleet(pool("one", "c", **asked), two))
        before = asked


def test_a_reservation_that_does_not_exist_leaves_no_pool(engine: CloudEngine) -> None:
    up = engine.up(fleet(reserved("three", reservation="day"), pool("two", "f")))
    assert up.code != 0
    assert 'reservation "day" not found for node pool "three" at zone "us-central1-c"' in up.output
    pools = {n["metadata"]["labels"]["cloud.google.com/gke-nodepool"] for n in engine.nodes("main")}
    assert "three" not in pools


def test_replaced_cluster_gets_new_pools(engine: CloudEngine) -> None:
    """Its pools ignore a change of their input `cluster` (gke_node_pools.py), and go with it."""
    asked = fleet(pool("one", "c"))
    asked["cluster"] = {"name": "other", "location": "us-central1-c"}
    engine.deploy(asked)
    engine.assert_no_changes(asked)
    pools = engine.cloud.inventory()["container.nodePool"]
    assert sorted(path.rpartition("/clusters/")[2] for path in pools) == [
        "other/nodePools/one",
        "other/nodePools/system",
    ]


def test_destroy_leaves_nothing(engine: CloudEngine) -> None:
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert engine.cloud.inventory() == {}


@pytest.mark.long(
    "in the clouds without the engine: tests/infra/in_clouds/test_changes_in_clouds.py"
)
def test_private_cluster_is_created_changed_in_place_and_destroyed(engine: CloudEngine) -> None:
    asked = fleet(pool("one", "c"))
    reached = {"dns_endpoint": True, "authorized_networks": [{"cidr": "10.0.0.0/8", "name": "vpn"}]}
    asked["cluster"] |= {"private_nodes": True, "control_plane": reached}
    engine.deploy(asked)
    assert len(engine.cloud.inventory()["compute.router"]) == 1
    engine.assert_settled(asked)
    reached |= {"private_endpoint": True, "dns_endpoint": False, "authorized_networks": []}
    closed = engine.deploy(asked)
    assert closed.steps == {"gke": "updated"}, closed.output
    found = engine.cloud.call("container", "projects.locations.clusters.get", {"name": CLUSTER}, {})
    assert found["privateClusterConfig"]["enablePrivateEndpoint"] is True
    assert found["masterAuthorizedNetworksConfig"] == {"enabled": True, "cidrBlocks": []}
    dns = found["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]
    assert dns["allowExternalTraffic"] is False
    del asked["cluster"]["control_plane"]
    engine.assert_no_changes(asked)
    before = {n["metadata"]["name"] for n in engine.nodes("main")}
    asked["cluster"]["private_nodes"] = False
    engine.deploy(asked)
    assert not before & {n["metadata"]["name"] for n in engine.nodes("main")}
    engine.assert_no_drift()
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert engine.cloud.inventory() == {}


@pytest.mark.long(
    "in the clouds without the engine: tests/infra/in_clouds/test_changes_in_clouds.py"
)
def test_a_pool_gets_a_network_between_its_gpus_and_loses_it_with_its_nodes(
    engine: CloudEngine,
) -> None:
    """The provider itself would keep the second."""
    let_gke_make_networks(engine.cloud, PROJECT)
    h200 = {
        "machine_type": "a3-ultragpu-8g",
        "disk": {"type": "hyperdisk-balanced"},
        "partition": "none",
    }
    for more in ({}, {"gpu_network": "dranet"}, {}):
        asked = fleet(pool("one", "b", **h200, **more))
        engine.deploy_and_settle(asked)
        where = {"name": f"{CLUSTER}/nodePools/one"}
        found = engine.cloud.call("container", f"{POOLS}.get", where, {})
        interfaces = found["networkConfig"].get("additionalNodeNetworkConfigs", [])
        assert len(interfaces) == (9 if more else 0)
    gone = engine.destroy()
    assert gone.code == 0, gone.output


@pytest.mark.long("what GKE is asked for: tests/infra/plan/gke/test_gpu_direct.py")
def test_a_vpc_for_each_interface_comes_and_goes_with_its_pool_and_shows_no_difference(
    engine: CloudEngine,
) -> None:
    h100 = {"machine_type": "a3-highgpu-8g", "partition": "none"}
    for more, vpcs in (({}, 0), ({"gpu_network": "tcpx"}, 4), ({}, 0)):
        asked = fleet(pool("one", "c", **h100, **more))
        engine.deploy_and_settle(asked)
        found = engine.cloud.call(
            "container", f"{POOLS}.get", {"name": f"{CLUSTER}/nodePools/one"}, {}
        )
        interfaces = found["networkConfig"].get("additionalNodeNetworkConfigs", [])
        assert len({one["network"] for one in interfaces}) == vpcs
        inventory = engine.cloud.inventory()
        assert len(inventory.get("compute.firewall", [])) == vpcs
        assert len(inventory["compute.network"]) == 1 + vpcs
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert "compute.network" not in engine.cloud.inventory()


def test_a_pool_of_arm64_machines_has_none_of_gkes_taints_for_them_and_shows_no_difference(
    engine: CloudEngine,
) -> None:
    arm = {
        "name": "gb200",
        "machine_type": "a4x-highgpu-4g",
        "zones": ["us-central1-a"],
        "nodes": {"count": 1},
        "disk": {"type": "hyperdisk-balanced"},
        "image_type": "UBUNTU_CONTAINERD",
        "partition": {"mode": "operator", "layout": {"1g.23gb": 7}},
    }
    asked = fleet(arm)
    engine.deploy(asked)
    (node,) = (
        n
        for n in engine.nodes("main")
        if n["metadata"]["labels"].get("slicewright.io/pool") == "gb200"
    )
    assert node["metadata"]["labels"]["kubernetes.io/arch"] == "arm64"
    assert "kubernetes.io/arch" not in {taint["key"] for taint in node["spec"]["taints"]}
    engine.assert_settled(asked)
    gone = engine.destroy()
    assert gone.code == 0, gone.output


@pytest.mark.long("what GKE is asked for: tests/infra/plan/gke/test_monitoring.py")
def test_metrics_and_logs_change_in_place_and_default_to_gkes(
    engine: CloudEngine,
) -> None:
    def cluster() -> dict[str, Any]:
        where = {"name": CLUSTER}
        found = engine.cloud.call("container", "projects.locations.clusters.get", where, {})
        return {k: found[k] for k in ("monitoringConfig", "loggingConfig")}

    asked = fleet(pool("one", "c"))
    engine.deploy(asked)
    assert "DCGM" in cluster()["monitoringConfig"]["componentConfig"]["enableComponents"]
    engine.assert_no_drift()
    none: dict[str, Any] = {"components": [], "managed_prometheus": False}
    system = {"components": ["SYSTEM_COMPONENTS"]}
    for monitoring, logging in (
        ({"components": ["DCGM", "SYSTEM_COMPONENTS"]}, system),
        (system, {"components": []}),
        (none, {"components": ["WORKLOADS", "SYSTEM_COMPONENTS"]}),
    ):
        asked["cluster"] |= {"monitoring": monitoring, "logging": logging}
        changed = engine.deploy(asked)
        assert changed.steps == {"gke": "updated"}, changed.output
        engine.assert_settled(asked)
    left = cluster()
    assert left["monitoringConfig"] == {"componentConfig": {}, "managedPrometheusConfig": {}}
    del asked["cluster"]["monitoring"], asked["cluster"]["logging"]
    engine.deploy(asked)
    assert cluster() == left
    engine.assert_no_drift()
    gone = engine.destroy()
    assert gone.code == 0, gone.output


@pytest.mark.long("what GKE is asked for: tests/infra/plan/gke/test_maintenance.py")
def test_maintenance_windows_change_in_place_and_show_no_difference(engine: CloudEngine) -> None:
    asked = fleet(pool("one", "c"))
    engine.deploy(asked)
    exclusion = {"start": "2026-12-15T00:00:00Z", "end": "2027-01-08T00:00:00Z"}
    two = [{"name": name, **exclusion} for name in ("year-end", "audit")]
    weekends = {
        "mode": "recurring",
        "start": "2026-01-03T00:00:00Z",
        "end": "2026-01-03T06:00:00Z",
        "recurrence": "FREQ=WEEKLY;BYDAY=SA,SU",
    }
    daily = {"mode": "daily", "start": "03:00"}
    for window, exclusions in ((daily, two), (weekends, two[::-1]), (weekends, two[:1])):
        asked["cluster"]["maintenance"] = {"window": window, "exclusions": exclusions}
        changed = engine.deploy(asked)
        assert changed.steps == {"gke": "updated"}, changed.output
        engine.assert_settled(asked)
    del asked["cluster"]["maintenance"]
    without = engine.up(asked)
    assert without.steps == {"gke": "updated"}, without.output
    found = engine.cloud.call("container", "projects.locations.clusters.get", {"name": CLUSTER}, {})
    assert set(found["maintenancePolicy"]["window"]["maintenanceExclusions"]) == {"year-end"}
    engine.assert_no_drift()
    gone = engine.destroy()
    assert gone.code == 0, gone.output


@pytest.mark.long("what GKE is asked for: tests/infra/plan/gke/test_encryption.py")
def test_a_key_of_the_disks_replaces_every_pool_and_one_of_the_secrets_changes_in_place(
    engine: CloudEngine,
) -> None:
    asked = fleet(pool("one", "c"))
    key = "projects/keys-1/locations/us-central1/keyRings/gke/cryptoKeys/k"
    for keys, said in (
        ({}, "created"),
        ({"secrets_key": key}, "1 updated"),
        ({"kms_key": key}, "2 replaced"),
    ):
        asked["cluster"] |= keys
        up = engine.up(asked)
        assert (up.code, said in up.output) == (0, True), up.output
        engine.assert_settled(asked)
    found = engine.cloud.call("container", "projects.locations.clusters.get", {"name": CLUSTER}, {})
    assert found["databaseEncryption"]["keyName"] == key
    assert {p["config"]["bootDiskKmsKey"] for p in found["nodePools"]} == {key}
    del asked["cluster"]["secrets_key"]
    engine.assert_no_changes(asked)
    gone = engine.destroy()
    assert gone.code == 0, gone.output


def test_pools_are_added_to_an_existing_cluster_and_removed_without_a_trace(
    engine: CloudEngine,
) -> None:
    make_network(engine.cloud, PROJECT, "us-central1")
    made = {
        "name": "main",
        "initialNodeCount": 1,
        "network": "corporate",
        "subnetwork": "gpu",
        "nodeConfig": {"machineType": "e2-standard-4"},
        "monitoringConfig": {"componentConfig": {}},
    }
    wait_for(engine, "create", {"parent": CLUSTER.rpartition("/clusters/")[0]}, {"cluster": made})
    before, nodes = engine.cloud.inventory(), engine.nodes("main")
    asked = fleet(pool("one", "c"))
    asked["cluster"]["existing"] = True
    asked["monitoring"] = {"prometheus": "managed"}
    collection = {"managedPrometheusConfig": {"enabled": False}}
    wait_for(
        engine, "update", {"name": CLUSTER}, {"update": {"desiredMonitoringConfig": collection}}
    )
    refused = engine.up(asked)
    assert refused.code != 0
    assert "it has no workload pool" in refused.output
    assert "its managed collection is off" in refused.output
    assert engine.cloud.inventory()["container.nodePool"] == before["container.nodePool"]
    identity = {"desiredWorkloadIdentityConfig": {"workloadPool": "slicewright-test.svc.id.goog"}}
    wait_for(engine, "update", {"name": CLUSTER}, {"update": identity})
    collection["managedPrometheusConfig"]["enabled"] = True
    wait_for(
        engine, "update", {"name": CLUSTER}, {"update": {"desiredMonitoringConfig": collection}}
    )
    engine.deploy(asked)
    engine.assert_no_changes(asked)
    # What somebody else changes of the cluster is read, and is no change of the stack.
    other = {"desiredVerticalPodAutoscaling": {"enabled": True}}
    wait_for(engine, "update", {"name": CLUSTER}, {"update": other})
    engine.assert_no_changes(asked)
    asked["system_pool"] = {"nodes": {"count": 1}}
    engine.deploy(asked)
    assert f"{CLUSTER}/nodePools/system" in engine.cloud.inventory()["container.nodePool"]
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    left = engine.cloud.inventory()
    assert left == before
    assert {n["metadata"]["name"] for n in engine.nodes("main")} == {
        n["metadata"]["name"] for n in nodes
    }
    wait_for(engine, "delete", {"name": CLUSTER}, {})
    remove_network(engine, "slicewright-test")


def test_missing_existing_cluster_is_named(engine: CloudEngine) -> None:
    asked = fleet(pool("one", "c"))
    asked["cluster"] = {"name": "absent", "location": "us-central1", "existing": True}
    up = engine.up(asked)
    assert up.code != 0
    assert f"'{CLUSTER.rpartition('/')[0]}/absent' does not exist" in up.output
    gone = engine.destroy()
    assert gone.code == 0, gone.output


def wait_for(engine: CloudEngine, method: str, where: dict[str, Any], body: dict[str, Any]) -> None:
    """A change of a cluster that somebody makes beside the stack."""
    operation = engine.cloud.call("container", f"projects.locations.clusters.{method}", where, body)
    name = f"{CLUSTER.rpartition('/clusters/')[0]}/operations/{operation['name']}"
    deadline = time.monotonic() + 60
    while True:
        found = engine.cloud.call(
            "container", "projects.locations.operations.get", {"name": name}, {}
        )
        if found["status"] == "DONE":
            assert "error" not in found, found
            return
        assert time.monotonic() < deadline
        time.sleep(0.02)


CLUSTER = "projects/slicewright-test/locations/us-central1/clusters/main"
POOLS = "projects.locations.clusters.nodePools"
NETWORK = {"vpc": "corporate", "subnet": "gpu", "pods_range": "pods", "services_range": "services"}


def remove_network(engine: CloudEngine, project: str) -> None:
    where = {"project": project, "region": "us-central1", "subnetwork": "gpu"}
    engine.cloud.call("compute", "subnetworks.delete", where, {})
    where = {"project": project, "network": "corporate"}
    engine.cloud.call("compute", "networks.delete", where, {})


def test_stack_leaves_an_existing_network_unchanged(
    engine: CloudEngine,
) -> None:
    make_network(engine.cloud, PROJECT, "us-central1")
    before = engine.cloud.inventory()
    asked = fleet(pool("one", "c"))
    asked["cluster"]["network"] = NETWORK
    up = engine.deploy(asked)
    assert "gcp:compute" not in up.output
    engine.assert_settled(asked)
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert engine.cloud.inventory() == before
    remove_network(engine, "slicewright-test")


def test_a_stack_lives_in_a_shared_vpc_of_another_project(engine: CloudEngine) -> None:
    make_network(engine.cloud, "net-host", "us-central1")
    asked = fleet(pool("one", "c"))
    vpc = "projects/net-host/global/networks/corporate"
    asked["cluster"]["network"] = {**NETWORK, "vpc": vpc}
    refused = engine.up(asked)
    assert refused.code != 0
    assert "is not a service project of the Shared VPC host project net-host" in refused.output
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    share(engine.cloud, host="net-host", project=PROJECT)
    before = engine.cloud.inventory()
    engine.deploy(asked)
    engine.assert_no_drift()
    gone = engine.destroy()
    assert gone.code == 0, gone.output
    assert engine.cloud.inventory() == before
