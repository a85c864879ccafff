"""`slicewright doctor` against the simulated Google Cloud with one thing wrong."""

from __future__ import annotations

import json
import socket

import pytest

from slicewright.doctor.ask.google.session import _ENDPOINTS, SCOPE
from slicewright.exit_codes import CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.rehearsal.clouds.gcp.account import write_account
from slicewright.rehearsal.clouds.gcp.models import find_method
from tests.rehearsal.clouds.conftest import Gcp
from tests.slicewright.doctor.conftest import Doctor

PROJECT = ("slicewright-gke-h100", "acme")


def test_an_ordinary_project_would_refuse_nothing(doctor: Doctor) -> None:
    code, said = doctor("gke-h100", PROJECT)
    assert code == VERIFIED, said
    assert "0 would fail, 0 could not be checked" in said
    assert "a3-highgpu-8g in us-central1-c: offered" in said


def test_doctor_only_reads_a_google_project(doctor: Doctor) -> None:
    doctor("gke-h100", PROJECT)
    log = (doctor.environment / "log" / "cloud-calls.jsonl").read_text().splitlines()
    called = {json.loads(line)["operation"].rpartition(".")[2] for line in log}
    reading = {"batchGet", "get", "getEffectivePolicy", "getServerConfig", "testIamPermissions"}
    assert called == reading
    assert doctor.cloud.inventory() == {}


@pytest.mark.parametrize("api", ["compute", "container", "iam", "cloudresourcemanager"])
def test_the_api_that_is_off_is_named(doctor: Doctor, api: str) -> None:
    names = ["compute", "container", "iam", "cloudresourcemanager", "orgpolicy", "serviceusage"]
    on = [f"{name}.googleapis.com" for name in names if name != api]
    (doctor.environment / "cloud" / "enabled_apis.json").write_text(json.dumps(on))
    code, said = doctor("gke-h100", PROJECT)
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert f"API {api}.googleapis.com of project acme: off" in said
    assert f"gcloud services enable {api}.googleapis.com --project acme" in said


def test_constraints_are_not_read_without_the_api_of_organisation_policies(
    doctor: Doctor,
) -> None:
    names = ["compute", "container", "iam", "cloudresourcemanager", "serviceusage"]
    on = [f"{name}.googleapis.com" for name in names]
    (doctor.environment / "cloud" / "enabled_apis.json").write_text(json.dumps(on))
    code, said = doctor("gke-h100", PROJECT)
    assert code == CANNOT_RUN
    assert "0 would fail, 1 could not be checked" in said
    assert "gcloud services enable orgpolicy.googleapis.com --project acme" in said


def test_no_check_passes_without_an_answer_of_service_usage(doctor: Doctor) -> None:
    (doctor.environment / "cloud" / "enabled_apis.json").write_text("[]")
    code, said = doctor("gke-h100", PROJECT)
    assert code == CANNOT_RUN
    assert "gcloud services enable serviceusage.googleapis.com --project acme" in said
    # The image, as registries are not a service of Google's, and the credentials.
    assert " 2 ok" in said


@pytest.mark.parametrize(
    ("metric", "limit", "wanted"),
    [
        ("PREEMPTIBLE_NVIDIA_H100_GPUS", 0, 8),
        ("SSD_TOTAL_GB", 250, None),
        ("IN_USE_ADDRESSES", 1, 2),
    ],
)
def test_an_insufficient_quota_is_named_with_the_need(
    doctor: Doctor, metric: str, limit: int, wanted: int | None
) -> None:
    write_account(doctor.environment, {"quotas": {metric: limit}})
    code, said = doctor("gke-h100", PROJECT)
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert f"quota {metric} in us-central1: {limit}, 0 in use" in said
    assert f"--quota-id={metric.replace('_', '-')}-per-project-region" in said
    assert wanted is None or f"--preferred-value={wanted} " in said


@pytest.mark.parametrize(
    ("metric", "limit", "wanted"),
    [("GPUS_ALL_REGIONS", 0, 8), ("CPUS_ALL_REGIONS", 12, 212), ("NETWORKS", 0, 1)],
)
def test_the_quota_of_all_regions_that_is_short_is_named(
    doctor: Doctor, metric: str, limit: int, wanted: int
) -> None:
    """In a new project GPUS_ALL_REGIONS is 0, whatever a region has."""
    write_account(doctor.environment, {"quotas": {metric: limit}})
    code, said = doctor("gke-h100", PROJECT)
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert f"quota {metric} in project acme: {limit}, 0 in use" in said
    assert f"--quota-id={metric.replace('_', '-')}-per-project --preferred-value={wanted} " in said


