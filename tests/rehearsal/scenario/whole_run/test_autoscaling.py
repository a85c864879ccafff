"""existing-a100-t4's model server under load: replicas go from 1 to 7 and back by Triton's own
queue metric, and what is killed or blind meanwhile brings none and costs none.

Prometheus, its operator, KEDA, Kubernetes' autoscaler, Locust and tritonserver are real; the
models' time on a GPU is simulated (docs/reference/simulated-monitoring.md, simulated-triton.md).
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

import pytest

from slicewright.infra import plan
from slicewright.infra.plan import ExistingFleetPlan
from slicewright.kubeapi import Client
from slicewright.rehearsal.cluster.kubelet.services.proxy import ADDRESS
from slicewright.rehearsal.cluster.node.root import NodeFiles
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.cluster.silicon.node_silicon import Load
from slicewright.rehearsal.host.toolchain import Toolchain, triton
from slicewright.rehearsal.scenario import existing_cluster, model_shares
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.cluster.kubelet.simulated_cluster import pids_with
from tests.rehearsal.scenario.whole_run.waiting import until

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(triton.why_not_here()), reason=str(triton.why_not_here())),
    pytest.mark.long(
        "replicas that follow a query, by the same KEDA and Prometheus: "
        "tests/rehearsal/cluster/monitoring/test_keda.py"
    ),
]
STACK = "existing-a100-t4-autoscaling"
NAME = "tritonserver"
DEPLOYMENT = f"/apis/apps/v1/namespaces/default/deployments/{NAME}"
SCALED = f"/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects/{NAME}"
AUTOSCALER = f"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/keda-hpa-{NAME}"
PROMETHEUS = "kube-prom-stack-kube-prome-prometheus"
MONITORS = "/apis/monitoring.coreos.com/v1/namespaces/monitoring/podmonitors"
OPERATED = f"/apis/monitoring.coreos.com/v1/namespaces/monitoring/prometheuses/{PROMETHEUS}"
LONG_S = 600
_AT_ONCE, _PER_S, _STABILIZATION_S = 3, 180, 60
"""Replicas come three at a time, with three minutes between: so the first stop is in the middle of
the range, and what sees nothing there could err in both directions.
"""


@dataclass
class Run:
    environment: Environment
    engine: Engine

    @property
    def client(self) -> Client:
        return Client.from_kubeconfig(self.environment.user_kubeconfig)

    def pods(self, namespace: str, beginning: str) -> list[dict[str, Any]]:
        """Those of the namespace whose name begins so, and that are not about to go."""
        found = self.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return [
            pod
            for pod in found
            if pod["metadata"]["name"].startswith(beginning)
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def measured(self, query: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series; none while Prometheus does not answer."""
        service = f"/api/v1/namespaces/monitoring/services/{PROMETHEUS}"
        address = self.client.get(service)["metadata"]["annotations"][ADDRESS]
        try:
            connection = http.client.HTTPConnection(address, 9090, timeout=30)
            connection.request("GET", f"/api/v1/query?{urlencode({'query': query})}")
            found = json.loads(connection.getresponse().read())["data"]["result"]
        except (OSError, ValueError, KeyError, http.client.HTTPException):
            return []
        return [(one["metric"], float(one["value"][1])) for one in found]

    def pods_of(self, namespace: str, deployment: str) -> list[dict[str, Any]]:
        """Not those of another Deployment whose name only begins so."""
        return [
            pod
            for pod in self.pods(namespace, deployment)
            if pod["metadata"]["ownerReferences"][0]["name"].rpartition("-")[0] == deployment
        ]

    def kill(self, namespace: str, deployment: str) -> None:
        """Every process of one of its pods; the kubelet starts its containers again."""
        pod = self.pods_of(namespace, deployment)[0]
        pids = pids_with(f"SLICEWRIGHT_REHEARSAL_POD_ADDRESS={pod['status']['podIP']}")
        assert pids, pod["metadata"]["name"]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def wanted(self) -> int:
        replicas: int = self.client.get(DEPLOYMENT)["spec"]["replicas"]
        return replicas

    def ready(self) -> int:
        replicas: int = self.client.get(DEPLOYMENT)["status"].get("readyReplicas", 0)
        return replicas

    def restarts(self, namespace: str, deployment: str) -> int:
        return sum(
            one["restartCount"]
            for pod in self.pods_of(namespace, deployment)
            for one in pod["status"].get("containerStatuses") or ()
        )

    def condition(self, path: str, kind: str) -> tuple[str, str]:
        """Status and reason of one of an object's conditions; empty where it has none."""
        conditions = (self.client.get(path).get("status") or {}).get("conditions") or ()
        found = (one for one in conditions if one["type"] == kind)
        return next(((one["status"], one.get("reason", "")) for one in found), ("", ""))

    def decided_by(self) -> list[str]:
        """The values by which Kubernetes' autoscaler has decided at its last look; none where it
        knew none.
        """
        status = self.client.get(AUTOSCALER).get("status") or {}
        if self.condition(AUTOSCALER, "ScalingActive")[0] != "True":
            return []
        return [
            (one.get("external") or {}).get("current", {}).get("value", "")
            for one in status.get("currentMetrics") or ()
        ]


