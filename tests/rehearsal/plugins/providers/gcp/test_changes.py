"""Which changes replace a pool, which are made in place, and drift."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from slicewright.rehearsal.plugins.engine.plugin import ProviderError
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN

POOL = "gcp:container/nodePool:NodePool"
NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
CLUSTER = "gcp:container/cluster:Cluster"


def changed(inputs: dict, path: str, value: Any) -> dict:
    """A copy with the value at `a.b[0].c`; None removes it."""
    found = copy.deepcopy(inputs)
    place: Any = found
    *parents, last = path.replace("[0]", ".0").split(".")
    for parent in parents:
        place = place[int(parent)] if parent == "0" else place.setdefault(parent, {})
    if value is None:
        del place[last]
    else:
        place[last] = value
    return found


GPU = "nodeConfig.guestAccelerators[0]"
REPLACES = [
    (f"{GPU}.gpuPartitionSize", "1g.10gb"),
    (f"{GPU}.gpuPartitionSize", None),
    (f"{GPU}.count", 4),
    (f"{GPU}.type", "nvidia-h100-mega-80gb"),
    (f"{GPU}.gpuDriverInstallationConfig.gpuDriverVersion", "DEFAULT"),
    (
        f"{GPU}.gpuSharingConfig",
        {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": 2},
    ),
    ("nodeConfig.spot", False),
    ("nodeConfig.preemptible", True),
    ("nodeConfig.flexStart", True),
    ("nodeConfig.maxRunDuration", "3600s"),
    ("nodeConfig.reservationAffinity", {"consumeReservationType": "NO_RESERVATION"}),
    ("nodeConfig.ephemeralStorageLocalSsdConfig.localSsdCount", 8),
    ("nodeConfig.localNvmeSsdBlockConfig", {"localSsdCount": 1}),
    ("nodeConfig.secondaryBootDisks", [{"diskImage": "x"}]),
    ("nodeConfig.serviceAccount", "other@acme.iam.gserviceaccount.com"),
    ("nodeConfig.oauthScopes", ["https://www.googleapis.com/auth/compute"]),
    ("nodeConfig.metadata", {"a": "b"}),
    ("nodeConfig.minCpuPlatform", "Intel Sapphire Rapids"),
    ("nodeConfig.shieldedInstanceConfig", {"enableSecureBoot": True}),
    ("nodeConfig.bootDiskKmsKey", "key"),
    ("nodeConfig.advancedMachineFeatures", {"threadsPerCore": 1}),
    ("queuedProvisioning", {"enabled": True}),
    ("placementPolicy", {"type": "COMPACT", "policyName": "p"}),
    ("nodeConfig.sandboxConfig", {"sandboxType": "gvisor"}),
    ("bestEffortProvisioning", {"enabled": True}),
    ("name", "other"),
    ("location", "us-east4"),
    ("cluster", "other"),
    ("initialNodeCount", 2),
    ("maxPodsPerNode", 32),
    ("networkConfig", {"podRange": "pods"}),
]
IN_PLACE = [
    ("nodeConfig.taints[0].value", "other"),
    ("nodeConfig.labels", {"role": "other"}),
    ("nodeConfig.labels.more", "x"),
    ("nodeConfig.resourceLabels", {"team": "web"}),
    ("nodeConfig.tags", ["gpu"]),
    ("nodeConfig.machineType", "a3-megagpu-8g"),
    ("nodeConfig.diskSizeGb", 1000),
    ("nodeConfig.diskType", "pd-balanced"),
    ("nodeConfig.imageType", "UBUNTU_CONTAINERD"),
    ("nodeConfig.gvnic.enabled", False),
    ("nodeConfig.gcfsConfig.enabled", True),
    ("nodeConfig.fastSocket", {"enabled": True}),
    ("nodeConfig.kubeletConfig", {"cpuManagerPolicy": "static"}),
    ("nodeConfig.linuxNodeConfig", {"cgroupMode": "CGROUP_MODE_V2"}),
    ("nodeConfig.workloadMetadataConfig.mode", "GCE_METADATA"),
    ("nodeConfig.loggingVariant", "MAX_THROUGHPUT"),
    ("version", "1.36.3-gke.1"),
    ("nodeCount", 2),
    ("autoscaling", {"totalMinNodeCount": 0, "totalMaxNodeCount": 3}),
    ("management.autoRepair", False),
    ("upgradeSettings.maxUnavailable", 2),
    ("nodeLocations", ["us-central1-a"]),
    ("nodeDrainConfigs", [{"respectPdbDuringNodePoolDeletion": True}]),
    ("networkConfig", {"enablePrivateNodes": True}),
    ("placementPolicy", {"type": "COMPACT"}),
]


@pytest.fixture
def diff(engine, h100):
    """The difference from gke-h100's pool to other inputs."""

    def compare(new: dict):
        old = engine.checked(POOL, "h100", {}, h100)
        return engine.diff(POOL, old, engine.checked(POOL, "h100", old, new))

    return compare


