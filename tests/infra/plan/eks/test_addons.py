"""Add-ons of an EKS plan: what the stack file may say, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, stack_file
from tests.recorder import Made

Record = Callable[..., list[Made]]
FLEET = """\
cloud: eks
cluster: {{name: c, region: us-west-2, version: '1.35', addons: {addons}}}
node_pools:
- {{name: a, machine_type: gr6.4xlarge, nodes: {{count: 1}}, repair: {{}}}}
"""


def made(record_cloud: Record, addons: str) -> dict[str, dict[str, Any]]:
    return {
        m.inputs["addonName"]: dict(m.inputs)
        for m in record_cloud("test", fleet=FLEET.format(addons=addons))
        if m.type == "aws:eks/addon:Addon"
    }


def notes(addons: str) -> tuple[str, ...]:
    raw = yaml.safe_load(FLEET.format(addons=addons))
    return plan.notes(plan.read(json.dumps(raw), stack_file.Source("test", raw)))


def test_unstated_addons_are_not_requested(record_cloud: Record) -> None:
    found = made(record_cloud, "{}")
    assert set(found) == {"coredns", "kube-proxy", "vpc-cni"}
    assert not [a for a in found.values() if "addonVersion" in a]
    assert [n for n, a in found.items() if "configurationValues" in a] == ["vpc-cni"]


def test_version_and_settings_are_those_of_the_file(record_cloud: Record) -> None:
    found = made(
        record_cloud,
        "{kube-proxy: {version: v1.35.0-eksbuild.2}, coredns: {settings: {replicaCount: 3}}, "
        "vpc-cni: {settings: {env: {ENABLE_PREFIX_DELEGATION: 'true'}}}, "
        "eks-pod-identity-agent: {}, eks-node-monitoring-agent: {settings: {}}}",
    )
    assert found["kube-proxy"]["addonVersion"] == "v1.35.0-eksbuild.2"
    settings = {
        name: json.loads(addon["configurationValues"])
        for name, addon in found.items()
        if "configurationValues" in addon
    }
    assert settings == {
        "coredns": {"replicaCount": 3},
        "vpc-cni": {"enableNetworkPolicy": "true", "env": {"ENABLE_PREFIX_DELEGATION": "true"}},
        # Stated, so that what was there before goes.
        "eks-node-monitoring-agent": {},
    }
    assert "configurationValues" not in found["eks-pod-identity-agent"]


@pytest.mark.parametrize(
    ("addons", "said"),
    [
        (
            "{vpc-cni: {settings: {enableNetworkPolicy: 'false'}}}",
            "settings.enableNetworkPolicy: slicewright's NetworkPolicies would have no effect",
        ),
        (
            "{vpc-cni: {settings: {enableNetworkPolicy: true}}}",
            'write "true", in quotes, or leave it out',
        ),
        (
            "{vpc-cni: {settings: {nodeAgent: {enabled: false}}}}",
            "settings.nodeAgent.enabled: the agent that enforces NetworkPolicies would not run",
        ),
        (
            "{kube-proxy: {version: v1.36.0-eksbuild.2}}",
            "kube-proxy v1.36.0-eksbuild.2 is newer than the cluster's Kubernetes 1.35",
        ),
        ("{coredns: {version: 1.13.1}}", "is not the version of an EKS add-on"),
        ("{metrics-server: {}}", "is not an add-on that slicewright installs"),
        ("{coredns: {verson: v1.13.1-eksbuild.1}}", "did you mean version?"),
        ("{coredns: {settings: 3}}", "cluster.addons.coredns.settings"),
    ],
)
def test_contradictory_addon_settings_are_refused(
    broken: Callable[[str], str], addons: str, said: str
) -> None:
    refused = broken(FLEET.format(addons=addons))
    assert said in refused
    assert "1 problem," in refused


def role_of(record_cloud: Record, region: str) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """Trust policy, attached policy and add-on of the EBS driver."""
    fleet = FLEET.format(addons="{aws-ebs-csi-driver: {}}").replace("us-west-2", region)
    found = record_cloud("test", fleet=fleet)
    (trust,) = (m.inputs["assumeRolePolicy"] for m in found if m.name == "eks-ebs-csi")
    (attached,) = (m.inputs["policyArn"] for m in found if m.name.startswith("eks-ebs-csi-"))
    (addon,) = (m.inputs for m in found if m.inputs.get("addonName") == "aws-ebs-csi-driver")
    return json.loads(trust), attached, addon


@pytest.mark.parametrize(
    ("region", "partition"),
    [("us-west-2", "aws"), ("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")],
)
def test_the_ebs_driver_gets_its_role_by_pod_identity(
    record_cloud: Record, region: str, partition: str
) -> None:
    trust, attached, addon = role_of(record_cloud, region)
    (statement,) = trust["Statement"]
    assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert statement["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    assert attached == f"arn:{partition}:iam::aws:policy/AmazonEBSCSIDriverPolicyV2"
    assert addon["podIdentityAssociations"] == [
        {"roleArn": "arn:aws:iam::1:role/eks-ebs-csi", "serviceAccount": "ebs-csi-controller-sa"}
    ]


def test_the_pod_identity_agent_is_installed_if_needed_and_pinned_by_the_file(
    record_cloud: Record,
) -> None:
    assert "eks-pod-identity-agent" in made(record_cloud, "{aws-ebs-csi-driver: {}}")
    pinned = "{aws-ebs-csi-driver: {}, eks-pod-identity-agent: {version: v1.3.8-eksbuild.2}}"
    agent = made(record_cloud, pinned)["eks-pod-identity-agent"]
    assert agent["addonVersion"] == "v1.3.8-eksbuild.2"
    assert "podIdentityAssociations" not in agent
    (note,) = (n for n in notes("{aws-ebs-csi-driver: {}}") if "IAM role" in n)
    assert "and eks-pod-identity-agent beside it, from which its pods get the role" in note


def test_repair_of_gpus_needs_the_node_monitoring_agent() -> None:
    settings = "{dcgmAgent: {tolerations: [{operator: Exists}]}}"
    (note,) = notes("{}")
    advice = f"write cluster.addons: {{eks-node-monitoring-agent: {{settings: {settings}}}}}"
    assert advice in note
    assert notes(f"{{eks-node-monitoring-agent: {{settings: {settings}}}}}") == ()


def test_monitoring_whose_dcgm_does_not_tolerate_the_pools_taints_is_noted() -> None:
    """It would say that the GPUs are not ready, and EKS would replace the nodes for ever."""
    for addon in ("{}", "{settings: {dcgmAgent: {tolerations: []}}}"):
        (note,) = notes(f"{{eks-node-monitoring-agent: {addon}}}")
        assert "must tolerate the pools' taints" in note
        assert "dcgmAgent: {tolerations: [{operator: Exists}]}" in note


def test_an_existing_cluster_keeps_its_addons(
    broken: Callable[[str], str], record_cloud: Record
) -> None:
    existing = FLEET.replace(", version: '1.35'", ", existing: true")
    assert "cluster.addons: the cluster exists already" in broken(existing.format(addons="{}"))
    fleet = existing.replace(", addons: {addons}", "").format()
    assert not [m for m in record_cloud("x", fleet=fleet) if m.type == "aws:eks/addon:Addon"]
    raw = yaml.safe_load(fleet)
    (note,) = plan.notes(plan.read(json.dumps(raw), stack_file.Source("test", raw)))
    assert "the cluster must have the add-on eks-node-monitoring-agent" in note
