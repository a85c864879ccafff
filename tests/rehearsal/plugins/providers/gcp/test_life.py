"""gke-h100's pool created and deleted with the engine's sequence of calls."""

from __future__ import annotations

import copy
import json

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.plugins.engine.plugin import InitFailed, ProviderError
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN, Secret
from slicewright.rehearsal.plugins.engine.requests import Autonaming, ConfigureRequest

NETWORK = "gcp:compute/network:Network"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
ACCOUNT = "gcp:serviceaccount/account:Account"
MEMBER = "gcp:projects/iAMMember:IAMMember"
CLUSTER = "gcp:container/cluster:Cluster"
POOL = "gcp:container/nodePool:NodePool"


def test_s0_is_created_shows_no_drift_and_is_deleted_completely(engine, h100) -> None:
    engine.base()
    account = engine.make(ACCOUNT, "nodes", accountId="main-nodes", displayName="Nodes")
    engine.make(
        MEMBER,
        "right",
        project="acme",
        role="roles/container.defaultNodeServiceAccount",
        member=account.outputs["member"],
    )
    engine.make(
        POOL,
        "system",
        cluster="main",
        nodeCount=1,
        nodeLocations=["us-central1-c"],
        nodeConfig={"machineType": "e2-standard-4"},
    )
    h100["nodeConfig"]["serviceAccount"] = account.outputs["email"]
    pool = engine.make(POOL, "h100", **h100)
    assert len(engine.nodes()) == 2
    taints = {t["key"] for t in engine.nodes("h100-partition-3g")[0]["spec"]["taints"]}
    assert taints == {"nvidia/share", "nvidia.com/gpu"}
    assert not pool.plan(h100).changes
    for resource in engine.made:
        assert not resource.refresh().changes, resource.kind
    for resource in reversed(engine.made):
        resource.delete()
        assert resource.refresh() is None
    assert engine.client.inventory() == {}


def test_the_cluster_has_every_output_that_a_program_reads(engine) -> None:
    outputs = engine.base().outputs
    assert outputs["endpoint"] == "127.0.0.1:6443"
    assert outputs["masterAuth"]["clusterCaCertificate"]
    assert outputs["name"] == "main"
    assert outputs["location"] == "us-central1"
    assert outputs["project"] == "acme"
    assert outputs["masterVersion"].startswith("1.36.2-gke.")
    assert outputs["selfLink"].endswith("/clusters/main")


def test_every_output_of_the_schema_is_present(engine, h100) -> None:
    engine.base()
    engine.make(POOL, "h100", **h100)
    for resource in engine.made:
        assert set(engine.provider.schema.outputs(resource.kind)) <= set(resource.outputs), (
            resource.kind
        )


def test_the_programs_cluster_shows_no_difference_on_a_second_up(engine) -> None:
    """With the node config of the pool that is removed at once: infra/components/gke/cluster.py."""
    network = engine.make(NETWORK, "net", autoCreateSubnetworks=False)
    subnetwork = engine.make(SUBNETWORK, "sub", network=network.id, ipCidrRange="10.0.0.0/20")
    account = engine.make(ACCOUNT, "nodes", accountId="main-nodes")
    asked = {
        "name": "main",
        "network": network.id,
        "subnetwork": subnetwork.id,
        "networkingMode": "VPC_NATIVE",
        "releaseChannel": {"channel": "REGULAR"},
        "removeDefaultNodePool": True,
        "initialNodeCount": 1,
        "deletionProtection": False,
        "nodeConfig": {
            "diskType": "pd-standard",
            "diskSizeGb": 20,
            "serviceAccount": account.outputs["email"],
            "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
        },
    }
    cluster = engine.make(CLUSTER, "main", **asked)
    assert not cluster.plan(asked).changes
    assert not cluster.refresh().changes
    assert engine.nodes() == []


def test_the_default_pool_is_removed(engine) -> None:
    engine.base()
    assert "container.nodePool" not in engine.client.inventory()
    assert engine.nodes() == []


def test_a_preview_creates_nothing_and_its_outputs_are_unknown(engine, h100) -> None:
    inputs = engine.checked(CLUSTER, "main", {}, {"initialNodeCount": 1, "network": UNKNOWN})
    made = engine.preview(CLUSTER, "main", inputs)
    assert made.id == ""
    assert made.outputs["endpoint"] is UNKNOWN
    assert made.outputs["masterAuth"] is UNKNOWN
    assert made.outputs["name"] == inputs["name"]
    assert made.outputs["network"] is UNKNOWN
    assert engine.client.inventory() == {}


