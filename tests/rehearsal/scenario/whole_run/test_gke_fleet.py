"""gke-h100, from a push to git to a proven fleet and back to an empty cloud: one run, many facts,
in the order of the run.

First a GPU is cut otherwise than declared: its node stays closed, and `up` fails until it is right.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slicewright import cli
from slicewright.apis.names import NODE_CONDITION, POOL_LABEL, STARTUP_TAINT_KEY
from slicewright.exit_codes import NOT_VERIFIED, VERIFIED
from slicewright.infra import plan
from slicewright.kubeapi import Client
from slicewright.rehearsal.clouds.core import call_log
from slicewright.rehearsal.clouds.core.fault_file import SpotPreemption
from slicewright.rehearsal.scenario import environment as environments
from slicewright.rehearsal.scenario import faults, proof, walkthrough
from slicewright.rehearsal.scenario.engine_runs import Engine, Outcome
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.walkthrough import WALKTHROUGHS
from tests.rehearsal.clouds.services import google
from tests.rehearsal.scenario.whole_run import inside
from tests.rehearsal.scenario.whole_run.from_git import Pushed, Repository, slicewright
from tests.rehearsal.scenario.whole_run.waiting import (
    GPU_POOLS,
    is_held,
    until,
    until_serving_again,
    until_verified,
)
from tests.rights_used import differences, without_sweep

pytestmark = [pytest.mark.rehearsal, pytest.mark.timeout(900)]
GKE_H100 = WALKTHROUGHS["gke-h100"]
POOL = "h100-partition-3g"
SERVER = (
    f"{{name: llm, kind: vllm, namespace: models, pool: {POOL}, replicas: 0, "
    f"image: 'vllm/vllm-openai:v0.6.2@sha256:{'1' * 64}', "
    "model: {name: small, parameters: 500M}}"
)
"""Without replicas: the partitions are for the walkthrough's pods."""
SERVERS = "/apis/apps/v1/namespaces/models/deployments"
_LEFT: Mapping[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/services": {
        "metadata": {
            "name": "triton",
            # Of a controller that is gone.
            "finalizers": ["service.kubernetes.io/load-balancer-cleanup"],
        },
        "spec": {"type": "LoadBalancer", "ports": [{"port": 8000}]},
    },
    "/api/v1/persistentvolumes": {
        "metadata": {"name": "models"},
        "spec": {
            "csi": {
                "driver": "pd.csi.storage.gke.io",
                "volumeHandle": "projects/{project}/zones/us-central1-a/disks/models",
            },
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
        },
    },
}
"""What the cluster leaves in the cloud: nothing here does what the controllers of load balancers
and disks would.
"""


@dataclass
class Run:
    environment: Environment
    engine: Engine
    failed: Outcome
    """`up` while the GPU was cut otherwise than declared."""
    up: Outcome
    """The deployment once more, after the repair."""
    eager: Any
    """A pod that asked for a GPU from the first moment of the cluster on."""

    @property
    def client(self) -> Client:
        return Client.from_kubeconfig(next(iter(self.environment.kubeconfigs().values())))


@pytest.fixture(scope="module")
def environment(make_environment: Callable[[str], Environment]) -> Environment:
    environment = make_environment("gke-h100")
    stack_file = environment.stack_file("gke-h100")
    text, changed = re.subn(
        r"^( *)cloud: gke$",
        rf"\1cloud: gke\n\1workloads: [{SERVER}]",
        stack_file.read_text(),
        flags=re.M,
    )
    assert changed == 1
    stack_file.write_text(text)
    return environment


@pytest.fixture(scope="module")
def engine(environment: Environment) -> Engine:
    engine = Engine(environment, "gke-h100", print)
    assert engine.init().code == 0
    return engine


@pytest.fixture(scope="module")
def eager(environment: Environment, ask_early: Callable[[Environment], Any]) -> Any:
    return ask_early(environment)


@pytest.fixture(scope="module")
def repository(environment: Environment, engine: Engine, policy_environment: Path) -> Repository:
    return Repository.of(environment, "gke-h100")


