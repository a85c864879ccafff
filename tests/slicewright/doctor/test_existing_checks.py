"""What a cluster that exists lacks for the pools is told, and what is unknown never passes."""

from __future__ import annotations

import dataclasses
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from slicewright.doctor.checks.eks import existing as eks_existing_checks
from slicewright.doctor.checks.eks.existing import ExistingEksCluster
from slicewright.doctor.checks.gke import existing as gke_existing_checks
from slicewright.doctor.checks.gke.existing import ExistingGkeCluster
from slicewright.doctor.checks.gpu_owners import DaemonSet, DeviceOwners, OwnerAnswers
from slicewright.doctor.checks.reach import Reach, reach
from slicewright.doctor.findings import Finding, NotAnswered
from slicewright.infra import plan, stack_file
from slicewright.infra.plan import EksFleetPlan, GkeFleetPlan

STACKS = Path(__file__).resolve().parents[3] / "stacks"
SILENT = NotAnswered(why="nobody says")
REACHED = Reach(server="1.2.3.4:443", why_not=None)
CLOSED = Reach(server="1.2.3.4:443", why_not="timed out")
EKS = ExistingEksCluster(
    status="ACTIVE",
    version="1.35",
    public=True,
    public_cidrs=("203.0.113.0/24",),
    reach=REACHED,
    monitored=False,
    groups=frozenset(),
    mode="CONFIG_MAP",
)
GKE = ExistingGkeCluster(
    status="RUNNING",
    version="1.35.2-gke.100",
    autopilot=False,
    workload_pool="acme.svc.id.goog",
    dataplane_v2=False,
    multi_networking=False,
    collectors=False,
    private=False,
    reach=REACHED,
    pools=frozenset(),
)


def of_eks(**changed: Any) -> list[Finding]:
    fleet = plan.read_file(STACKS / "Pulumi.eks-a100.yaml")
    assert isinstance(fleet, EksFleetPlan)
    answer = dataclasses.replace(EKS, **changed)
    found = eks_existing_checks.existing_cluster(fleet, answer)
    return [f for f in found if f.verdict != "ok"]


def of_gke(**changed: Any) -> list[Finding]:
    fleet = plan.read_file(STACKS / "Pulumi.gke-h100.yaml")
    assert isinstance(fleet, GkeFleetPlan)
    answer = dataclasses.replace(GKE, **changed)
    found = gke_existing_checks.existing_cluster(fleet, answer, project="acme")
    return [f for f in found if f.verdict != "ok"]


def test_clusters_that_lack_nothing_fail_in_nothing() -> None:
    assert of_eks() == []
    assert of_gke() == []


@pytest.mark.parametrize(
    ("changed", "said", "remedy"),
    [
        (
            {"status": "UPDATING"},
            "is UPDATING, but EKS adds nodes only to an ACTIVE cluster",
            "aws eks wait cluster-active --name p4d-cluster --region eu-west-1",
        ),
        (
            {"version": "1.29"},
            "1.29, but the admission policies that guard the nodes need 1.30",
            "upgrade it one minor version at a time: aws eks update-cluster-version --name "
            "p4d-cluster --kubernetes-version VERSION --region eu-west-1",
        ),
        (
            {"reach": CLOSED, "public": False},
            "no connection from here (timed out): it is private",
            "run `pulumi up` in its VPC or in a network that is connected to it",
        ),
        (
            {"reach": CLOSED},
            "no connection from here (timed out); it allows 203.0.113.0/24",
            "aws eks update-cluster-config --name p4d-cluster --region eu-west-1 "
            "--resources-vpc-config publicAccessCidrs=203.0.113.0/24,YOUR_ADDRESS/32",
        ),
    ],
)
def test_only_the_missing_parts_of_an_eks_cluster_are_named(
    changed: dict[str, Any], said: str, remedy: str
) -> None:
    (found,) = of_eks(**changed)
    assert (found.verdict, found.detail, found.remedy) == ("fails", said, remedy)


def inside(daemonsets: Any) -> OwnerAnswers:
    return OwnerAnswers(policies=(), owners=DeviceOwners(), daemonsets=daemonsets)


CNI = DaemonSet(
    namespace="kube-system",
    name="aws-node",
    images=("602401143452.dkr.ecr.eu-west-1.amazonaws.com/amazon-k8s-cni:v1.20",),
    pods=0,
    of_operator=False,
    host_paths=("/opt/cni/bin", "/etc/cni/net.d"),
)


