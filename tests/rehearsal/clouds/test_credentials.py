"""The stand-ins for gke-gcloud-auth-plugin and aws, as kubectl runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slicewright.rehearsal.clouds.aws.account import write_account as write_aws
from slicewright.rehearsal.clouds.core import access, tokens
from slicewright.rehearsal.clouds.gcp.account import write_account as write_google

Run = Callable[..., "subprocess.CompletedProcess[str]"]
FLAG = "--use_application_default_credentials"
SSO = "/aws-reserved/sso.amazonaws.com/eu-west-1/"


@pytest.fixture
def run(environment: Path) -> Run:
    keys = access.new_credentials()
    access.save(environment, access.Access(port=20001, credentials=keys))

    def go(
        module: str,
        *arguments: str,
        version: str | None = None,
        inside: bool = True,
        **variables: str,
    ):
        info: dict = {"kind": "ExecCredential", "spec": {"interactive": False}}
        if version:
            info["apiVersion"] = f"client.authentication.k8s.io/{version}"
        env = {
            "KUBERNETES_EXEC_INFO": json.dumps(info),
            "PATH": "/usr/bin",
            "GOOGLE_APPLICATION_CREDENTIALS": str(environment / "google-credentials.json"),
            "AWS_ACCESS_KEY_ID": keys.aws_access_key_id,
            **variables,
        }
        if inside:
            env["SLICEWRIGHT_REHEARSAL"] = str(environment)
        argv = [sys.executable, "-m", f"slicewright.rehearsal.clouds.{module}", *arguments]
        return subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=60, check=False
        )

    return go


def claims_of(environment: Path, done: subprocess.CompletedProcess[str], prefix: str) -> dict:
    assert done.returncode == 0, done.stderr
    token = json.loads(done.stdout)["status"]["token"]
    assert token.startswith(prefix)
    known = access.load(environment)
    assert known is not None
    return tokens.read(token.removeprefix(prefix), secret=known.credentials.google_access_token)


def google(environment: Path, done: subprocess.CompletedProcess[str]) -> str:
    return claims_of(environment, done, "ya29.rehearsal-")["account"]


def test_gke_plugin_takes_application_default_credentials_only_with_the_flag(
    run: Run, environment: Path
) -> None:
    """Who followed `gcloud auth application-default login` has no gcloud account."""
    done = run("gcp.gke_auth")
    assert done.returncode == 1
    assert done.stdout == ""
    assert (
        "cred.go:145] print credential failed with error: Failed to retrieve access token:: failure"
        " while executing gcloud, with args [config config-helper --format=json]: exit status 1 "
        "(err: ERROR: (gcloud.config.config-helper) You do not currently have an active account"
    ) in done.stderr
    assert google(environment, run("gcp.gke_auth", FLAG)) == "rehearsal@rehearsal.example"
    assert google(environment, run("gcp.gke_auth", f"{FLAG}=true")) == "rehearsal@rehearsal.example"


def test_gke_plugin_takes_gclouds_account_without_the_flag(run: Run, environment: Path) -> None:
    settings = {"gcloud": "b@example.com", "application_default": "a@example.com"}
    write_google(environment, settings)
    assert google(environment, run("gcp.gke_auth")) == "b@example.com"
    assert google(environment, run("gcp.gke_auth", FLAG)) == "a@example.com"


def test_gke_plugin_fails_without_application_default_credentials(
    run: Run, environment: Path
) -> None:
    write_google(environment, {"application_default": None, "gcloud": "b@example.com"})
    done = run("gcp.gke_auth", FLAG)
    assert done.returncode == 1
    assert "could not find default credentials. See https://cloud.google.com/docs/" in done.stderr
    missing = run("gcp.gke_auth", FLAG, GOOGLE_APPLICATION_CREDENTIALS="/nowhere.json")
    assert "open /nowhere.json: no such file or directory" in missing.stderr


def test_gke_plugin_acts_as_the_service_account_of_a_credential_file(
    run: Run, environment: Path, tmp_path: Path
) -> None:
    """A pipeline's: gcloud reads such a file by a variable of its own only."""
    url = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
    email = "deploy@acme.iam.gserviceaccount.com"
    file = tmp_path / "google.json"
    file.write_text(
        json.dumps(
            {
                "type": "external_account",
                "service_account_impersonation_url": f"{url}{email}:generateAccessToken",
            }
        )
    )
    done = run("gcp.gke_auth", FLAG, GOOGLE_APPLICATION_CREDENTIALS=str(file))
    assert google(environment, done) == email
    assert run("gcp.gke_auth", GOOGLE_APPLICATION_CREDENTIALS=str(file)).returncode == 1
    done = run("gcp.gke_auth", CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE=str(file))
    assert google(environment, done) == email


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_the_credential_has_the_version_that_kubectl_asked_for(run: Run, version: str) -> None:
    credential = json.loads(run("gcp.gke_auth", FLAG, version=version).stdout)
    assert credential["apiVersion"] == f"client.authentication.k8s.io/{version}"
    assert credential["kind"] == "ExecCredential"
    until = datetime.fromisoformat(credential["status"]["expirationTimestamp"])
    assert timedelta(minutes=50) < until - datetime.now(UTC) < timedelta(minutes=61)


