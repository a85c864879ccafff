"""Requests of kubelets: the API server judges them as those of a real kubelet's certificate."""

from __future__ import annotations

from kubeapi import Client


def kubelet_of(client: Client, node: str) -> Client:
    """A client of the node's kubelet, by impersonation: a certificate and a connection for each of
    thousands of nodes would cost more than all else that the stand-in does. client: of an
    administrator. Source: kubernetes.io, "Using Node Authorization".
    """
    return client.acting_as(f"system:node:{node}", group="system:nodes")
