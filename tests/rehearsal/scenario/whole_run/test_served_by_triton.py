"""existing-a100-t4 with its workloads: eight Triton on slices of two partitions, four on a shared
T4.

tritonserver is NVIDIA's own, the models' time on a GPU is simulated
(docs/reference/simulated-triton.md).
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import plan
from slicewright.infra.plan import ExistingFleetPlan
from slicewright.kubeapi import Client
from slicewright.rehearsal.cluster.kubelet.services.proxy import ADDRESS
from slicewright.rehearsal.cluster.model_server.triton import repository
from slicewright.rehearsal.scenario import existing_cluster, model_shares
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal import kserve
from tests.rehearsal.cluster.kubelet.simulated_cluster import pids_with
from tests.rehearsal.scenario.whole_run.waiting import until

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.timeout(900),
    pytest.mark.long(
        "Triton's own servers in pods: tests/rehearsal/cluster/kubelet/test_triton_servers.py"
    ),
]
STACK = "existing-a100-t4-serving"
PODS = "/api/v1/namespaces/default/pods"
PARTITIONS, T4 = "tritonserver-timeslicing-mig", "tritonserver-teslat4"
SEVENTH_S = 7 * repository.GPU_MILLISECONDS / 1000
"""What a request takes on a 1g.5gb, alone: 14 of an A100's 98 multiprocessors."""


@dataclass
class Run:
    environment: Environment
    engine: Engine
    said: list[str] = field(default_factory=list)

    @property
    def client(self) -> Client:
        return Client.from_kubeconfig(self.environment.user_kubeconfig)

    def pods(self, name: str) -> list[dict[str, Any]]:
        found = self.client.get(PODS, labelSelector=f"app.kubernetes.io/instance={name}")["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def addresses(self, name: str) -> list[str]:
        return [str(pod["status"]["podIP"]) for pod in self.pods(name)]

    def device(self, pod: Mapping[str, Any]) -> tuple[str, str]:
        """UUID of the device that the server was given, and its share of a whole GPU."""
        log = self.client.text(f"{PODS}/{pod['metadata']['name']}/log")
        ((uuid, share),) = set(re.findall(r"UUID: ([-A-Za-z0-9]+)\), (\S+) of a whole GPU", log))
        return uuid, share


@pytest.fixture(scope="module")
def run(make_environment_with_triton: Callable[[str], Environment]) -> Run:
    environment = make_environment_with_triton(STACK)
    fleet = plan.read_file(environment.stack_file(STACK))
    assert isinstance(fleet, ExistingFleetPlan)
    existing_cluster.make(environment, fleet)
    engine, said = Engine(environment, STACK, print), list[str]()
    assert engine.init().code == 0
    model_shares.fill(environment, fleet, said.append)
    up = engine.up()
    assert up.code == 0, up.output
    return Run(environment, engine, said)


def is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def restarts(pod: Mapping[str, Any]) -> int:
    return sum(one["restartCount"] for one in pod["status"].get("containerStatuses") or ())


def at_the_same_time(jobs: list[Callable[[], object]]) -> None:
    failed: list[BaseException] = []

    def kept(job: Callable[[], object]) -> None:
        try:
            job()
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=kept, args=(job,), daemon=True) for job in jobs]
    for one in threads:
        one.start()
    for one in threads:
        one.join(timeout=240)
    if failed:
        raise failed[0]
    assert not any(one.is_alive() for one in threads)


def test_model_share_is_filled_and_labelled_simulated(run: Run) -> None:
    (line,) = run.said
    assert line.startswith("simulated: ")
    assert "10.222.1.60:/shares/models" in line
    assert "densenet_onnx" in line


def test_eight_and_four_servers_are_ready_without_a_restart(run: Run) -> None:  # S4-15, -56, -63
    for name, count in ((PARTITIONS, 8), (T4, 4)):
        pods = run.pods(name)
        assert len(pods) == count
        assert all(is_ready(pod) for pod in pods)
        assert {restarts(pod) for pod in pods} == {0}


def test_eight_are_on_two_partitions_and_four_on_the_gpu_that_is_labelled_shared(run: Run) -> None:
    """S4-56, -63: four on each device, and each finds that one only."""
    cut = [run.device(pod) for pod in run.pods(PARTITIONS)]
    assert sorted(Counter(uuid for uuid, _ in cut).values()) == [4, 4]
    assert {share for _, share in cut} == {"0.143"}
    pods = run.pods(T4)
    ((uuid, share),) = {run.device(pod) for pod in pods}
    assert uuid.startswith("GPU-")
    assert share == "1.000"
    (node,) = {pod["spec"]["nodeName"] for pod in pods}

    def product() -> str:
        labels = run.client.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
        return str(labels.get("nvidia.com/gpu.product", ""))

    # By GPU feature discovery, for which `up` does not wait.
    until(lambda: product() == "Tesla-T4-SHARED", "the product is labelled as shared")


def test_every_server_classifies_a_picture_over_http_and_all_agree(run: Run) -> None:  # S4-25
    addresses = run.addresses(PARTITIONS) + run.addresses(T4)
    mug, other = kserve.picture(7), kserve.picture(11)
    answers = [kserve.classify(address, mug) for address in addresses]
    assert len(set(answers)) == 1
    best = answers[0]
    assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
    assert [one.label for one in best] == [repository.label(one.number) for one in best]
    assert len({one.number for one in best}) == 3
    assert kserve.classify(addresses[0], other) != best