def test_automatic_names_are_kept_but_new_for_a_replacement(engine) -> None:
    first = engine.checked(NETWORK, "Net", {}, {})
    assert first["name"].startswith("net-")
    assert len(first["name"]) == len("net-") + 7
    assert first["__defaults"] == ["autoCreateSubnetworks", "name"]
    assert engine.checked(NETWORK, "Net", first, {})["name"] == first["name"]
    assert engine.checked(NETWORK, "Net", {}, {})["name"] != first["name"]
    assert engine.checked(NETWORK, "Net", first, {"name": "mine"})["name"] == "mine"


def test_automatic_names_fit_the_clouds_limit(engine) -> None:
    name = engine.checked(POOL, "p" * 60, {}, {"cluster": "main"})["name"]
    assert len(name) == 40


@pytest.mark.parametrize(
    ("mode", "expected"), [("propose", "mine"), ("enforce", "mine"), ("disable", None)]
)
def test_automatic_names_follow_the_projects_autonaming(engine, mode, expected) -> None:
    checked = engine.check(NETWORK, "net", {}, {}, Autonaming("mine", mode))
    if expected:
        assert checked.inputs["name"] == expected
    else:
        assert [f.property for f in checked.failures] == ["name"]


def test_a_name_prefix_is_completed_by_the_provider(engine) -> None:
    engine.base()
    pool = engine.make(POOL, "p", cluster="main", namePrefix="gpu-", nodeCount=0)
    assert pool.outputs["name"].startswith("gpu-")
    assert not pool.refresh().changes


@pytest.mark.parametrize(
    ("kind", "asked", "path", "words"),
    [
        (POOL, {}, "cluster", "missing required property"),
        (POOL, {"cluster": "c", "nodecount": 1}, "nodecount", "did you mean nodeCount?"),
        (
            POOL,
            {"cluster": "c", "nodeConfig": {"machinType": "x"}},
            "nodeConfig.machinType",
            "did you mean machineType?",
        ),
        (
            POOL,
            {"cluster": "c", "nodeConfig": {"guestAccelerators": [{"type": "t"}]}},
            "nodeConfig.guestAccelerators[0].count",
            "missing",
        ),
        (
            POOL,
            {"cluster": "c", "nodeCount": "three"},
            "nodeCount",
            "expected a whole number, got 'three'",
        ),
        (
            POOL,
            {"cluster": "c", "nodeLocations": "us-central1-c"},
            "nodeLocations",
            "expected a list",
        ),
        (POOL, {"cluster": "c", "nodeConfig": []}, "nodeConfig", "expected an object"),
        (
            POOL,
            {"cluster": "c", "nodeConfig": {"spot": "maybe"}},
            "nodeConfig.spot",
            "expected true or false",
        ),
        (
            POOL,
            {
                "cluster": "c",
                "nodeConfig": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]},
            },
            "nodeConfig.taints[0].effect",
            "expected one of NO_SCHEDULE",
        ),
        (
            POOL,
            {"cluster": "c", "nodeConfig": {"diskSizeGb": 5}},
            "nodeConfig.diskSizeGb",
            "at least 10",
        ),
        (
            POOL,
            {"cluster": "c", "name": "a", "namePrefix": "b"},
            "namePrefix",
            "conflicts with name",
        ),
        (
            POOL,
            {"cluster": "c", "autoscaling": {"minNodeCount": 1, "totalMaxNodeCount": 2}},
            "autoscaling.minNodeCount",
            "conflicts",
        ),
        (ACCOUNT, {}, "accountId", "missing"),
        (ACCOUNT, {"accountId": "short"}, "accountId", "6 to 30"),
        (CLUSTER, {"nodePools": [{"name": "x"}]}, "nodePools", "use NodePool resources"),
        (SUBNETWORK, {"ipCidrRange": "10.0.0.0/8"}, "network", "missing"),
    ],
)
def test_wrong_inputs_are_refused_with_their_path(engine, kind, asked, path, words) -> None:
    failures = engine.failures(kind, asked)
    assert words in failures[path]
    assert len(failures) == 1


def test_an_unknown_value_passes_every_check(engine) -> None:
    asked = {
        "cluster": UNKNOWN,
        "nodeCount": UNKNOWN,
        "nodeConfig": {"labels": UNKNOWN, "taints": [UNKNOWN], "guestAccelerators": UNKNOWN},
    }
    assert engine.failures(POOL, asked) == {}


def test_a_property_that_is_not_simulated_is_refused_with_its_path(engine, h100) -> None:
    engine.base()
    h100["nodeConfig"]["hostMaintenancePolicy"] = {"maintenanceInterval": "PERIODIC"}
    with pytest.raises(
        ProviderError, match=r"nodeConfig\.hostMaintenancePolicy: .* does not simulate"
    ):
        engine.make(POOL, "h100", **h100)


def test_an_unknown_type_names_the_known_ones(engine) -> None:
    with pytest.raises(
        ProviderError,
        match=r"does not simulate gcp:storage/bucket:Bucket; "
        r"it simulates gcp:compute/firewall:Firewall, gcp:compute/network:Network",
    ):
        engine.check("gcp:storage/bucket:Bucket", "b", {}, {})


