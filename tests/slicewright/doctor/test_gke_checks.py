"""Each single thing wrong with a Google project is named, and what is unknown never passes."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, get_args

import pytest

from slicewright.doctor.checks.gke import quotas as gke_quota_checks
from slicewright.doctor.checks.gke.cluster import APIS, GoogleAnswers, findings, machines_needed
from slicewright.doctor.checks.gke.network import Subnet
from slicewright.doctor.checks.gke.quotas import Quota, project_quotas_needed, quotas_needed
from slicewright.doctor.findings import Answer, Finding, NotAnswered, Owned
from slicewright.infra import plan
from slicewright.infra.plan import GkeFleetPlan, GkeNetworkPlan, GpuNetwork
from slicewright.infra.stack_file import GkeDisk, OnDemand
from slicewright.rehearsal.clouds.gcp.models import document

STACKS = Path(__file__).resolve().parents[3] / "stacks"
SILENT = NotAnswered(why="the right x.y.get is missing")
AMPLE = {
    "SSD_TOTAL_GB": Quota(limit=9000, usage=0),
    "CPUS": Quota(limit=100, usage=0),
    "IN_USE_ADDRESSES": Quota(limit=8, usage=0),
    "PREEMPTIBLE_NVIDIA_H100_GPUS": Quota(limit=8, usage=0),
}
OF_PROJECT = {
    "CPUS_ALL_REGIONS": Quota(limit=500, usage=0),
    "GPUS_ALL_REGIONS": Quota(limit=8, usage=0),
    "NETWORKS": Quota(limit=5, usage=1),
}


@pytest.fixture(scope="module")
def fleet() -> GkeFleetPlan:
    found = plan.read_file(STACKS / "Pulumi.gke-h100.yaml")
    assert isinstance(found, GkeFleetPlan)
    return dataclasses.replace(found, cluster=dataclasses.replace(found.cluster, version="1.35"))


def answers(fleet: GkeFleetPlan, **changed: Any) -> GoogleAnswers:
    """Of a project that has everything."""
    everything: dict[str, Any] = {
        "project": "acme",
        "apis": dict.fromkeys(APIS, True),
        "quotas": AMPLE,
        "project_quotas": OF_PROJECT,
        "machines": dict.fromkeys(machines_needed(fleet), True),
        "versions": frozenset({"1.35.2-gke.1", "1.36.1-gke.2"}),
        "cluster": False,
        "account": False,
    }
    return GoogleAnswers(**{**everything, **changed})


def of(fleet: GkeFleetPlan, owned: Owned = "no", **changed: Any) -> list[Finding]:
    found = findings(fleet, answers(fleet, **changed), cluster_owned=owned, account_owned=owned)
    return [f for f in found if f.verdict != "ok"]


def test_a_project_that_has_everything_fails_in_nothing(fleet: GkeFleetPlan) -> None:
    assert of(fleet) == []


@pytest.mark.parametrize(
    ("wrong", "asked", "said", "remedy"),
    [
        (
            {"apis": {**dict.fromkeys(APIS, True), "iam": False}},
            "API iam.googleapis.com of project acme",
            "off",
            "gcloud services enable iam.googleapis.com --project acme",
        ),
        (
            {"quotas": {**AMPLE, "PREEMPTIBLE_NVIDIA_H100_GPUS": Quota(limit=8, usage=1)}},
            "quota PREEMPTIBLE_NVIDIA_H100_GPUS in us-central1",
            "8, 1 in use; the stack needs 8",
            "gcloud beta quotas preferences create --service=compute.googleapis.com "
            "--quota-id=PREEMPTIBLE-NVIDIA-H100-GPUS-per-project-region --preferred-value=9 "
            "--dimensions=region=us-central1 --project=acme",
        ),
        (
            {"versions": frozenset({"1.36.1-gke.2", "1.350.0-gke.1"})},
            "Kubernetes 1.35 of GKE's channel REGULAR in us-central1",
            "not offered",
            "write one of 1.350.0-gke.1, 1.36.1-gke.2 as cluster.version, or remove it",
        ),
        (
            {"cluster": True},
            "cluster main in us-central1",
            "already exists, and this stack did not create it",
            "write another cluster.name, or delete that cluster: gcloud container clusters delete "
            "main --location us-central1 --project acme",
        ),
        (
            {"account": True},
            "service account main-nodes@acme.iam.gserviceaccount.com",
            "already exists, and this stack did not create it",
            "write another cluster.name, or delete that account: gcloud iam service-accounts "
            "delete main-nodes@acme.iam.gserviceaccount.com --project acme",
        ),
    ],
)
def test_the_one_thing_that_is_wrong_is_named_alone(
    fleet: GkeFleetPlan, wrong: dict[str, Any], asked: str, said: str, remedy: str
) -> None:
    (found,) = of(fleet, **wrong)
    assert (found.verdict, found.subject, found.detail, found.remedy) == (
        "fails",
        asked,
        said,
        remedy,
    )


def test_each_zone_without_its_machine_is_named(fleet: GkeFleetPlan) -> None:
    for pair in machines_needed(fleet):
        (found,) = of(fleet, machines={**dict.fromkeys(machines_needed(fleet), True), pair: False})
        assert (found.verdict, found.subject) == ("fails", f"{pair[1]} in {pair[0]}")


@pytest.mark.parametrize(
    "question", ["apis", "quotas", "project_quotas", "versions", "cluster", "account"]
)
def test_a_question_without_answer_is_never_a_pass(fleet: GkeFleetPlan, question: str) -> None:
    (found,) = of(fleet, **{question: SILENT})
    assert found.verdict == "not asked"
    assert found.detail == "could not be checked: the right x.y.get is missing"


def test_a_quota_that_the_region_does_not_show_is_never_a_pass(fleet: GkeFleetPlan) -> None:
    """H100 on demand: Compute Engine's API has no name for its quota."""
    (pool,) = fleet.pools
    pool = pool.with_settings(dataclasses.replace(pool.settings, capacity=OnDemand()))
    (found,) = of(dataclasses.replace(fleet, pools=(pool,)))
    assert (found.verdict, found.subject) == ("not asked", "quota NVIDIA_H100_GPUS in us-central1")
    assert found.remedy.startswith("gcloud beta quotas info list")


