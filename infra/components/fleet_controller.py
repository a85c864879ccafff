"""The fleet controller, its two CRDs, and the namespace that it shares with the agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from apis import custom_resources, names, rights
from apis.admission import own_patches, policies
from infra import delivery
from infra.components import admission, code_map, network, pods, quota
from infra.spec import MetricsSource

_REPLICAS = 2
_LABELS = {"app.kubernetes.io/name": "fleet-controller", **pods.PART_OF}


class FleetController(pulumi.ComponentResource):
    """Outputs: `namespace` (name), `kinds` (the CRDs), `deployment`, which `up` waits for, and
    `ready_for_pods`, without which the namespace takes no pods or leaves their ports open.
    """

    namespace: pulumi.Output[str]
    ready_for_pods: Sequence[pulumi.Resource]
    kinds: Sequence[pulumi.Resource]
    deployment: pulumi.Resource

    def __init__(
        self,
        name: str,
        *,
        image: pods.Image,
        node_selector: Mapping[str, str],
        metrics_from: Sequence[MetricsSource],
        cluster: pulumi.Resource | None,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """node_selector, after: the nodes that run the controller's pod."""
        super().__init__("slicewright:index:FleetController", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self, deleted_with=cluster)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=names.NAMESPACE,
                # The agent mounts the driver from the host; everything else would pass as
                # restricted.
                labels={
                    "pod-security.kubernetes.io/enforce": "privileged",
                    "pod-security.kubernetes.io/audit": "restricted",
                    "pod-security.kubernetes.io/warn": "privileged",
                },
            ),
            opts=child,
        )
        self.namespace = namespace.metadata.name
        self.ready_for_pods = [
            quota.critical_pods(name, self.namespace, child),
            network.closed_ports(name, self.namespace, metrics_from, child),
        ]
        self.kinds = [
            k8s.apiextensions.v1.CustomResourceDefinition(
                f"{name}-{crd['spec']['names']['plural']}",
                metadata=k8s.meta.v1.ObjectMetaArgs(name=crd["metadata"]["name"]),
                spec=crd["spec"],
                opts=child,
            )
            for crd in custom_resources.crds()
        ]
        rights = self._rights(name, child)
        guards = [
            *admission.in_force(
                f"{name}-policy",
                policies.pool_policy(),
                pulumi.ResourceOptions.merge(
                    child, pulumi.ResourceOptions(depends_on=[*self.kinds])
                ),
            ),
            *admission.in_force(f"{name}-node-policy", own_patches.controller_node_policy(), child),
        ]
        k8s.policy.v1.PodDisruptionBudget(
            f"{name}-budget",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name="fleet-controller", namespace=self.namespace, labels=_LABELS
            ),
            spec=k8s.policy.v1.PodDisruptionBudgetSpecArgs(
                max_unavailable=1,
                selector=k8s.meta.v1.LabelSelectorArgs(match_labels=_LABELS),
                # A replica that does not get ready must not keep its node from being drained.
                unhealthy_pod_eviction_policy="AlwaysAllow",
            ),
            opts=child,
        )
        zipapp = delivery.fleet_controller()
        delivered = code_map.delivered(
            name, zipapp, title="fleet-controller", namespace=self.namespace, opts=child
        )
        self.deployment = k8s.apps.v1.Deployment(
            name,
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name="fleet-controller", namespace=self.namespace, labels=_LABELS
            ),
            spec=k8s.apps.v1.DeploymentSpecArgs(
                # One acts, by its Lease; the other takes over within seconds.
                replicas=_REPLICAS,
                strategy=k8s.apps.v1.DeploymentStrategyArgs(
                    type="RollingUpdate",
                    # On a system pool that is full there is no room for a third.
                    rolling_update=k8s.apps.v1.RollingUpdateDeploymentArgs(
                        max_surge=0, max_unavailable=1
                    ),
                ),
                selector=k8s.meta.v1.LabelSelectorArgs(match_labels=_LABELS),
                template=k8s.core.v1.PodTemplateSpecArgs(
                    metadata=k8s.meta.v1.ObjectMetaArgs(labels=_LABELS),
                    spec=_pod(image, node_selector, zipapp, delivered.config_map),
                ),
            ),
            opts=pulumi.ResourceOptions(
                parent=self,
                deleted_with=cluster,
                depends_on=[*self.kinds, *rights, *guards, *self.ready_for_pods, *after],
            ),
        )
        self.register_outputs({"namespace": self.namespace, "untouched": delivered.untouched})

    def _rights(self, name: str, child: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        account = k8s.core.v1.ServiceAccount(
            f"{name}-account",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=names.CONTROLLER_SERVICE_ACCOUNT, namespace=self.namespace
            ),
            opts=child,
        )
        subject = k8s.rbac.v1.SubjectArgs(
            kind="ServiceAccount", name=names.CONTROLLER_SERVICE_ACCOUNT, namespace=self.namespace
        )
        object_name = "slicewright-fleet-controller"
        role = k8s.rbac.v1.ClusterRole(
            f"{name}-role",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=object_name),
            rules=[_rule(rule) for rule in rights.CONTROLLER_RULES],
            opts=child,
        )
        made: list[pulumi.Resource] = [
            account,
            k8s.rbac.v1.ClusterRoleBinding(
                f"{name}-binding",
                metadata=k8s.meta.v1.ObjectMetaArgs(name=object_name),
                role_ref=k8s.rbac.v1.RoleRefArgs(
                    api_group="rbac.authorization.k8s.io",
                    kind="ClusterRole",
                    name=role.metadata.name,
                ),
                subjects=[subject],
                opts=child,
            ),
        ]
        for namespace, rules in rights.CONTROLLER_NAMESPACE_RULES.items():
            within = self.namespace if namespace == names.NAMESPACE else namespace
            local = k8s.rbac.v1.Role(
                f"{name}-role-{namespace}",
                metadata=k8s.meta.v1.ObjectMetaArgs(name=object_name, namespace=within),
                rules=[_rule(rule) for rule in rules],
                opts=child,
            )
            made.append(
                k8s.rbac.v1.RoleBinding(
                    f"{name}-binding-{namespace}",
                    metadata=k8s.meta.v1.ObjectMetaArgs(name=object_name, namespace=within),
                    role_ref=k8s.rbac.v1.RoleRefArgs(
                        api_group="rbac.authorization.k8s.io", kind="Role", name=local.metadata.name
                    ),
                    subjects=[subject],
                    opts=child,
                )
            )
        return made


