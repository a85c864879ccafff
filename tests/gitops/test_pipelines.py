"""From a commit to a fleet and back to what main says: the pipelines' own commands, from a bare git
repository, with the real engine, the policy pack and the simulated clouds.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.plugins.engine import language_host
from tests.gitops.pipelines import ROOT, Job, github, gitlab, known
from tests.infra.cloud_engine import PROJECT, CloudEngine, Ran, cloud_engine

pytestmark = pytest.mark.long(
    "the same pipelines, from a push to the fleet: "
    "tests/rehearsal/scenario/whole_run/test_gke_fleet.py and "
    "tests/rehearsal/scenario/whole_run/test_eks_fleet.py"
)

STACK = "production"
PROGRAM = """\
import json

import pulumi
import pulumi_gcp as gcp

from slicewright.infra import plan, stack_file
from slicewright.infra.components.gke.cluster import GkeCluster

text = pulumi.Config("slicewright").require("fleet")
fleet = plan.read(text, stack_file.Source("the stack file", json.loads(text)))
provider = gcp.Provider("gcp", project="slicewright-test", region=fleet.cluster.region)
GkeCluster("gke", fleet, project="slicewright-test", provider=provider)
"""
"""The cloud's part of infra/program.py: without a cluster's API server, `up` takes seconds."""
POOL = {
    "name": "a100",
    "machine_type": "a2-highgpu-1g",
    "zones": ["us-central1-c"],
    "partition": {"mode": "native", "profile": "1g.5gb"},
    "nodes": {"count": 2},
    "resource_labels": {"owner": "ml", "cost-center": "7"},
}
OFFICE = {"authorized_networks": [{"cidr": "203.0.113.0/24", "name": "office"}]}
LOCK = '{"pid": 1, "username": "ci", "hostname": "gone", "timestamp": "2026-01-01T00:00:00Z"}'


@dataclass(frozen=True)
class Repository:
    """A bare repository, and a clone of it in which pipelines run."""

    clone: Path
    engine: CloudEngine
    platform: str
    job: Callable[[str, str], Job]

    def git(self, *arguments: str) -> str:
        who = {
            f"GIT_{role}_{key}": "t@example.org"
            for role in ("AUTHOR", "COMMITTER")
            for key in ("NAME", "EMAIL")
        }
        return subprocess.run(
            ["git", *arguments],
            cwd=self.clone,
            env={**os.environ, **who},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def branch(
        self,
        name: str,
        /,
        *,
        acknowledged: tuple[str, ...] = (),
        open_to_all: bool = False,
        **pool: Any,
    ) -> None:
        """A branch off main with this fleet, pushed."""
        self.git("checkout", "--quiet", "-B", name, "origin/main")
        file = self.clone / "stacks" / f"Pulumi.{STACK}.yaml"
        # The engine keeps its salt beside the configuration.
        stack = yaml.safe_load(file.read_text()) if file.exists() else {}
        cluster: dict[str, Any] = {"name": "main", "location": "us-central1"}
        cluster["resource_labels"] = POOL["resource_labels"]
        if not open_to_all:
            cluster["control_plane"] = OFFICE
        fleet = {"cloud": "gke", "cluster": cluster, "node_pools": [{**POOL, **pool}]}
        stack["config"] = {"slicewright:fleet": fleet}
        if acknowledged:
            stack["config"]["slicewright:acknowledged"] = [*acknowledged]
        file.write_text(yaml.safe_dump(stack))
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", name)
        self.git("push", "--quiet", "--force", "origin", name)

    def merge(self, name: str) -> None:
        """As a platform merges: main goes on to the branch's commit."""
        self.git("push", "--quiet", "origin", f"origin/{name}:main")
        self.git("fetch", "--quiet", "origin")
        self.git("checkout", "--quiet", "--detach", "origin/main")

    def run(self, name: str, **more: str) -> list[Ran]:
        """The commands of a job, each whether or not the one before it failed."""
        job = self.job(name, STACK)
        expressions = known(self.platform, stack=STACK, main="main")
        given = {k: v for k, v in job.expanded(expressions).items() if v}
        variables = {**self.engine.variables, "STACK": STACK, "CONFIRM": STACK, **given, **more}
        return [self._run(command, variables) for command in job.commands]

    def _run(self, command: str, variables: Mapping[str, str]) -> Ran:
        done = subprocess.run(
            # As both platforms run a step.
            ["bash", "-e", "-c", command],
            cwd=self.clone,
            env=dict(variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=400,
        )
        return Ran(done.returncode, done.stdout)

    def deployed(self) -> str:
        """The commit that counts as deployed; what is said about it is not of interest."""
        ran = self._run(f"slicewright deployed -s {STACK} 2> /dev/null", self.engine.variables)
        assert ran.code == 0
        return ran.output.strip()

    def base(self, job: str) -> dict[str, Any]:
        """The fleet with which a job's report was compared."""
        file = self.clone / job / "before.yaml"
        return dict(yaml.safe_load(file.read_text())["config"]["slicewright:fleet"])

    def report(self, job: str) -> str:
        return (self.clone / job / "report.md").read_text()


# GitLab runs the same commands with the same variables: test_examples.py.
@pytest.fixture(params=["github"])
def repository(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    toolchain: Toolchain,
    policy_environment: Path,
) -> Iterator[Repository]:
    (tmp_path / "e").mkdir()
    with cloud_engine(tmp_path / "e", toolchain) as engine:
        programs = tmp_path / "bin"
        programs.mkdir()
        (programs / "pulumi").symlink_to(toolchain.pulumi)
        (programs / "slicewright").symlink_to(Path(sys.executable).with_name("slicewright"))
        host = programs / "pulumi-language-python"
        host.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m {language_host.__name__} \"$@\"\n")
        host.chmod(0o755)
        path = f"{programs}:{engine.variables['PATH']}"
        engine = CloudEngine(
            engine.directory, engine.cloud, engine.pulumi, {**engine.variables, "PATH": path}
        )
        bare, clone = tmp_path / "bare.git", tmp_path / "clone"
        subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", str(bare)], check=True)
        subprocess.run(
            ["git", "clone", "--quiet", str(bare), str(clone)], check=True, capture_output=True
        )
        job = {"github": github, "gitlab": gitlab}[request.param]
        made = Repository(clone, engine, request.param, job)
        (clone / "stacks").mkdir()
        (clone / "Pulumi.yaml").write_text("name: fleet\nruntime: python\nstackConfigDir: stacks\n")
        (clone / "__main__.py").write_text(PROGRAM)
        (clone / ".gitignore").write_text("preview/\ndeploy/\n__pycache__/\n")
        shutil.copytree(ROOT / "gitops", clone / "gitops")
        # A link: the pack's environment lies in it.
        (clone / "policy").symlink_to(ROOT / "policy")
        init = made._run(f"pulumi stack init {STACK}", engine.variables)
        assert init.code == 0, init.output
        made.git("checkout", "--quiet", "-B", "main")
        # Without the stack's file: it comes with the first fleet.
        made.git("add", "Pulumi.yaml", "__main__.py", ".gitignore", "gitops", "policy")
        made.git("commit", "--quiet", "--message", "a project")
        made.git("push", "--quiet", "origin", "main")
        yield made


