"""What the fleet controller costs: `python benchmarks/controller.py [NODES]`, 2,000 by default.

Real etcd and API server; the controller as it ships, with the rights of its account. Nodes are
kwok's; mig-manager and the node agents are played by this program, which writes labels and reports.

Two parts. A pass alone, in this process, without a cluster: processor time by the number of nodes.
And nodes that join at once, an eighth of them and all: they are there with the startup taint when
the controller starts, get their layout, and then all their reports come at once. Counted are the
controller's requests, its processor time, and its memory at the most. Other load of the machine
makes longer what passes, and the API server, etcd, kwok and this program share it; scheduler and
controller manager are ended once the nodes are there.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slicewright.apis import custom_resources, names, rights
from slicewright.fleet_controller.cluster.bound_pods import Nodes
from slicewright.fleet_controller.decision.actions import SetPoolStatus
from slicewright.fleet_controller.decision.decide import decide
from slicewright.fleet_controller.decision.inspection import (
    silent_agents,
    to_inspect,
    unverified_nodes,
)
from slicewright.fleet_controller.membership.membership import memberships
from slicewright.fleet_controller.objects.bounds import stamp
from slicewright.fleet_controller.objects.condition import Condition
from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.pool import Pool
from slicewright.fleet_controller.objects.report import Report
from slicewright.kubeapi import ApiError, Client, list_all
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.cluster.control_plane import kwok
from slicewright.rehearsal.cluster.control_plane.parts import process_name
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.toolchain import ensure

_NODES, _POOLS = 2000, 100
_OF_A_POOL = 20
"""Nodes: what a pool costs by itself is the same share at every size."""
_PASSES = 15
_TIMES_FEW = 5
"""How often the fewer nodes join: they do it in three seconds, which differ by a tenth. The median
by processor time counts.
"""
_QUIET_S = 30.0
_AT_ONCE = 16
"""As the controller."""
_ACCOUNT = names.CONTROLLER_SERVICE_ACCOUNT
_HASH = "a" * 64
_LAYOUT = "all-1g.10gb-bench"
_PROCESS = Path(__file__).with_name("controller_process.py")
_REPORTS = path_of(names.API_VERSION, names.REPORT_PLURAL)
_POOLS_PATH = path_of(names.API_VERSION, names.POOL_PLURAL)
_NODES_PATH = path_of("v1", "nodes")
_BYSTANDERS = ("kube-scheduler", "kube-controller-manager")
"""Each reads every change of every node, and neither does anything for one that joins. Where kwok
gets too little of a processor for its heartbeats, the latter calls nodes NotReady, and the
controller holds them again, so that the bench measures the machine.
"""
_LABELS = 60
"""Of NVIDIA's and of Node Feature Discovery, on every node."""


