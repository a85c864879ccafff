"""Drift of eks-a100, made behind Pulumi's back: `slicewright drift` finds it, and the commands that
it names heal it.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slicewright.apis.names import POOL_LABEL
from slicewright.exit_codes import NOT_VERIFIED, VERIFIED
from slicewright.infra import manifests, plan
from slicewright.kubeapi import Client
from slicewright.rehearsal.cluster.silicon import state
from slicewright.rehearsal.scenario import cloud_variables
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.scenario.stack_edits import edited_fleet

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.timeout(900),
    pytest.mark.long(
        "drift of program and cloud, found and healed: tests/slicewright/drift/test_on_engine.py"
    ),
]
POOL = "demo-gpu-workers"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"
CONFIGS = "/api/v1/namespaces/gpu-operator/configmaps"
SECRETS = "/api/v1/namespaces/gpu-operator/secrets"


@dataclass(frozen=True)
class Looked:
    code: int
    said: Mapping[str, Any]

    def found(self, between: str) -> dict[str, dict[str, Any]]:
        """By where."""
        return {f["where"]: f for f in self.said["findings"] if f["between"] == between}

    @property
    def heals(self) -> list[str]:
        return list(dict.fromkeys(f["heal"] for f in self.said["findings"]))


@dataclass(frozen=True)
class Fleet:
    environment: Environment

    @property
    def client(self) -> Client:
        return Client.from_kubeconfig(next(iter(self.environment.kubeconfigs().values())))

    def drift(self) -> Looked:
        slicewright = Path(sys.executable).with_name("slicewright")
        done = self.shell(f"'{slicewright}' drift -s eks-a100 --json")
        return Looked(done.returncode, json.loads(done.stdout or "{}"))

    def heal(self, command: str) -> None:
        """As a person who says yes."""
        command = command.replace("pulumi up", "pulumi up --yes --skip-preview --non-interactive")
        done = self.shell(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        # kubectl asks the stack's cluster; slicewright finds it by itself.
        (kubeconfig,) = self.environment.kubeconfigs().values()
        kept = {k: v for k, v in os.environ.items() if k not in cloud_variables.USERS_OWN}
        variables = {**kept, **self.environment.variables()}
        if command.startswith("kubectl"):
            variables["KUBECONFIG"] = str(kubeconfig)
        return subprocess.run(
            ["sh", "-c", command],
            cwd=self.environment.project,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def fleet(make_environment: Callable[[str], Environment]) -> Fleet:
    environment = make_environment("eks-a100")
    engine = Engine(environment, "eks-a100", print)
    assert engine.init().code == 0
    up = engine.up()
    assert up.code == 0, up.output
    return Fleet(environment)


def test_a_fleet_that_was_just_made_has_no_drift(fleet: Fleet) -> None:
    looked = fleet.drift()
    assert looked.said["findings"] == []
    assert looked.said["unseen"] == []
    assert looked.said["compared"] == [
        "program and state",
        "state and cloud",
        "layout and silicon",
        "declared and installed operator",
    ]
    assert looked.code == VERIFIED


def test_drift_in_file_cloud_and_operator_is_found_and_repaired(fleet: Fleet) -> None:
    stack_file = fleet.environment.stack_file("eks-a100")
    with edited_fleet(stack_file) as declared:
        (pool,) = declared["node_pools"]
        pool["tags"] = {"team": "ml"}
    policy = {"spec": {"dcgmExporter": {"enabled": False}}}
    fleet.client.patch(POLICY, policy)
    planned = plan.read_file(stack_file)
    config = manifests.operator_files(planned).mig_layouts.name
    fleet.client.delete(f"{CONFIGS}/{config}")
    upgrade_by_hand(fleet.client, "v26.3.0")

    looked = fleet.drift()

    assert looked.code == NOT_VERIFIED
    assert looked.said["unseen"] == []
    groups = {w for w in looked.found("program and state") if w.startswith("aws:eks/nodeGroup")}
    assert groups == {f"aws:eks/nodeGroup:NodeGroup eks-{POOL}"}
    (gone,) = (w for w in looked.found("state and cloud") if "ConfigMap" in w)
    assert looked.found("state and cloud")[gone]["what"] == "is in the state, but not in the cloud"
    operator = looked.found("declared and installed operator")
    assert set(operator) == {
        "Helm release gpu-operator",
        f"ConfigMap gpu-operator/{config}",
        "ClusterPolicy cluster-policy",
    }
    assert "wanted v26.7.0, found v26.3.0" in operator["Helm release gpu-operator"]["what"]
    changed = operator["ClusterPolicy cluster-policy"]["what"]
    assert changed == "spec.dcgmExporter.enabled: wanted true, found false"

    for command in looked.heals:
        if command.startswith("helm "):
            # The rehearsal has no Helm; this is what that command leaves.
            assert "--version v26.7.0 --reuse-values" in command
            upgrade_by_hand(fleet.client, "v26.7.0")
        else:
            fleet.heal(command)
    again = fleet.drift()
    assert again.said["findings"] == []
    assert again.code == VERIFIED
    assert fleet.client.get(POLICY)["spec"]["dcgmExporter"]["enabled"] is True


def test_a_gpu_that_was_partitioned_by_hand_is_found_and_healed(fleet: Fleet) -> None:
    (node,) = fleet.client.get("/api/v1/nodes", labelSelector=f"{POOL_LABEL}={POOL}")["items"]
    name = node["metadata"]["name"]
    (silicon,) = fleet.environment.root.glob(f"clusters/*/nodes/{name}/silicon/state")
    state.repartition(silicon, 3, ["2g.10gb"] * 3)

    looked = until(fleet, lambda looked: f"node {name}" in looked.found("layout and silicon"))

    found = looked.found("layout and silicon")[f"node {name}"]
    assert looked.code == NOT_VERIFIED
    assert found["what"].startswith("WrongLayout: ")
    # Pulumi sees none of it.
    assert not looked.found("program and state")
    assert not looked.found("state and cloud")
    fleet.heal(found["heal"])
    until(fleet, lambda looked: looked.code == VERIFIED)
    cut = state.load(silicon).gpus[3].instances
    assert len(cut) == 7


def until(fleet: Fleet, holds: Callable[[Looked], bool]) -> Looked:
    deadline = time.monotonic() + 400
    while not holds(looked := fleet.drift()):
        assert time.monotonic() < deadline, looked
    return looked


def upgrade_by_hand(client: Client, version: str) -> None:
    """What `helm upgrade` to another chart leaves in the release's record."""
    records = client.get(SECRETS, labelSelector="owner=helm,name=gpu-operator,status=deployed")
    (secret,) = records["items"]
    packed = base64.b64decode(base64.b64decode(secret["data"]["release"]))
    record = json.loads(gzip.decompress(packed))
    record["chart"]["metadata"]["version"] = version
    body = base64.b64encode(gzip.compress(json.dumps(record).encode()))
    data = {"data": {"release": base64.b64encode(body).decode()}}
    client.patch(f"{SECRETS}/{secret['metadata']['name']}", data)