@pytest.mark.parametrize(("path", "value"), REPLACES)
def test_it_replaces_the_pool(diff, h100, path, value) -> None:
    found = diff(changed(h100, path, value))
    assert found.changes
    kinds = found.detailed or {}
    assert any(k.endswith("-replace") for k in kinds.values()), kinds
    assert all(p.startswith(path.split(".")[0]) for p in kinds)


@pytest.mark.parametrize(("path", "value"), IN_PLACE)
def test_it_changes_the_pool_in_place(diff, h100, path, value) -> None:
    found = diff(changed(h100, path, value))
    assert found.changes
    assert not any(k.endswith("-replace") for k in (found.detailed or {}).values()), found.detailed


@pytest.mark.parametrize(
    "path",
    ["nodeLocations", "maxPodsPerNode", "management", "upgradeSettings", "nodeConfig.diskType"],
)
def test_removing_an_optional_property_keeps_its_value(diff, h100, path) -> None:
    assert not diff(changed(h100, path, None)).changes


def test_second_up_shows_values_that_the_cloud_filled_in(engine, h100) -> None:
    """As a user of the real provider met it: mozilla/terraform-modules #464."""
    engine.base()
    del h100["nodeConfig"]["ephemeralStorageLocalSsdConfig"]
    pool = engine.make(POOL, "h100", **h100)
    assert pool.plan(h100).detailed == {
        "nodeConfig.ephemeralStorageLocalSsdConfig": "delete-replace"
    }


def test_a_pool_that_leaves_everything_open_shows_no_difference(engine) -> None:
    engine.base()
    asked = {"cluster": "main", "nodeCount": 1}
    pool = engine.make(POOL, "open", **asked)
    assert not pool.plan(asked).changes


def test_the_difference_names_the_path(diff, h100) -> None:
    found = diff(changed(h100, f"{GPU}.gpuPartitionSize", "1g.10gb"))
    assert found.detailed == {"nodeConfig.guestAccelerators[0].gpuPartitionSize": "update-replace"}


def test_a_value_not_known_yet_replaces_where_a_change_would(diff, h100) -> None:
    assert diff(changed(h100, "cluster", UNKNOWN)).detailed == {"cluster": "update-replace"}
    assert diff(changed(h100, "nodeConfig.labels", UNKNOWN)).detailed == {
        "nodeConfig.labels": "update"
    }


def test_the_order_of_a_set_is_no_change(diff, h100) -> None:
    h100["nodeLocations"] = ["us-central1-a", "us-central1-b"]
    other = {**h100, "nodeLocations": ["us-central1-b", "us-central1-a"]}
    old = diff(h100)
    assert old.changes is False
    assert not diff(other).changes


def test_a_resource_with_a_fixed_name_is_deleted_before_its_replacement(diff, h100) -> None:
    assert diff(changed(h100, "nodeConfig.spot", False)).delete_before_replace is True
    assert diff(changed(h100, "name", "other")).delete_before_replace is False


def test_a_resource_with_an_automatic_name_is_replaced_before_it_is_deleted(engine, h100) -> None:
    del h100["name"]
    old = engine.checked(POOL, "h100", {}, h100)
    new = engine.checked(POOL, "h100", old, changed(h100, "nodeConfig.spot", False))
    found = engine.diff(POOL, old, new)
    assert any(k.endswith("-replace") for k in found.detailed.values())
    assert found.delete_before_replace is False


@pytest.mark.parametrize("path", ["name", "description", "autoCreateSubnetworks"])
def test_a_network_is_replaced(engine, path) -> None:
    old = engine.checked(
        NETWORK, "n", {}, {"name": "a", "description": "a", "autoCreateSubnetworks": False}
    )
    new = engine.checked(
        NETWORK,
        "n",
        old,
        {
            **{k: v for k, v in old.items() if k != "__defaults"},
            path: True if path[0] == "a" else "b",
        },
    )
    assert engine.diff(NETWORK, old, new).detailed == {path: "update-replace"}