def test_auto_mode_without_a_cni_plugin_keeps_node_groups_from_joining() -> None:
    """Auto Mode has networking for its own nodes only. Source: terraform-aws-eks #3256."""
    (found,) = of_eks(auto_mode=True, inside=inside(()))
    assert found.verdict == "fails"
    assert found.subject == "EKS Auto Mode of existing cluster p4d-cluster in eu-west-1"
    assert "no DaemonSet of a CNI plugin" in found.detail
    add = "aws eks create-addon --cluster-name p4d-cluster --region eu-west-1 --addon-name"
    assert f"{add} vpc-cni" in found.remedy
    assert f"{add} kube-proxy" in found.remedy
    assert of_eks(auto_mode=True, inside=inside((CNI,))) == []
    assert of_eks(auto_mode=False, inside=inside(())) == []


def test_auto_mode_is_named_with_its_limits() -> None:
    fleet = plan.read_file(STACKS / "Pulumi.eks-a100.yaml")
    assert isinstance(fleet, EksFleetPlan)
    answer = dataclasses.replace(EKS, auto_mode=True, inside=inside((CNI,)))
    findings = list(eks_existing_checks.existing_cluster(fleet, answer))
    (auto,) = (f for f in findings if f.subject.startswith("EKS Auto Mode"))
    assert auto.detail == (
        "is on: its own nodes cannot be partitioned; the pools are node groups beside them"
    )


@pytest.mark.parametrize("unknown", [None, inside(SILENT)])
def test_networking_of_auto_mode_that_is_not_known_never_passes(
    unknown: OwnerAnswers | None,
) -> None:
    (found,) = of_eks(auto_mode=True, inside=unknown)
    assert found.verdict == "not asked"


@pytest.mark.parametrize(
    ("changed", "said", "remedy"),
    [
        ({"status": "ERROR"}, "is ERROR", "gcloud container clusters describe"),
        ({"autopilot": True}, "it is an Autopilot cluster", "write `existing: false`"),
        ({"version": "1.29.4-gke.1"}, "its control plane is 1.29.4-gke.1", "upgrade it"),
        (
            {"workload_pool": None},
            "it has no workload pool, but the pools' nodes need Workload Identity",
            "gcloud container clusters update main --location us-central1 --project acme "
            "--workload-pool=acme.svc.id.goog",
        ),
        (
            {"reach": CLOSED},
            "no connection from here to 1.2.3.4:443 (timed out)",
            "gcloud container clusters update main --location=us-central1 --project=acme "
            "--enable-master-authorized-networks",
        ),
        (
            {"reach": CLOSED, "private": True},
            "no connection from here to 1.2.3.4:443 (timed out): it is private",
            "run `pulumi up` in its VPC, or open the DNS endpoint",
        ),
    ],
)
def test_only_the_missing_parts_of_a_gke_cluster_are_named(
    changed: dict[str, Any], said: str, remedy: str
) -> None:
    (found,) = of_gke(**changed)
    assert found.verdict == "fails"
    assert found.detail.startswith(said)
    assert found.remedy.startswith(remedy)


def test_pools_with_gpu_networks_need_dataplane_v2() -> None:
    raw = {
        "cloud": "gke",
        "cluster": {"name": "main", "location": "us-central1", "existing": True},
        "node_pools": [
            {
                "name": "h200",
                "machine_type": "a3-ultragpu-8g",
                "zones": ["us-central1-b"],
                "nodes": {"count": 1},
                "partition": {"mode": "native", "profile": "1g.18gb"},
                "disk": {"type": "hyperdisk-balanced"},
                "gpu_network": "dranet",
            }
        ],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, GkeFleetPlan)
    for has, verdict, said in (
        (False, "fails", "it has no GKE Dataplane V2"),
        (True, "ok", "fit for the pools"),
    ):
        answer = dataclasses.replace(GKE, dataplane_v2=has)
        found, *_ = gke_existing_checks.existing_cluster(fleet, answer, project="acme")
        assert found.verdict == verdict
        assert found.detail.startswith(said)


def test_an_unknown_endpoint_never_passes() -> None:
    for (found,) in (of_eks(reach=SILENT), of_gke(reach=SILENT)):
        assert (found.verdict, found.detail) == ("not asked", "could not be checked: nobody says")


def test_a_server_that_takes_connections_is_reached_and_another_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = reach(f"https://127.0.0.1:{port}")
        assert found == Reach(server=f"127.0.0.1:{port}", why_not=None)
    found = reach(f"https://127.0.0.1:{port}")
    assert isinstance(found, Reach)
    assert "refused" in str(found.why_not)


def test_through_a_proxy_nothing_is_concluded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "example.com")
    assert isinstance(reach("https://10.0.0.1"), NotAnswered)
