"""gke-h100 with its workload: sixteen servers on sixteen partitions, under load, and one that is
killed.

No model runs in them (docs/reference/simulated-vllm.md); Pods, Secrets, devices and requests are
real.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import threading
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli
from slicewright.infra import plan
from slicewright.kubeapi import Client
from slicewright.rehearsal.cluster.kubelet.services.proxy import ADDRESS
from slicewright.rehearsal.cluster.model_server import devices
from slicewright.rehearsal.cluster.model_server.devices import Device
from slicewright.rehearsal.scenario.engine_runs import Engine, Outcome
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.workload_needs import WorkloadNeeds
from tests.rehearsal.cluster.kubelet.simulated_cluster import pids_with
from tests.rehearsal.scenario.whole_run import inside
from tests.rehearsal.scenario.whole_run.waiting import until

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.timeout(900),
    pytest.mark.long(
        "sixteen servers on sixteen partitions: "
        "tests/rehearsal/plugins/providers/kubernetes/test_served_models.py"
    ),
]
STACK = "gke-h100-serving"
PODS = "/api/v1/namespaces/ai/pods"
COLLECTION = "/apis/monitoring.googleapis.com/v1"
MODEL = "mistralai/Mistral-Nemo-Instruct-2407"
WHOLE_H100 = Device(uuid="GPU-1", name="H100", multiprocessors=132, memory_mib=81559)


@dataclass
class Run:
    environment: Environment
    engine: Engine
    up: Outcome
    said: list[str] = field(default_factory=list)

    @property
    def client(self) -> Client:
        return Client.from_kubeconfig(next(iter(self.environment.kubeconfigs().values())))

    @property
    def values(self) -> dict[str, str]:
        """What the Secret of the workload holds."""
        data = self.client.get("/api/v1/namespaces/ai/secrets/llm")["data"]
        return {key: b64decode(value).decode() for key, value in data.items()}

    def pods(self) -> list[dict[str, Any]]:
        found = self.client.get(PODS)["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


@pytest.fixture(scope="module")
def run(make_environment: Callable[[str], Environment]) -> Run:
    environment = make_environment(STACK)
    stack_file = environment.stack_file(STACK)
    text, changed = re.subn(
        r"^( +)node_pools:\n",
        r"\1monitoring: { prometheus: managed, scrape_interval: 30s }\n\g<0>",
        stack_file.read_text(),
        flags=re.M,
    )
    assert changed == 1
    stack_file.write_text(text)
    engine, said = Engine(environment, STACK, print), list[str]()
    assert engine.init().code == 0
    fleet = plan.read_file(environment.stack_file(STACK))
    with WorkloadNeeds(environment, fleet, said.append):
        up = engine.up()
    assert up.code == 0, up.output
    return Run(environment, engine, up, said)


def ask(address: str, key: str, *, tokens: int, path: str = "/v1/completions") -> Answered:
    """A completion, from the server at that address."""
    connection = http.client.HTTPConnection(address, 8000, timeout=240)
    body = {"model": MODEL, "prompt": "one two three", "max_tokens": tokens}
    connection.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {key}"})
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    return Answered(
        answer.status,
        answer.headers["x-simulated-device"] or "",
        found["usage"]["completion_tokens"] if answer.status == 200 else 0,
    )


@dataclass(frozen=True)
class Answered:
    status: int
    device: str
    tokens: int


def version(pod: dict[str, Any]) -> dict[str, Any]:
    connection = http.client.HTTPConnection(pod["status"]["podIP"], 8000, timeout=240)
    connection.request("GET", "/version")
    found: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return found


def ready(pod: dict[str, Any]) -> bool:
    conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions") or ()}
    return conditions.get("Ready") == "True"


def restarts(pod: dict[str, Any]) -> int:
    return sum(one["restartCount"] for one in pod["status"].get("containerStatuses") or ())


def test_secret_of_the_stack_file_is_created_and_labelled_simulated(run: Run) -> None:
    (line,) = (one for one in run.said if "Secret" in one)
    assert line.startswith("simulated: Secret ai/llm (api-key, hf-token)")


def test_all_sixteen_share_a_volume_and_one_of_them_downloads_the_model(run: Run) -> None:
    logs = [run.client.text(f"{PODS}/{pod['metadata']['name']}/log") for pod in run.pods()]
    assert len(logs) == 16
    assert ["simulated: downloading" in log for log in logs].count(True) == 1


def test_sixteen_servers_are_ready_without_a_restart(run: Run) -> None:  # S0-36, -53
    pods = run.pods()
    assert len(pods) == 16
    assert all(ready(pod) for pod in pods)
    assert {restarts(pod) for pod in pods} == {0}


def test_each_server_has_its_own_partition(run: Run) -> None:  # S0-35, -43, -49
    used = [version(pod)["devices"] for pod in run.pods()]
    assert {len(one) for one in used} == {1}
    assert len({one["uuid"] for (one,) in used}) == 16
    assert {one["name"].rpartition(" ")[2] for (one,) in used} == {"3g.40gb"}


def test_kubectl_exec_lists_that_one_device_and_no_other(run: Run) -> None:  # S0-53
    pod = run.pods()[0]
    listed = inside.kubectl_exec(
        run.environment, f"{PODS}/{pod['metadata']['name']}", "nvidia-smi", "-L"
    )
    (uuid,) = re.findall(r"MIG 3g\.40gb .*UUID: (MIG-[-0-9a-f]+)", listed)
    assert [one["uuid"] for one in version(pod)["devices"]] == [uuid]
    assert len(listed.splitlines()) == 2


def test_vllms_command_line_has_the_settings_of_the_stack_file(run: Run) -> None:
    """S0-39, -41, -42, -44, -45: the stand-in refuses what vLLM would."""
    for pod in run.pods():
        (container,) = pod["spec"]["containers"]
        assert f"--model={MODEL}" in container["args"]
        log = run.client.text(f"{PODS}/{pod['metadata']['name']}/log")
        assert "vLLM API server version 0.6.2" in log
        assert "Uvicorn running on http://0.0.0.0:8000" in log
        assert "not checked" not in log
    (model,) = {(p["spec"]["containers"][0]["image"]) for p in run.pods()}
    assert model == "vllm/vllm-openai:v0.6.2"


def test_only_who_has_the_key_of_the_secret_is_answered(run: Run) -> None:  # S0-40
    address = run.pods()[0]["status"]["podIP"]
    assert ask(address, run.values["api-key"], tokens=1).status == 200
    assert ask(address, "another", tokens=1).status == 401


def test_together_they_make_twice_the_tokens_of_eight_whole_gpus_by_construction(run: Run) -> None:
    """S0-55: put in (`devices.py`), not found out; what is found is which devices they have."""
    rates = [version(pod)["simulated_tokens_per_second"] for pod in run.pods()]
    assert sum(rates) == 2 * 8 * devices.tokens_per_second((WHOLE_H100,))


def test_all_sixteen_answer_under_load_by_the_address_of_their_service(run: Run) -> None:
    key, service = run.values["api-key"], run.client.get("/api/v1/namespaces/ai/services")["items"]
    (address,) = [one["metadata"]["annotations"][ADDRESS] for one in service]
    answers: list[Answered] = []

    def client() -> None:
        answers.extend(ask(address, key, tokens=50) for _ in range(4))

    clients = [threading.Thread(target=client, daemon=True) for _ in range(32)]
    for one in clients:
        one.start()
    for one in clients:
        one.join(timeout=240)
    assert [one.status for one in answers] == [200] * 32 * 4
    assert {one.tokens for one in answers} == {50}
    assert len({one.device for one in answers}) == 16


def test_load_reports_figures_of_each_partition(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # S0-55
    """Of all sixteen: by how many tokens they differ is the simulation's."""
    key_file = tmp_path / "key"
    key_file.write_text(run.values["api-key"])
    command = ["load", "-s", str(run.environment.stack_file(STACK)), "llm-deployment", "--json"]
    command += ["--users", "64", "--duration", "3s", "--tokens", "50"]
    command += ["--key-file", str(key_file), "--pods"]
    (kubeconfig,) = run.environment.kubeconfigs().values()
    code = cli.main([*command, "--kubeconfig", str(kubeconfig)])
    out, progress = capsys.readouterr()
    assert code == 0, progress
    found = json.loads(out)
    assert {(one["name"], one["url"], one["node"]) for one in found["replicas"]} == {
        (
            pod["metadata"]["name"],
            f"http://{pod['status']['podIP']}:8000",
            pod["spec"]["nodeName"],
        )
        for pod in run.pods()
    }
    assert [one["partition"] for one in found["replicas"]] == ["3g.40gb"] * 16
    assert all(one["answered"] > 0 and one["failed"] == 0 for one in found["replicas"])
    whole = found["whole"]
    assert whole["tokens"] == 50 * whole["answered"]
    assert 0 < whole["first_token_ms"]["p50"] < whole["latency_ms"]["p50"]
    assert whole["inter_token_ms"]["p50"] > 0


