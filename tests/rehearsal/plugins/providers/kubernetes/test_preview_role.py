"""Whoever has the ClusterRole of previews, and nothing else, previews and refreshes by the real
engine against a real API server, and writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests
from slicewright.kubeapi import ApiError, Client
from slicewright.kubeapi.client import path_of

RBAC = "rbac.authorization.k8s.io/v1"
PROGRAM = """
    import pulumi
    import pulumi_kubernetes as k8s

    config = pulumi.Config()
    provider = k8s.Provider("cluster", kubeconfig=config.require("kubeconfig"))
    opts = pulumi.ResourceOptions(provider=provider)
    metadata = {"namespace": config.require("namespace"), "name": "desired"}
    k8s.core.v1.ConfigMap("desired", metadata=metadata,
        data={"desired.json": "{}"}, opts=opts)
    labels = {"app": "agent"}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"nodeSelector": {"never": "there"},
            "containers": [{"name": "agent", "image": "python"}]},
    }
    k8s.apps.v1.DaemonSet("agent", metadata={**metadata, "name": "agent"},
        spec={"selector": {"matchLabels": labels}, "template": pod}, opts=opts)
    k8s.apiextensions.CustomResource("pool", api_version="slicewright.io/v1alpha1",
        kind="GPUPool", metadata={"name": config.require("namespace")},
        spec={"size": config.get_int("size") or 1}, opts=opts)
"""


@pytest.fixture
def stack(new_stack: Callable[..., Any], pool_kind: str, attached: dict[str, str]) -> Any:
    return new_stack(PROGRAM, **attached)


@pytest.fixture
def previewer(cluster: Any, namespace: str) -> dict[str, Any]:
    """The kubeconfig of a service account that has the ClusterRole, and no other right."""
    (role,) = (one for one in manifests.preview_role()["items"] if one["kind"] == "ClusterRole")
    cluster.admin.patch(
        path_of(RBAC, "clusterroles", manifests.PREVIEW_ROLE),
        role,
        kind="apply",
        fieldManager="test",
        force="true",
    )
    accounts = path_of("v1", "serviceaccounts", namespace=namespace)
    cluster.admin.create(accounts, {"metadata": {"name": "previewer"}})
    binding = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"previewer-{namespace}"},
        "roleRef": {
            "apiGroup": RBAC.partition("/")[0],
            "kind": "ClusterRole",
            "name": manifests.PREVIEW_ROLE,
        },
        "subjects": [{"kind": "ServiceAccount", "name": "previewer", "namespace": namespace}],
    }
    cluster.admin.create(path_of(RBAC, "clusterrolebindings"), binding)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = cluster.admin.create(f"{accounts}/previewer/token", asked)["status"]["token"]
    found: dict[str, Any] = yaml.safe_load(cluster.kubeconfig)
    for user in found["users"]:
        user["user"] = {"token": token}
    return found


def test_a_preview_and_a_refresh_work_and_an_up_is_refused(
    stack: Any, cluster: Any, namespace: str, previewer: dict[str, Any], tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig)
    stack.set("kubeconfig", str(kubeconfig))
    stack.set("namespace", namespace)
    code, output = stack.act("up")
    assert code == 0, output
    kubeconfig.write_text(json.dumps(previewer))
    code, output = stack.act("preview", "--expect-no-changes")
    assert code == 0, output
    code, output = stack.act("refresh", "--preview-only", "--expect-no-changes")
    assert code == 0, output
    stack.set("size", "2")
    code, output = stack.act("preview")
    assert code == 0, output
    assert "~ 1 to update" in output
    code, output = stack.act("up")
    assert code != 0
    assert "cannot patch resource" in output


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("list", path_of("v1", "secrets")),
        ("list", path_of("v1", "configmaps")),
        ("create", path_of("v1", "configmaps", namespace="default")),
        ("create", path_of("v1", "pods", namespace="default")),
        ("create", path_of(RBAC, "clusterrolebindings")),
        ("delete", path_of("slicewright.io/v1alpha1", "gpupools", "any")),
        ("patch", path_of("v1", "nodes", "any")),
    ],
)
def test_it_may_neither_write_nor_read_secrets(
    previewer: dict[str, Any], tmp_path: Any, verb: str, path: str
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(previewer))
    client = Client.from_kubeconfig(file)
    deeds: dict[str, Callable[[], Any]] = {
        "list": lambda: client.get(path),
        "create": lambda: client.create(path, {"metadata": {"name": "mine"}}),
        "delete": lambda: client.delete(path),
        "patch": lambda: client.patch(path, {"metadata": {"labels": {"a": "b"}}}),
    }
    with pytest.raises(ApiError) as refused:
        deeds[verb]()
    assert refused.value.status == 403