@pytest.fixture(scope="module")
def pushed(environment: Environment, repository: Repository, eager: Any) -> Pushed:
    faults.inject(environment, faults.WrongLayout(pool=POOL, node=0, gpu=3, profile="1g.10gb"))
    return repository.push()


@pytest.fixture(scope="module")
def failed(pushed: Pushed) -> Outcome:
    return pushed.deploy


@pytest.fixture(scope="module")
def run(
    environment: Environment,
    engine: Engine,
    eager: Any,
    failed: Outcome,
    repository: Repository,
) -> Run:
    """Once the GPU is cut as declared."""
    assert faults.repair(environment)
    # `up` changes nothing, and so waits for nothing: it says to wait first, in these words.
    until_verified(Client.from_kubeconfig(next(iter(environment.kubeconfigs().values()))))
    up, _ = repository.run("deploy")
    eager.end(moment_s=180)
    return Run(environment, engine, failed, up, eager)


def test_a_typo_in_the_stack_file_fails_before_any_resource(
    environment: Environment, engine: Engine
) -> None:
    stack_file = environment.stack_file("gke-h100")
    right = stack_file.read_text()
    assert "machine_type:" in right
    stack_file.write_text(right.replace("machine_type: a3", "machinetype: a3", 1))
    try:
        outcome = engine.up()
    finally:
        # The engine may have written its salt beside the configuration: keep that, mend the typo
        # only.
        stack_file.write_text(
            stack_file.read_text().replace("machinetype: a3", "machine_type: a3", 1)
        )
    assert outcome.code != 0
    assert "Pulumi.gke-h100.yaml" in outcome.output
    assert "machinetype" in outcome.output
    assert "machine_type" in outcome.output
    assert "Traceback" not in outcome.output
    assert environment.inventory() == {}


def test_pushed_commit_is_reported_and_checked_before_up(pushed: Pushed) -> None:
    assert pushed.report.code == 0, pushed.report.output
    assert pushed.text.startswith("<!-- slicewright preview-report gke-h100 -->")
    assert POOL in pushed.text
    assert pushed.rules.code == 0, pushed.rules.output
    assert "cluster-endpoint" in pushed.rules.output, "the program did not pass the pack"
    assert pushed.inventory == {}


def _node(environment: Environment) -> dict[str, Any]:
    client = Client.from_kubeconfig(next(iter(environment.kubeconfigs().values())))
    (node,) = client.get("/api/v1/nodes", labelSelector=f"{POOL_LABEL}={POOL}")["items"]
    return dict(node)


def _says_what_is_wrong(text: str) -> bool:
    return "GPU 3" in text and "3g.40gb" in text and "1g.10gb" in text


def test_up_fails_at_once_and_does_not_wait_for_its_timeout(
    failed: Outcome, environment: Environment
) -> None:
    fleet = plan.read_file(environment.stack_file("gke-h100"))
    # Longer than pytest lets a test of this file run: a wait for it would not end here.
    assert fleet.verify_timeout_minutes * 60 > 900
    assert failed.code != 0
    assert "timed out" not in failed.output, failed.output
    assert "Traceback" not in failed.output


def test_last_lines_name_node_gpu_wanted_and_actual_layout(
    failed: Outcome, environment: Environment
) -> None:
    """Only what to do follows, then the engine's own counts."""
    diagnostics = failed.output.rpartition("\nDiagnostics:")[2].partition("\nResources:")[0]
    # The outputs, which this command does not suppress, come last, after an offer of help.
    said = diagnostics.partition("\nOutputs:")[0].partition("[Pulumi Neo]")[0]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    node = _node(environment)["metadata"]["name"]
    resource, pool, found, what_to_do, *engine = lines
    assert resource.startswith("pulumi:pulumi:Stack")
    assert pool.startswith(f"error: pool {POOL}: not verified")
    assert found.startswith(f"node {node}: WrongLayout: GPU 3 wanted 3g.40gb x2, found 1g.10gb x7")
    assert what_to_do.startswith("Nothing was rolled back.")
    assert engine in (
        [],
        ["error: an unhandled error occurred: Program exited with non-zero exit code: 1"],
    )