def test_outside_a_rehearsal_there_is_one_clear_message(
    engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLICEWRIGHT_REHEARSAL")
    with pytest.raises(ProviderError, match="only inside a rehearsal environment"):
        engine.provider.configure(ConfigureRequest())


def test_a_project_is_needed(engine) -> None:
    engine.provider.configure(ConfigureRequest(inputs={"region": "us-central1"}))
    with pytest.raises(ProviderError, match="project: required field is not set"):
        engine.make(NETWORK, "net")


def test_the_clouds_error_message_reaches_the_user(engine, h100) -> None:
    engine.base()
    h100["nodeLocations"] = ["us-central1-f"]
    with pytest.raises(
        ProviderError,
        match=r"INVALID_ARGUMENT \(400\): Machine type with name 'a3-highgpu-8g' does not exist "
        r"in zone",
    ):
        engine.make(POOL, "h100", **h100)


def test_deletion_protection_is_on_by_default(engine) -> None:
    cluster = engine.base()
    cluster.inputs = {**cluster.inputs, "deletionProtection": True}
    with pytest.raises(ProviderError, match="deletionProtection is set to true"):
        cluster.delete()
    assert engine.checked(CLUSTER, "x", {}, {})["deletionProtection"] is True


def test_a_pool_whose_nodes_do_not_register_is_kept_and_fails_the_next_update(engine, h100) -> None:
    engine.base()
    stuck = engine.environment / "clusters" / "main" / "fake-nodes" / "never-ready"
    stuck.touch()
    pool = engine.make(POOL, "h100", **h100)
    assert "only some nodes have registered" in pool.reasons[0]
    assert pool.id.endswith("/nodePools/h100-partition-3g")
    with pytest.raises(InitFailed, match="RUNNING_WITH_ERROR"):
        pool.update(h100)
    stuck.unlink()
    h100["nodeCount"] = 2
    pool.update(h100)
    assert len(engine.nodes()) == 2


def test_transient_errors_are_retried(engine) -> None:
    fault = {
        "fault": "api-error",
        "method": "compute.networks.insert",
        "code": 429,
        "message": "quota",
        "times": 3,
    }
    (engine.environment / "faults.json").write_text(json.dumps([fault]))
    engine.make(NETWORK, "net")
    assert engine.client.inventory() == {
        "compute.network": [f"acme/{engine.made[0].inputs['name']}"]
    }


def test_an_account_is_waited_for_where_iam_is_slow(engine) -> None:
    def slow_by(delay_s: float) -> None:
        fault = {"fault": "slow-iam", "delay_s": delay_s}
        (engine.environment / "faults.json").write_text(json.dumps([fault]))

    slow_by(3600)
    body = {"accountId": "early-bird"}
    made = engine.cloud.call(
        "iam", "projects.serviceAccounts.create", {"name": "projects/acme"}, body
    )
    with pytest.raises(CloudError, match="Unknown service account"):
        engine.cloud.call("iam", "projects.serviceAccounts.get", {"name": made["name"]}, {})
    slow_by(0.4)
    account = engine.make(ACCOUNT, "nodes", accountId="main-nodes")
    member = account.outputs["member"]
    engine.make(MEMBER, "right", project="acme", role="roles/viewer", member=member)
    assert not account.refresh().changes


def test_pools_of_one_cluster_are_created_concurrently(engine, h100) -> None:
    from concurrent.futures import ThreadPoolExecutor

    engine.base()
    system = {"cluster": "main", "nodeCount": 1, "nodeLocations": ["us-central1-c"]}
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda n: engine.make(POOL, n, **system), ("a", "b")))
    assert len(engine.nodes()) == 2


def test_a_secret_input_is_a_secret_output(engine) -> None:
    network = engine.make(NETWORK, "net", description=Secret("hush"))
    assert network.outputs["description"] == Secret("hush")


def test_an_imported_pool_shows_all_its_properties(engine, h100) -> None:
    engine.base()
    pool = engine.make(POOL, "h100", **h100)
    found = engine.imported(POOL, pool.id)
    assert found.inputs["nodeConfig"]["machineType"] == "a3-highgpu-8g"
    assert found.inputs["nodeConfig"]["guestAccelerators"][0]["gpuPartitionSize"] == "3g.40gb"
    assert found.inputs["name"] == "h100-partition-3g"


def test_deleting_a_deleted_resource_succeeds(engine) -> None:
    network = engine.make(NETWORK, "net")
    network.delete()
    network.delete()


def test_the_provider_does_not_modify_its_inputs(engine, h100) -> None:
    engine.base()
    before = copy.deepcopy(h100)
    engine.make(POOL, "h100", **h100)
    assert h100 == before
