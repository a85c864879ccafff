"""S4's model server under load: replicas go from 1 to 7 and back by Triton's own queue metric, and
what is killed meanwhile costs none of them.

Prometheus, its operator, KEDA, Kubernetes' autoscaler, k6 and tritonserver are real; the models'
time on a GPU is simulated (docs/reference/simulated-monitoring.md, simulated-triton.md).
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from infra import plan
from infra.plan import ByoFleetPlan
from kubeapi import Client
from rehearsal.cluster.kubelet.services.proxy import ADDRESS
from rehearsal.host.toolchain import Toolchain, triton
from rehearsal.scenario import existing_cluster, model_shares
from rehearsal.scenario.engine_runs import Engine
from rehearsal.scenario.environment import Environment
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
STACK = "s4-autoscaling"
NAME = "tritonserver"
DEPLOYMENT = f"/apis/apps/v1/namespaces/default/deployments/{NAME}"
SCALED = f"/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects/{NAME}"
AUTOSCALER = f"/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/keda-hpa-{NAME}"
PROMETHEUS = "kube-prom-stack-kube-prome-prometheus"
LONG_S = 600


@dataclass
class Run:
    environment: Environment
    engine: Engine
    k6: Path

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

    def kill(self, namespace: str, beginning: str) -> None:
        """Every process of one such pod; the kubelet starts its containers again."""
        pod = self.pods(namespace, beginning)[0]
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

    def restarts(self) -> int:
        return sum(
            one["restartCount"]
            for pod in self.pods("default", NAME)
            for one in pod["status"].get("containerStatuses") or ()
        )


@dataclass
class Seen:
    """The numbers of replicas that the Deployment was told to have, in their order."""

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
    fleet = plan.read_file(environment.stack_file(STACK))
    assert isinstance(fleet, ByoFleetPlan)
    existing_cluster.make(environment, fleet)
    engine = Engine(environment, STACK, print)
    assert engine.init().code == 0
    model_shares.fill(environment, fleet, print)
    up = engine.up()
    assert up.code == 0, up.output
    assert whole_toolchain.k6 is not None
    return Run(environment, engine, whole_toolchain.k6)


@pytest.fixture
def load(run: Run) -> Iterator[subprocess.Popen[str]]:
    """Sixty users, by the address of the Service, until it is ended."""
    command = [sys.executable, "-m", "slicewright.cli", "load", NAME, "--users", "60"]
    command += ["-s", str(run.environment.stack_file(STACK)), "--duration", "1h", "--json"]
    command += ["--model", "densenet_onnx", "--k6", str(run.k6)]
    command += ["--kubeconfig", str(run.environment.user_kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        if process.poll() is None:
            process.kill()


def test_it_is_made_with_one_replica_and_keda_has_made_its_autoscaler(run: Run) -> None:  # S4-45
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
                f"monitoring/workload-default-{NAME}",
            }
        ),
        "Prometheus reads agent, controller and server",
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


def test_load_brings_seven_replicas_and_its_end_takes_six_of_them_away(
    run: Run, load: subprocess.Popen[str]
) -> None:  # S4-30, -47, -48
    until(lambda: run.ready() == 7, "seven replicas are ready", LONG_S)
    before = {pod["metadata"]["uid"] for pod in run.pods("default", NAME)}
    assert len(before) == 7
    with Seen(run) as seen:
        # Without an answer nothing changes, whoever it is that does not answer.
        run.kill("monitoring", "prometheus-kube-prom-stack")
        run.kill("keda", "keda-operator")
        run.kill("default", NAME)
        until(
            lambda: run.restarts() == 1 and run.ready() == 7, "the killed replica is back", LONG_S
        )
        # Nor does an `up`, to which the replicas are its file's 1 no more.
        up = run.engine.up()
        assert up.code == 0, up.output
        assert {pod["metadata"]["uid"] for pod in run.pods("default", NAME)} == before
    assert seen.numbers == [7]
    load.send_signal(signal.SIGINT)
    out, _ = load.communicate(timeout=LONG_S)
    assert json.loads(out)["whole"]["answered"] > 0
    until(
        lambda: run.wanted() == 1 and len(run.pods("default", NAME)) == 1,
        "one replica is left",
        LONG_S,
    )