def test_managed_collection_has_monitors_of_agents_controller_and_servers(run: Run) -> None:
    """By Google's own definitions; nothing is collected here."""
    found = run.client.get(f"{COLLECTION}/podmonitorings")["items"]
    monitors = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in found}
    assert monitors.keys() == {
        ("slicewright-system", "node-agent"),
        ("slicewright-system", "fleet-controller"),
        ("ai", "workload-ai-llm-deployment"),
    }
    for (namespace, name), one in monitors.items():
        labels = one["spec"]["selector"]["matchLabels"]
        pods = run.client.get(
            f"/api/v1/namespaces/{namespace}/pods",
            labelSelector=",".join(f"{key}={value}" for key, value in labels.items()),
        )["items"]
        assert pods, name
        (endpoint,) = one["spec"]["endpoints"]
        for pod in pods:
            ports = [port for c in pod["spec"]["containers"] for port in c.get("ports") or ()]
            assert endpoint["port"] in {port["name"] for port in ports}, name
    (rules,) = run.client.get(f"{COLLECTION}/clusterrules")["items"]
    names = {rule.get("alert") for group in rules["spec"]["groups"] for rule in group["rules"]}
    assert "SlicewrightNodeMismatch" in names
    # It asks for labels of nodes, which the managed collection does not have.
    assert "SlicewrightAgentAbsent" not in names