def test_resources_of_this_stack_do_not_clash_and_their_usage_counts_for_it(
    fleet: GkeFleetPlan,
) -> None:
    full = {name: Quota(limit=quota.limit, usage=quota.limit) for name, quota in AMPLE.items()}
    assert of(fleet, "yes", cluster=True, account=True, quotas=full) == []


def test_gpus_and_disks_of_all_nodes_are_counted(fleet: GkeFleetPlan) -> None:
    needed = quotas_needed(fleet)
    assert needed["PREEMPTIBLE_NVIDIA_H100_GPUS"] == 8
    assert needed["SSD_TOTAL_GB"] == 2000 + 100 * fleet.system.nodes.max
    assert needed["CPUS"] == 4 * fleet.system.nodes.max
    of_project = project_quotas_needed(fleet)
    assert of_project["GPUS_ALL_REGIONS"] == 8
    assert of_project["CPUS_ALL_REGIONS"] == 208 + 4 * fleet.system.nodes.max
    assert of_project["NETWORKS"] == 1


def test_private_nodes_need_no_addresses_and_existing_networks_no_other(
    fleet: GkeFleetPlan,
) -> None:
    assert quotas_needed(fleet)["IN_USE_ADDRESSES"] == 1 + fleet.system.nodes.max
    network = GkeNetworkPlan(project=None, vpc="v", subnet="s", pods_range="p", services_range="q")
    cluster = dataclasses.replace(fleet.cluster, private_nodes=True, network=network)
    inside = dataclasses.replace(fleet, cluster=cluster)
    assert "IN_USE_ADDRESSES" not in quotas_needed(inside)
    assert "NETWORKS" not in project_quotas_needed(inside)


def test_the_metrics_are_those_of_the_api() -> None:
    known = document("compute")["schemas"]["Quota"]["properties"]["metric"]["enum"]
    names = {*gke_quota_checks._GPUS.values(), *gke_quota_checks._DISKS.values(), "CPUS"}
    assert names - {"NVIDIA_H100_GPUS"} <= set(known)
    assert {f"PREEMPTIBLE_{name}" for name in gke_quota_checks._GPUS.values()} <= set(known)


