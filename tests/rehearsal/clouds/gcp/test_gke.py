"""The simulated Kubernetes Engine: clusters, node pools, and what it refuses."""

from __future__ import annotations

import json

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fake_control_planes import fake_nodes

H100S = [{"acceleratorType": "nvidia-h100-80gb", "acceleratorCount": "8"}]
A100 = {"acceleratorType": "nvidia-tesla-a100", "acceleratorCount": "1"}


def test_a_new_cluster_is_running_with_its_default_pool(gcp) -> None:
    cluster = gcp.make_cluster()
    assert cluster["status"] == "RUNNING"
    assert cluster["endpoint"] == "127.0.0.1:6443"
    assert [p["name"] for p in cluster["nodePools"]] == ["default-pool"]
    # One node per zone of a region.
    assert len(gcp.nodes()) == 3


def test_an_operation_is_running_before_it_is_done(gcp) -> None:
    gcp.network()
    asked = {"name": "main", "initialNodeCount": 1, "network": "net"}
    operation = gcp.call(
        "container", "projects.locations.clusters.create", {"parent": gcp.parent}, cluster=asked
    )
    assert operation["status"] == "RUNNING"
    assert gcp.wait(operation)["endTime"]


def test_gke_fills_in_defaults(gcp) -> None:
    config = gcp.make_cluster()["nodePools"][0]["config"]
    assert config["diskType"] == "pd-balanced"
    assert config["diskSizeGb"] == 100
    assert config["imageType"] == "COS_CONTAINERD"
    assert config["metadata"] == {"disable-legacy-endpoints": "true"}


def test_a_missing_driver_config_means_the_default_driver(gcp) -> None:
    gcp.make_cluster()
    pool = gcp.make_pool(config={"machineType": "a2-highgpu-1g", "accelerators": [dict(A100)]})
    assert pool["config"]["accelerators"][0]["gpuDriverInstallationConfig"] == {
        "gpuDriverVersion": "DEFAULT"
    }
    assert (
        gcp.nodes("pool")[0]["metadata"]["labels"]["cloud.google.com/gke-gpu-driver-version"]
        == "default"
    )


@pytest.mark.parametrize(
    ("settings", "tainted"),
    [({}, True), ({"taintConfig": {"architectureTaintBehavior": "NONE"}}, False)],
)
def test_nodes_with_arm64_processors_get_gkes_taint_unless_it_is_switched_off(
    gcp, settings: dict[str, object], tainted: bool
) -> None:
    gcp.make_cluster()
    gpus = {"acceleratorType": "nvidia-gb200", "acceleratorCount": "4"}
    disk = {"diskType": "hyperdisk-balanced", "diskSizeGb": 100}
    config = {"machineType": "a4x-highgpu-4g", "accelerators": [gpus], **disk, **settings}
    gcp.make_pool(config=config, locations=["us-central1-a"])
    (node,) = gcp.nodes("pool")
    arm = {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"}
    assert (arm in node["spec"]["taints"]) is tainted
    assert node["metadata"]["labels"]["kubernetes.io/arch"] == "arm64"


def test_a_gpu_pool_beside_a_pool_without_gpus_gets_gkes_taint(gcp, h100) -> None:
    gcp.make_cluster()
    gcp.make_pool(config=h100)
    assert {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"} in gcp.nodes(
        "pool"
    )[0]["spec"]["taints"]


def test_a_gpu_pool_created_alone_never_gets_gkes_taint(gcp, h100) -> None:
    gcp.make_cluster()
    gcp.wait(gcp.on_pool("delete", "default-pool"))
    gcp.make_pool(config=h100)
    gcp.make_pool(name="system", config={"machineType": "e2-standard-4"})
    gcp.wait(gcp.on_pool("setSize", nodeCount=2))
    assert [n["spec"]["taints"] for n in gcp.nodes("pool")] == [[], []]


def test_the_gpu_taint_with_another_value_is_refused(gcp, h100) -> None:
    gcp.make_cluster()
    h100["taints"] = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]
    with pytest.raises(
        CloudError,
        match=r"Found more than one taint with key nvidia\.com/gpu and effect NO_SCHEDULE",
    ):
        gcp.make_pool(config=h100)


