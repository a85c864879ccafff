"""What the real engine says where it cannot destroy, and what `slicewright destroy` makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from rehearsal.host.toolchain import Toolchain
from slicewright import cli
from tests.infra.cloud_engine import PROJECT, CloudEngine, Ran, cloud_engine
from tests.infra.test_killed_engine import FLEETS

_PROGRAM = f"""\
from pathlib import Path

import pulumi
import pulumi_gcp as gcp

google = gcp.Provider("gcp", project="{PROJECT}", region="us-central1")
options = pulumi.ResourceOptions(provider=google, protect=Path("protected").exists())
gcp.compute.Network("net", name="net", auto_create_subnetworks=False, opts=options)
"""
_LOCK = '{"pid": 1, "username": "ci", "hostname": "gone", "timestamp": "2026-01-01T00:00:00Z"}'


@pytest.fixture(scope="module")
def engine(
    clouds_over_http: None, tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain
) -> Iterator[CloudEngine]:
    with cloud_engine(tmp_path_factory.mktemp("e"), toolchain) as engine:
        (engine.directory / "__main__.py").write_text(_PROGRAM)
        config = {"slicewright:fleet": FLEETS["gke"], "gcp:project": PROJECT}
        plain = json.loads(json.dumps({"config": config}))
        (engine.directory / "fleet.yaml").write_text(yaml.safe_dump(plain))
        (engine.directory.parent / "bin").mkdir()
        (engine.directory.parent / "bin" / "pulumi").symlink_to(engine.pulumi)
        yield engine


def up(engine: CloudEngine) -> None:
    made = engine.run("up", "--yes", "--skip-preview")
    assert made.code == 0, made.output


def destroy(engine: CloudEngine) -> Ran:
    words = ("destroy", "-s", "dev", "--yes", "--file", "fleet.yaml", "--wait", "0")
    path = f"{engine.directory.parent / 'bin'}:{engine.variables['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "slicewright.cli", *words],
        cwd=engine.directory,
        env={**engine.variables, "PATH": path},
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


def test_what_the_engine_protects_is_named_before_anything_is_deleted(engine: CloudEngine) -> None:
    (engine.directory / "protected").touch()
    up(engine)
    ran = destroy(engine)
    assert ran.code == cli.NOT_PROVEN, ran.output
    assert "pulumi state unprotect --stack dev" in ran.output
    assert engine.cloud.inventory()["compute.network"]
    (engine.directory / "protected").unlink()
    up(engine)
    assert destroy(engine).code == cli.PROVEN


def test_what_the_cloud_refuses_for_expired_credentials_is_known(engine: CloudEngine) -> None:
    """The sweep is refused first, and changes nothing: an empty answer is no empty account."""
    up(engine)
    expired = {**engine.variables, "GOOGLE_OAUTH_ACCESS_TOKEN": "expired"}
    ran = destroy(CloudEngine(engine.directory, engine.cloud, engine.pulumi, expired))
    assert ran.code == cli.CANNOT_RUN, ran.output
    assert "gcloud auth" in ran.output
    assert engine.cloud.inventory()["compute.network"]
    assert destroy(engine).code == cli.PROVEN
