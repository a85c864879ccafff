"""Karpenter on EKS: values of its charts, the rights of its pods, and a pool as its objects.

Sources: aws/karpenter-provider-aws v1.15.1, charts/karpenter/values.yaml, pkg/apis/crds,
pkg/aws/sdk.go; karpenter.sh docs, reference, CloudFormation, "KarpenterControllerPolicy".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from apis.names import STARTUP_TAINT_KEY
from infra import catalog
from infra.plan import (
    SYSTEM_LABELS,
    EksFleetPlan,
    EksPoolPlan,
    EksTemplate,
    KarpenterPlan,
    KarpenterPool,
    Taint,
)
from infra.spec import CapacityBlock, Reservation
from infra.values.text import JsonObject

KARPENTER_NAMESPACE: Final = "kube-system"
KARPENTER_NAME: Final = "karpenter"
"""The name of chart, release, Deployment and service account."""
KARPENTER_CRDS: Final = "karpenter-crd"
"""The name of chart and release. Helm never upgrades definitions in a chart's `crds` directory."""
NODE_API: Final = "karpenter.sh/v1"
OVERLAY_API: Final = "karpenter.sh/v1alpha1"
CLASS_API: Final = "karpenter.k8s.aws/v1"
_ROOT_DEVICE: Final = "/dev/xvda"
"""The root device of Amazon Linux 2023. Source: EC2 user guide, device names for volumes."""
_STORES: Final[Mapping[str, str]] = {"raid0": "RAID0"}
_REPLICAS: Final = 2
_READS: Final = (
    *("ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstances"),
    *("ec2:DescribeInstanceStatus", "ec2:DescribeInstanceTypeOfferings"),
    *("ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups"),
    *("ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets"),
)
"""AWS limits none of them to resources."""
_QUEUE: Final = ("sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage")
_LAUNCHED: Final = ("fleet", "instance", "launch-template", "network-interface", "volume")
_LAUNCHED_FROM: Final = (
    *("capacity-reservation", "launch-template", "security-group", "spot-instances-request"),
    "subnet",
)


def karpenter_chart(plan: KarpenterPlan, name: str) -> str:
    return f"{plan.repository}/{name}"


def karpenter_values(fleet: EksFleetPlan) -> JsonObject:
    """fleet: with Karpenter."""
    queue = _of_fleet(fleet).interruption_queue
    return {
        # Its pods are not on one node, and a node that lacks would keep the release from ready.
        "replicas": min(_REPLICAS, fleet.system.nodes.min),
        # Not on a node that it may remove.
        "nodeSelector": dict(SYSTEM_LABELS),
        "serviceAccount": {"name": KARPENTER_NAME},
        "controller": {
            "resources": {
                "requests": {"cpu": "250m", "memory": "1Gi"},
                "limits": {"memory": "1Gi"},
            },
        },
        "settings": {
            "clusterName": fleet.cluster.name,
            **({"interruptionQueue": queue} if queue else {}),
            "featureGates": {"nodeOverlay": bool(_overlaid(fleet))},
        },
    }


def _of_fleet(fleet: EksFleetPlan) -> KarpenterPlan:
    assert isinstance(fleet.cluster.autoscaler, KarpenterPlan)
    return fleet.cluster.autoscaler


def _overlaid(fleet: EksFleetPlan) -> list[EksPoolPlan]:
    return [
        pool for pool in fleet.pools if pool.settings.karpenter and pool.settings.karpenter.overlay
    ]


def node_class(
    pool: EksPoolPlan, *, role: Any, subnet_ids: Sequence[Any], security_group: Any
) -> JsonObject:
    """The spec of the pool's EC2NodeClass.

    role: name of the nodes' role: Karpenter makes an instance profile for it. security_group: ID
    of the cluster's. All three may still be unknown.
    """
    own, template = _of_karpenter(pool)
    reservation = _reservation(pool)
    return {
        "amiSelectorTerms": [{"alias": own.image}],
        "role": role,
        "subnetSelectorTerms": [{"id": subnet} for subnet in subnet_ids],
        "securityGroupSelectorTerms": [{"id": security_group}],
        **({"capacityReservationSelectorTerms": [{"id": reservation}]} if reservation else {}),
        "blockDeviceMappings": [
            {
                "deviceName": _ROOT_DEVICE,
                "rootVolume": True,
                "ebs": {
                    "volumeSize": f"{template.disk_gb}Gi",
                    "volumeType": "gp3",
                    "encrypted": template.encrypted,
                    **({"kmsKeyID": template.kms_key} if template.kms_key else {}),
                    "deleteOnTermination": True,
                },
            }
        ],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": template.hop_limit,
            "httpTokens": "required",
        },
        **(
            {"instanceStorePolicy": _STORES[template.instance_store]}
            if template.instance_store
            else {}
        ),
        **({"tags": dict(template.tags)} if template.tags else {}),
    }


