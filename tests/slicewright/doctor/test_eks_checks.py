"""Each single thing wrong with an AWS account is named, and what is unknown never passes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from slicewright.doctor.checks.eks.cluster import (
    AwsAnswers,
    Identity,
    Zone,
    findings,
    machine_types,
    not_enabled,
)
from slicewright.doctor.checks.eks.quotas import (
    GROUPS_QUOTA,
    NODES_QUOTA,
    QUOTAS,
    VPC_QUOTA,
    NatAnswers,
    QuotaAnswers,
    Running,
    vcpus_needed,
)
from slicewright.doctor.checks.eks.versions import AddonVersions, ClusterVersion
from slicewright.doctor.findings import Finding, NotAnswered, Owned
from slicewright.infra import plan, stack_file
from slicewright.infra.plan import EksFleetPlan
from slicewright.infra.stack_file import PrivateNetwork

STACKS = Path(__file__).resolve().parents[3] / "stacks"
IDENTITY = Identity(account="123456789012", arn="arn:aws:iam::123456789012:user/me")
ZONES = tuple(
    Zone(name=f"eu-west-1{letter}", zone_id=f"euw1-az{n}", available=True, local=False)
    for letter, n in zip("abc", (2, 3, 1), strict=True)
)
SILENT = NotAnswered(why="the right ec2:Something is missing")
SUPPORTED = ClusterVersion(support="standard", until=None, default=False)
FITTING = AddonVersions(fitting=("v1.0.0-eksbuild.1",), default=None, elsewhere=True)


@pytest.fixture(scope="module")
def fleet() -> EksFleetPlan:
    found = plan.read_file(STACKS / "Pulumi.eks-a100.yaml")
    assert isinstance(found, EksFleetPlan)
    return dataclasses.replace(found, cluster=dataclasses.replace(found.cluster, version="1.35"))


def answers(**changed: Any) -> AwsAnswers:
    """Of an account that has everything."""
    everything: dict[str, Any] = {
        "identity": IDENTITY,
        "zones": ZONES,
        "offered": {
            "p4d.24xlarge": frozenset({"euw1-az2"}),
            "m7i.large": frozenset({"euw1-az1", "euw1-az2", "euw1-az3"}),
        },
        "versions": dict.fromkeys(("1.34", "1.35"), SUPPORTED),
        "addons": {
            "coredns": FITTING,
            "kube-proxy": FITTING,
            "vpc-cni": FITTING,
        },
        "cluster": False,
    }
    limits = {**dict.fromkeys(QUOTAS, 1536.0), VPC_QUOTA: 5.0}
    limits |= {GROUPS_QUOTA: 30.0, NODES_QUOTA: 450.0}
    quotas = QuotaAnswers(
        limits=limits | changed.pop("limits", {}),
        running=changed.pop("running", Running()),
        vpcs=changed.pop("vpcs", 1),
        gateways=changed.pop("gateways", None),
    )
    return AwsAnswers(quotas=quotas, **{**everything, **changed})


def of(fleet: EksFleetPlan, given: AwsAnswers, owned: Owned = "no") -> list[Finding]:
    return [f for f in findings(fleet, given, owned) if f.verdict != "ok"]


def test_an_account_that_has_everything_fails_in_nothing(fleet: EksFleetPlan) -> None:
    assert of(fleet, answers()) == []
    assert len(list(findings(fleet, answers(), "no"))) == 14


@pytest.mark.parametrize(
    ("wrong", "asked", "said", "remedy"),
    [
        (
            {"limits": {"L-417A185B": 0.0}},
            "quota L-417A185B (Running On-Demand P instances) in eu-west-1",
            "0 vCPU; the stack's nodes need 96",
            "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code "
            "L-417A185B --desired-value 96 --region eu-west-1",
        ),
        (
            {"running": Running(vcpus={"L-417A185B": 1500, "L-DB2E81BA": 9000})},
            "quota L-417A185B (Running On-Demand P instances) in eu-west-1",
            "1536 vCPU, 1500 used by others; the stack's nodes need 96",
            "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code "
            "L-417A185B --desired-value 1596 --region eu-west-1",
        ),
        (
            {"limits": {GROUPS_QUOTA: 1.0}},
            "quota L-6D54EA21 (Managed node groups per cluster) in eu-west-1",
            "1; the stack has 2 node groups",
            "aws service-quotas request-service-quota-increase --service-code eks --quota-code "
            "L-6D54EA21 --desired-value 2 --region eu-west-1",
        ),
        (
            {"limits": {NODES_QUOTA: 0.0}},
            "quota L-BD136A63 (Nodes per managed node group) in eu-west-1",
            "0; the largest node group of the stack, system, may have 1",
            "aws service-quotas request-service-quota-increase --service-code eks --quota-code "
            "L-BD136A63 --desired-value 1 --region eu-west-1",
        ),
        (
            {"vpcs": 5},
            "quota L-F678F1CE (VPCs per Region) in eu-west-1",
            "5, 5 in use; the stack creates 1",
            "aws service-quotas request-service-quota-increase --service-code vpc --quota-code "
            "L-F678F1CE --desired-value 6 --region eu-west-1",
        ),
        (
            {"offered": {**answers().offered, "p4d.24xlarge": frozenset({"euw1-az1"})}},  # type: ignore[dict-item]
            "p4d.24xlarge for pool demo-gpu-workers",
            "not offered in eu-west-1a",
            "write eu-west-1c as the pool's zones",
        ),
        (
            {"offered": {"m7i.large": frozenset({"euw1-az2", "euw1-az3"})}},
            "p4d.24xlarge for pool demo-gpu-workers",
            "not offered in eu-west-1a",
            "choose another region: eu-west-1 does not offer it to this account",
        ),
        (
            {"zones": (ZONES[0], ZONES[2])},
            "zones of eu-west-1: eu-west-1b of cluster.zones",
            "does not exist in this account",
            "write one of eu-west-1a, eu-west-1c",
        ),
        (
            {"zones": (ZONES[0], dataclasses.replace(ZONES[1], available=False), ZONES[2])},
            "zones of eu-west-1: eu-west-1b of cluster.zones",
            "is not available now",
            "write one of eu-west-1a, eu-west-1c",
        ),
        (
            {"zones": (ZONES[0], dataclasses.replace(ZONES[1], local=True), ZONES[2])},
            "zones of eu-west-1: eu-west-1b of cluster.zones",
            "is euw1-az3 in this account, where EKS creates no control plane",
            "write two of eu-west-1a, eu-west-1c under cluster.zones",
        ),
        (
            {"versions": dict.fromkeys(("1.36", "1.37"), SUPPORTED)},
            "Kubernetes 1.35 of EKS in eu-west-1",
            "not offered",
            "write one of 1.36, 1.37 as cluster.version",
        ),
        (
            {"cluster": True},
            "cluster p4d-cluster in eu-west-1",
            "already exists, and this stack did not create it",
            "write another cluster.name, or delete that cluster: aws eks delete-cluster --name "
            "p4d-cluster --region eu-west-1",
        ),
    ],
)
def test_the_one_thing_that_is_wrong_is_named_alone(
    fleet: EksFleetPlan, wrong: dict[str, Any], asked: str, said: str, remedy: str
) -> None:
    (found,) = of(fleet, answers(**wrong))
    assert (found.verdict, found.subject, found.detail, found.remedy) == (
        "fails",
        asked,
        said,
        remedy,
    )


def test_a_disabled_region_is_the_only_finding(fleet: EksFleetPlan) -> None:
    (found,) = of(fleet, not_enabled(IDENTITY, "AuthFailure: not validated"))
    assert (found.verdict, found.subject) == ("fails", "region eu-west-1")
    assert found.remedy == "aws account enable-region --region-name eu-west-1"


@pytest.mark.parametrize("question", ["zones", "offered", "vpcs", "running", "versions", "cluster"])
def test_a_question_without_answer_is_never_a_pass(fleet: EksFleetPlan, question: str) -> None:
    found = of(fleet, answers(**{question: SILENT}))
    assert found
    assert {f.verdict for f in found} == {"not asked"}


def test_a_quota_without_answer_is_never_a_pass(fleet: EksFleetPlan) -> None:
    (found,) = of(fleet, answers(limits={"L-417A185B": SILENT}))
    assert found.subject.startswith("quota L-417A185B")
    assert found.detail == "could not be checked: the right ec2:Something is missing"


def test_the_cluster_of_this_stack_does_not_clash(fleet: EksFleetPlan) -> None:
    """And its VPC is counted already."""
    assert of(fleet, answers(cluster=True, vpcs=5), "yes") == []


def test_running_instances_of_this_stack_are_part_of_its_need(fleet: EksFleetPlan) -> None:
    ours = Running(vcpus={"L-417A185B": 1536}, of_cluster={"L-417A185B": 96})
    assert of(fleet, answers(cluster=True, running=ours), "yes") == []
    (found,) = of(fleet, answers(running=ours))
    assert found.detail == "1536 vCPU, 1536 used by others; the stack's nodes need 96"


def test_a_quota_that_the_stack_alone_exceeds_fails_though_nothing_is_known_of_others(
    fleet: EksFleetPlan,
) -> None:
    found = of(fleet, answers(running=SILENT, limits={"L-417A185B": 0.0}))
    assert [f.verdict for f in found] == ["not asked", "fails"]


def test_nat_gateways_are_counted_in_each_zone_that_gets_one(fleet: EksFleetPlan) -> None:
    private = dataclasses.replace(fleet.cluster, network=PrivateNetwork(nat_gateways="per-zone"))
    of_zones = dataclasses.replace(fleet, cluster=private)
    for taken, verdicts in (
        ({"eu-west-1a": 4, "eu-west-1c": 5}, []),
        ({"eu-west-1a": 5}, ["fails"]),
        (SILENT, ["not asked"]),
    ):
        asked = answers(gateways=NatAnswers(limit=5.0, usage=taken))
        assert [f.verdict for f in of(of_zones, asked)] == verdicts
    assert of(of_zones, answers(gateways=NatAnswers(limit=5.0, usage={"eu-west-1a": 5}))) != []


def test_the_owner_is_unknown_without_pulumis_state(fleet: EksFleetPlan) -> None:
    (found,) = of(fleet, answers(cluster=True), "unknown")
    assert found.verdict == "fails"
    assert "unknown whether this stack created it" in found.detail


def test_the_vcpus_of_all_nodes_are_counted_by_quota(fleet: EksFleetPlan) -> None:
    two = dataclasses.replace(
        fleet.pools[0], nodes=dataclasses.replace(fleet.pools[0].nodes, max=2)
    )
    needed = vcpus_needed(dataclasses.replace(fleet, pools=(two, fleet.pools[0])))
    assert needed["L-417A185B"] == 3 * 96
    assert needed["L-1216C47A"] == fleet.system.nodes.max * 2


def test_a_quota_that_equals_the_need_passes(fleet: EksFleetPlan) -> None:
    needed = {code: float(n) for code, n in vcpus_needed(fleet).items()}
    assert of(fleet, answers(limits=needed, vpcs=4)) == []


def test_a_pool_of_several_machine_types_may_need_the_largest_of_them() -> None:
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-west-2"},
        "node_pools": [
            {
                "name": "a",
                "machine_type": "g6.xlarge",
                "other_machine_types": ["g6.4xlarge", "g6.2xlarge"],
                "nodes": {"count": 2},
            }
        ],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, plan.EksFleetPlan)
    assert vcpus_needed(fleet)["L-DB2E81BA"] == 2 * 16
    assert {"g6.xlarge", "g6.2xlarge", "g6.4xlarge"} <= {*machine_types(fleet)}
