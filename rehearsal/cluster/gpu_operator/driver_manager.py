"""`driver-manager` of a simulated node: `python -m
slicewright.rehearsal.cluster.gpu_operator.driver_manager`.

The init container of NVIDIA's driver pod. Before another driver is loaded, it takes the operands
off the node by their labels, cordons the node, evicts the pods with GPUs, and unloads the driver;
then it puts back what it took. Where the upgrade policy of the operator is on, which evicts by
itself, it neither cordons nor evicts. Left out: what concerns DRA, GPUDirect RDMA, vfio and
nouveau, and keeping a driver whose configuration has not changed. Source:
NVIDIA/k8s-driver-manager, cmd/driver-manager and internal/kubernetes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from slicewright.kubeapi.client import ApiError, Client, JsonObject, Unreachable, path_of
from slicewright.rehearsal.cluster.gpu_operator.labels import UPGRADES_DRIVERS
from slicewright.rehearsal.cluster.node import driver_kernel

PAUSED = "paused-for-driver-upgrade"
INITIAL_STATE = "nvidia.com/driver-manager.node-initial-state.unschedulable"
"""Annotation: whether the node had already been cordoned."""
_DEPLOY = "nvidia.com/gpu.deploy."
_PODS_OF: Mapping[str, str] = {
    "operator-validator": "nvidia-operator-validator",
    "container-toolkit": "nvidia-container-toolkit-daemonset",
    "device-plugin": "nvidia-device-plugin-daemonset",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "dcgm-exporter": "nvidia-dcgm-exporter",
    "dcgm": "nvidia-dcgm",
    "mig-manager": "nvidia-mig-manager",
    "client": "",
}
"""Operand -> label `app` of its pods; empty: pods of others that the label selects the node for."""
_PERIOD_S = 0.5
"""NVIDIA's asks every 5 s."""
_GONE_WITHIN_S = 300.0


class NotUninstalled(Exception):
    """The old driver stays; the container ends with the message, and is restarted."""


def paused(value: str) -> str:
    if value in ("", "false") or PAUSED in value:
        return value
    return PAUSED if value == "true" else f"{value}_{PAUSED}"


def resumed(value: str) -> str:
    if value == PAUSED:
        return "true"
    return value.replace(f"{PAUSED}_", "").replace(PAUSED, "").strip("_")


