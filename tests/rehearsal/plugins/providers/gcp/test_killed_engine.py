"""The real engine and the gcp provider, killed in mid-creation: no duplicate, no orphan.

The cloud's control planes are fake: nothing of the cluster runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from slicewright.rehearsal.host.processes import marks
from slicewright.rehearsal.host.processes.marks import marked
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.scenario import environment as environments
from slicewright.rehearsal.scenario.engine_runs import Engine, Outcome
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.clouds.services import Start, services

pytestmark = [pytest.mark.rehearsal]

PROGRAM = """
import pulumi
import pulumi_gcp as gcp

provider = gcp.Provider("google", project="acme", region="us-central1")
options = pulumi.ResourceOptions(provider=provider)
network = gcp.compute.Network("net", auto_create_subnetworks=False, opts=options)
subnetwork = gcp.compute.Subnetwork(
    "sub", network=network.id, ip_cidr_range="10.0.0.0/20", opts=options)
cluster = gcp.container.Cluster("main", name="main", location="us-central1", network=network.id,
    subnetwork=subnetwork.id, initial_node_count=1, remove_default_node_pool=True,
    deletion_protection=False, opts=options)
gcp.container.NodePool("pool", name="pool", cluster=cluster.id, node_count=2,
    node_locations=["us-central1-c"],
    node_config=gcp.container.NodePoolNodeConfigArgs(machine_type="e2-standard-4"), opts=options)
"""
PROJECT = """
name: killed
runtime: {name: python, options: {toolchain: pip, virtualenv: .venv}}
main: infra/
stackConfigDir: stacks/
"""
KINDS = ["compute.network", "compute.subnetwork", "container.cluster", "container.nodePool"]


class Stack:
    """One stack in an environment whose cloud can be slowed down and restarted."""

    def __init__(self, environment: Environment, start: Start) -> None:
        self.environment = environment
        self.engine = Engine(environment, "killed")
        self._start = start
        self._service = start()

    def slow(self, **delays_s: float) -> None:
        """Kinds of work that the cloud begins and does not finish until `resume`."""
        path = self.environment.root / "cloud" / "delays.json"
        path.write_text(json.dumps({k.replace("_", "."): v for k, v in delays_s.items()}))

    def resume(self) -> None:
        (self.environment.root / "cloud" / "delays.json").unlink(missing_ok=True)
        self._service.kill()
        self._service.wait()
        (self.environment.root / "cloud.sock").unlink(missing_ok=True)
        self._service = self._start()

    def killed_when(self, kind: str, name: str, *, only: str = "") -> str:
        """`pulumi up` whose processes get SIGKILL when the cloud has that resource.

        only: part of the command line of those that are killed; the others end by themselves.
        """
        variables = dict(os.environ) | self.environment.variables()
        variables |= marks(self.environment.root, "pulumi")
        process = subprocess.Popen(
            [
                self.environment.root / "bin" / "pulumi",
                *("up", "--yes", "--skip-preview", "--non-interactive"),
                *("--stack", "killed", "--color", "never"),
            ],
            cwd=self.environment.project,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        deadline = time.monotonic() + 300
        while name not in self.environment.inventory().get(kind, ()):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.02)
        for seen in marked(self.environment.root, "pulumi"):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                if only in Path(f"/proc/{seen.pid}/cmdline").read_text():
                    os.kill(seen.pid, signal.SIGKILL)
        return process.communicate(timeout=300)[0]

    def unlock(self) -> None:
        """As the engine asks for: its lock outlives it."""
        self.ended(self.engine._run("cancel", "--yes", "--stack", "killed"))

    def recover(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                self.environment.root / "bin" / "slicewright",
                "recover",
                "--stack",
                "killed",
                *options,
            ],
            cwd=self.environment.project,
            env=dict(os.environ) | self.environment.variables(),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def has_exactly_what_the_program_says(self) -> None:
        found = self.environment.inventory()
        assert {kind: len(names) for kind, names in found.items()} == dict.fromkeys(KINDS, 1)

    def goes_on_after(self, recovered: subprocess.CompletedProcess[str], identity: str) -> None:
        assert recovered.returncode == 0, recovered.stdout + recovered.stderr
        assert f"as {identity}\n" in recovered.stdout
        self.ended(self.engine.up())
        self.has_exactly_what_the_program_says()
        self.ended(self.engine.up("--expect-no-changes"))
        self.ended(self.engine.destroy())
        assert self.environment.inventory() == {}

    def ended(self, outcome: Outcome) -> str:
        assert outcome.code == 0, outcome.output
        return outcome.output


@pytest.fixture
def stack(toolchain: Toolchain) -> Iterator[Stack]:
    # Short, because unix sockets lie in it.
    root = Path(tempfile.mkdtemp(prefix="sw-", dir="/tmp")) / "killed"
    environment = environments.create(root, toolchain)
    (environment.project / "Pulumi.yaml").unlink()
    (environment.project / "Pulumi.yaml").write_text(PROJECT)
    (environment.project / "infra").unlink()
    (environment.project / "infra").mkdir()
    (environment.project / "infra" / "__main__.py").write_text(PROGRAM)
    environment.stack_file("killed").write_text("config: {}\n")
    with services(environment.root) as start:
        stack = Stack(environment, start)
        stack.ended(stack.engine.init())
        yield stack
        for seen in marked(environment.root):
            with suppress(ProcessLookupError):
                os.kill(seen.pid, signal.SIGKILL)
    shutil.rmtree(root.parent, ignore_errors=True)


CLUSTER = "projects/acme/locations/us-central1/clusters/main"


def test_creation_of_a_killed_engine_is_recovered(stack: Stack) -> None:
    stack.slow(container_clusters_create=600)
    stack.killed_when("container.cluster", CLUSTER)
    stack.resume()
    stack.unlock()
    # As with the official providers: a refresh knows no id, and the cluster is in the way.
    output = stack.engine.refresh().output + stack.engine.up().output
    assert "ALREADY_EXISTS" in output
    stack.goes_on_after(stack.recover(), CLUSTER)


@pytest.mark.long("a killed engine: tests/rehearsal/plugins/providers/gcp/test_killed_engine.py")
def test_creation_of_a_killed_provider_is_recovered(stack: Stack) -> None:
    """The engine lives, reports the death, and forgets the pool: it waits for no id."""
    stack.slow(container_nodePools_converge=600)
    pool = f"{CLUSTER}/nodePools/pool"
    output = stack.killed_when("container.nodePool", pool, only="providers.gcp")
    assert "error reading from server: EOF" in output
    stack.resume()
    assert "ALREADY_EXISTS" in stack.engine.up().output
    assert "no creation was interrupted" in stack.recover().stdout
    urn = "urn:pulumi:killed::killed::gcp:container/nodePool:NodePool::pool"
    stack.goes_on_after(stack.recover("--adopt", urn), pool)