@pytest.mark.parametrize(
    "arguments",
    [
        ["eks", "get-token", "--cluster-name", "p4d", "--region", "eu-west-1"],
        ["eks", "get-token", "--cluster-name", "p4d", "--output", "json"],
        ["--region", "eu-west-1", "eks", "get-token", "--cluster-name=p4d", "--output=json"],
    ],
)
def test_aws_gives_a_token_of_the_caller_for_the_named_cluster(
    run: Run, environment: Path, arguments: list[str]
) -> None:
    done = run("aws.cli", *arguments, version="v1beta1")
    arn = "arn:aws:iam::123456789012:user/rehearsal"
    assert claims_of(environment, done, "k8s-aws-v1.") == {
        "cloud": "aws",
        "cluster": "p4d",
        "arn": arn,
        "principal": arn,
    }


def test_token_of_an_sso_session_names_the_role_with_its_path(run: Run, environment: Path) -> None:
    arn = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Admin_1/me@example.com"
    write_aws(environment, caller={"arn": arn, "role_path": SSO})
    done = run("aws.cli", "eks", "get-token", "--cluster-name", "p4d")
    claims = claims_of(environment, done, "k8s-aws-v1.")
    assert claims["arn"] == arn
    assert claims["principal"] == f"arn:aws:iam::123456789012:role{SSO}AWSReservedSSO_Admin_1"


@pytest.mark.parametrize(
    ("module", "arguments", "options", "words"),
    [
        ("gcp.gke_auth", [FLAG], {"inside": False}, "SLICEWRIGHT_REHEARSAL is not set"),
        ("gcp.gke_auth", ["--adc"], {}, "unknown flag: --adc"),
        ("aws.cli", ["eks", "get-token"], {}, "--cluster-name"),
        ("aws.cli", ["s3", "ls"], {}, "knows 'eks get-token' only"),
        ("aws.cli", ["eks", "get-token", "--cluster", "p4d"], {}, "unknown option --cluster"),
        (
            "aws.cli",
            ["eks", "get-token", "--cluster-name", "p4d", "--output", "text"],
            {},
            "json only",
        ),
        (
            "aws.cli",
            ["eks", "get-token", "--cluster-name", "p4d"],
            {"AWS_ACCESS_KEY_ID": "AKIA"},
            "Unable to locate credentials",
        ),
        (
            "aws.cli",
            ["eks", "get-token", "--cluster-name", "p4d", "--profile", "prod"],
            {},
            "The config profile (prod) could not be found",
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
