"""cluster-autoscaler on EKS: values of its chart, and the rights of its pods in the account.

Sources: kubernetes/autoscaler, charts/cluster-autoscaler/values.yaml;
cluster-autoscaler/cloudprovider/aws/README.md, IAM policy, and
examples/cluster-autoscaler-autodiscover.yaml.
"""

from __future__ import annotations

from typing import Final

from slicewright.infra import catalog
from slicewright.infra.manifests.helm_charts import ChartAddress, chart_address
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import SYSTEM_LABELS, EksAutoscalerPlan

AUTOSCALER_NAMESPACE: Final = "kube-system"
AUTOSCALER_NAME: Final = "cluster-autoscaler"
"""The name of chart, release, Deployment and service account."""
_TAG: Final = "k8s.io/cluster-autoscaler"
"""EKS tags the Auto Scaling groups of managed node groups with TAG/enabled: true and TAG/CLUSTER:
owned. Source: EKS user guide, managed node groups.
"""
_READS: Final = (
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeAutoScalingInstances",
    "autoscaling:DescribeLaunchConfigurations",
    "autoscaling:DescribeScalingActivities",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplateVersions",
)
"""AWS cannot limit these to resources."""


def autoscaler_chart(plan: EksAutoscalerPlan) -> ChartAddress:
    return chart_address(AUTOSCALER_NAME, plan.repository)


def autoscaler_values(plan: EksAutoscalerPlan, *, cluster: str, region: str) -> JsonObject:
    """The chart's values. Without an argument, cluster-autoscaler knows the startup taint by its
    prefix.
    """
    return {
        "cloudProvider": "aws",
        "awsRegion": region,
        "autoDiscovery": {"clusterName": cluster},
        "fullnameOverride": AUTOSCALER_NAME,
        "image": {"repository": plan.image, "tag": plan.tag},
        # Never on a node that cluster-autoscaler itself may remove.
        "nodeSelector": dict(SYSTEM_LABELS),
        "rbac": {"serviceAccount": {"name": AUTOSCALER_NAME}},
        "resources": {
            "requests": {"cpu": "100m", "memory": "600Mi"},
            "limits": {"memory": "600Mi"},
        },
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containerSecurityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "extraArgs": _arguments(plan),
    }


def _arguments(plan: EksAutoscalerPlan) -> JsonObject:
    down = plan.scale_down
    return {
        "expander": plan.expander,
        # Agents and the operator's operands run on every GPU node.
        "ignore-daemonsets-utilization": True,
        "scale-down-enabled": down.enabled,
        "scale-down-unneeded-time": f"{down.unneeded_minutes}m",
        "scale-down-delay-after-add": f"{down.after_scale_up_minutes}m",
        "scale-down-utilization-threshold": f"{down.utilization_percent / 100:g}",
        "scale-down-unready-time": f"{plan.unready_minutes}m",
    }


def autoscaler_policy(*, cluster: str, region: str) -> JsonObject:
    """Lets cluster-autoscaler resize this cluster's node groups only. Its reads are not limited.

    Without eks:DescribeNodegroup, cluster-autoscaler would not know labels, taints and partitions
    of a node group without nodes.
    """
    partition = catalog.aws_region(region)
    arn = f"arn:{partition.partition if partition else 'aws'}"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": list(_READS), "Resource": "*"},
            {
                "Effect": "Allow",
                "Action": ["eks:DescribeNodegroup"],
                "Resource": f"{arn}:eks:{region}:*:nodegroup/{cluster}/*/*",
            },
            {
                "Effect": "Allow",
                "Action": [
                    "autoscaling:SetDesiredCapacity",
                    "autoscaling:TerminateInstanceInAutoScalingGroup",
                ],
                "Resource": f"{arn}:autoscaling:{region}:*:autoScalingGroup:*:"
                "autoScalingGroupName/eks-*",
                "Condition": {
                    "StringEquals": {
                        f"aws:ResourceTag/{_TAG}/enabled": "true",
                        f"aws:ResourceTag/{_TAG}/{cluster}": "owned",
                    }
                },
            },
        ],
    }