def test_the_node_keeps_its_taint_and_its_condition_says_why(
    failed: Outcome, environment: Environment
) -> None:
    node = _node(environment)
    assert [t for t in node["spec"]["taints"] if t["key"] == STARTUP_TAINT_KEY]
    condition = next(c for c in node["status"]["conditions"] if c["type"] == NODE_CONDITION)
    assert condition["status"] == "False"
    assert _says_what_is_wrong(condition["message"])


def test_the_next_up_fails_again_without_a_refresh(failed: Outcome, engine: Engine) -> None:
    outcome = engine.up()
    assert outcome.code != 0
    assert _says_what_is_wrong(outcome.output), outcome.output


def test_up_still_fails_after_a_refresh(failed: Outcome, engine: Engine) -> None:
    assert engine.refresh().code == 0
    outcome = engine.up()
    assert outcome.code != 0
    assert _says_what_is_wrong(outcome.output), outcome.output


def test_no_server_is_made_before_the_pools_are_verified(
    failed: Outcome, environment: Environment
) -> None:
    client = Client.from_kubeconfig(next(iter(environment.kubeconfigs().values())))
    assert client.get(SERVERS)["items"] == []


def test_once_they_are_its_servers_are_made(run: Run) -> None:
    (server,) = run.client.get(SERVERS)["items"]
    assert server["metadata"]["name"] == "llm"


def test_once_it_is_right_up_ends_well_and_every_node_is_proven_and_released(run: Run) -> None:
    assert run.up.code == 0, run.up.output
    assert "from $PATH" not in run.up.output, "the engine warns of plugins"
    fleet = proof.read_released_fleet(run.client)
    assert [n.pool for n in fleet] == [POOL]
    assert all(check.holds for check in proof.of_fleet("gke-h100", fleet)), proof.of_fleet(
        "gke-h100", fleet
    )
    assert fleet[0].allocatable == {"nvidia.com/gpu": 16}
    assert [dict(gpu["instances"]) for gpu in fleet[0].gpus] == [{"3g.40gb": 2}] * 8


def test_status_says_that_the_fleet_is_as_declared(run: Run) -> None:
    (kubeconfig,) = run.environment.kubeconfigs().values()
    done = slicewright(run.environment, "status", "-s", "gke-h100", "--kubeconfig", str(kubeconfig))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_pod_that_asks_for_a_gpu_is_not_bound_before_verification(run: Run) -> None:
    assert run.eager.node_when_bound is not None, (
        "the eager pod was never bound: the test saw nothing"
    )
    node = run.eager.node_when_bound
    assert not [t for t in node["spec"].get("taints", []) if t["key"] == STARTUP_TAINT_KEY]
    condition = next(c for c in node["status"]["conditions"] if c["type"] == NODE_CONDITION)
    assert condition["status"] == "True"


def test_a_second_up_reports_no_changes(run: Run) -> None:
    outcome = run.engine.up("--expect-no-changes")
    assert outcome.code == 0, outcome.output


def test_a_refresh_finds_no_drift(run: Run) -> None:
    outcome = run.engine.refresh("--expect-no-changes")
    assert outcome.code == 0, outcome.output


def test_node_has_the_labels_and_taints_of_the_walkthrough(run: Run) -> None:
    node = _node(run.environment)
    labels, taints = (
        node["metadata"]["labels"],
        {(t["key"], t.get("value"), t["effect"]) for t in node["spec"]["taints"]},
    )
    assert labels["role"] == "h100-standard"
    assert labels["cloud.google.com/gke-gpu-partition-size"] == "3g.40gb"
    assert ("nvidia/share", "nvidia-mig", "NoSchedule") in taints
    assert ("nvidia.com/gpu", "present", "NoSchedule") in taints


@pytest.mark.parametrize("taint", ["nvidia.com/gpu", "nvidia/share"])
def test_a_pod_without_one_of_the_tolerations_stays_pending(run: Run, taint: str) -> None:
    """S0-52"""
    name = f"without-{taint.rpartition('/')[2]}"
    path = inside.pod_without_toleration(run.client, GKE_H100, name, taint)
    try:
        assert "untolerated taint" in inside.why_pending(run.client, path)
    finally:
        inside.delete(run.client, path)