@pytest.mark.parametrize(("limit", "said"), [(2.0**63, "no limit, "), (12345678.0, "12345678, ")])
def test_a_large_quota_is_written_to_the_last_digit(
    fleet: GkeFleetPlan, limit: float, said: str
) -> None:
    given = answers(fleet, quotas={**AMPLE, "CPUS": Quota(limit=limit, usage=1)})
    found = findings(fleet, given, cluster_owned="no", account_owned="no")
    (cpus,) = (f for f in found if "CPUS in" in f.subject)
    assert cpus.detail.startswith(said)


def test_every_boot_disk_that_a_stack_file_can_name_has_its_quota() -> None:
    assert set(get_args(GkeDisk.model_fields["type"].annotation)) == set(gke_quota_checks._DISKS)


def in_a_network(fleet: GkeFleetPlan, project: str | None = None) -> GkeFleetPlan:
    network = plan.GkeNetworkPlan(
        project=project, vpc="net", subnet="sub", pods_range="pods", services_range="services"
    )
    return dataclasses.replace(fleet, cluster=dataclasses.replace(fleet.cluster, network=network))


def test_a_subnet_of_another_vpc_fails(fleet: GkeFleetPlan) -> None:
    other = Subnet(vpc="projects/acme/global/networks/net", ranges={})
    (found,) = of(in_a_network(fleet, project="host"), shared_by="host", subnet=other)
    assert found.verdict == "fails"
    assert found.detail == "belongs to VPC projects/acme/global/networks/net, not to net"


@pytest.mark.parametrize(
    ("host", "verdict", "said"),
    [
        (None, "fails", "project acme is attached to no host project"),
        ("other", "fails", "project acme is attached to other"),
        (SILENT, "not asked", "could not be checked: the right x.y.get is missing"),
    ],
)
def test_a_vpc_is_shared_by_the_project_that_owns_it(
    fleet: GkeFleetPlan, host: Answer[str | None], verdict: str, said: str
) -> None:
    ranges = {"pods": "10.68.0.0/14", "services": "10.72.0.0/20"}
    subnet = Subnet(vpc="projects/host/global/networks/net", ranges=ranges)
    (found,) = of(in_a_network(fleet, project="host"), shared_by=host, subnet=subnet)
    assert (found.verdict, found.detail) == (verdict, said)


def test_a_host_project_that_does_not_answer_never_passes(fleet: GkeFleetPlan) -> None:
    (found,) = of(in_a_network(fleet, project="host"), shared_by="host", subnet=SILENT)
    assert found.verdict == "not asked"
    assert found.subject == "subnet sub in us-central1 of project host"


def with_networks_for_gpus(fleet: GkeFleetPlan, *, exist: bool) -> GkeFleetPlan:
    (name, vpc, subnet) = ("vpc1", "gpu-0", "nodes-0") if exist else ("vpc1", None, None)
    network = GpuNetwork(name=name, vpc=vpc, subnet=subnet, addresses=None)
    cluster = dataclasses.replace(fleet.cluster, gpu_networks=(network,))
    return dataclasses.replace(fleet, cluster=cluster)


def test_networks_that_the_stack_makes_for_gpus_count_as_networks(fleet: GkeFleetPlan) -> None:
    assert project_quotas_needed(with_networks_for_gpus(fleet, exist=False))["NETWORKS"] == 2
    assert project_quotas_needed(with_networks_for_gpus(fleet, exist=True))["NETWORKS"] == 1


@pytest.mark.parametrize(
    ("subnet", "said"),
    [
        (None, "does not exist"),
        (Subnet(vpc="projects/acme/global/networks/a", ranges={}), "belongs to VPC"),
        (SILENT, "could not be checked"),
    ],
)
def test_a_subnet_for_gpus_that_is_not_as_named_is_named(
    fleet: GkeFleetPlan, subnet: Answer[Subnet | None], said: str
) -> None:
    there = with_networks_for_gpus(fleet, exist=True)
    (found,) = of(there, gpu_subnets={"nodes-0": subnet})
    assert "subnet nodes-0 in us-central1 (cluster.gpu_networks)" in found.subject
    assert said in found.detail
    right = Subnet(vpc="projects/acme/global/networks/gpu-0", ranges={})
    assert of(there, gpu_subnets={"nodes-0": right}) == []