@pytest.mark.parametrize("path", ["name", "location", "network", "subnetwork", "initialNodeCount"])
def test_a_cluster_is_replaced(engine, path) -> None:
    asked = {"name": "a", "location": "a", "network": "a", "subnetwork": "a", "initialNodeCount": 1}
    old = engine.checked(CLUSTER, "c", {}, asked)
    new = engine.checked(
        CLUSTER, "c", old, {**asked, path: 2 if path == "initialNodeCount" else "b"}
    )
    assert engine.diff(CLUSTER, old, new).detailed == {path: "update-replace"}


def test_the_type_of_a_placement_policy_is_neither_replaced_nor_updated(engine, h100) -> None:
    """The provider has no update of it: the same difference shows on every up."""
    engine.base()
    pool = engine.make(POOL, "h100", **h100)
    new = changed(h100, "placementPolicy", {"type": "COMPACT"})
    assert pool.update(new).detailed == {"placementPolicy": "add"}
    assert pool.refresh().changes


PRIVATE = {"enablePrivateNodes": True, "masterIpv4CidrBlock": "172.16.0.0/28"}
CLUSTER_REPLACES = [
    ("privateClusterConfig.masterIpv4CidrBlock", "172.16.1.0/28"),
    ("privateClusterConfig.privateEndpointSubnetwork", "projects/acme/regions/r/subnetworks/s"),
    ("datapathProvider", "ADVANCED_DATAPATH"),
    ("ipAllocationPolicy", {"clusterIpv4CidrBlock": "/16"}),
    ("nodeConfig", {"machineType": "e2-standard-4"}),
]
CLUSTER_IN_PLACE = [
    ("minMasterVersion", "1.37"),
    ("releaseChannel", {"channel": "RAPID"}),
    ("privateClusterConfig.enablePrivateEndpoint", True),
    ("ipAllocationPolicy", {"stackType": "IPV4_IPV6"}),
    ("addonsConfig", {"gcsFuseCsiDriverConfig": {"enabled": True}}),
    (
        "masterAuthorizedNetworksConfig",
        {"cidrBlocks": [{"cidrBlock": "10.0.0.0/8", "displayName": "office"}]},
    ),
    ("maintenancePolicy", {"dailyMaintenanceWindow": {"startTime": "03:00"}}),
    (
        "maintenancePolicy",
        {
            "recurringWindow": {
                "startTime": "2026-01-03T00:00:00Z",
                "endTime": "2026-01-03T08:00:00Z",
                "recurrence": "FREQ=WEEKLY;BYDAY=SA,SU",
            }
        },
    ),
    (
        "controlPlaneEndpointsConfig",
        {"dnsEndpointConfig": {"allowExternalTraffic": True}},
    ),
    ("resourceLabels", {"team": "ml"}),
    ("loggingConfig", {"enableComponents": ["SYSTEM_COMPONENTS"]}),
    (
        "monitoringConfig",
        {"enableComponents": ["SYSTEM_COMPONENTS"], "managedPrometheus": {"enabled": False}},
    ),
]


@pytest.fixture
def cluster(engine):
    network = engine.make(NETWORK, "net", name="net", autoCreateSubnetworks=False)
    subnetwork = engine.make(
        SUBNETWORK, "sub", name="sub", network=network.id, ipCidrRange="10.0.0.0/20"
    )
    asked = {
        "name": "main",
        "network": network.id,
        "subnetwork": subnetwork.id,
        "initialNodeCount": 1,
        "privateClusterConfig": PRIVATE,
        # GKE gives no private endpoint without.
        "masterAuthorizedNetworksConfig": {"cidrBlocks": []},
    }
    return engine.make(CLUSTER, "main", **asked), asked


@pytest.mark.parametrize(("path", "value"), CLUSTER_REPLACES)
def test_it_replaces_the_cluster(cluster, path, value) -> None:
    made, asked = cluster
    kinds = made.plan(changed(asked, path, value)).detailed
    assert any(k.endswith("-replace") for k in kinds.values()), kinds


