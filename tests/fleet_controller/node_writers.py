"""Clients of those who may change Nodes in a real cluster, each by its token or certificate."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.apis import names
from slicewright.kubeapi import ApiError, Client

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ROLE = "writes-nodes"
_OPERANDS = "operands"
"""The namespace of the account that stands for mig-manager's."""
KUBELETS_NODE = "writers-own"


@pytest.fixture(scope="session")
def node_writers(shared_api_server: Any) -> dict[str, Client]:
    """The first two are exceptions of the policy on nodes. RBAC lets all the others write every
    Node, so that none is refused for another reason; the kubelet is limited to its own, which is
    KUBELETS_NODE, by NodeRestriction.
    """
    found = {
        "controller": _account(
            shared_api_server, names.CONTROLLER_SERVICE_ACCOUNT, names.NAMESPACE
        ),
        "administrator": shared_api_server.admin,
        "mig-manager": _mig_manager(shared_api_server),
        "node controller": _account(shared_api_server, "node-controller", "kube-system"),
        "alice": shared_api_server.user("alice-writes", "system:authenticated"),
        "kubelet": shared_api_server.user(
            f"system:node:{KUBELETS_NODE}", "system:nodes", signer="kube-apiserver-client-kubelet"
        ),
    }
    _allow(shared_api_server)
    shared_api_server.make_node(KUBELETS_NODE, "writers")
    for who, client in found.items():
        shared_api_server.wait(lambda client=client: _writes(client), f"{who} may write nodes")
    shared_api_server.wait(lambda: not _forges(found["alice"]), "the policy on nodes bites")
    return found


def _account(api_server: Any, name: str, namespace: str) -> Client:
    client: Client = api_server.client(api_server.token(name, namespace=namespace))
    return client


def _mig_manager(api_server: Any) -> Client:
    name = "nvidia-mig-manager"
    api_server.apply("/api/v1/namespaces", {"metadata": {"name": _OPERANDS}, **_core("Namespace")})
    api_server.apply(
        f"/api/v1/namespaces/{_OPERANDS}/serviceaccounts",
        {"metadata": {"name": name}, **_core("ServiceAccount")},
    )
    return _account(api_server, name, _OPERANDS)


def _core(kind: str) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": kind}


def _allow(api_server: Any) -> None:
    rules = [
        {
            "apiGroups": [""],
            "resources": ["nodes", "nodes/status"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        }
    ]
    group = "rbac.authorization.k8s.io"
    admin = api_server.admin
    admin.create(f"{_RBAC}/clusterroles", {"metadata": {"name": _ROLE}, "rules": rules})
    subjects = [
        {"kind": "ServiceAccount", "name": "nvidia-mig-manager", "namespace": _OPERANDS},
        {"kind": "User", "apiGroup": group, "name": "alice-writes"},
        {"kind": "User", "apiGroup": group, "name": f"system:node:{KUBELETS_NODE}"},
    ]
    binding = {
        "metadata": {"name": _ROLE},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": _ROLE},
        "subjects": subjects,
    }
    admin.create(f"{_RBAC}/clusterrolebindings", binding)


def _writes(client: Client) -> bool:
    # A label that everybody may set, the controller too.
    patch = {"metadata": {"labels": {names.MIG_STATE_LABEL: "success"}}}
    return _accepted(client, patch)


def _forges(client: Client) -> bool:
    return _accepted(client, {"metadata": {"annotations": {names.JOINED_ANNOTATION: "{}"}}})


def _accepted(client: Client, patch: dict[str, Any]) -> bool:
    try:
        client.patch(f"/api/v1/nodes/{KUBELETS_NODE}", patch, dryRun="All")
    except ApiError:
        return False
    return True
