"""Faults of a pool in service, drawn from a seed, and how people put right what they have left.

Each tells what it did in a line; `Drawn.log` has them with their times.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.session import Session

from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.rehearsal.clouds.aws.state import NODE_GROUPS
from slicewright.rehearsal.clouds.core.fault_file import SpotPreemption
from slicewright.rehearsal.clouds.core.store import Store
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.cluster.kubelet.nodes.holds import Holds
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.scenario import faults
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.errors import RehearsalError
from tests.rehearsal.cluster.kubelet.simulated_cluster import pids_with
from tests.rehearsal.scenario.whole_run.fleet_watcher import NODES, PODS, POOLS
from tests.rehearsal.scenario.whole_run.invariants import (
    CHANGE,
    POOL,
    STATE,
    Invariants,
    read_node,
    read_pod,
)

_SYSTEM = "/api/v1/namespaces/slicewright-system/pods"
_OPERANDS = "/api/v1/namespaces/gpu-operator/pods"
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/slicewright-system/leases/fleet-controller"
_ROLLOUT = "slicewright.io/rollout"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What `pulumi up` writes for a layout, as it was found after one: applied again, the pool
    changes as by another `up`, without the engine.
    """

    pool: Mapping[str, Any]
    """The spec of the GPUPool."""
    desired: Mapping[str, Any]
    """The ConfigMap with the desired state of the agents."""
    agents: Mapping[str, Any]
    """The template of the agents' DaemonSet."""


