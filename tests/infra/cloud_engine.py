"""The program's part of a cloud, through the real engine and over the simulated clouds, without a
cluster's API server: nodes are files, and everything is done in seconds.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.clouds.aws.account import FILE, PROMPT, write_account
from slicewright.rehearsal.clouds.core.fake_control_planes import fake_nodes
from slicewright.rehearsal.clouds.service import Cloud
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.plugins.engine.home import make_home
from slicewright.rehearsal.plugins.engine.language_host import LanguageHost, attach
from slicewright.rehearsal.plugins.engine.provider_server import AttachedServer
from slicewright.rehearsal.plugins.providers.aws.provider import AwsProvider
from slicewright.rehearsal.plugins.providers.gcp.provider import GcpProvider
from tests.rehearsal.plugins.bridge.engine import cloud_in

REGION = "us-west-2"
"""Of AWS, in which these tests ask."""
PROJECT = "slicewright-test"
"""Of Google Cloud."""
BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"
"""Of roles in AWS."""
_PROGRAM = """\
import json
from pathlib import Path

import pulumi_aws as aws
import pulumi_gcp as gcp

from slicewright.infra import plan, stack_file
from slicewright.infra.components.eks.cluster import EksCluster
from slicewright.infra.components.gke.cluster import GkeCluster

raw = json.loads(Path("fleet.json").read_text())
fleet = plan.read(json.dumps(raw), stack_file.Source("fleet.json", raw))
if isinstance(fleet, plan.EksFleetPlan):
    EksCluster("eks", fleet, provider=aws.Provider("aws", region=fleet.cluster.region))
else:
    project = "slicewright-test"
    provider = gcp.Provider("gcp", project=project, region=fleet.cluster.region)
    GkeCluster("gke", fleet, project=project, provider=provider)