def node_pool(pool: EksPoolPlan, plan: KarpenterPlan) -> JsonObject:
    """The spec of the pool's NodePool, which has the pool's name, as its EC2NodeClass."""
    own, _ = _of_karpenter(pool)
    own_taints = [one for one in pool.taints if one.key == STARTUP_TAINT_KEY]
    others = [one for one in pool.taints if one.key != STARTUP_TAINT_KEY]
    return {
        "template": {
            "metadata": {"labels": dict(pool.labels)},
            "spec": {
                "nodeClassRef": {
                    "group": CLASS_API.partition("/")[0],
                    "kind": "EC2NodeClass",
                    "name": pool.name,
                },
                "requirements": [
                    _one_of("node.kubernetes.io/instance-type", pool.settings.machine_types),
                    _one_of("karpenter.sh/capacity-type", [_capacity_type(pool)]),
                ],
                "taints": [_taint(one) for one in others],
                "startupTaints": [_taint(one) for one in own_taints],
                # It would end pods that use GPUs, and ignore budgets.
                "expireAfter": "Never",
                **(
                    {"terminationGracePeriod": f"{own.drain_minutes}m"} if own.drain_minutes else {}
                ),
            },
        },
        "disruption": {
            "consolidationPolicy": "WhenEmpty"
            if plan.consolidation == "empty"
            else "WhenEmptyOrUnderutilized",
            "consolidateAfter": f"{plan.empty_minutes}m",
            "budgets": [
                {"nodes": own.replaced_together, "reasons": ["Drifted", "Underutilized"]},
                {"nodes": "100%", "reasons": ["Empty"]},
            ],
        },
        "limits": {"nodes": str(pool.nodes.max)},
    }


def node_overlay(pool: EksPoolPlan) -> JsonObject | None:
    """The spec of the pool's NodeOverlay. None if Karpenter knows all that a node offers."""
    own, _ = _of_karpenter(pool)
    if not own.overlay:
        return None
    return {
        "requirements": [_one_of("karpenter.sh/nodepool", [pool.name])],
        "capacity": {name: str(count) for name, count in own.overlay.items()},
    }


def _of_karpenter(pool: EksPoolPlan) -> tuple[KarpenterPool, EksTemplate]:
    assert pool.settings.karpenter is not None
    assert pool.settings.template is not None
    return pool.settings.karpenter, pool.settings.template


def _reservation(pool: EksPoolPlan) -> str | None:
    match pool.settings.capacity:
        case Reservation(reservation=name) | CapacityBlock(reservation=name):
            return name
        case _:
            return None


def _capacity_type(pool: EksPoolPlan) -> str:
    if pool.settings.spot:
        return "spot"
    return "reserved" if _reservation(pool) else "on-demand"


def _one_of(key: str, values: Sequence[str]) -> JsonObject:
    return {"key": key, "operator": "In", "values": list(values)}


def _taint(taint: Taint) -> JsonObject:
    return {"key": taint.key, "value": taint.value, "effect": taint.effect}


