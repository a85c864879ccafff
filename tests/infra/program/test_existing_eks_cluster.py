"""An existing EKS cluster is looked up, and refused or explained before anything is created."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pulumi
import pulumi_aws as aws
import pytest

from slicewright.doctor.ask.aws.existing import ask_existing
from slicewright.doctor.ask.aws.session import AwsSession
from slicewright.infra import plan, stack_file
from slicewright.infra.components.eks import existing_cluster

ADMIN = {"name": "AmazonEKSClusterAdminPolicy"}
ENTRY = {"principal": "arn:aws:iam::123456789012:role/ops", "policies": [ADMIN]}


def cluster(**keys: Any) -> plan.EksClusterPlan:
    raw = {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-east-1", "existing": True, **keys},
        "node_pools": [{"name": "a", "machine_type": "p5.48xlarge", "nodes": {"count": 1}}],
    }
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, plan.EksFleetPlan)
    return fleet.cluster


def look_up(
    monkeypatch: pytest.MonkeyPatch, planned: plan.EksClusterPlan, **changed: Any
) -> list[str]:
    """The lines that a user sees. The cluster has no subnets: nothing else is looked up."""
    live = {
        "status": "ACTIVE",
        "version": "1.35",
        "access_configs": [SimpleNamespace(authentication_mode="API")],
        "compute_configs": None,
        "vpc_config": SimpleNamespace(subnet_ids=[], vpc_id="vpc-1"),
    }
    lines: list[str] = []
    monkeypatch.setattr(aws.eks, "get_cluster", lambda **_: SimpleNamespace(**live | changed))
    monkeypatch.setattr(existing_cluster, "existing_network", lambda *_: "network")
    monkeypatch.setattr(pulumi.log, "info", lines.append)
    provider = cast(aws.Provider, SimpleNamespace())
    monkeypatch.setattr(pulumi, "InvokeOptions", SimpleNamespace)
    existing_cluster.find(planned, provider)
    return lines


def test_auto_mode_is_named_with_what_node_groups_need(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = look_up(monkeypatch, cluster(), compute_configs=[SimpleNamespace(enabled=True)])
    assert "cluster c has EKS Auto Mode. Its own nodes cannot be partitioned" in line
    assert "add-ons vpc-cni and kube-proxy" in line


@pytest.mark.parametrize("configs", [None, [], [SimpleNamespace(enabled=False)]])
def test_nothing_is_told_of_a_cluster_without_auto_mode(
    configs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert look_up(monkeypatch, cluster(), compute_configs=configs) == []


def test_access_entries_are_refused_where_aws_auth_alone_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_config_map = [SimpleNamespace(authentication_mode="CONFIG_MAP")]
    with pytest.raises(pulumi.RunError) as refused:
        look_up(monkeypatch, cluster(access={"entries": [ENTRY]}), access_configs=by_config_map)
    message = str(refused.value)
    assert "has the authentication mode CONFIG_MAP, in which EKS refuses access entries" in message
    assert "--access-config authenticationMode=API_AND_CONFIG_MAP" in message
    assert look_up(monkeypatch, cluster(), access_configs=by_config_map) == []


@pytest.mark.parametrize(
    ("description", "auto_mode"),
    [
        ({}, False),
        ({"computeConfig": {"enabled": False}}, False),
        ({"computeConfig": {"enabled": True, "nodePools": ["system"]}}, True),
    ],
)
def test_doctor_reads_auto_mode(description: dict[str, Any], *, auto_mode: bool) -> None:
    class Session:
        def answer(self, right: str, question: Any) -> frozenset[str]:
            return frozenset()

    described = {
        "status": "CREATING",
        "version": "1.35",
        "resourcesVpcConfig": {"endpointPublicAccess": True},
        **description,
    }
    answer = ask_existing(cast(AwsSession, Session()), cluster(), described)
    assert answer is not None
    assert getattr(answer, "auto_mode") is auto_mode  # noqa: B009 - no NotAnswered
