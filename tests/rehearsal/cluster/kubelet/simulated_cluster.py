"""A real control plane with the kubelet stand-in, for the tests of kubelet/ and gpu_operator/."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slicewright.kubeapi import ApiError, Client, list_and_watch
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.cluster.node import launcher
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.toolchain import Toolchain

PYTHON = (
    "docker.io/library/python:3.13-slim"
    "@sha256:6771159cd4fa5d9bba1258caf0b82e6b73458c694d178ad97c5e925c2d0e1a91"
)
PLURALS = {
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "Service": "services",
    "Pod": "pods",
    "Node": "nodes",
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Deployment": "deployments",
    "DaemonSet": "daemonsets",
    "CustomResourceDefinition": "customresourcedefinitions",
    "ClusterPolicy": "clusterpolicies",
    "NodeFeature": "nodefeatures",
    "Job": "jobs",
}


class SimulatedCluster:
    """`start` and `stop` it; in between `client` and `kubeconfig` are the administrator's."""

    def __init__(self, environment: Path, toolchain: Toolchain, name: str = "c") -> None:
        self.environment = environment
        self.name = name
        self.toolchain = toolchain
        self.directory = environment / "clusters" / name

    def start(self, *kubelet_arguments: str) -> None:
        self.toolchain.dump(self.environment / "toolchain.json")
        endpoint = control_plane.start(self.environment, self.name, self.toolchain)
        self.kubeconfig = endpoint.kubeconfig
        self.client = Client.from_kubeconfig(self.kubeconfig)
        self.start_kubelet(*kubelet_arguments)

    def stop(self) -> None:
        if kubelet := processes.find(self.environment, f"kubelet-{self.name}"):
            processes.stop(kubelet)
        control_plane.stop(self.environment, self.name)

    def start_kubelet(self, *arguments: str) -> None:
        argv = [
            sys.executable,
            "-m",
            "slicewright.rehearsal.cluster.kubelet",
            "--environment",
            str(self.environment),
            "--cluster",
            self.name,
            *arguments,
        ]
        processes.start(self.environment, f"kubelet-{self.name}", argv)

    def kill_kubelet(self) -> None:
        kubelet = processes.find(self.environment, f"kubelet-{self.name}")
        assert kubelet is not None
        os.kill(kubelet.pid, signal.SIGKILL)
        deadline = time.monotonic() + 180
        while processes.find(self.environment, f"kubelet-{self.name}"):
            assert time.monotonic() < deadline, "the kubelet survives SIGKILL"
            time.sleep(0.02)

    def kubelet_log(self) -> str:
        return (self.environment / "log" / f"kubelet-{self.name}.log").read_text()

    def last_lines(self) -> str:
        """Of every process of the cluster: a wait that is in vain may have its reason there."""
        logs = sorted((self.environment / "log").glob(f"*{self.name}*.log"))
        return "\n".join(
            f"--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            for log in logs
        )

    # -- objects
    # ----------------------------------------------------------------------------------------------

    @staticmethod
    def path(obj: Mapping[str, Any]) -> str:
        metadata = obj["metadata"]
        return path_of(
            obj["apiVersion"], PLURALS[obj["kind"]], metadata["name"], metadata.get("namespace")
        )

    def create(self, obj: dict[str, Any]) -> dict[str, Any]:
        return self.client.create(self.path(obj).rpartition("/")[0], obj)

    def add_node(
        self,
        name: str,
        machine: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        taints: tuple[Mapping[str, str], ...] = (),
        more_annotations: Mapping[str, str] | None = None,
    ) -> str:
        """A node as the simulated cloud makes it; its API path."""
        annotations = {"kwok.x-k8s.io/node": "fake", **(more_annotations or {})}
        if machine is not None:
            annotations["rehearsal.slicewright.io/machine"] = json.dumps(machine)
        amounts = {"cpu": "96", "memory": "1000Gi", "pods": "250", "ephemeral-storage": "100Gi"}
        info = {
            "architecture": "amd64",
            "bootID": "b",
            "containerRuntimeVersion": "containerd://2.1.0",
            "kernelVersion": "6.12.40-63.114.amzn2023.x86_64",
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.36.2",
            "machineID": "m",
            "operatingSystem": "linux",
            "osImage": "Amazon Linux 2023.9.20251110",
            "systemUUID": "s",
        }
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    **(labels or {}),
                },
                "annotations": annotations,
            },
            "spec": {"taints": list(taints)},
            "status": {"capacity": amounts, "allocatable": amounts, "nodeInfo": info},
        }
        self.create(node)
        return f"/api/v1/nodes/{name}"

    def run_python(self, name: str, script: str, **spec: Any) -> str:
        """Creates a pod on node n1 that runs a script from a ConfigMap; its API path. The rest
        extends its spec.
        """
        spec.setdefault("nodeSelector", {"kubernetes.io/hostname": "n1"})
        self.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "default"},
                "data": {"main.py": script},
            }
        )
        container = {
            "name": "main",
            "image": PYTHON,
            "command": ["python", "/code/main.py"],
            "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "volumeMounts": [{"name": "code", "mountPath": "/code"}],
            **spec.pop("container", {}),
        }
        volumes = [{"name": "code", "configMap": {"name": name}}, *spec.pop("volumes", ())]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {"app": name},
                "annotations": {"note": "n"},
            },
            "spec": {
                "terminationGracePeriodSeconds": 2,
                "containers": [container],
                "volumes": volumes,
                **spec,
            },
        }
        self.create(pod)
        return f"/api/v1/namespaces/default/pods/{name}"

    # -- waiting
    # ----------------------------------------------------------------------------------------------

    def until(
        self, path: str, holds: Callable[[dict[str, Any] | None], Any], timeout_s: float = 180
    ) -> Any:
        """What `holds` returns for the object, as soon as that is true; None stands for an object
        that is not there.
        """
        collection, _, name = path.rpartition("/")
        stop = threading.Event()
        deadline = time.monotonic() + timeout_s
        last: dict[str, Any] | None = None
        for event in list_and_watch(
            self.client,
            collection,
            stop=stop,
            window_s=1,
            backoff_max_s=0.5,
            fieldSelector=f"metadata.name={name}",
        ):
            if event.type == "LISTED":
                last = event.items[0] if event.items else None
            elif event.type == "DELETED":
                last = None
            elif event.type in ("ADDED", "MODIFIED"):
                last = event.object
            if answer := holds(last):
                return answer
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{path} did not come to it within {timeout_s} s; last seen: "
                    f"{json.dumps(last, indent=1)}\n{self.last_lines()}"
                )
        raise AssertionError("the watch ended")

    def ready(self, path: str, timeout_s: float = 180) -> dict[str, Any]:
        def holds(pod: dict[str, Any] | None) -> dict[str, Any] | None:
            conditions = {
                c["type"]: c["status"]
                for c in ((pod or {}).get("status") or {}).get("conditions") or ()
            }
            return pod if conditions.get("Ready") == "True" else None

        found: dict[str, Any] = self.until(path, holds, timeout_s)
        return found

    def gone(self, path: str, timeout_s: float = 180) -> None:
        self.until(path, lambda found: found is None, timeout_s)

    def says(
        self, path: str, holds: Callable[[str], Any], timeout_s: float = 180, **query: str
    ) -> str:
        """The pod's log, as soon as that holds of it. A log that cannot be read yet is empty."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                log = self.log(path, **query)
            except ApiError:
                log = ""
            if holds(log):
                return log
            assert time.monotonic() < deadline, (
                f"{path} has not said it within {timeout_s} s: {log}"
            )
            time.sleep(0.1)

    def log(self, path: str, **query: str) -> str:
        return self.client.text(
            path + "/log" + ("?" + "&".join(f"{k}={v}" for k, v in query.items()) if query else "")
        )

    def events(self, reason: str) -> list[str]:
        found = self.client.get("/api/v1/events", fieldSelector=f"reason={reason}")
        return [e["message"] for e in found["items"]]

    def processes_of(self, path: str) -> list[int]:
        """Processes of this machine that run for a pod, found by the address in their
        environment.
        """
        pod = self.client.get(path)
        return pids_with(f"POD_IP={pod['status']['podIP']}")


@contextmanager
def running_cluster(
    environment: Path, toolchain: Toolchain, *kubelet_arguments: str
) -> Iterator[SimulatedCluster]:
    """A started cluster, which is stopped in any case."""
    if why := launcher.why_not():
        pytest.skip(why)
    cluster = SimulatedCluster(environment, toolchain)
    try:
        cluster.start(*kubelet_arguments)
        yield cluster
    finally:
        cluster.stop()


def pids_with(entry: str) -> list[int]:
    """Processes whose environment has this entry."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                entries = (directory / "environ").read_bytes().split(b"\0")
                if (
                    entry.encode() in entries
                    and (directory / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
                ):
                    found.append(int(directory.name))
            except OSError:
                continue
    return found
