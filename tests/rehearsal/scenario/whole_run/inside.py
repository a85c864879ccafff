"""Pods of a walkthrough, looked into by `kubectl exec`: with the NVML library and the device nodes
of their own container.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from slicewright.infra import delivery
from slicewright.kubeapi import ApiError, Client
from slicewright.rehearsal.scenario import walkthrough
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.walkthrough import Walkthrough

_CODE = "look"
T = TypeVar("T")


def pod_of(client: Client, of: Walkthrough, name: str, *, wants: str = "") -> str:
    """Makes a pod with the walkthrough's own affinity, tolerations and limits; its API path.

    wants: the resource of which it gets one, in place of the walkthrough's limits.
    """
    spec = walkthrough.pod_spec(of)
    if wants:
        spec["containers"][0]["resources"] = {"limits": {wants: "1"}}
    return _create(client, of, name, spec)


def pod_without_toleration(client: Client, of: Walkthrough, name: str, key: str) -> str:
    """The same pod without the toleration of that taint; its API path."""
    spec = walkthrough.pod_spec(of)
    left = [t for t in spec["tolerations"] if t["key"] != key]
    assert len(left) == len(spec["tolerations"]) - 1
    return _create(client, of, name, {**spec, "tolerations": left})


def seen_by(environment: Environment, client: Client, path: str) -> Mapping[str, Any]:
    """What is seen in the pod at that path, once it is Running and Ready: `slicewright-agent
    show`.
    """
    _until(client, path, _ready)
    said = kubectl_exec(environment, path, "python", "/code/agent.pyz", "show", "--json")
    return dict(json.loads(said))


def kubectl_exec(environment: Environment, path: str, *command: str) -> str:
    """The output of a command in the pod at that path."""
    (kubeconfig,) = environment.kubeconfigs().values()
    namespace, _, name = path.split("/")[-3:]
    kubectl = [environment.toolchain.control_plane, "kubectl", "--kubeconfig", kubeconfig]
    asked = subprocess.run(
        [*kubectl, "exec", "-n", namespace, name, "--", *command],
        # Else it caches what the API offers in the home directory.
        env={**os.environ, "KUBECACHEDIR": str(environment.root / "kubectl-cache")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    return asked.stdout


def why_pending(client: Client, path: str) -> str:
    """The scheduler's message, once it has tried the pod and did not place it."""
    return _until(client, path, _unscheduled)


def delete(client: Client, *paths: str) -> None:
    for path in paths:
        client.delete(path, gracePeriodSeconds="0")
    for path in paths:
        deadline = time.monotonic() + 240
        while _exists(client, path):
            assert time.monotonic() < deadline, f"{path} is still there"
            time.sleep(0.2)


def _create(client: Client, of: Walkthrough, name: str, spec: Mapping[str, Any]) -> str:
    _code_map(client, of.namespace)
    spec = copy.deepcopy(dict(spec))
    (container,) = spec["containers"]
    kept = {key: container[key] for key in ("name", "resources")}
    spec["containers"] = [
        {
            **kept,
            "image": "python:3.13-slim",
            "command": ["python", "-c", "import time; time.sleep(3600)"],
            # As NVIDIA's CUDA images set it for GKE, which mounts the driver there.
            "env": [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}],
            "volumeMounts": [{"name": "code", "mountPath": "/code"}],
        }
    ]
    spec["volumes"] = [{"name": "code", "configMap": {"name": _CODE}}]
    spec["terminationGracePeriodSeconds"] = 1
    pods = f"/api/v1/namespaces/{of.namespace}/pods"
    metadata = {"name": name, "namespace": of.namespace}
    client.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return f"{pods}/{name}"


def _code_map(client: Client, namespace: str) -> None:
    """The agent's code, where pods of the namespace can mount it."""
    made: list[tuple[str, dict[str, Any]]] = [
        (
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        ),
        (
            f"/api/v1/namespaces/{namespace}/configmaps",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": _CODE, "namespace": namespace},
                "binaryData": {"agent.pyz": delivery.node_agent().base64},
            },
        ),
    ]
    for path, body in made:
        try:
            client.create(path, body)
        except ApiError as e:
            if e.status != 409:  # it is there already
                raise


def _ready(pod: Mapping[str, Any]) -> bool:
    conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions") or ()}
    return pod["status"].get("phase") == "Running" and conditions.get("Ready") == "True"


def _unscheduled(pod: Mapping[str, Any]) -> str:
    assert not pod["spec"].get("nodeName"), f"it was bound to {pod['spec']['nodeName']}"
    for condition in pod["status"].get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""


def _until(client: Client, path: str, what: Callable[[Mapping[str, Any]], T]) -> T:
    deadline = time.monotonic() + 240
    while not (found := what(pod := client.get(path))):
        assert time.monotonic() < deadline, pod["status"]
        time.sleep(0.2)
    return found


def _exists(client: Client, path: str) -> bool:
    try:
        client.get(path)
    except ApiError as e:
        if e.status != 404:
            raise
        return False
    return True
