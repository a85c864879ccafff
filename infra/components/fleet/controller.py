"""The fleet controller, its two CRDs, and the namespace that it shares with the agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi
import pulumi_kubernetes as k8s

from slicewright.apis import custom_resources, names, rights
from slicewright.apis.admission import own_patches, policies, proof_pods
from slicewright.infra import delivery
from slicewright.infra.components import code_map, network, pods, quota
from slicewright.infra.components.fleet import admission, rbac
from slicewright.infra.components.fleet.controller_pod import LABELS, controller_pod
from slicewright.infra.stack_file import MetricsSource

_REPLICAS = 2


class FleetController(pulumi.ComponentResource):
    """Outputs: `namespace` (its name), `kinds` (the CRDs), `deployment`, which `up` waits for, and
    `ready_for_pods`: resources that the namespace needs before it admits our pods and closes their
    ports.
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
        runs_pods: bool,
        cluster: pulumi.Resource | None,
        depends_on: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """node_selector: selects the nodes of the controller's pods. runs_pods: True if it creates
        pods that prove nodes. depends_on: these nodes, and the policies that guard all nodes.
        """
        super().__init__("slicewright:index:FleetController", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self, deleted_with=cluster)
        self.namespace = _namespace(name, child)
        self.ready_for_pods = [
            quota.critical_pods(name, self.namespace, child),
            network.closed_ports(name, self.namespace, metrics_from, child),
        ]
        self.kinds = _custom_resources(name, child)
        prerequisites = [
            *self.kinds,
            *_grant_rights(name, self.namespace, child),
            *(_allow_proof_pods(name, self.namespace, child) if runs_pods else ()),
            *_limit_patches(name, self.kinds, child),
            *self.ready_for_pods,
            *depends_on,
        ]
        _disruption_budget(name, self.namespace, child)
        zipapp = delivery.fleet_controller()
        code = code_map.deliver_code(
            name, zipapp, title="fleet-controller", namespace=self.namespace, opts=child
        )
        self.deployment = k8s.apps.v1.Deployment(
            name,
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name="fleet-controller", namespace=self.namespace, labels=LABELS
            ),
            spec=_deployment_spec(controller_pod(image, node_selector, zipapp, code.config_map)),
            opts=pulumi.ResourceOptions.merge(
                child, pulumi.ResourceOptions(depends_on=prerequisites)
            ),
        )
        self.register_outputs({"namespace": self.namespace, "untouched": code.untouched})


def _namespace(name: str, child: pulumi.ResourceOptions) -> pulumi.Output[str]:
    """Creates the namespace. Returns its name."""
    namespace = k8s.core.v1.Namespace(
        f"{name}-namespace",
        metadata=k8s.meta.v1.ObjectMetaArgs(
            name=names.NAMESPACE,
            # The agent mounts the driver from the host. Everything else would pass as
            # restricted.
            labels={
                "pod-security.kubernetes.io/enforce": "privileged",
                "pod-security.kubernetes.io/audit": "restricted",
                "pod-security.kubernetes.io/warn": "privileged",
            },
        ),
        opts=child,
    )
    namespace_name: pulumi.Output[str] = namespace.metadata.name
    return namespace_name


def _custom_resources(name: str, child: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    return [
        k8s.apiextensions.v1.CustomResourceDefinition(
            f"{name}-{crd['spec']['names']['plural']}",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=crd["metadata"]["name"]),
            spec=crd["spec"],
            opts=child,
        )
        for crd in custom_resources.crds()
    ]


def _grant_rights(
    name: str, namespace: pulumi.Input[str], child: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    program = rbac.ProgramRights(
        component=name,
        object_name="slicewright-fleet-controller",
        service_account=names.CONTROLLER_SERVICE_ACCOUNT,
        namespace=namespace,
        opts=child,
    )
    return [
        program.create_account(),
        program.bind_cluster_role(rights.CONTROLLER_RULES),
        *(
            # Our own namespace as an output, so that the role waits for it.
            program.bind_role(scope, namespace if scope == names.NAMESPACE else scope, rules)
            for scope, rules in rights.CONTROLLER_NAMESPACE_RULES.items()
        ),
    ]


def _allow_proof_pods(
    name: str, namespace: pulumi.Input[str], child: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """The right to create and delete pods in its own namespace, and the policy on these pods."""
    limits = admission.enforce_policy(f"{name}-pod-policy", proof_pods.proof_pod_policy(), child)
    program = rbac.ProgramRights(
        component=name,
        object_name="slicewright-fleet-controller-proof-pods",
        service_account=names.CONTROLLER_SERVICE_ACCOUNT,
        namespace=namespace,
        opts=pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=[*limits])),
    )
    return [*limits, program.bind_role("proof-pods", namespace, rights.PROOF_POD_RULES)]


def _limit_patches(
    name: str, kinds: Sequence[pulumi.Resource], child: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Admission policies on changes of GPUPools, and on the controller's own patches of nodes."""
    with_kinds = pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=[*kinds]))
    return [
        *admission.enforce_policy(f"{name}-policy", policies.pool_policy(), with_kinds),
        *admission.enforce_policy(
            f"{name}-node-policy", own_patches.controller_node_policy(), child
        ),
    ]


def _disruption_budget(
    name: str, namespace: pulumi.Input[str], child: pulumi.ResourceOptions
) -> None:
    k8s.policy.v1.PodDisruptionBudget(
        f"{name}-budget",
        metadata=k8s.meta.v1.ObjectMetaArgs(
            name="fleet-controller", namespace=namespace, labels=LABELS
        ),
        spec=k8s.policy.v1.PodDisruptionBudgetSpecArgs(
            max_unavailable=1,
            selector=k8s.meta.v1.LabelSelectorArgs(match_labels=LABELS),
            # A replica that does not get ready must not keep its node from being drained.
            unhealthy_pod_eviction_policy="AlwaysAllow",
        ),
        opts=child,
    )


def _deployment_spec(pod: k8s.core.v1.PodSpecArgs) -> k8s.apps.v1.DeploymentSpecArgs:
    return k8s.apps.v1.DeploymentSpecArgs(
        # One acts, by its Lease. The other takes over within seconds.
        replicas=_REPLICAS,
        strategy=k8s.apps.v1.DeploymentStrategyArgs(
            type="RollingUpdate",
            # A full system pool has no room for a third replica.
            rolling_update=k8s.apps.v1.RollingUpdateDeploymentArgs(max_surge=0, max_unavailable=1),
        ),
        selector=k8s.meta.v1.LabelSelectorArgs(match_labels=LABELS),
        template=k8s.core.v1.PodTemplateSpecArgs(
            metadata=k8s.meta.v1.ObjectMetaArgs(labels=LABELS), spec=pod
        ),
    )
