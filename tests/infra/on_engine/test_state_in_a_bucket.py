"""The engine's state on S3, its secrets under a key of KMS: a stack's life, its locks, and the
versions by which a state is restored. moto serves both services.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.session import Session

from slicewright.exit_codes import NOT_VERIFIED, VERIFIED
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.scenario import plugins_and_commands
from tests.infra.cloud_engine import PROJECT, CloudEngine, Ran, cloud_engine

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "state-and-recovery.md"
REGION = "eu-west-1"
ACCOUNT_ID = "123456789012"
"""moto's."""
BUCKET = "pulumi-prod"
STATE = "team/.pulumi/stacks/slicewright/prod.json"
LOCKS = "team/.pulumi/locks/organization/slicewright/prod/"
SECRET = "plain-text-of-the-secret"
_SERVER = """\
import sys
from moto.kms.models import kms_backends
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
account, region = sys.argv[1:]
there, away = kms_backends[account][region].keys, {}
for line in sys.stdin:
    source, target = (there, away) if line.strip() == "hide" else (away, there)
    target.update(source)
    source.clear()
    print("done", flush=True)
server.stop()
"""
_PROGRAM = f"""\
import time
from pathlib import Path

import pulumi
import pulumi_gcp as gcp

while Path("hold").exists():
    time.sleep(0.05)
google = gcp.Provider("gcp", project="{PROJECT}", region="us-central1")
options = pulumi.ResourceOptions(provider=google)
for name in Path("networks").read_text().split():
    gcp.compute.Network(name, name=name, auto_create_subnetworks=False, opts=options)
pulumi.export("secret", pulumi.Config().require_secret("secret"))
"""
_AWS = """\
#!{python}
# `aws s3api OPERATION --FLAG VALUE …`, by botocore's model: it refuses what the service lacks.
import json, sys
from botocore import xform_name
from botocore.session import Session
service, operation, *flags = sys.argv[1:]
assert service == "s3api", service
client = Session().create_client("s3", region_name={region!r}, endpoint_url={endpoint!r})
service_model = client.meta.service_model
methods = {{xform_name(method, "-"): method for method in service_model.operation_names}}
model = service_model.operation_model(methods[operation])
names = {{"--" + xform_name(name, "-"): name for name in model.input_shape.members}}
given = {{names[flag]: value for flag, value in zip(flags[::2], flags[1::2], strict=True)}}
answer = getattr(client, xform_name(methods[operation]))(**given)
print(json.dumps(answer, default=str))
"""


@dataclass(frozen=True)
class Aws:
    server: subprocess.Popen[str]
    port: int

    def client(self, service: str) -> Any:
        return Session().create_client(
            service,
            region_name=REGION,
            endpoint_url=f"http://127.0.0.1:{self.port}",
            aws_access_key_id="AKIAEXAMPLE",
            aws_secret_access_key="example",
        )

    @contextmanager
    def without_keys(self) -> Iterator[None]:
        """moto also decrypts with a key that is disabled."""
        self._tell("hide")
        try:
            yield
        finally:
            self._tell("show")

    def _tell(self, word: str) -> None:
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(f"{word}\n")
        self.server.stdin.flush()
        assert self.server.stdout.readline() == "done\n"


