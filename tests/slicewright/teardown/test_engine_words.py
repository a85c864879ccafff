"""What the real engine says where it cannot destroy, and what `slicewright destroy` makes of it.

What a cloud or a cluster says comes through the stand-ins for Pulumi's plugins.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from slicewright import cli
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.scenario import plugins_and_commands
from slicewright.teardown.engine import Pulumi
from tests.infra.cloud_engine import PROJECT, REGION, CloudEngine, Ran, cloud_engine
from tests.infra.on_engine.test_killed_engine import FLEETS

_PROGRAM = f"""\
import json
from pathlib import Path

import pulumi
import pulumi_aws as aws
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

def options(provider, **more):
    return pulumi.ResourceOptions(provider=provider, **more)

if Path("on-aws").exists():
    amazon = aws.Provider("aws", region="{REGION}")
    aws.ec2.Vpc("vpc", cidr_block="10.0.0.0/16", opts=options(amazon))
    service = {{"Service": "eks.amazonaws.com"}}
    allowed = {{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": service}}
    trust = {{"Version": "2012-10-17", "Statement": [allowed]}}
    aws.iam.Role("role", assume_role_policy=json.dumps(trust), opts=options(amazon))
else:
    google = gcp.Provider("gcp", project="{PROJECT}", region="us-central1")
    opts = options(google, protect=Path("protected").exists())
    gcp.compute.Network("net", name="net", auto_create_subnetworks=False, opts=opts)
if Path("kubeconfig").exists():
    cluster = kubernetes.Provider("cluster", kubeconfig=Path("kubeconfig").read_text())
    metadata = {{"name": "settings", "namespace": "default"}}
    kubernetes.core.v1.ConfigMap("settings", metadata=metadata, opts=options(cluster))
"""
_LOCK = '{"pid": 1, "username": "ci", "hostname": "gone", "timestamp": "2026-01-01T00:00:00Z"}'


@pytest.fixture(scope="module")
def engine(
    clouds_over_http: None, tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain
) -> Iterator[CloudEngine]:
    with cloud_engine(tmp_path_factory.mktemp("e"), toolchain) as engine:
        (engine.directory / "__main__.py").write_text(_PROGRAM)
        for cloud, fleet in FLEETS.items():
            config = {"slicewright:fleet": fleet, "gcp:project": PROJECT}
            plain = json.loads(json.dumps({"config": config}))
            (engine.directory / f"{cloud}.yaml").write_text(yaml.safe_dump(plain))
        root = engine.directory.parent
        (root / "bin").mkdir()
        plugins_and_commands.install(root, toolchain)
        path = f"{root / 'bin'}:{engine.variables['PATH']}"
        yield replace(engine, variables={**engine.variables, "PATH": path})


def up(engine: CloudEngine) -> None:
    made = engine.run("up", "--yes", "--skip-preview")
    assert made.code == 0, made.output


def destroy(engine: CloudEngine, cloud: str = "gke") -> Ran:
    words = ("destroy", "-s", "dev", "--yes", "--file", f"{cloud}.yaml", "--wait", "0")
    done = subprocess.run(
        [sys.executable, "-m", "slicewright.cli", *words],
        cwd=engine.directory,
        env=dict(engine.variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    return Ran(done.returncode, done.stdout)


def test_a_lock_is_known_by_the_engines_own_words(engine: CloudEngine) -> None:
    up(engine)
    locks: Path = engine.directory.parent / "state/.pulumi/locks/organization/tiny/dev"
    locks.mkdir(parents=True, exist_ok=True)
    (locks / "left.json").write_text(_LOCK)
    try:
        ran = destroy(engine)
    finally:
        (locks / "left.json").unlink()
    assert ran.code == cli.CANNOT_RUN, ran.output
    assert "slicewright unlock --stack dev" in ran.output
    assert engine.cloud.inventory()["compute.network"]


def test_protected_resources_are_named_before_any_deletion(engine: CloudEngine) -> None:
    (engine.directory / "protected").touch()
    up(engine)
    ran = destroy(engine)
    assert ran.code == cli.NOT_VERIFIED, ran.output
    assert "pulumi state unprotect --stack dev" in ran.output
    assert engine.cloud.inventory()["compute.network"]
    (engine.directory / "protected").unlink()
    up(engine)
    assert destroy(engine).code == cli.VERIFIED


def test_refusals_for_expired_credentials_are_recognised(engine: CloudEngine) -> None:
    """The sweep is refused first, and changes nothing: an empty answer is no empty account."""
    up(engine)
    expired = {**engine.variables, "GOOGLE_OAUTH_ACCESS_TOKEN": "expired"}
    ran = destroy(CloudEngine(engine.directory, engine.cloud, engine.pulumi, expired))
    assert ran.code == cli.CANNOT_RUN, ran.output
    assert "gcloud auth" in ran.output
    assert engine.cloud.inventory()["compute.network"]
    assert destroy(engine).code == cli.VERIFIED


@pytest.mark.parametrize(
    ("cloud", "method", "code", "status", "message"),
    [
        ("eks", "ec2.DeleteVpc", 400, "RequestExpired", "Request has expired."),
        (
            *("eks", "ec2.DeleteVpc", 401, "AuthFailure"),
            "AWS was not able to validate the provided access credentials",
        ),
        (
            *("eks", "aws-iam.DeleteRole", 403, "ExpiredToken"),
            "The security token included in the request is expired",
        ),
        (
            *("gke", "compute.networks.delete", 401, "UNAUTHENTICATED"),
            "Request had invalid authentication credentials. Expected OAuth 2 access token.",
        ),
    ],
)
def test_credentials_that_expire_while_pulumi_works_are_to_be_renewed(
    cloud: str, method: str, code: int, status: str, message: str, engine: CloudEngine
) -> None:
    fault = {"fault": "api-error", "method": method, "code": code, "status": status}
    on_aws = engine.directory / "on-aws"
    faults = engine.directory.parent / "faults.json"
    try:
        if cloud == "eks":
            on_aws.touch()
        up(engine)
        faults.write_text(json.dumps([{**fault, "message": message}]))
        ran = destroy(engine, cloud)
        assert ran.code == cli.CANNOT_RUN, ran.output
        assert "the cloud refuses the credentials; renew them" in ran.output
        assert engine.cloud.inventory()
        faults.unlink()
        again = destroy(engine, cloud)
        assert again.code == cli.VERIFIED, again.output
        assert engine.cloud.inventory() == {}
    finally:
        faults.unlink(missing_ok=True)
        on_aws.unlink(missing_ok=True)


@pytest.fixture
def cluster(engine: CloudEngine, toolchain: Toolchain) -> Iterator[Path]:
    """Where the cluster is in which the program makes something, too."""
    # Not under tmp_path: its names are long, and a Unix socket's path may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="words-") as directory:
        environment = Path(directory)
        endpoint = control_plane.start(environment, "c", toolchain)
        try:
            kubeconfig = json.dumps(yaml.safe_load(endpoint.kubeconfig.read_text()))
            (engine.directory / "kubeconfig").write_text(kubeconfig)
            yield environment
        finally:
            (engine.directory / "kubeconfig").unlink(missing_ok=True)
            control_plane.remove(environment, "c")


def test_a_cluster_that_ended_early_is_known_by_the_providers_words(
    engine: CloudEngine, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up(engine)
    control_plane.stop(cluster, "c")
    with monkeypatch.context() as patch:
        for name, value in engine.variables.items():
            patch.setenv(name, value)
        patch.chdir(engine.directory)
        said: list[str] = []
        ended = Pulumi("dev").destroy(
            without_cluster=False, show=said.append, meanwhile=lambda: None
        )
    assert ended.code != 0
    assert ended.unreachable, said
    assert not ended.credentials
    # The cloud has no such cluster: what was in it is gone with it.
    ran = destroy(engine)
    assert ran.code == cli.VERIFIED, ran.output
    assert engine.cloud.inventory() == {}
