"""existing-a100-t4's pools under a GPU operator that the cluster has already, and back."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from slicewright.apis import names
from slicewright.infra import plan
from slicewright.infra.plan import ExistingFleetPlan
from slicewright.kubeapi import ApiError, Client
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.scenario import existing_cluster
from slicewright.rehearsal.scenario.engine_runs import Engine, Outcome
from slicewright.rehearsal.scenario.environment import Environment
from slicewright.rehearsal.scenario.existing_cluster import operator_to_adopt, record
from tests.rehearsal.scenario.stack_edits import edited_fleet
from tests.rehearsal.scenario.whole_run.from_git import slicewright
from tests.rehearsal.scenario.whole_run.waiting import until

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.long(
        "what an adopted operator must have: tests/infra/manifests/test_adopted_operator.py"
    ),
]
NAMESPACE = "nvidia"
A100, T4 = "a100-40gb", "tesla-t4"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
NODES = "/api/v1/nodes"


@pytest.fixture(scope="module")
def engine(make_environment: Callable[[str], Environment]) -> Engine:
    """The stack adopts the operator, disables MIG on destroy, and taints new nodes."""
    environment = make_environment("existing-a100-t4")
    stack_file = environment.stack_file("existing-a100-t4")
    with edited_fleet(stack_file) as fleet:
        fleet |= {
            "gpu_operator": {"existing": True, "namespace": NAMESPACE, "mig_strategy": "mixed"},
            "on_destroy": {"mig_layout": "disable"},
            "startup_taint": "admission-policy",
        }
    fleet = plan.read_file(stack_file)
    assert isinstance(fleet, ExistingFleetPlan)
    existing_cluster.make(environment, fleet)
    engine = Engine(environment, "existing-a100-t4", print)
    assert engine.init().code == 0
    return engine


@pytest.fixture(scope="module")
def client(engine: Engine) -> Client:
    return Client.from_kubeconfig(engine.environment.user_kubeconfig)


@pytest.fixture(scope="module")
def before(client: Client, engine: Engine) -> Mapping[str, Any]:
    """Every object of the cluster; the operator is done with its nodes."""
    assert labels(client, A100)[names.MIG_STATE_LABEL] == "success"
    assert "nvidia.com/gpu.count" in labels(client, T4)
    return record.settled(client, timeout_s=120)


@pytest.fixture(scope="module")
def refused(client: Client, engine: Engine, before: Mapping[str, Any]) -> Outcome:
    return engine.up()


def pools(client: Client) -> list[Any] | None:
    """None while the API server does not serve the new kind yet: it was made a moment ago."""
    try:
        return list(client.get(path_of(names.API_VERSION, names.POOL_PLURAL))["items"])
    except ApiError as e:
        if e.status in (404, 429):
            return None
        raise


def labels(client: Client, pool: str) -> Mapping[str, str]:
    found: Mapping[str, str] = client.get(f"{NODES}/{pool}-1")["metadata"]["labels"]
    return found


def offered(client: Client, pool: str) -> Mapping[str, str]:
    found = client.get(f"{NODES}/{pool}-1")["status"]["allocatable"]
    return {k: v for k, v in found.items() if k.startswith("nvidia.com/") and v != "0"}


def test_an_operator_that_would_not_serve_the_pools_fails_up_before_any_pool(
    refused: Outcome, client: Client
) -> None:
    assert refused.code != 0
    for field in (
        "mig.strategy: wanted mixed, found single",
        "migManager.config.name: wanted mig-layouts-",
        "devicePlugin.config.name: wanted plugin-configs-",
        "daemonsets.tolerations: wanted",
    ):
        assert f"spec.{field}" in refused.output
    assert "Traceback" not in refused.output
    until(lambda: pools(client) == [], "the pools' kind is served, and there is none")
    assert client.get(POLICY)["spec"]["mig"]["strategy"] == "single", "it was only read"


def test_up_succeeds_after_the_command_of_the_message(
    refused: Outcome, client: Client, engine: Engine
) -> None:
    command = existing_cluster.command_in(refused.output)
    assert command is not None
    existing_cluster.run(engine.environment, command)
    up = engine.up()
    assert up.code == 0, up.output
    assert offered(client, A100) == {
        "nvidia.com/mig-1g.5gb": "8",
        "nvidia.com/mig-2g.10gb": "3",
        "nvidia.com/mig-3g.20gb": "4",
    }
    assert offered(client, T4) == {"nvidia.com/gpu": "14"}
    assert [one["metadata"]["name"] for one in client.get(POLICIES)["items"]] == [
        "slicewright-startup-taint"
    ]


def test_a_second_up_reports_no_changes(engine: Engine) -> None:
    outcome = engine.up("--expect-no-changes")
    assert outcome.code == 0, outcome.output


def destroy(engine: Engine) -> tuple[int, str]:
    done = slicewright(engine.environment, "destroy", "-s", "existing-a100-t4", "--yes")
    return done.returncode, done.stdout + done.stderr


def test_destroy_names_the_files_that_the_operator_would_miss(
    client: Client, engine: Engine
) -> None:
    """Else its next mig-manager would wait for a ConfigMap that is gone."""
    adopted = client.get(POLICY)["spec"]
    code, said = destroy(engine)
    assert code == 1, said
    assert client.get(POLICY)["spec"] == adopted, "it was only read"
    assert "ClusterPolicy cluster-policy names ConfigMaps that no longer exist" in said
    (command,) = {
        line[line.index("kubectl patch") :]
        for line in said.splitlines()
        if "that no longer exist" in line and "kubectl patch" in line
    }
    client.patch(POLICY, json.loads(shlex.split(command)[-1]), kind="merge")
    code, said = destroy(engine)
    assert code == 0, said
    assert "nothing is left" in said


def test_mig_is_off_and_the_operators_pods_start_again(client: Client) -> None:
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    ended = {pod["metadata"]["uid"] for pod in client.get(pods)["items"]}
    client.delete(pods, labelSelector="app=nvidia-mig-manager")

    def started() -> bool:
        found = client.get(pods, labelSelector="app=nvidia-mig-manager")["items"]
        return any(
            pod["metadata"]["uid"] not in ended and pod["status"].get("phase") == "Running"
            for pod in found
        )

    until(started, "another mig-manager runs")
    phases = {pod["status"].get("phase") for pod in client.get(pods)["items"]}
    assert phases <= {"Running", "Succeeded"}
    until(lambda: offered(client, A100) == {"nvidia.com/gpu": "1"}, "a whole GPU again")
    assert labels(client, A100)[names.MIG_CONFIG_LABEL] == "all-disabled"
    assert labels(client, A100)[names.MIG_STATE_LABEL] == "success"


def test_cluster_is_unchanged_after_the_operators_settings_are_restored(
    client: Client, before: Mapping[str, Any]
) -> None:
    """But for the pods of the operator itself, which are others since its settings changed, what
    belongs to them, and when feature discovery last looked.
    """
    operator_to_adopt.set_back(client, before)

    def others() -> list[str]:
        found = record.compare(before, record.read(client))
        others = [line for line in found if f"/{NAMESPACE}/" not in line.partition(":")[0]]
        return [line for line in others if "[nvidia.com/gfd.timestamp]" not in line]

    deadline = time.monotonic() + 180
    while left := others():
        assert time.monotonic() < deadline, "\n".join(left)
        time.sleep(1)
    assert client.get(POLICIES)["items"] == []