@pytest.mark.parametrize(("path", "value"), CLUSTER_IN_PLACE)
def test_it_changes_the_cluster_in_place_and_is_read_back(cluster, path, value) -> None:
    made, asked = cluster
    new = changed(asked, path, value)
    assert made.update(new).changes
    assert not made.refresh().changes
    assert not made.plan(new).changes


def test_multi_networking_is_turned_on_in_place_where_the_cluster_has_dataplane_v2(
    engine, cluster
) -> None:
    _, asked = cluster
    second = {**asked, "name": "second", "datapathProvider": "ADVANCED_DATAPATH"}
    made = engine.make(CLUSTER, "second", **second)
    new = {**second, "enableMultiNetworking": True}
    assert made.update(new).changes
    assert not made.refresh().changes
    assert not made.plan(new).changes


def test_removing_one_component_is_a_change_but_omitting_all_is_not(cluster) -> None:
    made, asked = cluster
    two = {**asked, "loggingConfig": {"enableComponents": ["SYSTEM_COMPONENTS", "WORKLOADS"]}}
    made.update(two)
    one = {**asked, "loggingConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]}}
    assert made.update(one).changes
    assert not made.refresh().changes
    assert not made.plan(asked).changes


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.99", "unsupported"),
        ("9.9", "unsupported"),
    ],
)
def test_a_cluster_is_not_upgraded_to_any_version(cluster, version, words) -> None:
    made, asked = cluster
    with pytest.raises(ProviderError, match=words):
        made.update({**asked, "minMasterVersion": version})


@pytest.mark.parametrize("version", ["1.20", "1.35", "1.36.1-gke.1", "1.36"])
def test_a_cluster_that_has_the_lowest_version_asked_for_is_left_alone(cluster, version) -> None:
    made, asked = cluster
    had = made.outputs["masterVersion"]
    made.update({**asked, "minMasterVersion": version})
    assert made.outputs["masterVersion"] == had
    assert not made.plan({**asked, "minMasterVersion": version}).changes


@pytest.mark.parametrize(
    ("wanted", "kind"),
    [
        ("10.0.0.0/19", "update"),
        ("10.0.0.0/21", "update-replace"),
        ("10.1.0.0/20", "update-replace"),
        (UNKNOWN, "update-replace"),
    ],
)
def test_a_subnetwork_grows_in_place_and_is_replaced_to_shrink(engine, wanted, kind) -> None:
    network = engine.make(NETWORK, "net", autoCreateSubnetworks=False)
    asked = {"network": network.id, "ipCidrRange": "10.0.0.0/20"}
    subnetwork = engine.make(SUBNETWORK, "sub", **asked)
    new = {**asked, "ipCidrRange": wanted}
    assert subnetwork.plan(new).detailed == {"ipCidrRange": kind}
    if kind == "update":
        subnetwork.update(new)
        assert subnetwork.outputs["ipCidrRange"] == wanted
        assert not subnetwork.refresh().changes


@pytest.mark.parametrize(
    ("kind", "asked", "change"),
    [
        (NETWORK, {"autoCreateSubnetworks": False, "mtu": 1460}, {"mtu": 8896}),
        (
            SUBNETWORK,
            {"network": "net", "ipCidrRange": "10.0.0.0/20", "purpose": "PRIVATE"},
            {"purpose": "REGIONAL_MANAGED_PROXY"},
        ),
    ],
)
def test_resources_change_in_place(engine, kind, asked, change) -> None:
    engine.make(NETWORK, "net", name="net", autoCreateSubnetworks=False)
    resource = engine.make(kind, "x", name="x", **asked)
    (name,) = change
    assert resource.update({"name": "x", **asked, **change}).detailed == {name: "update"}
    assert not resource.refresh().changes


def test_a_fast_socket_block_that_is_left_out_again_differs_on_every_up(engine, h100) -> None:
    """Always state it. Source: node_config.go, the update of fast_socket and flattenFastSocket."""
    engine.base()
    asked = changed(h100, "nodeConfig.fastSocket", {"enabled": True})
    pool = engine.make(POOL, "h100", **asked)
    pool.update(h100)
    assert pool.plan(h100).detailed == {"nodeConfig.fastSocket": "delete"}
    stated = changed(h100, "nodeConfig.fastSocket", {"enabled": False})
    pool.update(stated)
    assert not pool.plan(stated).changes


