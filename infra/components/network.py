"""The NetworkPolicy that opens the ports of agents and controller only to a fleet's sources.

Only incoming connections are limited. Outgoing connections are not: both programs need the API
server, whose address a NetworkPolicy cannot name: it is behind a Service, a managed control plane
may change it, and network plugins differ in whether they compare it before or after translation.

The kubelet's probes need no rule: traffic from the node of a pod to the pod is always allowed.
Source: Kubernetes docs, network policies.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from slicewright.apis import names
from slicewright.infra.components import pods
from slicewright.infra.stack_file import MetricsNamespace, MetricsRange, MetricsSource

_PORTS = (names.AGENT_PORT, names.CONTROLLER_PORT, names.ATTRIBUTION_PORT)
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The API server gives every namespace this label. Source: Kubernetes docs, namespaces."""


def closed_ports(
    name: str,
    namespace: pulumi.Input[str],
    sources: Sequence[MetricsSource],
    opts: pulumi.ResourceOptions,
) -> k8s.networking.v1.NetworkPolicy:
    """Only `sources` reach our pods in `namespace`, and only their ports."""
    open_to = k8s.networking.v1.NetworkPolicyIngressRuleArgs(
        from_=[_peer(source) for source in sources],
        ports=[
            k8s.networking.v1.NetworkPolicyPortArgs(protocol="TCP", port=port) for port in _PORTS
        ],
    )
    return k8s.networking.v1.NetworkPolicy(
        f"{name}-metrics",
        metadata=k8s.meta.v1.ObjectMetaArgs(name="metrics", namespace=namespace),
        spec=k8s.networking.v1.NetworkPolicySpecArgs(
            pod_selector=k8s.meta.v1.LabelSelectorArgs(match_labels=dict(pods.PART_OF)),
            policy_types=["Ingress"],
            # A rule without sources would admit everybody.
            ingress=[open_to] if sources else None,
        ),
        opts=opts,
    )


def _peer(source: MetricsSource) -> k8s.networking.v1.NetworkPolicyPeerArgs:
    match source:
        case MetricsNamespace():
            return k8s.networking.v1.NetworkPolicyPeerArgs(
                namespace_selector=k8s.meta.v1.LabelSelectorArgs(
                    match_labels={_NAMESPACE_NAME: source.namespace}
                ),
                pod_selector=k8s.meta.v1.LabelSelectorArgs(match_labels=dict(source.pods))
                if source.pods
                else None,
            )
        case MetricsRange():
            return k8s.networking.v1.NetworkPolicyPeerArgs(
                ip_block=k8s.networking.v1.IPBlockArgs(cidr=source.cidr)
            )