@dataclass
class Seen:
    """The values of the Deployment's `spec.replicas`, in their order."""

    run: Run
    numbers: list[int] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Seen:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=60)

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            now = self.run.wanted()
            if self.numbers[-1:] != [now]:
                self.numbers.append(now)


@pytest.fixture(scope="module")
def run(
    make_environment_with_all_tools: Callable[[str], Environment], whole_toolchain: Toolchain
) -> Run:
    environment = make_environment_with_all_tools(STACK)
    stack_file = environment.stack_file(STACK)
    pace = f"scale_up: {{ replicas: {_AT_ONCE}, per: {_PER_S}s }}"
    text, changed = re.subn(
        r"( +)scale_down: { stabilization: 1m }.*", rf"\g<0>\n\g<1>{pace}", stack_file.read_text()
    )
    assert changed == 1
    stack_file.write_text(text)
    fleet = plan.read_file(environment.stack_file(STACK))
    assert isinstance(fleet, ExistingFleetPlan)
    existing_cluster.make(environment, fleet)
    engine = Engine(environment, STACK, print)
    assert engine.init().code == 0
    model_shares.fill(environment, fleet, print)
    up = engine.up()
    assert up.code == 0, up.output
    return Run(environment, engine)


def asks(run: Run, *options: str) -> list[str]:
    """`slicewright load` with sixty users."""
    command = [sys.executable, "-m", "slicewright.cli", "load", NAME, "--users", "60", "--json"]
    command += ["-s", str(run.environment.stack_file(STACK)), "--model", "densenet_onnx"]
    command += ["--kubeconfig", str(run.environment.user_kubeconfig)]
    return [*command, *options]


@pytest.fixture
def load(run: Run) -> Iterator[subprocess.Popen[str]]:
    """By the address of the Service, until it is ended."""
    command = asks(run, "--duration", "1h")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        if process.poll() is None:
            process.kill()


def test_workload_starts_with_one_replica_and_kedas_autoscaler(run: Run) -> None:  # S4-45
    assert (run.wanted(), run.ready()) == (1, 1)
    made = run.client.get(AUTOSCALER)["spec"]
    assert (made["minReplicas"], made["maxReplicas"]) == (1, 7)
    (condition,) = (
        one for one in run.client.get(SCALED)["status"]["conditions"] if one["type"] == "Ready"
    )
    assert condition["status"] == "True"


def test_agent_controller_and_server_are_scraped_and_the_fleets_rules_have_values(
    run: Run,
) -> None:
    until(
        lambda: (
            {labels["job"] for labels, _ in run.measured("up == 1")}
            >= {
                "monitoring/node-agent",
                "monitoring/fleet-controller",
                "monitoring/dcgm-exporter",
                f"monitoring/workload-default-{NAME}",
            }
        ),
        "Prometheus reads agent, controller, server and DCGM's exporter",
        LONG_S,
    )
    # Of the controller: the one node of the pool is proven.
    until(
        lambda: (
            run.measured("pool:slicewright_nodes_proven:ratio")
            == [({"__name__": "pool:slicewright_nodes_proven:ratio", "pool": "a100-40gb"}, 1.0)]
        ),
        "the pool's node is proven to Prometheus too",
        LONG_S,
    )
    # Of the agent: what it found is what was wanted.
    for metric in ("slicewright_partitions_desired", "slicewright_partitions_observed"):
        found = run.measured(f"sum by (profile) ({metric})")
        assert found == [({"profile": "1g.5gb"}, 7.0)], metric
    assert run.measured('ALERTS{alertstate="firing"}') == []


def test_a_gpu_is_as_busy_as_its_partitions_by_their_compute_slices(run: Run) -> None:
    """DCGM's exporter is simulated; Prometheus, the monitor and the rule are real."""
    (node,) = run.client.get("/api/v1/nodes", labelSelector="slicewright.io/pool")["items"]
    name = node["metadata"]["name"]
    (directory,) = run.environment.root.glob(f"clusters/*/nodes/{name}")
    silicon = NodeFiles(directory).silicon
    (gpu,) = state.load(silicon).gpus
    busy, half = gpu.instances[:2]

    def of_gpu() -> list[tuple[dict[str, str], float]]:
        return run.measured("round(gpu:slicewright_engine_active:ratio, 0.001)")

    def active(share: float) -> bool:
        return of_gpu() == [({"UUID": gpu.uuid, "node": name}, share)]

    try:
        until(lambda: active(0), "nothing computes", LONG_S)
        state.set_load(silicon, Load(gpu=0, gi=busy.id, graphics=100))
        state.set_load(silicon, Load(gpu=0, gi=half.id, graphics=50))
        until(lambda: active(0.214), "a seventh and half of one compute", LONG_S)
        # The server's pod has one of the partitions.
        held = run.measured(f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{exported_pod=~"{NAME}-.*"}}')
        assert [labels["GPU_I_PROFILE"] for labels, _ in held] == ["1g.5gb"]
    finally:
        state.change(silicon, lambda before: replace(before, loads=()))