def main() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    parser = argparse.ArgumentParser(prog="benchmarks/controller.py")
    parser.add_argument("nodes", nargs="?", type=int, default=_NODES, help="%(default)s")
    count: int = parser.parse_args().nodes
    few = count // 8
    if few < 1:
        parser.error(f"argument nodes: {count}: must be 8 or more, as an eighth joins alone, too")
    print(f"a pass over nodes in {_POOLS} pools; processor time, median of {_PASSES}:")
    alone = {nodes: _pass_s(nodes, at_rest=True) for nodes in (few, count)}
    for nodes, took in alone.items():
        print(f"  {nodes:>5} nodes at rest {took * 1e3:8.1f} ms")
    busy = _pass_s(count, at_rest=False)
    print(f"  {count:>5} nodes, all of them to be released {busy * 1e3:8.1f} ms")
    of_few = sorted((_joined(few) for _ in range(_TIMES_FEW)), key=lambda one: one.cpu_s)
    joined = {few: of_few[_TIMES_FEW // 2], count: _joined(count)}
    largest = joined[count]
    print("goals:")
    _goal(f"a pass over {count} nodes in {_POOLS} pools", alone[count] * 1e3, 50, "ms")
    _goal("the same, with all of them to be released", busy * 1e3, 50, "ms")
    _goal("a pass: growth of time / growth of nodes", _growth(alone), 1, "")
    _goal(f"{count} nodes, from the first report to the last release", largest.took_s, 60, "s")
    _goal("requests a node, of the controller", largest.requests / count, 6, "")
    _goal("memory at the most, relist included (VmHWM)", largest.most_mb, 250, "MB")
    used = {nodes: one.cpu_s for nodes, one in joined.items()}
    _goal("joining: growth of processor time / growth of nodes", _growth(used), 1, "")
    _goal("at rest, with heartbeats and renewed reports", largest.quiet * 100, 2, "% of a core")


def _goal(what: str, found: float, most: float, unit: str) -> None:
    print(
        f"  {what:<58} {found:8.2f} {unit}, goal <= {most:g} {unit}: "
        f"{'met' if found <= most else 'NOT met'}"
    )


def _growth(by_nodes: Mapping[int, float]) -> float:
    (few, least), (many, most) = sorted(by_nodes.items())
    return (most / least) / (many / few)


def _pass_s(count: int, *, at_rest: bool) -> float:
    """Processor time of what the loop decides in a pass of which nothing follows; or, where it is
    not at rest, two writes for each node: all have been proven since the pass before.
    """
    now = 1_800_000_000.0
    pools = [_pool(f"p{i}", now) for i in range(min(_POOLS, count))]
    members = [_member(i, pools[i % len(pools)].name, now) for i in range(count)]
    nodes, reports = [node for node, _ in members], {node.name: told for node, told in members}
    if not at_rest:
        held = (*nodes[0].taint_keys, names.STARTUP_TAINT_KEY)
        nodes = [
            replace(node, taint_keys=held, condition=None, verified_boot="", verified_layout="")
            for node in nodes
        ]
    first = decide(pools, nodes, reports, {}, {}, now)
    found = {one.pool: one.status for one in first.actions if isinstance(one, SetPoolStatus)}
    pools = [
        replace(p, status={k: v for k, v in found[p.name].items() if v is not None}) for p in pools
    ]

    def one_pass() -> None:
        present = memberships(pools, nodes)
        to_inspect(pools, nodes, now, present=present)
        silent_agents(pools, nodes, reports, now, present=present)
        unverified_nodes(pools, nodes, present=present)
        decided = decide(pools, nodes, reports, {}, {}, now, present=present).actions
        assert len(decided) == (0 if at_rest else 2 * count)

    def timed() -> float:
        began = time.process_time()
        one_pass()
        return time.process_time() - began

    one_pass()  # what is computed once for each node
    return statistics.median(timed() for _ in range(_PASSES))


def _pool(name: str, now: float) -> Pool:
    return Pool(
        name=name,
        uid=f"uid-{name}",
        generation=1,
        created=now - 1000,
        selector={names.POOL_LABEL: name},
        layout_hash=_HASH,
        fewest=1,
        mig_config=_LAYOUT,
        status={},
    )


def _member(number: int, pool: str, now: float) -> tuple[Node, Report]:
    name = f"node-{number:05}"
    said = Condition(
        status="True", reason="PartitionsMatch", message="m", changed=now - 500, written=now - 500
    )
    labels = {**_labels(pool), names.MIG_CONFIG_LABEL: _LAYOUT, names.MIG_STATE_LABEL: "success"}
    node = Node(
        name=name,
        uid=f"uid-{name}",
        version="1",
        created=now - 1000,
        boot_id=f"boot-{name}",
        verified_boot=f"boot-{name}",
        verified_layout=_LAYOUT,
        ready=True,
        labels=labels,
        taint_keys=("nvidia.com/gpu",),
        condition=said,
        leaving=False,
    )
    told = Report(
        name=name,
        owner_uid=node.uid,
        verdict="Match",
        reason="PartitionsMatch",
        message="m",
        pool=pool,
        layout_hash=_HASH,
        boot_id=node.boot_id,
        time=now - 5,
    )
    return node, told


def _labels(pool: str) -> dict[str, str]:
    features = {f"feature.node.kubernetes.io/cpu-cpuid.F{i}": "true" for i in range(_LABELS)}
    return {names.POOL_LABEL: pool, **features}


@dataclass(frozen=True, kw_only=True)
class Joined:
    took_s: float
    """From the first report to the last release."""
    requests: int
    """Of the controller until then, those for its Lease left out."""
    cpu_s: float
    """Processor time of the controller until then, from its start."""
    most_mb: float
    quiet: float
    """Fraction of a core, over `_QUIET_S` after that."""


def _joined(count: int) -> Joined:
    tools = ensure(lambda line: print(line, file=sys.stderr))
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        environment = Path(directory)
        endpoint = control_plane.start(environment, "c", tools)
        try:
            cluster = _Cluster(Client.from_kubeconfig(endpoint.kubeconfig, timeout_s=60), count)
            cluster.install()
            cluster.make_nodes()
            for kind in _BYSTANDERS:
                if running := processes.find(environment, process_name(kind, "c")):
                    processes.stop(running)
            account = environment / "account"
            account.mkdir()
            (account / "token").write_text(cluster.token())
            (account / "ca.crt").write_bytes(endpoint.ca_pem)
            with _controller(endpoint.server, account, environment) as process:
                measured = cluster.measure(process, environment / "counts")
            cluster.end()
            return measured
        finally:
            control_plane.remove(environment, "c")


@contextlib.contextmanager
def _controller(server: str, account: Path, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    at = urlsplit(server)
    counts = directory / "counts"
    argv = [sys.executable, str(_PROCESS), str(at.hostname), str(at.port), str(account)]
    with (directory / "controller.log").open("wb") as log:
        process = subprocess.Popen([*argv, str(counts)], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=120)


class _Cluster:
    """The nodes of one size, in at most `_POOLS` pools, and what the others do with them."""

    def __init__(self, admin: Client, count: int) -> None:
        self._admin = admin
        self._names = [f"node-{i:05}" for i in range(count)]
        pools = max(1, min(_POOLS, count // _OF_A_POOL))
        self._pools = [f"p{i}" for i in range(pools)]
        self._uids: dict[str, str] = {}
        # Followed, because a list of thousands again and again would be most of the load.
        self._known = Nodes(threading.Event())
        self._over = threading.Event()
        follow = threading.Thread(
            target=self._known.follow, args=(self._admin, self._over), daemon=True
        )
        follow.start()

    def end(self) -> None:
        self._over.set()

    def install(self) -> None:
        """CRDs, the controller's account and rights, and pools."""
        namespace = {"metadata": {"name": names.NAMESPACE}}
        self._admin.create("/api/v1/namespaces", namespace)
        accounts = f"/api/v1/namespaces/{names.NAMESPACE}/serviceaccounts"
        self._admin.create(accounts, {"metadata": {"name": _ACCOUNT}})
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for crd in custom_resources.crds():
            self._admin.create(definitions, crd)
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        subject = {"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": names.NAMESPACE}
        roles = {"": rights.CONTROLLER_RULES, **rights.CONTROLLER_NAMESPACE_RULES}
        for where, rules in roles.items():
            kind = "Role" if where else "ClusterRole"
            path = f"{rbac}/namespaces/{where}" if where else rbac
            metadata = {"name": "controller"}
            role = {"metadata": metadata, "rules": [dict(rule) for rule in rules]}
            self._admin.create(f"{path}/{kind.lower()}s", role)
            of = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "controller"}
            bound = {"metadata": metadata, "roleRef": of, "subjects": [subject]}
            self._admin.create(f"{path}/{kind.lower()}bindings", bound)
        for name in self._pools:
            _until(partial(self._made_pool, name), f"pool {name} is made")

    def _made_pool(self, name: str) -> bool:
        pool = {
            "apiVersion": names.API_VERSION,
            "kind": names.POOL_KIND,
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {names.POOL_LABEL: name}},
                "layoutHash": _HASH,
                "expectedNodes": {"min": 1, "max": 5000},
                "migConfig": _LAYOUT,
            },
        }
        try:
            self._admin.create(_POOLS_PATH, pool)
        except ApiError as e:
            return e.reason == "AlreadyExists"
        return True

    def token(self) -> str:
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/{names.NAMESPACE}/serviceaccounts/{_ACCOUNT}/token"
        return str(self._admin.create(path, request)["status"]["token"])

    def make_nodes(self) -> None:
        self._each(self._make_node)
        _until(
            lambda: sum(node.ready for node in self._nodes()) == len(self._names),
            "kwok has all nodes Ready",
        )

    def _make_node(self, name: str) -> None:
        annotation, _, value = kwok.NODE_ANNOTATION.partition("=")
        pool = self._pools[int(name.rpartition("-")[2]) % len(self._pools)]
        node = {
            "metadata": {
                "name": name,
                "labels": _labels(pool),
                "annotations": {annotation: value},
            },
            "spec": {"taints": [dict(names.STARTUP_TAINT)]},
        }
        made = self._admin.create(_NODES_PATH, node)
        self._uids[name] = made["metadata"]["uid"]
        resources = {"cpu": "96", "memory": "1000Gi", "pods": "110", "nvidia.com/mig-1g.10gb": "56"}
        information = dict.fromkeys(_NODE_INFORMATION, "x") | {"bootID": f"boot-{name}"}
        status = {"capacity": resources, "allocatable": resources, "nodeInfo": information}
        self._admin.patch(f"{_NODES_PATH}/{name}/status", {"status": status}, kind="merge")

    def _nodes(self) -> tuple[Node, ...]:
        return tuple(self._known.all().values())

    def measure(self, process: subprocess.Popen[bytes], counts: Path) -> Joined:
        def asked() -> bool:
            assert process.poll() is None, "the controller has ended"
            return all(node.mig_config == _LAYOUT and node.condition for node in self._nodes())

        began = time.monotonic()
        _until(asked, "every node is asked for its layout")
        laid_out = time.monotonic() - began
        self._each(self._mig_manager_is_done)
        began = time.monotonic()
        self._each(self._report)
        written = time.monotonic() - began
        _until(lambda: not any(node.held for node in self._nodes()), "every node is released")
        took = time.monotonic() - began
        _until(self._all_verified, "every pool is verified")
        time.sleep(2.0)  # the counts are written once a second
        requests = json.loads(counts.read_text())
        used = _cpu_s(process.pid)
        began = time.monotonic()
        self._each(self._three_writes)
        bare = time.monotonic() - began
        quiet = self._quiet(process.pid)
        most = int(_status(process.pid)["VmHWM"].split()[0]) * 1024 / 1e6
        print(
            f"{len(self._names)} nodes in {len(self._pools)} pools join: layouts asked for "
            f"{laid_out:.1f} s after the controller's start; all reports written within "
            f"{written:.1f} s, all nodes released {took:.1f} s after the first"
        )
        print(f"  as many bare writes (3 a node) of this program take {bare:.1f} s")
        print(f"  requests: {', '.join(f'{k} {n}' for k, n in sorted(requests.items()))}")
        print(f"  processor time {used:.1f} s, memory at the most {most:.0f} MB")
        return Joined(
            took_s=took,
            requests=sum(n for kind, n in requests.items() if "leases" not in kind),
            cpu_s=used,
            most_mb=most,
            quiet=quiet,
        )

    def _three_writes(self, name: str) -> None:
        """What a release takes, its report included; nothing is decided, and nobody waits."""
        for number in range(3):
            patch = {"metadata": {"annotations": {"bench": str(number)}}}
            self._admin.patch(f"{_NODES_PATH}/{name}", patch, kind="merge")

    def _all_verified(self) -> bool:
        pools = list_all(self._admin, _POOLS_PATH).items
        return all(
            any(c["type"] == "Verified" and c["status"] == "True" for c in _conditions(pool))
            for pool in pools
        )

    def _mig_manager_is_done(self, name: str) -> None:
        patch = {"metadata": {"labels": {names.MIG_STATE_LABEL: "success"}}}
        self._admin.patch(f"{_NODES_PATH}/{name}", patch, kind="merge")

    def _report(self, name: str) -> None:
        pool = self._pools[int(name.rpartition("-")[2]) % len(self._pools)]
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self._uids[name]}
        report = {
            "apiVersion": names.API_VERSION,
            "kind": names.REPORT_KIND,
            "metadata": {"name": name, "ownerReferences": [owner]},
            "report": {
                "verdict": "Match",
                "reason": "PartitionsMatch",
                "message": "8 GPUs as wanted (1g.10gb x7).",
                "pool": pool,
                "observedHash": _HASH,
                "bootID": f"boot-{name}",
                "time": stamp(time.time()),
                "gpus": [{"indexes": [*range(8)], "mig": "enabled", "instances": {"1g.10gb": 7}}],
            },
        }
        self._admin.create(_REPORTS, report)

    def _quiet(self, pid: int) -> float:
        """Processor time over time while kubelets and agents renew what they have said, as often as
        they do: a status in 5 minutes, a report in 6.
        """
        before, began, turn = _cpu_s(pid), time.monotonic(), 0
        a_second = len(self._names) * (1 / 300 + 1 / 360)
        while (passed := time.monotonic() - began) < _QUIET_S:
            if turn < passed * a_second:
                self._renew(self._names[turn % len(self._names)], of_node=turn % 11 < 6)
                turn += 1
            else:
                time.sleep(0.01)
        return (_cpu_s(pid) - before) / passed

    def _renew(self, name: str, *, of_node: bool) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if of_node:
            beat = {
                "status": {"conditions": [{"type": "MemoryPressure", "lastHeartbeatTime": now}]}
            }
            self._admin.patch(f"{_NODES_PATH}/{name}/status", beat, kind="strategic")
        else:
            self._admin.patch(f"{_REPORTS}/{name}", {"report": {"time": now}}, kind="merge")

    def _each(self, do: Callable[[str], None]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as workers:
            list(workers.map(do, self._names))


_NODE_INFORMATION = (
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
)


def _conditions(pool: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return (pool.get("status") or {}).get("conditions") or ()


def _until(holds: Callable[[], bool], what: str, timeout_s: float = 900.0) -> None:
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, f"not within {timeout_s:g} s: {what}"
        time.sleep(0.2)


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:13]) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