@dataclass(frozen=True)
class Stack:
    """`prod` of the project `slicewright`, of one network."""

    engine: CloudEngine
    aws: Aws

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command],
            cwd=self.engine.directory,
            env=dict(self.engine.variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *command: str) -> Ran:
        process = self.start(*command)
        output, _ = process.communicate(timeout=300)
        return Ran(process.returncode, output)

    def up(self, *networks: str) -> Ran:
        (self.engine.directory / "networks").write_text(" ".join(networks))
        return self.run(*_UP)

    def slicewright(self, *arguments: str) -> Ran:
        return self.run(sys.executable, "-m", "slicewright.cli", *arguments)

    def follow(self, block: str, **variables: str) -> None:
        """Commands of the page, to a good end."""
        given = [f"{name}={value}" for name, value in variables.items()]
        ran = self.run("env", *given, "sh", "-eu", "-c", block)
        assert ran.code == 0, ran.output

    def objects(self, prefix: str = "") -> dict[str, str]:
        client = self.aws.client("s3")
        found = client.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ())
        return {
            one["Key"]: client.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read().decode()
            for one in found
        }

    def versions(self) -> list[str]:
        """Of the state's object, the newest first."""
        found = self.aws.client("s3").list_object_versions(Bucket=BUCKET, Prefix=STATE)
        return [one["VersionId"] for one in found["Versions"] if one["Key"] == STATE]

    def networks(self) -> set[str]:
        found = self.engine.cloud.inventory().get("compute.network", ())
        return {name.rpartition("/")[2] for name in found}

    def is_as_declared(self) -> None:
        ran = self.run(*_PREVIEW)
        assert ran.code == 0, ran.output


_FIXED = ("--stack", "prod", "--non-interactive", "--color", "never")
_UP = ("pulumi", "up", "--yes", "--skip-preview", *_FIXED)
_PREVIEW = ("pulumi", "preview", "--refresh", "--expect-no-changes", *_FIXED)