def test_load_brings_seven_replicas_and_its_end_takes_six_of_them_away(
    run: Run, load: subprocess.Popen[str]
) -> None:  # S4-30, -47, -48
    # Not until they are ready: on a slow machine the next three could be on their way by then.
    until(lambda: run.wanted() == 1 + _AT_ONCE, "four replicas are wanted", LONG_S)
    with Seen(run) as seen:
        _blind(run, seen)
    assert seen.numbers == [1 + _AT_ONCE]
    # What was away is back, and the load still wants all that there are.
    until(lambda: run.ready() == 7, "seven replicas are ready", LONG_S)
    assert len(run.pods("default", NAME)) == 7
    _each_partition_answers(run)
    load.send_signal(signal.SIGINT)
    out, _ = load.communicate(timeout=LONG_S)
    assert json.loads(out)["whole"]["answered"] > 0
    until(
        lambda: run.wanted() == 1 and len(run.pods("default", NAME)) == 1,
        "one replica is left",
        LONG_S,
    )


def _blind(run: Run, seen: Seen) -> None:
    """Nothing is measured for longer than replicas would take to come or to go, in both ways: there
    is no Prometheus, and there is one that has no servers to ask.
    """
    began = time.monotonic()
    (asked,) = run.pods("monitoring", f"prometheus-{PROMETHEUS}")
    run.client.patch(OPERATED, {"spec": {"replicas": 0}})
    until(lambda: not run.pods("monitoring", f"prometheus-{PROMETHEUS}"), "Prometheus is away")
    until(lambda: run.ready() == 1 + _AT_ONCE, "four replicas are ready", LONG_S)
    before = {pod["metadata"]["uid"] for pod in run.pods("default", NAME)}
    (monitor,) = (
        one
        for one in run.client.get(MONITORS)["items"]
        if one["metadata"]["name"].endswith(f"-{NAME}")
    )
    killed = [("keda", "keda-operator"), ("keda", "keda-operator-metrics-apiserver")]
    killed.append(("default", NAME))
    restarts = {one: run.restarts(*one) for one in killed}
    for one in killed:
        run.kill(*one)
    for namespace, deployment in killed:
        until(
            lambda: (
                run.restarts(namespace, deployment)  # noqa: B023 - called here
                > restarts[namespace, deployment]  # noqa: B023
            ),
            f"{deployment} is started again",
            LONG_S,
        )
    until(lambda: run.ready() == 1 + _AT_ONCE, "the killed replica is back", LONG_S)
    _falls_back(run)
    # An `up` changes nothing: the replicas of its file are those of the beginning.
    up = run.engine.up()
    assert up.code == 0, up.output
    run.client.delete(f"{MONITORS}/{monitor['metadata']['name']}")
    run.client.patch(OPERATED, {"spec": {"replicas": 1}})
    until(lambda: run.measured("vector(1)") != [], "Prometheus is back", LONG_S)
    longest = max(began + _PER_S, time.monotonic() + _STABILIZATION_S) + 60
    until(lambda: time.monotonic() > longest, "replicas could have come and gone", LONG_S)
    assert seen.numbers == [1 + _AT_ONCE]
    assert run.measured(f"up{{pod=~'{NAME}-.*'}}") == []
    _falls_back(run)
    assert {pod["metadata"]["uid"] for pod in run.pods("default", NAME)} == before
    kept = {key: monitor["metadata"][key] for key in ("name", "namespace", "labels")}
    run.client.patch(
        f"{MONITORS}/{kept['name']}",
        {**{key: monitor[key] for key in ("apiVersion", "kind", "spec")}, "metadata": kept},
        kind="apply",
        fieldManager="test",
        force="true",
    )
    (back,) = run.pods("monitoring", f"prometheus-{PROMETHEUS}")
    assert back["metadata"]["uid"] != asked["metadata"]["uid"]


def _falls_back(run: Run) -> None:
    """KEDA says that it does not know, and asks for as many replicas as there are: the target."""
    until(lambda: run.condition(SCALED, "Fallback")[0] == "True", "KEDA falls back", LONG_S)
    until(lambda: run.decided_by() == ["50"], "the autoscaler has decided by it", LONG_S)


def _each_partition_answers(run: Run) -> None:
    done = subprocess.run(
        asks(run, "--duration", "3s", "--pods"), capture_output=True, text=True, timeout=LONG_S
    )
    assert done.returncode == 0, done.stderr
    replicas = json.loads(done.stdout)["replicas"]
    pods = {pod["metadata"]["name"]: pod for pod in run.pods("default", NAME)}
    assert {(one["name"], one["node"]) for one in replicas} == {
        (name, pod["spec"]["nodeName"]) for name, pod in pods.items()
    }
    assert [one["partition"] for one in replicas] == ["1g.5gb"] * 7
    assert all(one["answered"] > 0 and one["failed"] == 0 for one in replicas)