def _pod(
    image: pods.Image,
    node_selector: Mapping[str, str],
    zipapp: delivery.Zipapp,
    code: pulumi.Input[str],
) -> k8s.core.v1.PodSpecArgs:
    return k8s.core.v1.PodSpecArgs(
        service_account_name=names.CONTROLLER_SERVICE_ACCOUNT,
        priority_class_name=names.CONTROLLER_PRIORITY_CLASS,
        image_pull_secrets=image.references(),
        node_selector=dict(node_selector) or None,
        topology_spread_constraints=[
            k8s.core.v1.TopologySpreadConstraintArgs(
                max_skew=1,
                topology_key=key,
                # On a system pool of one node, or in one zone, there are two replicas, too.
                when_unsatisfiable="ScheduleAnyway",
                label_selector=k8s.meta.v1.LabelSelectorArgs(match_labels=_LABELS),
            )
            for key in ("kubernetes.io/hostname", names.ZONE_LABEL)
        ],
        security_context=pods.unprivileged(),
        containers=[
            k8s.core.v1.ContainerArgs(
                name="fleet-controller",
                image=image.name,
                command=pods.command(zipapp),
                env=[
                    pods.field("POD_IP", "status.podIP"),
                    pods.field("POD_NAME", "metadata.name"),
                    pods.field("POD_NAMESPACE", "metadata.namespace"),
                ],
                ports=[
                    k8s.core.v1.ContainerPortArgs(name="http", container_port=names.CONTROLLER_PORT)
                ],
                readiness_probe=pods.readiness(),
                liveness_probe=pods.liveness(),
                resources=k8s.core.v1.ResourceRequirementsArgs(
                    requests={"cpu": "50m", "memory": "96Mi"}, limits={"memory": "256Mi"}
                ),
                security_context=pods.restricted(),
                volume_mounts=[
                    k8s.core.v1.VolumeMountArgs(
                        name="code", mount_path=pods.CODE_DIRECTORY, read_only=True
                    )
                ],
            )
        ],
        volumes=[
            k8s.core.v1.VolumeArgs(
                name="code", config_map=k8s.core.v1.ConfigMapVolumeSourceArgs(name=code)
            )
        ],
    )


def _rule(rule: dict[str, Any]) -> k8s.rbac.v1.PolicyRuleArgs:
    return k8s.rbac.v1.PolicyRuleArgs(
        api_groups=rule["apiGroups"],
        resources=rule["resources"],
        resource_names=rule.get("resourceNames"),
        verbs=rule["verbs"],
    )