def test_a_pool_that_is_spread_over_zones_is_resized_first(engine, h100) -> None:
    """Two nodes in c become one each in a and c: the provider ends one in c, then adds a."""
    engine.base()
    two = {**h100, "nodeCount": 2}
    pool = engine.make(POOL, "h100", **two)
    before = {n["metadata"]["name"] for n in engine.nodes()}
    pool.update({**h100, "nodeLocations": ["us-central1-a", "us-central1-c"]})
    zones = {
        n["metadata"]["name"]: n["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for n in engine.nodes()
    }
    assert sorted(zones.values()) == ["us-central1-a", "us-central1-c"]
    assert len(before & set(zones)) == 1


def test_updates_reach_the_nodes(engine, h100) -> None:
    engine.base()
    pool = engine.make(POOL, "h100", **h100)
    node = engine.nodes()[0]["metadata"]["name"]
    new = changed(h100, "nodeConfig.labels", {"role": "other"})
    new["nodeConfig"]["taints"] = []
    pool.update(new)
    (found,) = engine.nodes()
    assert found["metadata"]["name"] == node
    assert found["metadata"]["labels"]["role"] == "other"
    assert found["spec"]["taints"] == []
    assert not pool.refresh().changes
    pool.update({**new, "nodeCount": 3})
    assert len(engine.nodes()) == 3
    assert pool.outputs["nodeCount"] == 3
    assert not pool.refresh().changes


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (p, v)
        for p, v in IN_PLACE
        if p not in ("nodeConfig.machineType", "networkConfig", "version", "placementPolicy")
    ],
)
def test_every_in_place_change_is_applied_and_read_back(engine, h100, path, value) -> None:
    engine.base()
    h100["nodeConfig"] = {
        k: v
        for k, v in h100["nodeConfig"].items()
        if k not in ("guestAccelerators", "ephemeralStorageLocalSsdConfig")
    }
    h100["nodeConfig"]["machineType"] = "n2-standard-4"
    pool = engine.make(POOL, "pool", **h100)
    new = changed(h100, path, value)
    pool.update(new)
    assert not pool.refresh().changes
    assert not pool.plan(new).changes


POOLS = "projects.locations.clusters.nodePools"
DRIFTS = [
    ("setSize", {"nodeCount": 2}, {"nodeCount": "update"}),
    ("update", {"labels": {"labels": {"role": "x"}}}, {"nodeConfig.labels.role": "update"}),
    (
        "update",
        {"labels": {"labels": {"role": "h100-standard", "more": "y"}}},
        {"nodeConfig.labels.more": "add"},
    ),
    ("update", {"labels": {"labels": {}}}, {"nodeConfig.labels.role": "delete"}),
    ("update", {"taints": {"taints": []}}, {"nodeConfig.taints[0]": "delete"}),
    (
        "update",
        {"taints": {"taints": [{"key": "nvidia/share", "value": "x", "effect": "NO_SCHEDULE"}]}},
        {"nodeConfig.taints[0].value": "update"},
    ),
    ("update", {"locations": ["us-central1-a"]}, {"nodeLocations[0]": "update"}),
    (
        "setManagement",
        {"management": {"autoRepair": False, "autoUpgrade": True}},
        {"management.autoRepair": "update"},
    ),
]


@pytest.mark.parametrize(("method", "body", "expected"), DRIFTS)
def test_a_change_made_in_the_cloud_is_drift(engine, h100, method, body, expected) -> None:
    engine.base()
    pool = engine.make(POOL, "h100", **h100)
    engine.cloud.call("container", f"{POOLS}.{method}", {"name": pool.id}, body)
    assert engine.cloud.tasks.wait(120)
    found = pool.refresh()
    seen = {k: v for k, v in (found.detailed or {}).items() if not k.startswith("__")}
    assert seen == expected


def test_a_node_count_left_to_the_autoscaler_is_not_drift(engine, h100) -> None:
    engine.base()
    pool = engine.make(POOL, "h100", **h100, ignoreNodeCountChanges=True)
    engine.cloud.call("container", f"{POOLS}.setSize", {"name": pool.id}, {"nodeCount": 3})
    assert engine.cloud.tasks.wait(120)
    assert not pool.refresh().changes


def test_a_pool_deleted_in_the_cloud_reads_as_gone(engine, h100) -> None:
    engine.base()
    pool = engine.make(POOL, "h100", **h100)
    engine.cloud.call("container", f"{POOLS}.delete", {"name": pool.id}, {})
    assert engine.cloud.tasks.wait(120)
    assert pool.refresh() is None
