"""Admission policies: the guard of the nodes, and how any policy is put in force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from apis import names
from apis.admission import pod_policy, policies
from infra import values
from infra.plan import ExistingPoolPlan


class NodeGuard(pulumi.ComponentResource):
    """Only the fleet controller repartitions and releases a pool's nodes. Output: `guards`.

    Programs that may change Nodes (operator, agents' nodes) come after it. The policy does not
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
        """operator_account: user name of the GPU operator's service account. None without one.
        selecting: keys of the labels that select existing nodes.
        """
        super().__init__("slicewright:index:NodeGuard", name, {}, opts)
        self.guards = in_force(
            f"{name}-policy",
            policies.node_policy(
                admin_groups=admin_groups, operator_account=operator_account, selecting=selecting
            ),
            pulumi.ResourceOptions(parent=self, deleted_with=cluster),
        )
        self.register_outputs({})


class PodGuard(pulumi.ComponentResource):
    """No pod outside of the exempt namespaces gets to GPUs unverified or unrequested."""

    def __init__(
        self,
        name: str,
        *,
        exempt_namespaces: Sequence[str],
        cluster: pulumi.Resource | None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("slicewright:index:PodGuard", name, {}, opts)
        in_force(
            f"{name}-policy",
            pod_policy.pod_policy(exempt_namespaces=exempt_namespaces),
            pulumi.ResourceOptions(parent=self, deleted_with=cluster),
        )
        self.register_outputs({})


def in_force(
    name: str, policy: tuple[names.Manifest, names.Manifest], opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """A policy and then its binding, without which it is not asked."""
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
    """New members of the pools get the startup taint from the API server."""

    def __init__(
        self,
        name: str,
        *,
        pools: Sequence[ExistingPoolPlan],
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """after: the controller, which removes the taint from verified nodes: so `destroy` takes
        the policy back first.
        """
        super().__init__("slicewright:index:StartupTaint", name, {}, opts)
        rules, binding = values.startup_policy(pools)
        policy = k8s.admissionregistration.v1.MutatingAdmissionPolicy(
            f"{name}-policy",
            metadata=_metadata(rules),
            spec=rules["spec"],
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(after)),
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