class DriverManager:
    def __init__(
        self,
        client: Client,
        node: str,
        namespace: str,
        *,
        is_loaded: Callable[[], bool],
        unload: Callable[[], None],
        sleep: Callable[[float], None],
    ) -> None:
        """unload: raises NotUninstalled where the driver is in use."""
        self._client = client
        self._node = node
        self._namespace = namespace
        self._is_loaded = is_loaded
        self._unload = unload
        self._sleep = sleep

    def uninstall(self) -> None:
        """Raises NotUninstalled, ApiError, Unreachable."""
        by_policy = (self._read()["metadata"].get("annotations") or {}).get(
            UPGRADES_DRIVERS
        ) == "true"
        if not self._is_loaded():
            print("no driver is loaded: no pod has to leave", flush=True)
        else:
            self._label(paused)
            try:
                self._wait_for_operands()
                if not by_policy:
                    self._cordon()
                    self._evict()
                self._unload()
            except NotUninstalled:
                self._put_back(by_policy=by_policy)
                raise
        self._put_back(by_policy=by_policy)

    def disable(self) -> None:
        """For a node whose image has a driver."""
        self._patch({"metadata": {"labels": {f"{_DEPLOY}driver": "pre-installed"}}})

    def _put_back(self, *, by_policy: bool) -> None:
        if not by_policy:
            self._uncordon()
        self._label(resumed)

    def _read(self) -> JsonObject:
        return self._client.get(path_of("v1", "nodes", self._node))

    def _patch(self, change: JsonObject) -> None:
        self._client.patch(path_of("v1", "nodes", self._node), change)

    def _label(self, changed: Callable[[str], str]) -> None:
        labels = self._read()["metadata"].get("labels") or {}
        known = {f"{_DEPLOY}{one}": labels.get(f"{_DEPLOY}{one}", "") for one in _PODS_OF}
        changes = {name: changed(value) for name, value in known.items() if value}
        if changes != {name: value for name, value in known.items() if value}:
            self._patch({"metadata": {"labels": changes}})

    def _pods(self, namespace: str | None = None, **selected: str) -> list[JsonObject]:
        found = self._client.get(
            path_of("v1", "pods", None, namespace),
            fieldSelector=f"spec.nodeName={self._node}",
            **selected,
        )
        return list(found["items"])

    def _wait_for_operands(self) -> None:
        waited = 0.0
        while staying := [
            pod["metadata"]["name"]
            for pod in self._pods(self._namespace)
            if (pod["metadata"].get("labels") or {}).get("app") in set(_PODS_OF.values()) - {""}
        ]:
            if waited >= _GONE_WITHIN_S:
                raise NotUninstalled(f"these pods do not end: {', '.join(sorted(staying))}")
            self._sleep(_PERIOD_S)
            waited += _PERIOD_S

    def _cordon(self) -> None:
        node = self._read()
        cordoned = bool((node.get("spec") or {}).get("unschedulable"))
        noted = (node["metadata"].get("annotations") or {}).get(INITIAL_STATE)
        if noted is None or (not cordoned and noted == "true"):
            note = {INITIAL_STATE: "true" if cordoned else "false"}
            self._patch({"metadata": {"annotations": note}})
        self._patch({"spec": {"unschedulable": True}})

    def _uncordon(self) -> None:
        """Unless it had already been cordoned; without the note, this program has not."""
        noted = (self._read()["metadata"].get("annotations") or {}).get(INITIAL_STATE)
        if noted is None:
            return
        forget: JsonObject = {"metadata": {"annotations": {INITIAL_STATE: None}}}
        self._patch(forget if noted == "true" else {**forget, "spec": {"unschedulable": None}})

    def _evict(self) -> None:
        """Until none is left: a PodDisruptionBudget may hold them for any time."""
        while holders := [pod for pod in self._pods() if _uses_gpus(pod)]:
            for pod in holders:
                metadata = pod["metadata"]
                name, namespace = metadata["name"], metadata["namespace"]
                eviction = {
                    "apiVersion": "policy/v1",
                    "kind": "Eviction",
                    "metadata": {"name": name, "namespace": namespace},
                }
                try:
                    self._client.create(
                        f"{path_of('v1', 'pods', name, namespace)}/eviction", eviction
                    )
                except ApiError as e:
                    if e.status not in (404, 429):
                        raise
            self._sleep(_PERIOD_S)


def _uses_gpus(pod: JsonObject) -> bool:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    return any(
        resource.startswith(("nvidia.com/gpu", "nvidia.com/mig-"))
        for container in pod["spec"]["containers"]
        for resource in (container.get("resources") or {}).get("limits") or {}
    )


def main() -> int:
    if sys.argv[1:] != ["uninstall_driver"]:
        print(f"simulated driver-manager: no command {sys.argv[1:]}", file=sys.stderr)
        return 2
    host = Path("/host")

    def unload() -> None:
        answer = driver_kernel.ask(Path("/"), os.getpid(), "unload")
        while not answer.exists():
            time.sleep(_PERIOD_S)
        said = answer.read_text()
        answer.unlink()
        if said != driver_kernel.DONE:
            raise NotUninstalled(said)

    manager = DriverManager(
        Client.in_cluster(user_agent="slicewright-driver-manager"),
        os.environ["NODE_NAME"],
        os.environ["OPERATOR_NAMESPACE"],
        is_loaded=(host / "proc/driver/nvidia/version").exists,
        unload=unload,
        sleep=time.sleep,
    )
    try:
        if (host / "usr/lib64/libnvidia-ml.so.1").exists():
            manager.disable()
            raise NotUninstalled("the node's image has a driver: this one is not installed")
        manager.uninstall()
    except (NotUninstalled, ApiError, Unreachable, OSError) as e:
        print(f"simulated driver-manager: {e}", file=sys.stderr)
        return 1
    print("simulated driver-manager: a driver can be loaded", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