def test_a_killed_server_comes_back_and_no_other_notices(run: Run) -> None:
    """With requests running on all sixteen."""
    key, before = run.values["api-key"], {pod["metadata"]["uid"]: pod for pod in run.pods()}
    victim, *others = before.values()
    answers: dict[str, Answered] = {}

    def client(address: str) -> None:
        answers[address] = ask(address, key, tokens=2000)

    clients = [
        threading.Thread(target=client, args=(pod["status"]["podIP"],), daemon=True)
        for pod in others
    ]
    for one in clients:
        one.start()
    (process,) = pids_with(f"SLICEWRIGHT_REHEARSAL_POD_ADDRESS={victim['status']['podIP']}")
    os.kill(process, signal.SIGKILL)
    for one in clients:
        one.join(timeout=240)
    assert len(answers) == 15
    assert {(one.status, one.tokens) for one in answers.values()} == {(200, 2000)}

    def back() -> bool:
        found = {pod["metadata"]["uid"]: pod for pod in run.pods()}
        assert found.keys() == before.keys()
        again = found[victim["metadata"]["uid"]]
        return restarts(again) == 1 and ready(again)

    until(back, "the server answers again")
    (same,) = version(victim)["devices"]
    assert same["uuid"] not in {one.device for one in answers.values()}
    assert [restarts(pod) for pod in run.pods()].count(0) == 15
    log = f"{PODS}/{victim['metadata']['name']}/log"
    assert "is in the cache" in run.client.text(log), "the restarted container kept its volume"


def test_a_deleted_server_is_replaced_on_the_partition_that_it_leaves(run: Run) -> None:
    pods = run.pods()
    gone, freed = pods[0], version(pods[0])["devices"][0]["uuid"]
    run.client.delete(f"{PODS}/{gone['metadata']['name']}")
    left = {pod["metadata"]["uid"] for pod in pods[1:]}

    def replaced() -> list[dict[str, Any]]:
        found = run.pods()
        fresh = [pod for pod in found if pod["metadata"]["uid"] not in left]
        ours = gone["metadata"]["uid"]
        return [pod for pod in fresh if ready(pod) and pod["metadata"]["uid"] != ours]

    (fresh,) = until(replaced, "the server is replaced")
    assert [one["uuid"] for one in version(fresh)["devices"]] == [freed]


def test_a_second_up_and_a_refresh_find_no_changes(run: Run) -> None:
    for again in (run.engine.up, run.engine.refresh):
        outcome = again("--expect-no-changes")
        assert outcome.code == 0, outcome.output


def test_a_seventeenth_waits_and_says_why_while_up_ends(run: Run) -> None:
    stack_file = run.environment.stack_file(STACK)
    text, changed = re.subn(r"replicas: 16\b", "replicas: 17", stack_file.read_text())
    assert changed == 1
    stack_file.write_text(text)
    outcome = run.engine.up()
    assert outcome.code == 0, outcome.output

    def why() -> str:
        (waiting,) = [p for p in run.pods() if not p["spec"].get("nodeName")] or [{}]
        conditions = (waiting.get("status") or {}).get("conditions") or ()
        return next((c["message"] for c in conditions if c["type"] == "PodScheduled"), "")

    assert "Insufficient nvidia.com/gpu" in until(why, "the seventeenth says why it waits")
    assert len([pod for pod in run.pods() if ready(pod)]) == 16


def test_no_secret_is_in_state_configmaps_command_lines_or_logs(run: Run) -> None:
    values = run.values
    assert sorted(values) == ["api-key", "hf-token"]
    root = run.environment.root
    places = {
        "output of up": run.up.output,
        "objects": json.dumps(
            [
                run.client.get(path)["items"]
                for path in ("/api/v1/configmaps", "/api/v1/events", "/api/v1/pods")
            ]
            + [run.client.get("/apis/apps/v1/deployments")["items"]]
        ),
        "command lines": "\n".join(
            (entry / "cmdline").read_bytes().decode(errors="replace")
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and os.access(entry / "cmdline", os.R_OK)
        ),
        **{
            pod["metadata"]["name"]: run.client.text(f"{PODS}/{pod['metadata']['name']}/log")
            for pod in run.pods()
            if pod["spec"].get("nodeName")
        },
        **{
            str(path): path.read_text(errors="replace")
            for directory in ("pulumi/state", "log")
            for path in (root / directory).rglob("*")
            if path.is_file()
        },
    }
    assert len(places) > 20
    for where, text in places.items():
        for key, value in values.items():
            assert value not in text, f"{key} is in {where}"


def test_destroy_leaves_nothing(run: Run) -> None:
    outcome = run.engine.destroy()
    assert outcome.code == 0, outcome.output
    assert run.environment.inventory() == {}
    assert list(run.environment.root.glob("clusters/*")) == []