def test_a_change_goes_from_a_request_by_its_report_and_rules_into_the_cloud(
    repository: Repository,
) -> None:
    here = repository

    # A first fleet: reported, within the rules, merged, made.
    here.branch("first")
    report, rules = here.run("preview")
    assert (report.code, rules.code) == (0, 0), report.output + rules.output
    assert here.report("preview").startswith(f"<!-- slicewright preview-report {STACK} -->")
    assert nodes(here) == 0, "a preview makes nothing"
    here.merge("first")
    deploy, unlock = here.run("deploy")
    assert (deploy.code, unlock.code) == (0, 0), deploy.output + unlock.output
    assert nodes(here) == 2
    first = here.git("rev-parse", "HEAD")
    assert here.deployed() == first

    # An API that is open to all ends no pod, but breaks a rule.
    here.branch("open", open_to_all=True)
    report, rules = here.run("preview")
    assert report.code == 0, report.output
    assert rules.code != 0
    assert "cluster-endpoint" in rules.output

    # Spot nodes replace the pool: refused until the stack file acknowledges it, also after a merge.
    here.branch("spot", name="batch-a100", capacity="spot")
    report, rules = here.run("preview")
    assert (report.code, rules.code) == (1, 0), report.output + rules.output
    (code,) = re.findall(r'> +- "(.*)"', here.report("preview"))
    here.merge("spot")
    deploy, _ = here.run("deploy")
    assert deploy.code == 1, deploy.output
    assert nodes(here) == 2, "what was not acknowledged is not done"
    here.branch("meant", acknowledged=(code,), name="batch-a100", capacity="spot")
    assert [ran.code for ran in here.run("preview")] == [0, 0]
    # `main` has the spot nodes already; what is in the cloud is the first fleet.
    (pool,) = here.base("preview")["node_pools"]
    assert pool == POOL, "what a deployment was refused is in no base"
    assert here.deployed() == first
    here.merge("meant")
    deploy, _ = here.run("deploy")
    assert deploy.code == 0, deploy.output
    assert (nodes(here), nodes(here, "batch-a100")) == (0, 2)
    meant = here.git("rev-parse", "HEAD")
    assert here.deployed() == meant

    # The first deployment's job, started again, would take the second one back.
    here.git("checkout", "--quiet", "--detach", first)
    deploy, _ = here.run("deploy")
    assert deploy.code == 2, deploy.output
    assert f"{first} does not follow {meant}" in deploy.output
    here.git("checkout", "--quiet", "--detach", meant)

    # Somebody scales the pool by hand: reported, and healed by the next deployment. Here the runner
    # does not reach the cluster: it says that GPUs and operator were not seen.
    (drift,) = here.run("drift", CLOUD_ONLY="true")
    assert drift.code == 0, drift.output
    (drift,) = here.run("drift")
    assert drift.code == 3, drift.output
    assert "not compared, layout and silicon" in drift.output
    scale_by_hand(here, "batch-a100", 1)
    (drift,) = here.run("drift", CLOUD_ONLY="true")
    assert drift.code == 7, drift.output
    (drift,) = here.run("drift")
    assert drift.code == 1, drift.output
    assert f"pulumi up --refresh --stack {STACK}" in drift.output
    assert nodes(here, "batch-a100") == 1, "looking for drift changes nothing"

    # The lock of a job that was killed on another runner: the job's own unlock leaves it, and
    # nothing goes on until a person has looked there and names that runner.
    lock = here.engine.directory.parent / "state/.pulumi/locks/organization/fleet" / STACK
    lock.mkdir(parents=True, exist_ok=True)
    (lock / "left.json").write_text(LOCK)
    for more in ({"CLOUD_ONLY": "true"}, {}):
        (drift,) = here.run("drift", **more)
        assert drift.code == 3, drift.output
        assert "pulumi 1 of ci on gone" in drift.output
    deploy, unlock = here.run("deploy")
    assert deploy.code != 0
    assert "lock" in deploy.output
    assert unlock.code == 1
    assert "pass --host gone" in unlock.output
    (recover,) = here.run("recover", CONFIRM="staging")
    assert recover.code == 2
    (recover,) = here.run("recover")
    assert recover.code == 1, recover.output
    assert (lock / "left.json").exists()
    (recover,) = here.run("recover", HOST="gone")
    assert recover.code == 0, recover.output
    assert not (lock / "left.json").exists()

    # The lock of a pulumi that was killed in this job's deployment goes with the job.
    mine = {**json.loads(LOCK), "pid": ended_process(), "hostname": socket.gethostname()}
    (lock / "mine.json").write_text(json.dumps(mine))
    deploy, unlock = here.run("deploy")
    assert deploy.code != 0
    assert (unlock.code, (lock / "mine.json").exists()) == (0, False), unlock.output
    deploy, _ = here.run("deploy")
    assert deploy.code == 0, deploy.output
    assert nodes(here, "batch-a100") == 2, "what drifted is healed"


def test_a_base_that_was_not_fetched_is_not_taken_for_a_new_stack(repository: Repository) -> None:
    here = repository
    here.branch("first")
    report, _ = here.run("preview", BASE="origin/never-fetched")
    assert report.code == 2
    assert "not a commit of this checkout" in report.output
    report, _ = here.run("preview", BASE="0" * 40)
    assert report.code == 0, report.output


def nodes(here: Repository, pool: str = str(POOL["name"])) -> int:
    """Of a pool, in the simulated GKE."""
    label = "cloud.google.com/gke-nodepool"
    return sum(one["metadata"]["labels"][label] == pool for one in here.engine.nodes("main"))


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def scale_by_hand(here: Repository, pool: str, count: int) -> None:
    name = f"projects/{PROJECT}/locations/us-central1/clusters/main/nodePools/{pool}"
    operation = "projects.locations.clusters.nodePools.setSize"
    here.engine.cloud.call("container", operation, {"name": name}, {"nodeCount": count})
    deadline = time.monotonic() + 120
    while nodes(here, pool) != count:
        assert time.monotonic() < deadline
        here.engine.cloud.look_around()
        time.sleep(0.02)