def test_a_running_pod_sees_its_one_partition_and_no_other(run: Run) -> None:
    """S0-03, -43, -53: the numbers of the published pod are 60 SMs and 40 GB."""
    run.client.delete("/api/v1/namespaces/default/pods/whole-gpu", gracePeriodSeconds="0")
    paths = [inside.pod_of(run.client, GKE_H100, f"look-{n}") for n in range(2)]
    uuids = []
    for path in paths:
        (gpu,) = inside.seen_by(run.environment, run.client, path)["gpus"]
        (device,) = gpu["devices"]
        assert (gpu["mig"], device["name"].rpartition(" ")[2]) == ("enabled", "3g.40gb")
        assert (device["multiprocessors"], device["memory_mib"] // 1000) == (60, 40)
        uuids.append(device["uuid"])
    assert len(set(uuids)) == 2
    inside.delete(run.client, *paths)


@pytest.mark.long("a pool with too few nodes: tests/infra/program/test_program.py")
def test_preview_and_up_agree_on_a_deleted_node(run: Run) -> None:
    """`up` waits for a pool only where it changes it. The Node comes back with its machine."""
    name = _node(run.environment)["metadata"]["name"]
    pool = f"{GPU_POOLS}/{POOL}"
    run.client.delete(f"/api/v1/nodes/{name}")

    def too_few() -> bool:
        conditions = run.client.get(pool)["status"]["conditions"]
        return any(one["reason"] == "TooFewNodes" for one in conditions)

    until(too_few, "the pool has too few nodes")
    preview = run.engine.preview("--expect-no-changes")
    assert preview.code == 0, preview.output
    assert "TooFewNodes" in preview.output
    assert f"does not change pool {POOL}, so it does not wait for it, and fails" in preview.output
    up = run.engine.up()
    assert up.code != 0
    assert f"pool {POOL}: not verified (TooFewNodes)" in up.output
    assert "comes back only when its instance is replaced" in up.output
    # As people who delete its instance in the cloud.
    faults.inject(run.environment, SpotPreemption(pool=POOL, node=0))
    until_verified(run.client)
    again = run.engine.up("--expect-no-changes")
    assert again.code == 0, again.output


def test_sixteen_pods_are_bound_and_a_seventeenth_stays_pending(run: Run) -> None:
    walkthrough.apply(run.client, GKE_H100)
    assert walkthrough.wait_until_landed(run.client, GKE_H100, 16) == walkthrough.Landing(
        16, 16, 0, ""
    )
    assert walkthrough.wait_until_healthy(run.client, GKE_H100) == walkthrough.Health(16, "")
    walkthrough.scale(run.client, GKE_H100, 17)
    over = walkthrough.wait_until_landed(run.client, GKE_H100, 17)
    assert (over.bound, over.pending) == (16, 1)
    assert "Insufficient nvidia.com/gpu" in over.why_pending


@pytest.mark.long(
    "the report on such a preview: tests/slicewright/test_preview_report_on_engine.py"
)
def test_preview_and_report_warn_of_a_replaced_pool_and_its_pods(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another partition size of GKE's is another node pool."""
    file = run.environment.root / "preview.json"
    stack_file = run.environment.stack_file("gke-h100")
    right = stack_file.read_text()
    stack_file.write_text(right.replace("profile: 3g.40gb", "profile: 2g.20gb", 1))
    try:
        plain, preview = run.engine.preview(), run.engine.preview("--json")
        file.write_text(preview.output)
        (kubeconfig,) = run.environment.kubeconfigs().values()
        capsys.readouterr()
        where = ("-s", str(stack_file), "--live", "--kubeconfig", str(kubeconfig))
        code = cli.main(["preview-report", *where, str(file)])
    finally:
        stack_file.write_text(right)
    assert f"pool {POOL}: its node pool is replaced, so its 1 node goes" in plain.output
    report = capsys.readouterr().out
    assert code == NOT_VERIFIED, report
    assert f"Pool `{POOL}` is replaced, with 1 node, and 16 pods with GPUs end." in report
    assert "more pods" in report


def test_once_the_pool_is_autoscaled_the_seventeenth_brings_a_verified_node(run: Run) -> None:
    """As after `gcloud container clusters update --enable-autoscaling`."""
    pools = run.environment.inventory()["container.nodePool"]
    (pool,) = (name for name in pools if name.endswith(f"/{POOL}"))
    scaling = {"enabled": True, "totalMinNodeCount": 0, "totalMaxNodeCount": 2}
    google(run.environment.root).call(
        "container",
        "projects.locations.clusters.nodePools.setAutoscaling",
        {"name": pool},
        {"autoscaling": scaling},
    )
    enough = replace(GKE_H100, fits=17)
    landing = walkthrough.wait_until_landed(run.client, enough, 17, timeout_s=240)
    assert (landing.bound, landing.pending) == (17, 0)
    nodes = run.client.get("/api/v1/nodes", labelSelector=f"{POOL_LABEL}={POOL}")["items"]
    assert len(nodes) == 2
    for node in nodes:
        assert STARTUP_TAINT_KEY not in {t["key"] for t in node["spec"]["taints"]}
    walkthrough.delete(run.client, GKE_H100)


def test_a_node_broken_in_service_is_held_until_it_is_repaired(run: Run) -> None:
    """By the commands that people type."""
    name, boot = break_one(run, "GpuResetRequested", "--fault", "xid", "--gpu", "1")
    rehearse(run, "repair")
    until_serving_again(run.client, name, boot)


def break_one(run: Run, reason: str, *fault: str) -> tuple[str, str]:
    """A node and its boot, once it is held for the reason."""
    node = run.client.get("/api/v1/nodes", labelSelector=f"{POOL_LABEL}={POOL}")["items"][0]
    name, boot = node["metadata"]["name"], node["status"]["nodeInfo"]["bootID"]

    def held() -> bool:
        found = run.client.get(f"/api/v1/nodes/{name}")
        conditions = {c["type"]: c for c in found["status"]["conditions"]}
        return is_held(found) and conditions[NODE_CONDITION]["reason"] == reason

    rehearse(run, "break", "--node", name, *fault)
    until(held, f"{name} is held: {reason}")
    return name, boot


@pytest.mark.long(
    "a node that is held until it is repaired: tests/rehearsal/scenario/whole_run/test_gke_fleet.py"
)
def test_a_gpu_that_was_partitioned_by_hand_is_drift_and_healed_by_another_machine(
    run: Run,
) -> None:
    """What `gcloud` asks Google for is asked here: there is no gcloud."""
    fault = ("--fault", "repartition", "--gpu", "3", "--profile", "1g.10gb")
    name, boot = break_one(run, "WrongLayout", *fault)
    code, found = silicon_drift(run)
    assert (code, set(found)) == (NOT_VERIFIED, {f"node {name}"})
    assert "GPU 3" in found[f"node {name}"]["what"]
    heal = found[f"node {name}"]["heal"].split()
    assert (heal[:5], heal[5:6]) == (["gcloud", "compute", "instances", "delete", name], ["--zone"])
    (pool,) = (
        one for one in run.environment.inventory()["container.nodePool"] if one.endswith(f"/{POOL}")
    )
    machine = {"project": pool.split("/")[1], "zone": heal[6], "instance": heal[4]}
    google(run.environment.root).call("compute", "instances.delete", machine)
    until_serving_again(run.client, name, boot)
    _, found = silicon_drift(run)
    assert found == {}


def silicon_drift(run: Run) -> tuple[int, Mapping[str, Any]]:
    """Of `slicewright drift`: the exit code, and by where what it finds of the silicon. The pool,
    which is autoscaled by hand, has drifted as well.
    """
    done = slicewright(run.environment, "drift", "-s", "gke-h100", "--json")
    said = json.loads(done.stdout)
    assert "layout and silicon" in said["compared"], done.stdout + done.stderr
    between = [one for one in said["findings"] if one["between"] == "layout and silicon"]
    return done.returncode, {one["where"]: one for one in between}


@pytest.mark.long(
    "a node that is held until it is repaired: tests/rehearsal/scenario/whole_run/test_gke_fleet.py"
)
def test_a_preempted_node_is_replaced_and_proven(run: Run) -> None:
    node = run.client.get("/api/v1/nodes", labelSelector=f"{POOL_LABEL}={POOL}")["items"][0]
    name, boot = node["metadata"]["name"], node["status"]["nodeInfo"]["bootID"]
    rehearse(run, "break", "--fault", "spot-preemption", "--node", name)

    def replaced() -> bool:
        nodes = run.client.get("/api/v1/nodes", labelSelector=f"{POOL_LABEL}={POOL}")["items"]
        uids = {one["metadata"]["uid"] for one in nodes}
        return len(uids) == 2 and node["metadata"]["uid"] not in uids

    until(replaced, f"the cloud replaces {name}")
    # GKE gives the new machine the old one's name.
    until_serving_again(run.client, name, boot)


def rehearse(run: Run, *arguments: str) -> None:
    root = run.environment.root
    where = ("--stack", root.name, "--directory", str(root.parent))
    assert cli.main(["rehearse", *arguments, *where]) == VERIFIED


def test_logs_of_the_agent_can_be_read_through_the_api_server(run: Run) -> None:
    pods = run.client.get("/api/v1/namespaces/slicewright-system/pods")["items"]
    agents = [
        p["metadata"]["name"] for p in pods if p["metadata"]["name"].startswith("node-agent-")
    ]
    assert agents
    assert run.client.text(f"/api/v1/namespaces/slicewright-system/pods/{agents[0]}/log").strip()


def test_state_and_logs_contain_no_key_or_token(run: Run) -> None:
    state = "\n".join(
        p.read_text() for p in (run.environment.root / "pulumi" / "state").rglob("*.json")
    )
    assert POOL in state
    pods = "/api/v1/namespaces/slicewright-system/pods"
    logs = {
        pod["metadata"]["name"]: run.client.text(f"{pods}/{pod['metadata']['name']}/log")
        for pod in run.client.get(pods)["items"]
    }
    assert {name[: name.index("-", 6)] for name in logs} == {"node-agent", "fleet-controller"}
    assert all(logs.values())
    engine = {"state": state, "failed up": run.failed.output, "up": run.up.output}
    for where, text in {**engine, **logs}.items():
        assert "PRIVATE KEY" not in text, where
        assert "client-key-data" not in text, where
        assert not re.search(r"eyJhbGciOi", text), f"a service account's token is in {where}"


def test_destroy_leaves_nothing(run: Run, confined: Path) -> None:
    """By `slicewright destroy`, although the cluster leaves a disk and a load balancer."""
    (cluster,) = run.environment.inventory()["container.cluster"]
    project = cluster.split("/")[1]
    for path, body in _LEFT.items():
        run.client.create(path, json.loads(json.dumps(body).replace("{project}", project)))
    done = slicewright(
        run.environment,
        *("destroy", "-s", "gke-h100", "--yes"),
        *("--disks", "delete", "--drain-wait", "0.2", "--json"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = {one["kind"] for one in json.loads(done.stdout)["deleted"]}
    assert {"disk", "forwarding rule", "firewall rule"} <= kinds
    assert "load balancers, disks and logs of the cluster are not seen by" in done.stderr
    assert run.environment.inventory() == {}
    assert list(run.environment.root.glob("clusters/*")) == []
    environments.stop(run.environment)
    assert _processes_of(run.environment) == []
    left = [p for d in ("home", "tmpdir") for p in (confined / d).rglob("*") if p.is_file()]
    assert left == [], "files outside the environment's directory"


def test_listed_rights_equal_the_used_ones(run: Run) -> None:
    """`slicewright rights`; after `destroy`, so that the log has the whole life of the stack. The
    sweep has rights of its own.
    """
    fleet = plan.read_file(run.environment.stack_file("gke-h100"))
    assert isinstance(fleet, plan.GkeFleetPlan)
    calls = without_sweep(fleet, call_log.read(run.environment.root))
    # Who heals a node by another machine is a person, with a right of their own.
    own = [call for call in calls if call.operation != "instances.delete"]
    assert differences(fleet, own) == []


def _processes_of(environment: Environment) -> list[str]:
    marker = f"SLICEWRIGHT_REHEARSAL={environment.root}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if marker in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(f"{entry.name} {(entry / 'comm').read_text().strip()}")
            except OSError:
                continue
    return found