def test_each_service_leads_to_all_of_its_servers_by_three_ports(run: Run) -> None:  # S4-18, -24
    for name, kind in ((PARTITIONS, "LoadBalancer"), (T4, "ClusterIP")):
        service = run.client.get(f"/api/v1/namespaces/default/services/{name}")
        spec = service["spec"]
        assert spec["type"] == kind
        ports = {one["name"]: one["port"] for one in spec["ports"]}
        assert ports == {"http": 8000, "grpc": 8001, "metrics": 8002}
        address = service["metadata"]["annotations"][ADDRESS]
        if kind == "LoadBalancer":
            (ingress,) = service["status"]["loadBalancer"]["ingress"]
            assert ingress["ip"] == address
        assert kserve.is_live(address)
        before = {at: kserve.metric(at, "nv_inference_count") for at in run.addresses(name)}

        def all_asked(at: str = address, known: Mapping[str, float] = before) -> bool:
            kserve.classify(at, kserve.picture(3))
            return all(kserve.metric(one, "nv_inference_count") > n for one, n in known.items())

        until(all_asked, "every server is asked")


def test_each_server_exports_tritons_metrics_of_its_requests(run: Run) -> None:  # S4-30
    addresses = run.addresses(PARTITIONS)

    def successes() -> list[float]:
        return [kserve.metric(at, "nv_inference_request_success") for at in addresses]

    before = successes()
    for number, address in enumerate(addresses):
        for _ in range(number):
            kserve.classify(address, kserve.picture(5))
    after = successes()
    assert [new - old for new, old in zip(after, before, strict=True)] == [*range(8)]
    _, text = kserve.ask(addresses[0], "/metrics", port=kserve.METRICS)
    assert "nv_gpu_" not in text


def test_requests_that_wait_for_a_server_are_in_its_queue_metric(run: Run) -> None:  # S4-30
    """One instance of the model: of eight at the same time, seven wait for the others."""
    busy, idle = run.addresses(T4)[:2]
    name = "nv_inference_queue_duration_us"
    before = {address: kserve.metric(address, name) for address in (busy, idle)}
    given = kserve.picture(5)
    at_the_same_time([lambda: kserve.classify(busy, given)] * 8)
    after = {address: kserve.metric(address, name) for address in (busy, idle)}
    assert after[idle] == before[idle]
    assert after[busy] > before[busy]
    assert kserve.metric(busy, "nv_inference_pending_request_count") == 0


def test_a_request_takes_a_seventh_of_the_gpu_seven_times_as_long_as_the_whole(run: Run) -> None:
    """At least: the processor's own time comes on top."""
    name = "nv_inference_compute_infer_duration_us"
    for address, least_s in (
        (run.addresses(PARTITIONS)[0], SEVENTH_S),
        (run.addresses(T4)[0], SEVENTH_S / 7),
    ):
        before = kserve.metric(address, name)
        kserve.classify(address, kserve.picture(5))
        assert kserve.metric(address, name) - before >= least_s * 1e6


def test_explicit_control_loads_named_models_and_others_on_request(run: Run) -> None:
    address = run.addresses(T4)[0]
    for pod in run.pods(T4):
        (container,) = pod["spec"]["containers"]
        assert "--model-control-mode=explicit" in container["args"]
        assert "--load-model=densenet_onnx" in container["args"]
    path = "/v2/repository/models/densenet_onnx"
    assert kserve.ask(address, f"{path}/unload", {})[0] == 200
    until(
        lambda: kserve.ask(address, "/v2/models/densenet_onnx/ready")[0] != 200,
        "the model is unloaded",
    )
    assert kserve.ask(address, f"{path}/load", {})[0] == 200
    assert len(kserve.classify(address, kserve.picture(3))) == 3
    whole = run.addresses(PARTITIONS)[0]
    assert kserve.ask(whole, f"{path}/load", {})[0] != 200


def test_a_killed_server_comes_back_and_no_other_notices(run: Run) -> None:
    """With requests on all the others of its kind."""
    before = {pod["metadata"]["uid"]: pod for pod in run.pods(PARTITIONS)}
    victim, *others = before.values()
    address, given = victim["status"]["podIP"], kserve.picture(7)
    device = run.device(victim)

    def kill() -> None:
        marked = pids_with(f"SLICEWRIGHT_REHEARSAL_POD_ADDRESS={address}")
        (server,) = [
            one
            for one in marked
            if b"bin/tritonserver\0" in Path(f"/proc/{one}/cmdline").read_bytes()
        ]
        os.kill(server, signal.SIGKILL)

    def asks(at: str) -> Callable[[], object]:
        return lambda: [kserve.classify(at, given) for _ in range(3)]

    at_the_same_time([*(asks(pod["status"]["podIP"]) for pod in others), kill])

    def back() -> bool:
        found = {pod["metadata"]["uid"]: pod for pod in run.pods(PARTITIONS)}
        assert found.keys() == before.keys()
        again = found[victim["metadata"]["uid"]]
        return restarts(again) == 1 and is_ready(again)

    until(back, "the server answers again")
    assert run.device(victim) == device
    assert kserve.classify(address, given) == kserve.classify(others[0]["status"]["podIP"], given)
    assert [restarts(pod) for pod in run.pods(PARTITIONS)].count(0) == 7


def test_a_second_up_finds_no_changes(run: Run) -> None:
    outcome = run.engine.up("--expect-no-changes")
    assert outcome.code == 0, outcome.output


def test_destroy_leaves_no_server_and_the_models_on_their_share(run: Run) -> None:
    outcome = run.engine.destroy()
    assert outcome.code == 0, outcome.output
    assert run.pods(PARTITIONS) + run.pods(T4) == []
    left = existing_cluster.differences(run.environment)
    assert left.others == (), "\n".join(left.others)
    share = run.environment.root / "nfs" / "10.222.1.60"
    assert [*share.rglob("densenet_onnx/config.pbtxt")]