def karpenter_policy(fleet: EksFleetPlan, *, node_role_arn: str) -> JsonObject:
    """It launches and ends instances that it tags for this cluster, with the nodes' role, and makes
    instance profiles of that role.
    """
    cluster, region = fleet.cluster.name, fleet.cluster.region
    known, queue = catalog.aws_region(region), _of_fleet(fleet).interruption_queue
    arn = f"arn:{known.partition}"
    ec2 = f"{arn}:ec2:{region}"
    owned = {f"kubernetes.io/cluster/{cluster}": "owned"}
    profile = {**owned, "topology.kubernetes.io/region": region}
    templates = [
        pool.settings.template
        for pool in fleet.karpenter_pools
        if pool.settings.template is not None
    ]
    keys = sorted({one.kms_key for one in templates if one.kms_key is not None})

    def statement(
        actions: Sequence[str], resources: Sequence[str], **condition: Mapping[str, Any]
    ) -> JsonObject:
        return {
            "Effect": "Allow",
            "Action": list(actions),
            "Resource": list(resources),
            **({"Condition": condition} if condition else {}),
        }

    launched = [f"{ec2}:*:{kind}/*" for kind in _LAUNCHED]
    return {
        "Version": "2012-10-17",
        "Statement": [
            statement(_READS, ["*"], StringEquals={"aws:RequestedRegion": region}),
            statement(["pricing:GetProducts", "iam:ListInstanceProfiles"], ["*"]),
            statement(["ssm:GetParameter"], [f"{arn}:ssm:{region}::parameter/aws/service/*"]),
            statement(["eks:DescribeCluster"], [f"{arn}:eks:{region}:*:cluster/{cluster}"]),
            statement(
                ["ec2:RunInstances", "ec2:CreateFleet"],
                [
                    f"{ec2}::image/*",
                    f"{ec2}::snapshot/*",
                    *(f"{ec2}:*:{kind}/*" for kind in _LAUNCHED_FROM),
                ],
            ),
            statement(
                ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"],
                launched,
                StringEquals=_tags("aws:RequestTag", owned),
                StringLike={"aws:RequestTag/karpenter.sh/nodepool": "*"},
            ),
            statement(
                ["ec2:CreateTags"],
                launched,
                StringEquals={
                    **_tags("aws:RequestTag", owned),
                    "ec2:CreateAction": ["RunInstances", "CreateFleet", "CreateLaunchTemplate"],
                },
                StringLike={"aws:RequestTag/karpenter.sh/nodepool": "*"},
            ),
            statement(
                ["ec2:CreateTags"],
                [f"{ec2}:*:instance/*"],
                **{
                    "StringEquals": _tags("aws:ResourceTag", owned),
                    "StringLike": {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
                    "ForAllValues:StringEquals": {
                        "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]
                    },
                },
            ),
            statement(
                ["ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"],
                [f"{ec2}:*:instance/*", f"{ec2}:*:launch-template/*"],
                StringEquals=_tags("aws:ResourceTag", owned),
                StringLike={"aws:ResourceTag/karpenter.sh/nodepool": "*"},
            ),
            statement(
                ["iam:PassRole"],
                [node_role_arn],
                StringEquals={"iam:PassedToService": f"ec2.{known.suffix}"},
            ),
            statement(
                ["iam:CreateInstanceProfile"],
                [f"{arn}:iam::*:instance-profile/*"],
                StringEquals=_tags("aws:RequestTag", profile),
                StringLike={"aws:RequestTag/karpenter.k8s.aws/ec2nodeclass": "*"},
            ),
            statement(
                ["iam:TagInstanceProfile"],
                [f"{arn}:iam::*:instance-profile/*"],
                StringEquals={
                    **_tags("aws:ResourceTag", profile),
                    **_tags("aws:RequestTag", profile),
                },
                StringLike={
                    "aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "*",
                    "aws:RequestTag/karpenter.k8s.aws/ec2nodeclass": "*",
                },
            ),
            statement(
                [
                    "iam:AddRoleToInstanceProfile",
                    "iam:DeleteInstanceProfile",
                    "iam:RemoveRoleFromInstanceProfile",
                ],
                [f"{arn}:iam::*:instance-profile/*"],
                StringEquals=_tags("aws:ResourceTag", profile),
                StringLike={"aws:ResourceTag/karpenter.k8s.aws/ec2nodeclass": "*"},
            ),
            statement(["iam:GetInstanceProfile"], [f"{arn}:iam::*:instance-profile/*"]),
            *(_uses(keys) if keys else ()),
            *([statement(_QUEUE, [f"{arn}:sqs:{region}:*:{queue}"])] if queue else ()),
        ],
    }


def _tags(key: str, tags: Mapping[str, str]) -> JsonObject:
    return {f"{key}/{name}": value for name, value in tags.items()}


def _uses(keys: Sequence[str]) -> list[JsonObject]:
    """The rights that EBS needs on a key, in the name of the launching principal. Source: EBS user
    guide, permissions for EBS encryption.
    """
    return [
        {
            "Effect": "Allow",
            "Action": [
                *("kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext"),
                "kms:ReEncrypt*",
            ],
            "Resource": list(keys),
        },
        {
            "Effect": "Allow",
            "Action": ["kms:CreateGrant"],
            "Resource": list(keys),
            "Condition": {"Bool": {"kms:GrantIsForAWSResource": "true"}},
        },
    ]
