"""Clients that act as kubelets, controllers and service accounts, by impersonation.

The API server judges their requests as it judges those of a real kubelet's certificate, or of an
account's token.
"""

from __future__ import annotations

from typing import Final

from slicewright.kubeapi import Client

_RESERVED: Final = ("kubernetes.io", "k8s.io")
_KUBELETS_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELETS_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
"""Source: k8s.io/kubelet, pkg/apis/well_known_labels.go (kubeletLabels)."""


def kubelet_may_label(key: str) -> bool:
    """Whether the admission plugin NodeRestriction lets a kubelet set this label of its own Node.

    Source: k8s.io/kubernetes, plugin/pkg/admission/noderestriction/admission.go
    (getModifiedLabels) and k8s.io/kubelet, pkg/apis/well_known_labels.go (IsKubeletLabel).
    """
    domain = key.rpartition("/")[0]
    if key in _KUBELETS_LABELS or _is_below(domain, _KUBELETS_DOMAINS):
        return True
    return not _is_below(domain, _RESERVED)


def _is_below(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)


def kubelet_of(client: Client, node: str) -> Client:
    """A client of the node's kubelet, by impersonation: a certificate and a connection for each of
    thousands of nodes would cost more than all else that the stand-in does. client: of an
    administrator. Source: kubernetes.io, "Using Node Authorization".
    """
    return client.acting_as(f"system:node:{node}", group="system:nodes")


def account_of(client: Client, namespace: str, name: str) -> Client:
    """A client of the service account, by impersonation. client: of an administrator."""
    return client.acting_as(f"system:serviceaccount:{namespace}:{name}")


def controller_of(client: Client, name: str) -> Client:
    """A client of a controller of Kubernetes or of its cloud. client: of an administrator.

    Source: k8s.io/cloud-provider v0.36.2, app/controllermanager.go (ClientName): a cloud's node
    controller is `node-controller`, as Kubernetes' is.
    """
    return account_of(client, "kube-system", name)