@pytest.fixture(scope="module")
def aws() -> Iterator[Aws]:
    server = subprocess.Popen(
        [sys.executable, "-c", _SERVER, ACCOUNT_ID, REGION],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdout is not None
    yield Aws(server, int(server.stdout.readline()))
    server.communicate(timeout=60)


@pytest.fixture(scope="module")
def stack(
    aws: Aws,
    clouds_over_http: None,
    tmp_path_factory: pytest.TempPathFactory,
    toolchain: Toolchain,
) -> Iterator[Stack]:
    bucket = aws.client("s3")
    bucket.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    bucket.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    kms = aws.client("kms")
    key = kms.create_key()["KeyMetadata"]["KeyId"]
    kms.create_alias(AliasName="alias/pulumi-prod", TargetKeyId=key)
    root = tmp_path_factory.mktemp("bucket")
    with cloud_engine(root, toolchain) as engine:
        (root / "bin").mkdir()
        plugins_and_commands.install(root, toolchain)
        endpoint = f"http://127.0.0.1:{aws.port}"
        command = root / "bin" / "aws"
        command.unlink()
        command.write_text(_AWS.format(python=sys.executable, region=REGION, endpoint=endpoint))
        command.chmod(0o755)
        address = f"region={REGION}&endpoint=127.0.0.1:{aws.port}"
        variables = {
            **engine.variables,
            "PATH": f"{root / 'bin'}:{engine.variables['PATH']}",
            "PULUMI_BACKEND_URL": f"s3://{BUCKET}/team?{address}{_STYLE}",
            "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "example",
        }
        # With a passphrase at hand, nothing would show that the key is asked.
        del variables["PULUMI_CONFIG_PASSPHRASE"]
        made = Stack(replace(engine, variables=variables), aws)
        _project(engine.directory)
        provider = f"awskms://alias/pulumi-prod?region={REGION}&endpoint={endpoint}"
        for command in (
            ("pulumi", "stack", "init", "prod", "--secrets-provider", provider),
            ("pulumi", "config", "set", "--stack", "prod", "--secret", "secret", SECRET),
        ):
            ran = made.run(*command)
            assert ran.code == 0, ran.output
        up = made.up("one")
        assert up.code == 0, up.output
        yield made


_STYLE = "&s3ForcePathStyle=true&disableSSL=true"


def _project(directory: Path) -> None:
    (directory / "__main__.py").write_text(_PROGRAM)
    (directory / "Pulumi.yaml").write_text(
        "name: slicewright\nruntime: python\nstackConfigDir: stacks\n"
    )
    (directory / "stacks").mkdir()
    fleet = {
        "cloud": "gke",
        "cluster": {"name": "main", "location": "us-central1-c"},
        "node_pools": [{"name": "a", "machine_type": "a2-highgpu-1g", "nodes": {"count": 1}}],
    }
    config = {"gcp:project": PROJECT, "slicewright:fleet": fleet}
    (directory / "stacks" / "Pulumi.prod.yaml").write_text(yaml.safe_dump({"config": config}))


def blocks() -> list[str]:
    """The commands of the page's section on buckets."""
    section = PAGE.read_text().partition("## In a bucket")[2].partition("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def test_state_and_secrets_are_in_the_bucket_and_the_secrets_only_under_the_key(
    stack: Stack,
) -> None:
    objects = stack.objects()
    assert json.loads(objects[STATE])["checkpoint"]["latest"]["resources"]
    file = (stack.engine.directory / "stacks" / "Pulumi.prod.yaml").read_text()
    assert yaml.safe_load(file)["secretsprovider"].startswith("awskms://")
    for text in (file, *objects.values()):
        assert SECRET not in text
    shown = ("pulumi", "stack", "output", "--show-secrets", "secret", "--stack", "prod")
    read = stack.run(*shown)
    assert read.output.strip().splitlines()[-1] == SECRET
    with stack.aws.without_keys():
        without = stack.run(*shown)
    assert without.code != 0, without.output
    assert "AccessDeniedException" in without.output
    assert SECRET not in without.output


def test_a_lock_in_a_bucket_stays_while_its_engine_lives_and_goes_when_it_was_killed(
    stack: Stack,
) -> None:
    held = stack.engine.directory / "hold"
    held.touch()
    engine = stack.start(*_UP)
    try:
        deadline = time.monotonic() + 120
        while not stack.objects(LOCKS):
            assert time.monotonic() < deadline
            assert engine.poll() is None, engine.communicate()[0]
            time.sleep(0.1)
        living = stack.slicewright("unlock", "--stack", "prod")
        assert living.code == NOT_VERIFIED, living.output
        assert len(stack.objects(LOCKS)) == 1
        engine.send_signal(signal.SIGKILL)
        engine.wait(timeout=60)
    finally:
        engine.kill()
        held.unlink()
    assert stack.objects(LOCKS), "the killed engine left none: this would show nothing"
    # Not while it lives: both engines have one language host here, which ends with either.
    second = stack.run(*_UP)
    assert second.code != 0, second.output
    assert "the stack is currently locked" in second.output
    stale = stack.slicewright("unlock", "--stack", "prod")
    assert stale.code == VERIFIED, stale.output
    assert stack.objects(LOCKS) == {}
    stack.is_as_declared()


def test_a_state_that_cannot_be_read_is_the_objects_version_before_it(stack: Stack) -> None:
    stack.aws.client("s3").put_object(Bucket=BUCKET, Key=STATE, Body=b'{"version": 3, "checkp')
    broken = stack.run(*_PREVIEW)
    assert broken.code != 0, broken.output
    listed, restored = blocks()
    stack.follow(listed, BUCKET=BUCKET, KEY=STATE)
    stack.follow(restored, BUCKET=BUCKET, KEY=STATE, VERSION=stack.versions()[1])
    stack.is_as_declared()


def test_a_deleted_state_is_its_last_version(stack: Stack) -> None:
    older = stack.versions()[0]
    up = stack.up("one", "two")
    assert up.code == 0, up.output
    newest = stack.versions()[0]
    assert newest != older
    stack.aws.client("s3").delete_object(Bucket=BUCKET, Key=STATE)
    lost = stack.run(*_PREVIEW)
    assert lost.code != 0, lost.output
    assert "no stack named" in lost.output
    _, restored = blocks()
    stack.follow(restored, BUCKET=BUCKET, KEY=STATE, VERSION=newest)
    stack.is_as_declared()


def test_destroy_leaves_no_network_and_an_empty_state(stack: Stack) -> None:
    assert stack.networks()
    ran = stack.slicewright("destroy", "-s", "prod", "--yes", "--wait", "0")
    assert ran.code == VERIFIED, ran.output
    assert stack.engine.cloud.inventory() == {}
    assert not json.loads(stack.objects()[STATE])["checkpoint"]["latest"].get("resources")
    assert stack.objects(LOCKS) == {}
