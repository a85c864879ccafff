"""How the API server reaches Services, pods and kubelets: through the kubelet stand-in.

A Service's clusterIP leads nowhere on this machine. Where the control plane is not in the cluster's
network, as on GKE, the API server asks a proxy for each connection; here that is the kubelet
stand-in, which knows where a Service leads (kubelet/services). Source: Kubernetes docs,
"Set up Konnectivity service".
"""

from __future__ import annotations

import json
from typing import Final

FILE: Final = "egress.json"
SOCKET: Final = "egress.sock"
"""Both in the cluster's directory, which is the API server's working directory."""


def through_kubelet() -> str:
    """The file for kube-apiserver's --egress-selector-config-file, as JSON."""
    connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": SOCKET}}}
    return json.dumps(
        {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        },
        indent=1,
    )