@dataclass
class Fleet:
    """One pool of a rehearsal on EKS, and what can be done to it."""

    environment: Environment
    client: Client
    pool: str
    invariants: Invariants
    broken: set[str] = field(default_factory=set)
    """Nodes with GPUs that were spoilt or held."""
    missing: set[str] = field(default_factory=set)
    """Nodes whose Node object was deleted, while their machines run."""
    cut: set[str] = field(default_factory=set)
    """Nodes with a GPU that somebody has partitioned by hand."""
    taken: int = 0
    """Machines that the cloud has taken."""

    @property
    def cluster(self) -> str:
        (name,) = self.environment.kubeconfigs()
        return name

    def nodes(self) -> list[dict[str, Any]]:
        found = self.client.get(NODES, labelSelector=f"{POOL}={self.pool}")["items"]
        return sorted(found, key=lambda node: str(node["metadata"]["name"]))

    def status(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.client.get(f"{POOLS}/{self.pool}")
        return found

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason; of the generation that is wanted now, or else `Old`."""
        pool = self.status()
        for one in (pool.get("status") or {}).get("conditions") or ():
            if one["type"] == kind:
                if one["observedGeneration"] != pool["metadata"]["generation"]:
                    return "Old", one["reason"]
                return one["status"], one["reason"]
        return "", ""

    # -- the controller and the API server

    def holder(self) -> str:
        """Which run of which pod holds the lease; empty: none."""
        return str(self.client.get(_LEASE)["spec"].get("holderIdentity") or "")

    def leader(self) -> str:
        """The pod that holds the lease; empty: none."""
        return self.holder().partition("_")[0]

    def kill(self, pod: str) -> bool:
        """SIGKILL to all processes of a pod of ours; whether there was one."""
        found = self.client.get(f"{_SYSTEM}/{pod}")
        address = (found.get("status") or {}).get("podIP")
        pids = pids_with(f"SLICEWRIGHT_REHEARSAL_POD_ADDRESS={address}") if address else []
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(pids)

    def pods_of(self, name: str) -> list[str]:
        found = self.client.get(_SYSTEM, labelSelector=f"app.kubernetes.io/name={name}")["items"]
        return sorted(
            str(pod["metadata"]["name"])
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
        )

    def restart_api_server(self, number: signal.Signals) -> None:
        """Its data stay, in etcd. Returns when it is ready again."""
        root = self.environment.root
        name = f"kube-apiserver-{self.cluster}"
        running = processes.find(root, name)
        assert running is not None
        port = urlsplit(self.client.server).port
        os.kill(running.pid, number)
        deadline = time.monotonic() + 180
        while processes.find(root, name) is not None:
            assert time.monotonic() < deadline, f"{name} does not end"
            time.sleep(0.05)
        # Its last thread may hold the port a moment longer; with another one, no client would find
        # the API server again.
        while not _is_free(port):
            assert time.monotonic() < deadline, f"port {port} is not free again"
            time.sleep(0.05)
        control_plane.start(root, self.cluster, self.environment.toolchain)

    # -- the machines

    def index(self, node: str) -> int | None:
        """Its number in the node group."""
        records = Store(self.environment.root / "cloud").values(NODE_GROUPS)
        found = {
            one["name"]: one["index"]
            for group in records
            if group["nodegroup"]["nodegroupName"] == self.pool
            for one in group["nodes"]
        }
        return found.get(node)

    def preempt(self, node: str) -> bool:
        """The cloud ends the machine, and starts another. Returns at once."""
        number = self.index(node)
        if number is None:
            return False
        # Each is another fault: one that has happened does not happen again.
        self.taken += 1
        fault = SpotPreemption(pool=self.pool, node=number, after_s=self.taken / 1000)
        faults.inject(self.environment, fault)
        return True

    def scale(self, desired: int) -> str:
        """Why it was refused; empty where it was not."""
        variables = self.environment.variables()
        client = Session().create_client(
            "eks",
            region_name="eu-west-1",
            endpoint_url=variables["AWS_ENDPOINT_URL"],
            aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
            config=Config(proxies={}),
        )
        scaling = {"minSize": 8, "desiredSize": desired, "maxSize": 9}
        try:
            client.update_nodegroup_config(
                clusterName=self.cluster, nodegroupName=self.pool, scalingConfig=scaling
            )
        except ClientError as e:
            return str(e)
        return ""

    def silicon(self, node: str) -> Path | None:
        found = list(self.environment.root.glob(f"clusters/*/nodes/{node}/silicon/state"))
        return found[0] if found else None

    def use(self, node: str) -> bool:
        """A process of nobody's pod uses the first partition, so that it cannot be destroyed."""
        silicon = self.silicon(node)
        if silicon is None:
            return False
        (first, *_) = state.load(silicon).gpus
        if not first.instances or not first.instances[0].compute_instances:
            return False
        gi = first.instances[0]
        process = state.Process(gpu=0, pid=4242, gi=gi.id, ci=gi.compute_instances[0].id)
        state.run_process(silicon, process)
        self.broken.add(node)
        return True

    def stray_programs_end(self) -> None:
        """Those of `use`; nobody repairs anything."""
        for silicon in self.environment.root.glob("clusters/*/nodes/*/silicon/state"):
            state.end_processes(silicon)

    def cut_by_hand(self, node: str) -> bool:
        """As somebody with nvidia-smi, who tells mig-manager nothing."""
        silicon = self.silicon(node)
        if silicon is None or not state.load(silicon).gpus[3].mig:
            return False
        state.repartition(silicon, 3, ["2g.10gb"] * 3)
        self.cut.add(node)
        return True

    def mig_managers(self, node: str) -> list[str]:
        """Uids of its pods of mig-manager."""
        found = self.client.get(
            _OPERANDS, labelSelector="app=nvidia-mig-manager", fieldSelector=f"spec.nodeName={node}"
        )["items"]
        return [str(pod["metadata"]["uid"]) for pod in found]

    def restart_mig_manager(self, node: str) -> None:
        """What the pages advise where mig-manager has failed or hangs."""
        pods = self.client.get(
            _OPERANDS, labelSelector="app=nvidia-mig-manager", fieldSelector=f"spec.nodeName={node}"
        )["items"]
        for pod in pods:
            with suppress(ApiError):
                self.client.delete(f"{_OPERANDS}/{pod['metadata']['name']}")

    # -- the pool

    def layout(self) -> Layout:
        """As the pool has it now."""
        pool = self.status()["spec"]
        system = "slicewright-system"
        maps = f"/api/v1/namespaces/{system}/configmaps"
        desired = self.client.get(f"{maps}/desired-{self.pool}-{pool['layoutHash'][:8]}")
        agents = self.client.get(f"{self._agents}")
        return Layout(
            pool=pool,
            desired={**desired, "metadata": {"name": desired["metadata"]["name"]}},
            agents=agents["spec"]["template"],
        )

    def want(self, layout: Layout) -> None:
        """What an `up` writes, in its order."""
        maps = "/api/v1/namespaces/slicewright-system/configmaps"
        try:
            self.client.create(maps, dict(layout.desired))
        except ApiError as e:
            if e.status != 409:
                raise
        self.client.patch(self._agents, {"spec": {"template": layout.agents}}, kind="merge")
        self.client.patch(f"{POOLS}/{self.pool}", {"spec": layout.pool}, kind="merge")

    def ask(self, what: str | None) -> None:
        """Of the rollout: paused, aborted, undo:LAYOUT; None resumes it."""
        note = {"metadata": {"annotations": {_ROLLOUT: what}}}
        self.client.patch(f"{POOLS}/{self.pool}", note, kind="merge")

    @property
    def _agents(self) -> str:
        system = "/apis/apps/v1/namespaces/slicewright-system"
        return f"{system}/daemonsets/node-agent-{self.pool}"

    # -- afterwards

    def kubelets_report(self) -> None:
        """What kubelets do and kwok does not: pods that were called unready because their node was
        not heard of are ready again when it is.
        """
        heard = {node["metadata"]["name"] for node in self.nodes() if read_node(node, 0.0).ready}
        ready = [{"type": kind, "status": "True"} for kind in ("ContainersReady", "Ready")]
        for raw in self.client.get(PODS)["items"]:
            pod = read_pod(raw, 0.0, {})
            running = raw["status"].get("phase") == "Running" and not pod.leaving
            if running and not pod.healthy and pod.node in heard:
                path = f"{PODS}/{raw['metadata']['name']}/status"
                with suppress(ApiError):
                    self.client.patch(path, {"status": {"conditions": ready}}, kind="strategic")

    def put_right(self) -> None:
        """Everything that a fault has spoilt and that no controller can mend, by the means that
        the pages name.
        """
        faults.repair(self.environment)
        for silicon in self.environment.root.glob("clusters/*/nodes/*/silicon/state"):
            state.heal(silicon)
        self.stray_programs_end()
        self.broken.clear()
        self.ask(None)
        for name in sorted(self.invariants.cordoned_by_people):
            with suppress(ApiError):
                self.client.patch(f"{NODES}/{name}", {"spec": {"unschedulable": None}})
        self.invariants.cordoned_by_people.clear()
        for name in sorted(self.missing):
            self.preempt(name)
        self.missing.clear()
        for node in self.nodes():
            name = node["metadata"]["name"]
            if node["metadata"]["labels"].get(STATE) in ("failed", "pending") or name in self.cut:
                self.restart_mig_manager(name)
        self.cut.clear()


def _is_free(port: int | None) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            tried.bind(("127.0.0.1", port or 0))
            return True
    return False


@dataclass
class Drawn:
    """Faults in the order of a seed. The same seed makes the same choices for the same nodes."""

    fleet: Fleet
    layouts: Sequence[Layout]
    seed: int
    now: Callable[[], float]
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._wanted = 0
        self._kinds: Mapping[str, tuple[int, Callable[[str], str]]] = {
            # Weight, and what it does to the node that is drawn; "" where it cannot be done now.
            "another layout": (4, self._another_layout),
            "the acting controller is killed": (2, self._kill_leader),
            "the other controller is killed": (1, self._kill_standby),
            "the API server is restarted": (1, self._api_server),
            "a Node is deleted": (1, self._delete_node),
            "a spot machine is taken": (2, self._preempt),
            "a node reboots": (3, self._reboot),
            "mig-manager hangs": (2, self._hang),
            "a process keeps a partition": (2, self._use),
            "an Xid": (1, self._xid),
            "a GPU is lost": (1, self._lose),
            "a GPU is partitioned by hand": (1, self._cut),
            "people ask": (3, self._ask),
            "an agent is killed": (2, self._kill_agent),
            "the pool is scaled": (1, self._scale),
            "people cordon a node": (1, self._cordon),
            "people put something right": (3, self._mend),
        }

    def one(self) -> None:
        """Draws until one can be done, and does it."""
        while True:
            kinds = list(self._kinds)
            weights = [self._kinds[kind][0] for kind in kinds]
            kind = self._random.choices(kinds, weights)[0]
            draw = self._random.random()
            try:
                nodes = [node["metadata"]["name"] for node in self.fleet.nodes()]
                node = nodes[int(draw * len(nodes))]
                done = self._kinds[kind][1](node)
            except (ApiError, Unreachable, RehearsalError) as e:
                done = f"not done: {e}"
            if done:
                self.tell(f"{kind}: {done}")
                return

    def tell(self, what: str) -> None:
        line = f"{self.now():7.1f} s  {what}"
        self.log.append(line)
        print(line, flush=True)

    def pause_s(self) -> float:
        return self._random.uniform(1.0, 15.0)

    def _another_layout(self, node: str) -> str:
        self._wanted = (self._wanted + 1) % len(self.layouts)
        self.fleet.want(self.layouts[self._wanted])
        return f"{self.layouts[self._wanted].pool['migConfig']} is wanted"

    def put_right(self) -> bool:
        self.fleet.put_right()
        # Whole: an API server that was ended may have taken a part of it.
        self.fleet.want(self.layouts[self._wanted])
        if len(self.fleet.nodes()) > 8:
            self.fleet.scale(8)
        return True

    def _kill_leader(self, node: str) -> str:
        leader = self.fleet.leader()
        return leader if leader and self.fleet.kill(leader) else ""

    def _kill_standby(self, node: str) -> str:
        leader = self.fleet.leader()
        others = [pod for pod in self.fleet.pods_of("fleet-controller") if pod != leader]
        return others[0] if others and self.fleet.kill(others[0]) else ""

    def _api_server(self, node: str) -> str:
        number = self._random.choice([signal.SIGTERM, signal.SIGKILL])
        self.tell(f"the API server gets {number.name}")
        self.fleet.restart_api_server(number)
        return "it is ready again"

    def _delete_node(self, node: str) -> str:
        if self.fleet.missing:
            return ""
        self.fleet.client.delete(f"{NODES}/{node}")
        self.fleet.missing.add(node)
        return node

    def _preempt(self, node: str) -> str:
        return node if self.fleet.preempt(node) else ""

    def _reboot(self, node: str) -> str:
        down_s = self._random.choice([0.0, 6.0])
        faults.reboot(self.fleet.environment, node, down_s=down_s)
        return f"{node}, down for {down_s:g} s"

    def _hang(self, node: str) -> str:
        if node in self.fleet.broken:
            return ""
        faults.hold(self.fleet.client, node, Holds(partitioning_from=0))
        self.fleet.broken.add(node)
        return node

    def _use(self, node: str) -> str:
        return node if node not in self.fleet.broken and self.fleet.use(node) else ""

    def _xid(self, node: str) -> str:
        silicon = self.fleet.silicon(node)
        if silicon is None:
            return ""
        # 48, a double-bit error, after which the driver asks for a reset.
        state.record_xid(silicon, 1, 48)
        state.set_health(silicon, 1, recovery_action=1)
        self.fleet.broken.add(node)
        return f"48 on GPU 1 of {node}"

    def _lose(self, node: str) -> str:
        silicon = self.fleet.silicon(node)
        if silicon is None:
            return ""
        state.lose(silicon, 2)
        self.fleet.broken.add(node)
        return f"GPU 2 of {node}"

    def _cut(self, node: str) -> str:
        return f"GPU 3 of {node}" if self.fleet.cut_by_hand(node) else ""

    def _ask(self, node: str) -> str:
        undo = f"undo:{self.layouts[self._wanted].pool['migConfig']}"
        asked = self._random.choice(["paused", "aborted", undo, None, None])
        self.fleet.ask(asked)
        return asked or "resumed"

    def _kill_agent(self, node: str) -> str:
        pods = self.fleet.pods_of("node-agent")
        if not pods:
            return ""
        pod = self._random.choice(pods)
        if self._random.random() < 0.5:
            self.fleet.client.delete(f"{_SYSTEM}/{pod}")
            return f"{pod} is deleted"
        return pod if self.fleet.kill(pod) else ""

    def _scale(self, node: str) -> str:
        if self.fleet.missing:
            return ""
        desired = 8 if len(self.fleet.nodes()) > 8 else 9
        return f"to {desired} nodes {self.fleet.scale(desired)}"

    def _cordon(self, node: str) -> str:
        found = self.fleet.client.get(f"{NODES}/{node}")
        changes = CHANGE in (found["metadata"].get("annotations") or {})
        if changes or self.fleet.invariants.cordoned_by_people:
            return ""
        self.fleet.invariants.cordoned_by_people.add(node)
        self.fleet.client.patch(f"{NODES}/{node}", {"spec": {"unschedulable": True}})
        return node

    def _mend(self, node: str) -> str:
        if not (self.fleet.broken or self.fleet.missing or self.fleet.cut):
            return ""
        self.fleet.put_right()
        return "GPUs, holds, cordons of theirs, missing machines"
