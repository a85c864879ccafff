"""A control plane with Volcano's own scheduler and controllers, and nodes whose cards are written
by the formats of the simulated device plugin.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slicewright.infra.manifests.fractional.volcano import scheduler_config
from slicewright.infra.plan.model.fractional import Engine
from slicewright.infra.stack_file import Fractional
from slicewright.kubeapi import ApiError, Client, JsonObject
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.cluster.vgpu.cards import Card, Sharing
from slicewright.rehearsal.cluster.vgpu.volcano import ALLOCATED, CORES, MEMORY, NUMBER, VOLCANO
from slicewright.rehearsal.cluster.vgpu.volcano import decode as decode_shares
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.plugins.charts import find

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
CARD_MIB = 16384
SHARING = Sharing()
IMAGE = "docker.io/library/busybox:1"
_CHART = find("volcano", repository="https://volcano-sh.github.io/helm-charts", version=None)
_WAIT_S = 120.0


class VolcanoCluster:
    """Started by `running`."""

    def __init__(
        self, directory: Path, kubeconfig: Path, scheduler: Path, controllers: Path
    ) -> None:
        self.client = Client.from_kubeconfig(kubeconfig)
        self._directory = directory
        self._kubeconfig = kubeconfig
        self._scheduler_program = scheduler
        self._scheduler: subprocess.Popen[bytes] | None = None
        self._touches = 0
        self.cards: dict[str, list[Card]] = {}
        crds = [m for m in _CHART.render({}, "volcano", "v") if "Definition" in m["kind"]]
        for crd in crds:
            self.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        for crd in crds:
            version = crd["spec"]["versions"][0]["name"]
            path = f"/apis/{crd['spec']['group']}/{version}/{crd['spec']['names']['plural']}"
            until(lambda path=path: self.client.get(path) is not None)  # type: ignore[misc]
        self._controllers = self._start(controllers)

    def _start(self, program: Path, *arguments: str) -> subprocess.Popen[bytes]:
        with (self._directory / f"{program.name}.log").open("ab") as log:
            return subprocess.Popen(
                [
                    program,
                    f"--kubeconfig={self._kubeconfig}",
                    "--leader-elect=false",
                    "--logtostderr",
                    *arguments,
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"DEBUG_SOCKET_DIR": str(self._directory), "PATH": "/bin", "GOGC": "400"},
            )

    def start_scheduler(self, node_policy: str, gpu_policy: str) -> None:
        """With the configuration of a plan. Its nodes have no cards for it until they change."""
        settings = Fractional.model_validate(
            {"provider": "volcano", "node_policy": node_policy, "gpu_policy": gpu_policy}
        )
        engine = Engine(settings=settings, shares_per_gpu=10, memory_factor=1)
        config = self._directory / "volcano-scheduler.conf"
        config.write_text(scheduler_config(engine))
        self.stop_scheduler()
        self._scheduler = self._start(
            self._scheduler_program, f"--scheduler-conf={config}", "--schedule-period=200ms"
        )

    def stop_scheduler(self) -> None:
        if self._scheduler is not None:
            _end(self._scheduler)
            self._scheduler = None

    def stop(self) -> None:
        self.stop_scheduler()
        _end(self._controllers)

    def add_nodes(self, count: int, cards: int) -> None:
        for number in range(count):
            name = f"n{number}"
            self.cards[name] = [
                Card(index=i, uuid=f"GPU-{name}-{i}", model="Tesla T4", memory_mib=CARD_MIB)
                for i in range(cards)
            ]
            resources = {"cpu": "64", "memory": "256Gi", "pods": "250", **_resources(cards)}
            status = {"capacity": resources, "allocatable": resources}
            annotations = {"kwok.x-k8s.io/node": "fake", **self._registration(name)}
            metadata = {"name": name, "annotations": annotations}
            self.client.create(NODES, {"metadata": metadata, "status": status})
        for name in self.cards:
            until(lambda name=name: _ready(self.client.get(f"{NODES}/{name}")))  # type: ignore[misc]

    def lose_card(self, node: str, index: int) -> None:
        """Takes the card out of the node's annotation, as the guard of Volcano's users does."""
        self.cards[node] = [card for card in self.cards[node] if card.index != index]
        self.touch_nodes()

    def _registration(self, node: str) -> Mapping[str, str]:
        return VOLCANO.registration(self.cards[node], SHARING)

    def touch_nodes(self) -> None:
        """Changes every node, so that a scheduler that has just started reads its cards."""
        self._touches += 1
        for name in self.cards:
            annotations = {**self._registration(name), "test/touched": str(self._touches)}
            self.client.patch(f"{NODES}/{name}", {"metadata": {"annotations": annotations}})

    def settle_scheduler(self) -> None:
        """Waits until the scheduler knows cards, which a probing pod shows.

        Without cards a pod is bound with no allocation: the nodes are touched, and it tried again.
        """
        for attempt in range(60):
            self.touch_nodes()
            name = f"probe-{self._touches}-{attempt}"
            self.create_pods([share_pod(name, memory_mib=1, percent=1)])
            until(lambda name=name: self.bound(name))  # type: ignore[misc]
            allocated = self.shares(self.client.get(f"{PODS}/{name}"))
            self.client.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
            if allocated:
                until(lambda name=name: self._gone(name))  # type: ignore[misc]
                return
        raise AssertionError("the scheduler never knew the cards of its nodes")

    def create_pods(self, pods: Sequence[JsonObject]) -> None:
        for pod in pods:
            self.client.create(PODS, pod)

    def bound(self, name: str) -> bool:
        return bool(self.client.get(f"{PODS}/{name}")["spec"].get("nodeName"))

    def _gone(self, name: str) -> bool:
        try:
            self.client.get(f"{PODS}/{name}")
        except ApiError as e:
            return e.status == 404
        return False

    def delete_pods(self) -> None:
        self.client.delete(PODS, {"gracePeriodSeconds": 0})
        until(lambda: not self.client.get(PODS)["items"])

    def shares(self, pod: JsonObject) -> list[tuple[str, int, int]]:
        """(card, MiB, percent) of all containers of a pod."""
        text = (pod["metadata"].get("annotations") or {}).get(ALLOCATED, "")
        return [
            (share.uuid, share.memory_units, share.compute_percent)
            for container in decode_shares(text)
            for share in container
        ]

    def placed(self) -> dict[str, dict[str, list[tuple[int, int]]]]:
        """Node -> card -> (MiB, percent) of each share of a bound pod."""
        nodes: dict[str, dict[str, list[tuple[int, int]]]] = {}
        for pod in self.client.get(PODS)["items"]:
            if node := pod["spec"].get("nodeName"):
                for card, mib, percent in self.shares(pod):
                    nodes.setdefault(node, {}).setdefault(card, []).append((mib, percent))
        return nodes

    def counts(self) -> list[list[int]]:
        """Shares on each card that is used, by node, largest first, as in the inputs."""
        used = self.placed().values()
        by_node = [sorted(map(len, cards.values()), reverse=True) for cards in used]
        return sorted(by_node, reverse=True)


def share_pod(name: str, *, memory_mib: int | None, percent: int, cards: int = 1) -> JsonObject:
    requests = {NUMBER: str(cards), CORES: str(percent)}
    if memory_mib is not None:
        requests[MEMORY] = str(memory_mib)
    container = {"name": "main", "image": IMAGE, "resources": {"limits": requests}}
    tolerations = [{"operator": "Exists"}]
    spec = {"schedulerName": "volcano", "containers": [container], "tolerations": tolerations}
    annotations = {"volcano.sh/vgpu-mode": "hami-core"}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def until(condition: Callable[[], Any], timeout_s: float = _WAIT_S) -> None:
    """An ApiError counts as not yet."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if condition():
                return
            problem = ""
        except ApiError as e:
            problem = str(e)
        assert time.monotonic() < deadline, f"it did not happen in {timeout_s} s {problem}"
        time.sleep(0.1)


def _resources(cards: int) -> dict[str, str]:
    return {
        NUMBER: str(cards * SHARING.shares_per_card),
        MEMORY: str(cards * CARD_MIB),
        CORES: str(cards * 100),
    }


def _ready(node: JsonObject) -> bool:
    return any(
        c["type"] == "Ready" and c["status"] == "True"
        for c in node["status"].get("conditions") or ()
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def running(
    directory: Path, toolchain: Toolchain, scheduler: Path, controllers: Path
) -> Iterator[VolcanoCluster]:
    environment = directory / "environment"
    cluster = None
    try:
        endpoint = control_plane.start(environment, "volcano", toolchain)
        cluster = VolcanoCluster(directory, endpoint.kubeconfig, scheduler, controllers)
        yield cluster
    finally:
        if cluster is not None:
            cluster.stop()
        processes.end_leftovers(environment)
