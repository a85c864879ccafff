"""doctor runs the credential program of the cluster's kubeconfig, and compares who it is."""

from __future__ import annotations

import pytest

from slicewright.exit_codes import NOT_VERIFIED, VERIFIED
from slicewright.rehearsal.clouds.aws.account import PROMPT
from slicewright.rehearsal.clouds.aws.account import write_account as write_aws
from slicewright.rehearsal.clouds.gcp.account import write_account as write_google
from tests.slicewright.doctor.conftest import Doctor

PROJECT = ("slicewright-gke-h100", "acme")
GKE = "credentials of kubeconfigs (gke-gcloud-auth-plugin): "
EKS = "credentials of kubeconfigs (aws): "


def test_a_login_by_the_guide_has_the_same_user_in_cloud_and_cluster(doctor: Doctor) -> None:
    """With application default credentials only: gcloud is logged out."""
    code, output = doctor("gke-h100", PROJECT)
    assert code == VERIFIED, output
    assert f"{GKE}a token of rehearsal@rehearsal.example, like Pulumi's" in output
    code, output = doctor("eks-a100")
    assert code == VERIFIED, output
    assert f"{EKS}a token of arn:aws:iam::123456789012:user/rehearsal, like Pulumi's" in output


def test_role_of_an_sso_login_is_one_identity_whatever_its_sessions(doctor: Doctor) -> None:
    arn = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Admin_1/me@example.com"
    path = "/aws-reserved/sso.amazonaws.com/eu-west-1/"
    write_aws(doctor.environment, **PROMPT, caller={"arn": arn, "role_path": path})
    code, output = doctor("eks-a100")
    assert code == VERIFIED, output
    assert f"{EKS}a token of {arn.rpartition('/')[0]}, like Pulumi's" in output


@pytest.mark.parametrize(("stack", "command"), [("gke-h100", GKE), ("eks-a100", EKS)])
def test_missing_credential_program_is_named_with_its_installation(
    doctor: Doctor, stack: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(doctor.environment / "nothing"))
    code, output = doctor(stack, *([PROJECT] if stack == "gke-h100" else []))
    assert code == NOT_VERIFIED
    assert "is not on the PATH, but the cluster's kubeconfig runs it" in output
    assert "1 would fail" in output
    assert command in output


def test_pulumi_and_the_program_as_two_people_are_named(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pulumi has a token of a variable, the program application default credentials."""
    file = doctor.environment / "b.json"
    file.write_text('{"type": "service_account", "client_email": "b@acme.example"}')
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    code, output = doctor("gke-h100", PROJECT)
    assert code == NOT_VERIFIED
    assert (
        f"{GKE}Pulumi is rehearsal@rehearsal.example, but gke-gcloud-auth-plugin gives a token of "
        "b@acme.example"
    ) in output
    assert "gcloud auth application-default login" in output


def test_missing_application_default_credentials_fail(
    doctor: Doctor,
) -> None:
    write_google(doctor.environment, {"application_default": None, "gcloud": "a@example.com"})
    code, output = doctor("gke-h100", PROJECT)
    assert code == NOT_VERIFIED
    assert "gke-gcloud-auth-plugin gives no token (exit code 1:" in output
    assert "could not find default credentials" in output


def test_credentials_that_only_pulumi_obeys_are_named(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_IMPERSONATE_SERVICE_ACCOUNT", "deploy@acme.iam.gserviceaccount.com")
    code, output = doctor("gke-h100", PROJECT)
    assert code == NOT_VERIFIED
    assert "Pulumi uses GOOGLE_IMPERSONATE_SERVICE_ACCOUNT, which gke-gcloud-auth-plugin" in output


def test_expired_login_of_the_command_line_is_named(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = doctor.environment / "bin" / "aws"
    program.write_text("#!/bin/sh\necho 'Error when retrieving token from sso' >&2\nexit 255\n")
    code, output = doctor("eks-a100")
    assert code == NOT_VERIFIED
    assert "aws gives no token (exit code 255: Error when retrieving token from sso)" in output
    assert "aws sso login" in output
