"""The IAM role of a new EKS cluster's autoscaler, and the chart of cluster-autoscaler."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from slicewright.infra import manifests
from slicewright.infra.components.eks.roles import Roles
from slicewright.infra.components.helm_release import helm_release
from slicewright.infra.plan import EksAutoscalerPlan, EksClusterPlan, EksFleetPlan, KarpenterPlan

_RELEASE_TIMEOUT_S = 300


def autoscaler_identity(
    name: str,
    fleet: EksFleetPlan,
    *,
    cluster: aws.eks.Cluster,
    node_role: aws.iam.Role,
    roles: Roles,
    parent: pulumi.Resource,
) -> list[pulumi.Resource]:
    """Creates the role of the autoscaler's pods. Returns its rights, and its association.

    fleet: a fleet with an autoscaler. node_role: the role that Karpenter passes to its nodes.
    """
    by_karpenter = isinstance(fleet.cluster.autoscaler, KarpenterPlan)
    account = manifests.KARPENTER_NAME if by_karpenter else manifests.AUTOSCALER_NAME
    child = pulumi.ResourceOptions(parent=parent)
    role, _ = roles.pod_role("autoscaler", [])
    rights = aws.iam.RolePolicy(
        f"{name}-autoscaler-rights",
        name=account,
        role=role.name,
        policy=_policy(fleet, node_role),
        opts=child,
    )
    association = aws.eks.PodIdentityAssociation(
        f"{name}-autoscaler-identity",
        cluster_name=cluster.name,
        namespace=manifests.AUTOSCALER_NAMESPACE,
        service_account=account,
        role_arn=role.arn,
        tags=dict(fleet.cluster.tags) or None,
        opts=child,
    )
    return [rights, association]


def _policy(fleet: EksFleetPlan, node_role: aws.iam.Role) -> pulumi.Input[str]:
    plan = fleet.cluster
    if not isinstance(plan.autoscaler, KarpenterPlan):
        return json.dumps(manifests.autoscaler_policy(cluster=plan.name, region=plan.region))
    policy: pulumi.Output[str] = node_role.arn.apply(
        lambda arn: json.dumps(manifests.karpenter_policy(fleet, node_role_arn=arn))
    )
    return policy


class ClusterAutoscaler(pulumi.ComponentResource):
    """Output: `release`, which is ready when the Deployment is."""

    release: k8s.helm.v3.Release

    def __init__(
        self,
        name: str,
        plan: EksClusterPlan,
        *,
        cluster: pulumi.Resource | None,
        depends_on: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """plan: a cluster with cluster-autoscaler. depends_on: the node for its pod, and the
        association with its role: a pod gets the role only if the association is older.
        """
        super().__init__("slicewright:index:ClusterAutoscaler", name, {}, opts)
        assert isinstance(plan.autoscaler, EksAutoscalerPlan)
        self.release = helm_release(
            name,
            release=manifests.AUTOSCALER_NAME,
            namespace=manifests.AUTOSCALER_NAMESPACE,
            address=manifests.autoscaler_chart(plan.autoscaler),
            version=plan.autoscaler.chart_version,
            settings=manifests.autoscaler_values(
                plan.autoscaler, cluster=plan.name, region=plan.region
            ),
            timeout_s=_RELEASE_TIMEOUT_S,
            opts=pulumi.ResourceOptions(
                parent=self, deleted_with=cluster, depends_on=list(depends_on)
            ),
        )
        self.register_outputs({})
