"""Whole runs of the real `pulumi` with the provider."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

POOLS = "/apis/slicewright.io/v1alpha1/gpupools"
PROGRAM = """
    import pulumi
    import pulumi_kubernetes as k8s

    config = pulumi.Config()
    provider = k8s.Provider("cluster", kubeconfig=config.require("kubeconfig"))
    opts = pulumi.ResourceOptions(provider=provider)
    namespace = k8s.core.v1.Namespace("system", metadata={"name": config.require("namespace")},
        opts=opts)
    name = namespace.metadata["name"]
    account = k8s.core.v1.ServiceAccount("agent", metadata={"namespace": name}, opts=opts)
    desired = k8s.core.v1.ConfigMap(
        "desired",
        metadata={"namespace": name, "name": "desired", "labels": {"app": "agent"}},
        data={"desired.json": config.get("desired") or "{}"},
        opts=opts,
    )
    secret = k8s.core.v1.Secret("token", metadata={"namespace": name},
        string_data={"token": "very-secret-token"}, opts=opts)
    pod = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {
            "serviceAccountName": account.metadata["name"],
            "hostNetwork": False,
            "nodeSelector": {"never": "there"},
            "containers": [
                {
                    "name": "agent",
                    "image": "python",
                    "args": [],
                    "env": [{"name": "EMPTY", "value": ""}],
                    "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
                }
            ],
        },
    }
    agent = k8s.apps.v1.DaemonSet(
        "agent",
        metadata={"namespace": name, "name": "agent"},
        spec={"selector": {"matchLabels": {"app": "agent"}}, "template": pod},
        opts=opts,
    )
    pool = k8s.apiextensions.CustomResource(
        "pool",
        api_version="slicewright.io/v1alpha1",
        kind="GPUPool",
        metadata={
            "name": config.require("namespace"),
            "annotations": {
                "pulumi.com/waitFor": "condition=Verified",
                # In the foreground it waits until the garbage collector knows the new CRD:
                # up to half a minute.
                "pulumi.com/deletionPropagationPolicy": "background",
            },
        },
        spec={"size": config.get_int("size") or 1},
        opts=pulumi.ResourceOptions(
            provider=provider, depends_on=[agent],
                custom_timeouts=pulumi.CustomTimeouts(create="2s", update="2s")
        ),
    )
    pulumi.export("agent", account.metadata["name"])
"""


@pytest.fixture
def stack(new_stack: Callable[..., Any], pool_kind: str, attached: dict[str, str]) -> Any:
    """Language host and provider run in this process."""
    return new_stack(PROGRAM, **attached)


def _name(stack: Any) -> str:
    return stack.run("config", "get", "namespace")[1].strip()


def _verify(cluster: Any, name: str, status: str = "True") -> None:
    path = f"{POOLS}/{name}"
    generation = cluster.admin.get(path)["metadata"]["generation"]
    condition = {"type": "Verified", "status": status, "observedGeneration": generation}
    cluster.admin.patch(f"{path}/status", {"status": {"conditions": [condition]}})


def test_an_objects_lifecycle(stack: Any, cluster: Any) -> None:
    name = _name(stack)

    # A preview of an empty cluster.
    code, output = stack.act("preview")
    assert code == 0, output
    assert "+ 8 to create" in output

    # The pool is not verified in time: everything is created, and the run fails with the reason.
    code, output = stack.act("up")
    assert code != 0
    assert "warning: Has no .status.conditions" in output
    assert (
        "failed to fully initialize or become live: timed out waiting for the condition" in output
    )
    assert "very-secret-token" not in output

    # It fails again without any change, because it is still not verified …
    _verify(cluster, name, "False")
    code, output = stack.act("up")
    assert code != 0
    assert "Resource has condition Verified=False (want True)" in output

    # … until it is.
    _verify(cluster, name)
    code, output = stack.act("up")
    assert code == 0, output
    assert "~ 1 updated" in output

    code, output = stack.act("up", "--expect-no-changes")
    assert code == 0, output
    code, output = stack.act("refresh", "--expect-no-changes")
    assert code == 0, output
    code, output = stack.act("preview", "--refresh", "--expect-no-changes")
    assert code == 0, output
    assert (
        "very-secret-token"
        not in (stack.directory.parent / "state/.pulumi/stacks/tiny/dev.json").read_text()
    )

    # A manual edit is drift; the next up reverts it.
    labels = {"metadata": {"labels": {"app": "edited"}}}
    cluster.admin.patch(
        f"/api/v1/namespaces/{name}/configmaps/desired", labels, fieldManager="kubectl-edit"
    )
    code, output = stack.act("refresh", "--preview-only", "--expect-no-changes", "--diff")
    assert code != 0
    assert re.search(r'app\s*: "agent" => "edited"', output), output
    code, output = stack.act("up", "--refresh")
    assert code == 0, output
    assert cluster.admin.get(f"/api/v1/namespaces/{name}/configmaps/desired")["metadata"][
        "labels"
    ] == {"app": "agent"}

    # New data replaces the ConfigMap, deleted first because its name is given.
    stack.set("desired", '{"v": 2}')
    code, output = stack.act("up")
    assert code == 0, output
    assert "+-1 replaced" in output
    assert cluster.admin.get(f"/api/v1/namespaces/{name}/configmaps/desired")["data"] == {
        "desired.json": '{"v": 2}'
    }

    # A field that another manager owns is a conflict that names both.
    body = {
        "apiVersion": "slicewright.io/v1alpha1",
        "kind": "GPUPool",
        "metadata": {"name": name},
        "spec": {"size": 9},
    }
    cluster.admin.patch(
        f"{POOLS}/{name}", body, kind="apply", fieldManager="autoscaler", force="true"
    )
    stack.set("size", "5")
    code, output = stack.act("up")
    assert code != 0
    assert 'conflict with "autoscaler": .spec.size' in output
    assert 'The resource managed by field manager "pulumi-kubernetes-' in output

    code, output = stack.act("destroy")
    assert code == 0, output
    assert name not in [
        item["metadata"]["name"] for item in cluster.admin.get("/api/v1/namespaces")["items"]
    ]
    assert name not in [item["metadata"]["name"] for item in cluster.admin.get(POOLS)["items"]]


def test_the_engine_launches_both_plugins_from_path_and_they_exit_quickly(
    new_stack: Callable[..., Any], pool_kind: str, tmp_path: Path
) -> None:
    directory, left = tmp_path / "bin", tmp_path / "left"
    directory.mkdir()
    for name, module in (
        ("pulumi-language-python", "slicewright.rehearsal.plugins.engine.language_host"),
        ("pulumi-resource-kubernetes", "slicewright.rehearsal.plugins.providers.kubernetes"),
    ):
        (directory / name).write_text(
            f"#!{sys.executable}\n"
            "import os, runpy\n"
            "leave = os._exit\n"
            f"os._exit = lambda status: (open({str(left)!r}, 'a').write(f'{name} {{status}}\\n'), "
            "leave(status))\n"
            f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)\n"
        )
        (directory / name).chmod(0o755)
    stack = new_stack(PROGRAM, PATH=f"{directory}:{os.environ['PATH']}", PYTHONPATH=str(Path.cwd()))
    code, output = stack.act("preview", "--json")
    assert code == 0, output
    summary = json.loads(output[output.index("{\n") : output.rindex("}") + 1])
    assert summary["changeSummary"] == {"create": 8}
    # One that ignored SIGINT would be killed after five seconds.
    names = ("pulumi-language-python", "pulumi-resource-kubernetes")
    assert set(left.read_text().splitlines()) == {f"{name} 0" for name in names}