"""


@dataclass(frozen=True)
class Ran:
    code: int
    output: str

    @property
    def steps(self) -> Mapping[str, str]:
        """Resource -> the last thing said of it: created, updated, replace."""
        row = re.compile(r"^ ?[-+~]{1,2} +[\w:/]+ (?P<name>[\w-]+) (?P<what>[a-z]+)", re.M)
        return {found["name"]: found["what"] for found in row.finditer(self.output)}


@dataclass(frozen=True)
class CloudEngine:
    """One stack of the program's cloud component."""

    directory: Path
    cloud: Cloud
    pulumi: Path
    variables: Mapping[str, str]

    def write(self, fleet: Mapping[str, Any]) -> None:
        """What the program declares from now on: a fleet, or what else its program reads."""
        (self.directory / "fleet.json").write_text(json.dumps(fleet))

    def up(self, fleet: Mapping[str, Any], *flags: str) -> Ran:
        self.write(fleet)
        return self.run("up", "--yes", "--skip-preview", *flags)

    def preview(self, fleet: Mapping[str, Any], *flags: str) -> Ran:
        self.write(fleet)
        return self.run("preview", *flags)

    def operations(self, fleet: Mapping[str, Any], *flags: str) -> Mapping[str, set[str]]:
        """Resource -> what the engine would do with it: `same`, `update`, `replace` and others."""
        preview = self.preview(fleet, "--json", *flags)
        assert preview.code == 0, preview.output
        found: dict[str, set[str]] = {}
        for step in json.loads(preview.output[preview.output.index("{") :])["steps"]:
            found.setdefault(step["urn"].rpartition("::")[2], set()).add(step["op"])
        return found

    def refresh(self, *flags: str) -> Ran:
        return self.run("refresh", "--yes", "--skip-preview", *flags)

    def deploy(self, fleet: Mapping[str, Any], *flags: str) -> Ran:
        """Runs `pulumi up`, which must succeed."""
        ran = self.up(fleet, *flags)
        assert ran.code == 0, ran.output
        return ran

    def deploy_and_settle(self, fleet: Mapping[str, Any]) -> Ran:
        """Runs `pulumi up`, after which nothing may be left to change."""
        ran = self.deploy(fleet)
        self.assert_settled(fleet)
        return ran

    def assert_settled(self, fleet: Mapping[str, Any]) -> None:
        """The stack differs neither from the fleet nor from the cloud."""
        self.assert_no_changes(fleet)
        self.assert_no_drift()

    def assert_no_changes(self, fleet: Mapping[str, Any]) -> None:
        self.deploy(fleet, "--expect-no-changes")

    def assert_no_drift(self) -> None:
        drift = self.refresh("--expect-no-changes")
        assert drift.code == 0, drift.output

    def destroy(self) -> Ran:
        return self.run("destroy", "--yes", "--skip-preview")

    def ids(self) -> Mapping[tuple[str, str], str]:
        """Of the stack's resources, by the last part of their type and by name."""
        found = {}
        for one in self._resources():
            kind, _, name = one["urn"].rpartition("::")
            found[kind.rpartition(":")[2], name] = one.get("id", "")
        return found

    def _resources(self) -> list[dict[str, Any]]:
        exported = self._pulumi("stack", "export", "--stack", "dev")
        return list(json.loads(exported.output)["deployment"]["resources"])

    def forget(self, name: str) -> None:
        """Deletes a resource from the stack's state; the cloud keeps it."""
        resources = self._resources()
        (urn,) = (one["urn"] for one in resources if one["urn"].endswith(f"::{name}"))
        done = self._pulumi("state", "delete", urn, "--yes", "--stack", "dev")
        assert done.code == 0, done.output

    def import_resources(self, file: Path) -> Ran:
        flags = ("--yes", "--skip-preview", "--protect=false", "--generate-code=false")
        return self.run("import", "--file", str(file), *flags)

    def nodes(self, cluster: str) -> list[dict[str, Any]]:
        return fake_nodes(self.directory.parent, cluster).read()

    def ask(self, operation: str, **body: Any) -> dict[str, Any]:
        """EKS's answer."""
        return dict(self.cloud.call("eks", operation, {"region": REGION}, body))

    def account(self, **settings: Any) -> None:
        """Gives the AWS account these settings, and no delays."""
        write_account(self.directory.parent, **PROMPT, **settings)

    def call_with(self, *policies: Mapping[str, Any], boundary: Any = None) -> None:
        """From now on AWS refuses what these policies do not allow. boundary: the document of
        BOUNDARY.
        """
        file = self.directory.parent / "cloud" / FILE
        settings = json.loads(file.read_text())
        settings["caller"] = {"policies": list(policies), "enforced": True}
        if boundary is not None:
            settings["boundaries"] = {BOUNDARY: boundary}
        write_account(self.directory.parent, **settings)

    def until_active(self, cluster: str, group: str) -> None:
        """Waits until a node group is; what was refused before is tried again meanwhile."""
        deadline = time.monotonic() + 120
        while self.group(cluster, group)["status"] != "ACTIVE":
            assert time.monotonic() < deadline
            self.cloud.look_around()
            time.sleep(0.02)

    def autoscale(self, cluster: str, group: str, count: int) -> None:
        """What cluster-autoscaler does: another desired size between the limits."""
        names = {"clusterName": cluster, "nodegroupName": group}
        self.ask("UpdateNodegroupConfig", **names, scalingConfig={"desiredSize": count})
        self.until_active(cluster, group)

    def group(self, cluster: str, name: str) -> dict[str, Any]:
        """A node group as EKS describes it."""
        found = self.ask("DescribeNodegroup", clusterName=cluster, nodegroupName=name)
        return dict(found["nodegroup"])

    def provider_ids(self, cluster: str, group: str) -> set[str]:
        """Of the machines of a node group's nodes."""
        return {
            str(node["spec"]["providerID"])
            for node in self.nodes(cluster)
            if node["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] == group
        }

    def count(self, cluster: str, group: str) -> int:
        """A node group's live desired size."""
        found = self.ask("DescribeNodegroup", clusterName=cluster, nodegroupName=group)
        return int(found["nodegroup"]["scalingConfig"]["desiredSize"])

    def run(self, command: str, *flags: str) -> Ran:
        """`pulumi COMMAND` on the stack."""
        fixed = ("--stack", "dev", "--non-interactive", "--color", "never")
        return self._pulumi(command, *fixed, *flags)

    def _pulumi(self, *arguments: str) -> Ran:
        done = subprocess.run(
            [str(self.pulumi), *arguments],
            cwd=self.directory,
            env=dict(self.variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
            timeout=400,
        )
        return Ran(done.returncode, done.stdout)

    def init(self) -> None:
        made = self._pulumi("stack", "init", "dev")
        assert made.code == 0, made.output


@contextmanager
def cloud_engine(
    directory: Path, toolchain: Toolchain, program: str = _PROGRAM
) -> Iterator[CloudEngine]:
    """An empty stack, and clouds with nothing in them. program: reads what `write` wrote."""
    for name in ("home", "state", "project"):
        (directory / name).mkdir()
    project = directory / "project"
    (project / "Pulumi.yaml").write_text("name: tiny\nruntime: python\n")
    (project / "__main__.py").write_text(program)
    server, language = attach(LanguageHost())
    make_home(directory / "home")
    try:
        with (
            pytest.MonkeyPatch.context() as patch,
            cloud_in(directory) as cloud,
            AttachedServer(AwsProvider) as aws,
            AttachedServer(GcpProvider) as gcp,
        ):
            # The providers, in this process, work in a rehearsal only.
            patch.setenv("SLICEWRIGHT_REHEARSAL", str(directory))
            inherited = {
                key: value
                for key, value in os.environ.items()
                if not key.startswith("PULUMI_") and key != "KUBECONFIG"
            }
            variables = {
                **inherited,
                "PULUMI_HOME": str(directory / "home"),
                "PULUMI_BACKEND_URL": f"file://{directory / 'state'}",
                "PULUMI_CONFIG_PASSPHRASE": "long enough for a test",
                "PULUMI_SKIP_UPDATE_CHECK": "true",
                "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
                "PULUMI_DEBUG_LANGUAGES": f"python:{language}",
                "PULUMI_DEBUG_PROVIDERS": f"aws:{aws.port},gcp:{gcp.port}",
            }
            engine = CloudEngine(project, cloud, toolchain.pulumi, variables)
            engine.init()
            yield engine
    finally:
        server.stop(None)
