"""Admission policies on nodes and pods, each with its binding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from slicewright.apis import names
from slicewright.apis.admission import node_policy, pod_policy
from slicewright.infra import manifests
from slicewright.infra.plan import ExistingPoolPlan


class NodeGuard(pulumi.ComponentResource):
    """Only the fleet controller may repartition and release a pool's nodes. Output: `guards`.

    Programs that may change Nodes depend on it: the operator, and the agents. The policy does not
    cover deletions, so `destroy` needs no order.
    """

    guards: Sequence[pulumi.Resource]

    def __init__(
        self,
        name: str,
        *,
        admin_groups: Sequence[str],
        operator_account: str | None,
        selecting: Sequence[str] = (),
        cluster: pulumi.Resource | None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """operator_account: user name of the GPU operator's service account; None without an
        operator. selecting: keys of the labels that select existing nodes.
        """
        super().__init__("slicewright:index:NodeGuard", name, {}, opts)
        self.guards = enforce_policy(
            f"{name}-policy",
            node_policy.node_policy(
                admin_groups=admin_groups, operator_account=operator_account, selecting=selecting
            ),
            pulumi.ResourceOptions(parent=self, deleted_with=cluster),
        )
        self.register_outputs({})


class PodGuard(pulumi.ComponentResource):
    """Outside the exempt namespaces, pods use only verified GPUs that they request."""

    def __init__(
        self,
        name: str,
        *,
        exempt_namespaces: Sequence[str],
        cluster: pulumi.Resource | None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("slicewright:index:PodGuard", name, {}, opts)
        enforce_policy(
            f"{name}-policy",
            pod_policy.pod_policy(exempt_namespaces=exempt_namespaces),
            pulumi.ResourceOptions(parent=self, deleted_with=cluster),
        )
        self.register_outputs({})


def enforce_policy(
    name: str, policy: tuple[names.Manifest, names.Manifest], opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Creates a policy and then its binding. Without one, the API server ignores the policy."""
    rules, binding = policy
    guard = k8s.admissionregistration.v1.ValidatingAdmissionPolicy(
        name, metadata=_metadata(rules), spec=rules["spec"], opts=opts
    )
    bound = k8s.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
        f"{name}-binding",
        metadata=_metadata(binding),
        spec=binding["spec"],
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[guard])),
    )
    return [guard, bound]


class StartupTaint(pulumi.ComponentResource):
    """The API server adds the startup taint to new nodes of the pools."""

    def __init__(
        self,
        name: str,
        *,
        pools: Sequence[ExistingPoolPlan],
        depends_on: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """depends_on: the controller, which removes the taint from verified nodes. So `destroy`
        deletes the policy before the controller.
        """
        super().__init__("slicewright:index:StartupTaint", name, {}, opts)
        rules, binding = manifests.startup_policy(pools)
        policy = k8s.admissionregistration.v1.MutatingAdmissionPolicy(
            f"{name}-policy",
            metadata=_metadata(rules),
            spec=rules["spec"],
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(depends_on)),
        )
        k8s.admissionregistration.v1.MutatingAdmissionPolicyBinding(
            f"{name}-policy-binding",
            metadata=_metadata(binding),
            spec=binding["spec"],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )
        self.register_outputs({})


def _metadata(manifest: dict[str, Any]) -> k8s.meta.v1.ObjectMetaArgs:
    return k8s.meta.v1.ObjectMetaArgs(name=manifest["metadata"]["name"])