def test_gkes_own_gpu_taint_is_accepted_in_a_request_and_not_doubled(gcp, h100) -> None:
    gcp.make_cluster()
    h100["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}]
    pool = gcp.make_pool(config=h100)
    assert len(pool["config"]["taints"]) == 1
    assert len(gcp.nodes("pool")[0]["spec"]["taints"]) == 1


def test_a_node_has_the_labels_and_taints_that_gke_sets(gcp, h100, monkeypatch) -> None:
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL_GKE_DRIVER_S", "60")
    gcp.make_cluster()
    h100 |= {
        "labels": {"role": "h100-standard"},
        "taints": [{"key": "nvidia/share", "value": "nvidia-mig", "effect": "NO_SCHEDULE"}],
    }
    gcp.make_pool(config=h100, maxPodsConstraint={"maxPodsPerNode": "64"})
    node = gcp.nodes("pool")[0]
    labels = node["metadata"]["labels"]
    expected = {
        "cloud.google.com/gke-accelerator": "nvidia-h100-80gb",
        "cloud.google.com/gke-accelerator-count": "8",
        "cloud.google.com/gke-gpu-partition-size": "3g.40gb",
        "cloud.google.com/gke-gpu-driver-version": "latest",
        "cloud.google.com/gke-nodepool": "pool",
        "cloud.google.com/gke-os-distribution": "cos",
        "cloud.google.com/gke-spot": "true",
        "kubernetes.io/hostname": node["metadata"]["name"],
        "topology.kubernetes.io/zone": "us-central1-c",
        "role": "h100-standard",
    }
    assert expected.items() <= labels.items()
    assert node["metadata"]["name"].startswith("gke-main-pool-")
    assert node["spec"]["providerID"] == f"gce://acme/us-central1-c/{node['metadata']['name']}"
    assert {t["key"] for t in node["spec"]["taints"]} == {"nvidia/share", "nvidia.com/gpu"}
    assert node["status"]["capacity"]["pods"] == "64"
    assert "nvidia.com/gpu" not in node["status"]["capacity"]
    machine = json.loads(node["metadata"]["annotations"]["rehearsal.slicewright.io/machine"])
    assert machine == {
        "cloud": "gke",
        "gpu_model": "H100-80",
        "gpu_count": 8,
        "driver_version": "550.90.07",
        "driver_by_installer": False,
        "driver_after_s": 60,
        "gke_gpu_config": {"GPUPartitionSize": "3g.40gb", "GPUSharingConfig": None},
    }


@pytest.mark.parametrize(
    ("asked", "version", "by_installer"),
    [("INSTALLATION_DISABLED", "535.183.01", True), ("DEFAULT", None, False)],
)
def test_without_its_plugin_gke_completes_no_driver(
    gcp, asked: str, version: str | None, by_installer: bool
) -> None:
    gcp.make_cluster()
    gpu = {**A100, "gpuDriverInstallationConfig": {"gpuDriverVersion": asked}}
    labels = {"gke-no-default-nvidia-gpu-device-plugin": "true"}
    config = {"machineType": "a2-highgpu-1g", "accelerators": [gpu], "labels": labels}
    gcp.make_pool(config=config)
    node = gcp.nodes("pool")[0]
    machine = json.loads(node["metadata"]["annotations"]["rehearsal.slicewright.io/machine"])
    assert (machine["driver_version"], machine["driver_by_installer"]) == (version, by_installer)
    announced = "cloud.google.com/gke-gpu-driver-version" in node["metadata"]["labels"]
    assert announced is (asked == "DEFAULT")


def test_gpu_sharing_shows_on_the_node(gcp) -> None:
    gcp.make_cluster()
    gpu = {
        **A100,
        "gpuSharingConfig": {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": "4"},
    }
    gcp.make_pool(config={"machineType": "a2-highgpu-1g", "accelerators": [gpu]})
    node = gcp.nodes("pool")[0]
    assert node["metadata"]["labels"]["cloud.google.com/gke-gpu-sharing-strategy"] == "time-sharing"
    machine = json.loads(node["metadata"]["annotations"]["rehearsal.slicewright.io/machine"])
    assert machine["gke_gpu_config"]["GPUSharingConfig"] == {
        "GPUSharingStrategy": "time-sharing",
        "MaxSharedClientsPerGPU": 4,
    }


@pytest.mark.parametrize("size", ["4g.40gb", "1g.5gb"])
def test_a_partition_size_that_the_gpu_lacks_is_accepted(gcp, h100, size: str) -> None:
    """As by the real API: what the size leads to shows on the node."""
    gcp.make_cluster()
    h100["accelerators"][0]["gpuPartitionSize"] = size
    assert gcp.make_pool(config=h100)["status"] == "RUNNING"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"machineType": "a9-hypergpu"}, "does not exist"),
        ({"machineType": "a3-highgpu-8g"}, "accelerators must be specified"),
        (
            {"machineType": "a2-highgpu-1g", "accelerators": [{**A100, "acceleratorCount": "2"}]},
            "exactly 1 x nvidia-tesla-a100",
        ),
        (
            {
                "machineType": "a2-highgpu-1g",
                "accelerators": [{**A100, "acceleratorType": "nvidia-l4"}],
            },
            "cannot be attached",
        ),
        ({"machineType": "e2-standard-4", "accelerators": [dict(A100)]}, "possible: none"),
        (
            {
                "machineType": "n1-standard-4",
                "accelerators": [
                    {**A100, "acceleratorType": "nvidia-tesla-t4", "acceleratorCount": "3"}
                ],
            },
            "1/2/4",
        ),
        (
            {
                "machineType": "a2-highgpu-1g",
                "accelerators": [{**A100, "gpuPartitionSize": "small"}],
            },
            "Invalid GPU partition size",
        ),
        (
            {
                "machineType": "g2-standard-4",
                "accelerators": [
                    {
                        "acceleratorType": "nvidia-l4",
                        "acceleratorCount": "1",
                        "gpuPartitionSize": "1g.5gb",
                    }
                ],
            },
            "not supported on accelerator type nvidia-l4",
        ),
        (
            {
                "machineType": "a2-highgpu-1g",
                "accelerators": [
                    {
                        **A100,
                        "gpuSharingConfig": {
                            "gpuSharingStrategy": "MPS",
                            "maxSharedClientsPerGpu": "1",
                        },
                    }
                ],
            },
            "2 to 48",
        ),
        (
            {
                "ephemeralStorageLocalSsdConfig": {"localSsdCount": 1},
                "localNvmeSsdBlockConfig": {"localSsdCount": 1},
            },
            "Only one of",
        ),
        ({"spot": True, "preemptible": True}, "Only one of spot and preemptible"),
        ({"labels": {"kubernetes.io/x": "y"}}, "reserved prefix"),
        ({"labels": {"bad key": "y"}}, "Invalid label key"),
        ({"labels": {"a": "v" * 64}}, "Invalid label value"),
        ({"labels": {f"k{i}": "v" * 60 for i in range(20)}}, "1024"),
        (
            {
                "taints": [
                    {"key": "a", "value": "1", "effect": "NO_SCHEDULE"},
                    {"key": "a", "value": "2", "effect": "NO_SCHEDULE"},
                ]
            },
            "more than one taint",
        ),
        (
            {"machineType": "a3-highgpu-8g", "diskType": "pd-standard", "accelerators": H100S},
            "cannot be used by",
        ),
        ({"fastSocket": {"enabled": True}}, "gVNIC"),
        (
            {"gcfsConfig": {"enabled": True}, "imageType": "UBUNTU_CONTAINERD"},
            "needs image type COS_CONTAINERD",
        ),
        ({"resourceLabels": {f"k{i}": "v" for i in range(65)}}, "at most 64"),
        (
            {"machineType": "n2-standard-4", "localNvmeSsdBlockConfig": {"localSsdCount": 3}},
            "1/2/4/8/16/24 local SSDs",
        ),
        ({"serviceAccount": "nobody@acme.iam.gserviceaccount.com"}, "does not exist"),
    ],
)
def test_an_impossible_node_config_is_refused(gcp, config: dict, words: str) -> None:
    gcp.make_cluster()
    with pytest.raises(CloudError) as caught:
        gcp.make_pool(config=config)
    assert words in caught.value.message
    assert caught.value.code == 400
    assert gcp.cloud.inventory()["container.nodePool"] == [f"{gcp.cluster}/nodePools/default-pool"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "Pool"}, "lower case"),
        ({"name": "p" * 41}, "at most 40"),
        ({"locations": ["europe-west4-a"]}, "not in the region"),
        (
            {"locations": ["us-central1-f"], "config": "h100"},
            "does not exist in zone 'us-central1-f'",
        ),
        ({"maxPodsConstraint": {"maxPodsPerNode": "300"}}, "8 to 256"),
        ({"upgradeSettings": {"maxSurge": 0, "maxUnavailable": 0}}, "1 to 20"),
        ({"initialNodeCount": 1001}, "0 to 1000"),
    ],
)
def test_pool_settings_out_of_range_are_refused(gcp, h100, fields: dict, words: str) -> None:
    gcp.make_cluster()
    if fields.get("config") == "h100":
        fields = {**fields, "config": h100}
    with pytest.raises(CloudError) as caught:
        gcp.make_pool(**fields)
    assert words in caught.value.message