def test_a_zone_without_the_machine_is_named(doctor: Doctor) -> None:
    """The catalog is older than the cloud: what the zone answers counts."""
    fault = {
        "fault": "api-error",
        "method": "compute.machineTypes.get",
        "code": 404,
        "call": 1,
        "times": 1,
    }
    (doctor.environment / "faults.json").write_text(json.dumps([fault]))
    code, said = doctor("gke-h100", PROJECT)
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert ": not offered" in said


def test_a_cluster_of_that_name_is_named(doctor: Doctor) -> None:
    Gcp(doctor.cloud, doctor.environment).make_cluster()
    code, said = doctor("gke-h100", PROJECT)
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert "cluster main in us-central1: already exists" in said


def test_a_service_account_of_that_name_is_named(doctor: Doctor) -> None:
    gcp = Gcp(doctor.cloud, doctor.environment)
    where = {"name": "projects/acme"}
    gcp.call("iam", "projects.serviceAccounts.create", where, accountId="main-nodes")
    code, said = doctor("gke-h100", PROJECT)
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert "service account main-nodes@acme.iam.gserviceaccount.com: already exists" in said


def test_a_version_that_gke_does_not_offer_is_named(doctor: Doctor) -> None:
    """The catalog still has it for the channel EXTENDED."""
    old = 'name: main\n      release_channel: EXTENDED\n      version: "1.33"\n'
    code, said = doctor("gke-h100", PROJECT, ("name: main\n", old))
    assert code == NOT_VERIFIED, said
    assert "1 would fail" in said
    assert "Kubernetes 1.33 of GKE's channel EXTENDED in us-central1: not offered" in said


@pytest.mark.parametrize(
    ("method", "right"),
    [
        ("serviceusage.services.batchGet", "serviceusage.services.get"),
        ("compute.regions.get", "compute.regions.get"),
        ("compute.machineTypes.get", "compute.machineTypes.get"),
        ("container.projects.locations.clusters.get", "container.clusters.get"),
        ("iam.projects.serviceAccounts.get", "iam.serviceAccounts.get"),
    ],
)
def test_a_right_that_is_missing_is_named_and_nothing_is_taken_for_passed(
    doctor: Doctor, method: str, right: str
) -> None:
    fault = {"fault": "api-error", "method": method, "code": 403}
    (doctor.environment / "faults.json").write_text(json.dumps([fault]))
    code, said = doctor("gke-h100", PROJECT)
    assert code == CANNOT_RUN
    assert "0 would fail" in said
    assert f"could not be checked: the right {right} is missing" in said


def test_a_token_that_google_refuses_is_one_message(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "ya29.wrong")
    code, said = doctor("gke-h100", PROJECT)
    assert code == CANNOT_RUN
    assert said.startswith("slicewright doctor: Google refuses the credentials")
    assert "gcloud auth application-default login" in said
    assert said.count("\n") == 1


def test_a_stack_without_project_says_which_command_sets_it(doctor: Doctor) -> None:
    code, said = doctor("gke-h100", ("gcp:project: slicewright-gke-h100\n", ""))
    assert code == NOT_VERIFIED
    assert "pulumi config set gcp:project PROJECT" in said


