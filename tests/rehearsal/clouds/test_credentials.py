"""What kubectl gets from the stand-ins for gke-gcloud-auth-plugin and aws."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(environment: Path) -> Run:
    for name, port in (("main", 6443), ("p4d", 6444)):
        directory = environment / "clusters" / name
        directory.mkdir(parents=True)
        (directory / "endpoint.json").write_text(
            json.dumps({"server": f"https://127.0.0.1:{port}", "ca_data": ""})
        )
        user = {
            f"client-{kind}-data": base64.b64encode(f"{kind} of {name}".encode()).decode()
            for kind in ("certificate", "key")
        }
        (directory / "kubeconfig.json").write_text(
            json.dumps({"users": [{"name": "admin", "user": user}]})
        )

    def go(
        module: str,
        *arguments: str,
        server: str | None = None,
        version: str | None = None,
        inside: bool = True,
    ):
        info: dict = {"kind": "ExecCredential", "spec": {"interactive": False}}
        if version:
            info["apiVersion"] = f"client.authentication.k8s.io/{version}"
        if server:
            info["spec"]["cluster"] = {"server": server}
        env = {"KUBERNETES_EXEC_INFO": json.dumps(info), "PATH": "/usr/bin"}
        if inside:
            env["SLICEWRIGHT_REHEARSAL"] = str(environment)
        argv = [sys.executable, "-m", f"slicewright.rehearsal.clouds.{module}", *arguments]
        return subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=60, check=False
        )

    return go


def test_gke_finds_the_cluster_by_its_server(run: Run) -> None:
    done = run("gcp.gke_auth", server="https://127.0.0.1:6444", version="v1beta1")
    credential = json.loads(done.stdout)
    assert credential["apiVersion"] == "client.authentication.k8s.io/v1beta1"
    assert credential["kind"] == "ExecCredential"
    assert credential["status"] == {
        "clientCertificateData": "certificate of p4d",
        "clientKeyData": "key of p4d",
    }


def test_the_credential_has_the_version_that_kubectl_asked_for(run: Run) -> None:
    done = run("gcp.gke_auth", server="https://127.0.0.1:6443", version="v1")
    assert json.loads(done.stdout)["apiVersion"] == "client.authentication.k8s.io/v1"


@pytest.mark.parametrize(
    "arguments",
    [
        ["eks", "get-token", "--cluster-name", "p4d", "--region", "eu-west-1"],
        ["eks", "get-token", "--cluster-name", "p4d", "--output", "json"],
        ["--region", "eu-west-1", "eks", "get-token", "--cluster-name=p4d", "--output=json"],
    ],
)
def test_aws_finds_the_cluster_by_its_name(run: Run, arguments: list[str]) -> None:
    done = run("aws.cli", *arguments, version="v1beta1")
    assert json.loads(done.stdout)["status"]["clientKeyData"] == "key of p4d"


@pytest.mark.parametrize(
    ("module", "arguments", "options", "words"),
    [
        ("gcp.gke_auth", [], {"inside": False}, "SLICEWRIGHT_REHEARSAL is not set"),
        (
            "gcp.gke_auth",
            [],
            {"server": "https://127.0.0.1:1"},
            "no cluster of the rehearsal listens at https://127.0.0.1:1",
        ),
        ("gcp.gke_auth", [], {}, "which of main, p4d clusters? set provideClusterInfo: true"),
        ("aws.cli", ["eks", "get-token"], {}, "--cluster-name"),
        (
            "aws.cli",
            ["eks", "get-token", "--cluster-name", "nope"],
            {},
            "no cluster named nope; it has main, p4d",
        ),
        ("aws.cli", ["s3", "ls"], {}, "knows 'eks get-token' only"),
        ("aws.cli", ["eks", "get-token", "--cluster", "p4d"], {}, "unknown option --cluster"),
        (
            "aws.cli",
            ["eks", "get-token", "--cluster-name", "p4d", "--output", "text"],
            {},
            "json only",
        ),
    ],
)
def test_a_failure_is_one_line_of_error(
    run: Run, module: str, arguments: list[str], options: dict, words: str
) -> None:
    done = run(module, *arguments, **options)
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@pytest.mark.parametrize("module", ["gcp.gke_auth", "aws.cli"])
def test_the_credential_programs_import_little(module: str) -> None:
    """kubectl waits for it before every command."""
    heavy_ones = ("argparse", "asyncio", "botocore", "ssl")
    code = (
        f"import sys, slicewright.rehearsal.clouds.{module}; print(len(sys.modules), *[m for m in "
        f"{heavy_ones} if m in sys.modules])"
    )
    plain = subprocess.run(
        [sys.executable, "-c", "import sys; print(len(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, *heavy = done.stdout.split()
    assert heavy == []
    assert int(count) - int(plain.stdout) < 60


def test_other_commands_of_aws_go_to_the_users_own(environment: Path, tmp_path: Path) -> None:
    """With the keys and the endpoint that the environment's exports set."""
    ours, theirs = environment / "bin", tmp_path / "theirs"
    for directory, line in ((ours, "exit 9"), (theirs, 'echo "own $AWS_ENDPOINT_URL $*"')):
        directory.mkdir()
        (directory / "aws").write_text(f"#!/bin/sh\n{line}\n")
        (directory / "aws").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "slicewright.rehearsal.clouds.aws.cli", "eks", "list-clusters"],
        env={
            "PATH": f"{ours}:{theirs}",
            "SLICEWRIGHT_REHEARSAL": str(environment),
            "AWS_ENDPOINT_URL": "http://127.0.0.1:20001",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "own http://127.0.0.1:20001 eks list-clusters\n"
    assert done.returncode == 0