def test_the_number_of_local_ssds_of_a3_cannot_be_chosen(gcp, h100) -> None:
    gcp.make_cluster()
    h100["ephemeralStorageLocalSsdConfig"] = {"localSsdCount": 4}
    with pytest.raises(CloudError, match="exactly 16 local SSDs"):
        gcp.make_pool(config=h100)


def test_a_second_pool_of_the_same_name_is_refused(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool()
    with pytest.raises(CloudError) as caught:
        gcp.make_pool()
    assert (caught.value.code, caught.value.reason) == (409, "ALREADY_EXISTS")


def test_size_counts_per_zone_and_the_newest_nodes_go_first(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(locations=["us-central1-a", "us-central1-b"])
    first = {n["metadata"]["name"] for n in gcp.nodes("pool")}
    gcp.wait(gcp.on_pool("setSize", nodeCount=3))
    assert len(gcp.nodes("pool")) == 6
    gcp.wait(gcp.on_pool("setSize", nodeCount=1))
    assert {n["metadata"]["name"] for n in gcp.nodes("pool")} == first


def test_zones_can_be_removed(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(locations=["us-central1-a", "us-central1-b"])
    gcp.wait(gcp.on_pool("update", locations=["us-central1-b"]))
    zones = [n["metadata"]["labels"]["topology.kubernetes.io/zone"] for n in gcp.nodes("pool")]
    assert zones == ["us-central1-b"]


def test_labels_and_taints_change_on_existing_nodes(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(
        config={
            "labels": {"a": "1", "b": "1"},
            "taints": [{"key": "t", "value": "1", "effect": "NO_SCHEDULE"}],
        }
    )
    before = gcp.nodes("pool")[0]["metadata"]["name"]
    gcp.wait(gcp.on_pool("update", labels={"labels": {"a": "2"}}))
    gcp.wait(
        gcp.on_pool(
            "update", taints={"taints": [{"key": "t", "value": "2", "effect": "NO_SCHEDULE"}]}
        )
    )
    node = gcp.nodes("pool")[0]
    assert node["metadata"]["name"] == before
    assert node["metadata"]["labels"]["a"] == "2"
    assert "b" not in node["metadata"]["labels"]
    assert [t["value"] for t in node["spec"]["taints"]] == ["2"]


def test_a_taint_removed_by_hand_is_not_restored_by_an_update(gcp) -> None:
    gcp.make_cluster()
    startup = {"key": "startup", "value": "true", "effect": "NO_SCHEDULE"}
    gcp.make_pool(config={"taints": [startup]})
    node = gcp.nodes("pool")[0]
    gone = [{"key": "startup", "effect": "NoSchedule"}]
    fake_nodes(gcp.environment, "main").update(
        node["metadata"]["name"], labels={}, add_taints=[], remove_taints=gone
    )
    gcp.wait(
        gcp.on_pool(
            "update",
            taints={"taints": [startup, {"key": "new", "value": "", "effect": "NO_EXECUTE"}]},
        )
    )
    assert [t["key"] for t in gcp.nodes("pool")[0]["spec"]["taints"]] == ["new"]


def test_a_new_machine_type_replaces_the_nodes(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(config={"machineType": "e2-standard-4"})
    before = gcp.nodes("pool")[0]["metadata"]["name"]
    gcp.wait(gcp.on_pool("update", machineType="e2-standard-8"))
    (node,) = gcp.nodes("pool")
    assert node["metadata"]["name"] != before
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "e2-standard-8"


def test_resource_labels_cost_new_nodes(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool()
    before = gcp.nodes("pool")[0]["metadata"]["name"]
    gcp.wait(gcp.on_pool("update", resourceLabels={"labels": {"team": "ml"}}))
    (node,) = gcp.nodes("pool")
    assert node["metadata"]["name"] != before


@pytest.mark.parametrize("channel", ["REGULAR", "UNSPECIFIED"])
def test_upgrades_cannot_be_disabled_in_a_release_channel(gcp, channel: str) -> None:
    gcp.make_cluster(releaseChannel={"channel": channel})
    management = {"autoRepair": True, "autoUpgrade": False}
    if channel == "UNSPECIFIED":
        assert gcp.make_pool(management=management)["management"] == management
        return
    with pytest.raises(CloudError, match="cannot be false when release_channel REGULAR is set"):
        gcp.make_pool(management=management)
    gcp.make_pool()
    with pytest.raises(CloudError, match="cannot be false when release_channel REGULAR is set"):
        gcp.on_pool("setManagement", management=management)
    gcp.wait(gcp.on_pool("setManagement", management={"autoUpgrade": True}))


def test_a_pool_boots_from_what_its_machine_type_can(gcp) -> None:
    gcp.make_cluster()
    b200 = {"acceleratorType": "nvidia-b200", "acceleratorCount": "8"}
    config = {"machineType": "a4-highgpu-8g", "accelerators": [b200]}
    zone = ["us-central1-b"]
    with pytest.raises(CloudError, match="pd-balanced disk type cannot be used by a4-highgpu-8g"):
        gcp.make_pool(config={**config, "diskType": "pd-balanced"}, locations=zone)
    assert gcp.make_pool(config=config, locations=zone)["config"]["diskType"] == (
        "hyperdisk-balanced"
    )


def test_accelerators_cannot_be_updated(gcp, h100) -> None:
    gcp.make_cluster()
    gcp.make_pool(config=h100)
    with pytest.raises(CloudError, match="not supported"):
        gcp.on_pool("update", accelerators=h100["accelerators"])


def test_nodes_that_never_become_ready_leave_the_pool_with_an_error(gcp) -> None:
    gcp.make_cluster()
    fake_nodes(gcp.environment, "main").never_become_ready()
    asked = {"name": "pool", "initialNodeCount": 1, "locations": ["us-central1-c"]}
    operation = gcp.call(
        "container",
        "projects.locations.clusters.nodePools.create",
        {"parent": gcp.cluster},
        nodePool=asked,
    )
    assert "only some nodes have registered" in gcp.settle(operation)["error"]["message"]
    assert gcp.pool()["status"] == "RUNNING_WITH_ERROR"


def test_a_node_deleted_by_hand_is_restored_by_the_next_change(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool()
    name = gcp.nodes("pool")[0]["metadata"]["name"]
    fake_nodes(gcp.environment, "main").remove(name)
    gcp.wait(gcp.on_pool("setSize", nodeCount=1))
    assert [n["metadata"]["name"] for n in gcp.nodes("pool")] == [name]


def test_a_cluster_name_is_unique_in_an_environment(gcp) -> None:
    gcp.make_cluster()
    asked = {"name": "main", "initialNodeCount": 1, "network": "net"}
    gcp.call(
        "compute",
        "subnetworks.insert",
        {"project": "acme", "region": "us-east4"},
        name="e",
        network="projects/acme/global/networks/net",
        ipCidrRange="10.20.0.0/20",
    )
    with pytest.raises(CloudError, match="one name per environment"):
        gcp.call(
            "container",
            "projects.locations.clusters.create",
            {"parent": "projects/acme/locations/us-east4"},
            cluster=asked,
        )


def test_a_zonal_cluster_has_pools_in_other_zones_of_its_region(gcp) -> None:
    """Source: GKE, "About cluster configuration choices", multi-zonal clusters."""
    gcp.location = "us-central1-a"
    made = gcp.make_cluster()
    assert made["locations"] == ["us-central1-a"]
    pool = gcp.make_pool(locations=["us-central1-f"])
    assert pool["locations"] == ["us-central1-f"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"initialNodeCount": 0}, "initial_node_count"),
        ({"network": "nowhere"}, 'Network "nowhere" does not exist'),
        ({"subnetwork": "nowhere"}, 'Subnetwork "nowhere"'),
        ({"locations": ["us-east1-b"]}, "not in us-central1"),
        (
            {"ipAllocationPolicy": {"clusterSecondaryRangeName": "pods"}},
            'Secondary range "pods" does not exist',
        ),
        ({"name": "9main"}, "lower case"),
    ],
)
def test_an_impossible_cluster_is_refused_and_leaves_nothing(gcp, fields: dict, words: str) -> None:
    with pytest.raises(CloudError) as caught:
        gcp.make_cluster(**fields)
    assert words in caught.value.message
    assert "container.cluster" not in gcp.cloud.inventory()


def test_deleting_a_cluster_deletes_its_pools_and_frees_its_network(gcp, h100) -> None:
    gcp.make_cluster()
    gcp.make_pool(config=h100)
    with pytest.raises(CloudError, match="already being used by"):
        gcp.call(
            "compute",
            "subnetworks.delete",
            {"project": "acme", "region": "us-central1", "subnetwork": "sub"},
        )
    gcp.wait(gcp.call("container", "projects.locations.clusters.delete", {"name": gcp.cluster}))
    assert not (gcp.environment / "clusters" / "main").exists()
    with pytest.raises(CloudError, match="already being used by"):
        gcp.call("compute", "networks.delete", {"project": "acme", "network": "net"})
    gcp.call(
        "compute",
        "subnetworks.delete",
        {"project": "acme", "region": "us-central1", "subnetwork": "sub"},
    )
    gcp.call("compute", "networks.delete", {"project": "acme", "network": "net"})
    assert gcp.cloud.inventory() == {}


def test_a_fault_reaches_the_node_that_it_names(gcp, h100) -> None:
    fault = {"fault": "wrong-layout", "pool": "h100", "node": 1, "gpu": 3, "profile": "1g.10gb"}
    (gcp.environment / "faults.json").write_text(json.dumps([fault]))
    gcp.make_cluster()
    gcp.make_pool(config=h100 | {"labels": {"slicewright.io/pool": "h100"}}, initialNodeCount=2)
    machines = [
        json.loads(n["metadata"]["annotations"]["rehearsal.slicewright.io/machine"])
        for n in gcp.nodes("pool")
    ]
    assert [m["fault"] for m in machines if "fault" in m] == [
        {"kind": "wrong-layout", "gpu": 3, "profile": "1g.10gb"}
    ]