def test_without_credentials_the_one_message_says_how_to_log_in(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_OAUTH_ACCESS_TOKEN")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(doctor.environment))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    code, said = doctor("gke-h100", PROJECT)
    assert code == CANNOT_RUN
    assert said.startswith("slicewright doctor: no Google credentials can be used: ")
    assert "gcloud auth application-default login" in said
    assert said.count("\n") == 1


def test_a_missing_answer_names_the_endpoint(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}/v1/"
        monkeypatch.setenv("GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT", nobody)
        code, said = doctor("gke-h100", PROJECT)
    assert code == CANNOT_RUN
    assert f"slicewright doctor: {nobody}projects/acme/services:batchGet cannot be" in said


@pytest.mark.parametrize("right", ["container.clusters.create", "iam.serviceAccounts.actAs"])
def test_the_right_that_is_missing_is_named_with_the_commands_that_give_it(
    doctor: Doctor, right: str
) -> None:
    write_account(doctor.environment, {"lacks": [right, "compute.instances.create"]})
    code, said = doctor("gke-h100", PROJECT)
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert f"rights in project acme: missing: {right}\n" in said
    assert f"slicewright rights {doctor.environment / 'Pulumi.gke-h100.yaml'} > role.json" in said


def test_unreadable_rights_are_reported_and_none_counts_as_missing(
    doctor: Doctor,
) -> None:
    fault = {"fault": "api-error", "method": "projects.testIamPermissions", "code": 500}
    (doctor.environment / "faults.json").write_text(json.dumps([fault]))
    code, said = doctor("gke-h100", PROJECT)
    assert code == CANNOT_RUN
    assert "0 would fail, 1 could not be checked" in said
    assert "rights in project acme: could not be checked: HTTP 500" in said


def test_every_question_is_one_that_the_tokens_scope_allows(doctor: Doctor) -> None:
    """A token of a service account has the scopes that it was asked for with, and no others."""
    key = "projects/acme-keys/locations/us-central1/keyRings/gke/cryptoKeys/disks"
    reserved = "{mode: reservation, reservation: week}"
    network = (NETWORK[0], f"{NETWORK[1]}\n      kms_key: {key}")
    doctor("gke-h100", PROJECT, network, ("capacity: spot", f"capacity: {reserved}"))
    log = (doctor.environment / "log" / "cloud-calls.jsonl").read_text().splitlines()
    asked = {(call["service"], call["operation"]) for call in map(json.loads, log)}
    # Of Cloud Storage `slicewright unlock` asks, and no doctor.
    assert {service for service, _ in asked} == {*_ENDPOINTS} - {"storage"}
    for service, method in asked:
        assert SCOPE in find_method(service, method)["scopes"], (service, method)


NETWORK = (
    "location: us-central1",
    "location: us-central1\n      network: {vpc: net, subnet: sub, pods_range: pods, "
    "services_range: services}",
)


def ranges(gcp: Gcp, **found: str) -> None:
    """A network with a subnet that has these secondary ranges."""
    gcp.network()
    where = {"project": "acme", "region": "us-central1", "subnetwork": "sub"}
    listed = [{"rangeName": name, "ipCidrRange": block} for name, block in found.items()]
    gcp.call("compute", "subnetworks.patch", where, secondaryIpRanges=listed)


def test_a_subnet_that_does_not_exist_is_named(doctor: Doctor) -> None:
    code, said = doctor("gke-h100", PROJECT, NETWORK)
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert "subnet sub in us-central1 of project acme: does not exist" in said


def test_a_range_that_the_subnet_lacks_is_named(doctor: Doctor) -> None:
    ranges(Gcp(doctor.cloud, doctor.environment), pods="10.68.0.0/14")
    code, said = doctor("gke-h100", PROJECT, NETWORK)
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert "secondary range services of subnet sub" in said
    assert "--add-secondary-ranges=services=" in said


@pytest.mark.parametrize(
    ("pods", "expected"), [("10.68.0.0/24", NOT_VERIFIED), ("10.68.0.0/23", VERIFIED)]
)
def test_a_range_with_too_few_addresses_for_the_nodes_is_named(
    doctor: Doctor, pods: str, expected: int
) -> None:
    ranges(Gcp(doctor.cloud, doctor.environment), pods=pods, services="10.72.0.0/20")
    code, said = doctor("gke-h100", PROJECT, NETWORK)
    assert code == expected, said
    assert "the stack's nodes need 384" in said


SHARED = (
    "location: us-central1",
    "location: us-central1\n      network: {vpc: projects/host-net/global/networks/net, "
    "subnet: sub, pods_range: pods, services_range: services}",
)


def test_a_vpc_that_is_not_shared_with_the_project_is_named(doctor: Doctor) -> None:
    gcp = Gcp(doctor.cloud, doctor.environment)
    where = {"project": "host-net", "region": "us-central1"}
    network = "projects/host-net/global/networks/net"
    gcp.call("compute", "networks.insert", {"project": "host-net"}, name="net")
    ranges = [
        {"rangeName": "pods", "ipCidrRange": "10.68.0.0/14"},
        {"rangeName": "services", "ipCidrRange": "10.72.0.0/20"},
    ]
    gcp.call(
        "compute",
        "subnetworks.insert",
        where,
        name="sub",
        network=network,
        ipCidrRange="10.10.0.0/20",
        secondaryIpRanges=ranges,
    )
    gcp.call("compute", "projects.enableXpnHost", {"project": "host-net"})
    code, said = doctor("gke-h100", PROJECT, SHARED)
    assert code == NOT_VERIFIED, said
    assert "1 would fail" in said
    assert "Shared VPC of project host-net: project acme is attached to no host project" in said
    assert "gcloud compute shared-vpc associated-projects add acme --host-project=host-net" in said
    attached = {"id": "acme", "type": "PROJECT"}
    gcp.call("compute", "projects.enableXpnResource", {"project": "host-net"}, xpnResource=attached)
    code, said = doctor("gke-h100", PROJECT, SHARED)
    assert code == VERIFIED, said
    assert "Shared VPC of project host-net: shared with project acme" in said


EXISTING = ("name: main\n", "name: main\n      existing: true\n")


def test_a_cluster_that_exists_must_be_fit_for_the_pools(doctor: Doctor) -> None:
    gcp = Gcp(doctor.cloud, doctor.environment)
    gcp.make_cluster()
    code, said = doctor("gke-h100", PROJECT, EXISTING)
    assert code == NOT_VERIFIED, said
    assert "1 would fail, 0 could not be checked" in said
    assert "existing cluster main in us-central1: it has no workload pool" in said
    assert "--workload-pool=acme.svc.id.goog" in said


def test_managed_prometheus_needs_the_collectors_of_a_cluster_that_exists(doctor: Doctor) -> None:
    gcp = Gcp(doctor.cloud, doctor.environment)
    gcp.make_cluster(
        workloadIdentityConfig={"workloadPool": "acme.svc.id.goog"},
        monitoringConfig={"componentConfig": {}, "managedPrometheusConfig": {}},
    )
    managed = ("node_pools:", "monitoring: {prometheus: managed}\n    node_pools:")
    code, said = doctor("gke-h100", PROJECT, EXISTING, managed)
    assert code == NOT_VERIFIED, said
    assert "1 would fail, 0 could not be checked" in said
    assert "existing cluster main in us-central1: its managed collection is off" in said
    assert "--enable-managed-prometheus" in said
    clusters = "projects.locations.clusters.update"
    on = {"desiredMonitoringConfig": {"managedPrometheusConfig": {"enabled": True}}}
    gcp.wait(gcp.call("container", clusters, {"name": gcp.cluster}, update=on))
    code, said = doctor("gke-h100", PROJECT, EXISTING, managed)
    assert code == VERIFIED, said


def test_a_node_pool_of_another_stack_is_named(doctor: Doctor) -> None:
    """The system pool's name is the same in all stacks."""
    gcp = Gcp(doctor.cloud, doctor.environment)
    gcp.make_cluster(workloadIdentityConfig={"workloadPool": "acme.svc.id.goog"})
    gcp.make_pool(name="system")
    code, said = doctor(
        "gke-h100", PROJECT, EXISTING, ("node_pools:", "system_pool: {}\n    node_pools:")
    )
    assert code == NOT_VERIFIED, said
    assert "1 would fail, 0 could not be checked" in said
    assert "node pool system of existing cluster main: already exists" in said
    assert (
        "gcloud container node-pools delete system --cluster=main --location=us-central1 "
        "--project=acme" in said
    )


def test_a_cluster_that_exists_and_is_not_reached_from_here_is_named(doctor: Doctor) -> None:
    gcp = Gcp(doctor.cloud, doctor.environment)
    gcp.make_cluster(workloadIdentityConfig={"workloadPool": "acme.svc.id.goog"})
    code, said = doctor("gke-h100", PROJECT, EXISTING)
    assert code == VERIFIED, said
    assert "endpoint of existing cluster main: 127.0.0.1:" in said
    doctor.plane.close()
    code, said = doctor("gke-h100", PROJECT, EXISTING)
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert "endpoint of existing cluster main: no connection from here to 127.0.0.1:" in said
