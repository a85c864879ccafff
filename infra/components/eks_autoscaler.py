"""The role of a new EKS cluster's autoscaler in the account, and cluster-autoscaler's chart."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from infra import values
from infra.components.eks_roles import Roles
from infra.components.helm_release import helm_release
from infra.plan import EksAutoscalerPlan, EksClusterPlan, EksFleetPlan, KarpenterPlan

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
    """The role of the autoscaler's pods, its rights, and their association.

    fleet: with an autoscaler. node_role: the nodes' role, which Karpenter passes to its nodes.
    """
    plan = fleet.cluster
    by_karpenter = isinstance(plan.autoscaler, KarpenterPlan)
    policy: pulumi.Input[str] = (
        node_role.arn.apply(
            lambda arn: json.dumps(values.karpenter_policy(fleet, node_role_arn=arn))
        )
        if by_karpenter
        else json.dumps(values.autoscaler_policy(cluster=plan.name, region=plan.region))
    )
    account = values.KARPENTER_NAME if by_karpenter else values.AUTOSCALER_NAME
    child = pulumi.ResourceOptions(parent=parent)
    role, _ = roles.of_pods("autoscaler", [])
    rights = aws.iam.RolePolicy(
        f"{name}-autoscaler-rights",
        name=account,
        role=role.name,
        policy=policy,
        opts=child,
    )
    identity = aws.eks.PodIdentityAssociation(
        f"{name}-autoscaler-identity",
        cluster_name=cluster.name,
        namespace=values.AUTOSCALER_NAMESPACE,
        service_account=account,
        role_arn=role.arn,
        tags=dict(plan.tags) or None,
        opts=child,
    )
    return [rights, identity]


class ClusterAutoscaler(pulumi.ComponentResource):
    """Output: `release`, which is ready when the Deployment is."""

    release: k8s.helm.v3.Release

    def __init__(
        self,
        name: str,
        plan: EksClusterPlan,
        *,
        cluster: pulumi.Resource | None,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """plan: with cluster-autoscaler. after: the node that it runs on, and the association that
        gives it its role: a pod only gets the role if the association exists before the pod.
        """
        super().__init__("slicewright:index:ClusterAutoscaler", name, {}, opts)
        assert isinstance(plan.autoscaler, EksAutoscalerPlan)
        self.release = helm_release(
            name,
            release=values.AUTOSCALER_NAME,
            namespace=values.AUTOSCALER_NAMESPACE,
            address=values.autoscaler_chart(plan.autoscaler),
            version=plan.autoscaler.chart_version,
            settings=values.autoscaler_values(
                plan.autoscaler, cluster=plan.name, region=plan.region
            ),
            timeout_s=_RELEASE_TIMEOUT_S,
            opts=pulumi.ResourceOptions(parent=self, deleted_with=cluster, depends_on=list(after)),
        )
        self.register_outputs({})
