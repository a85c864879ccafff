"""`slicewright doctor` against the simulated AWS where one version is wrong."""

from __future__ import annotations

import json

import pytest

from slicewright.exit_codes import CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.rehearsal.clouds.aws.eks.checks import default_release
from tests.slicewright.doctor.conftest import Doctor

NAME = "name: p4d-cluster"
RELEASE = default_release("1.35")
VERSION = (NAME, f'{NAME}\n      version: "1.35"')
POOL = "ami_type: AL2023_x86_64_NVIDIA"


def addon(name: str, version: str) -> tuple[str, str]:
    return NAME, f'{NAME}\n      version: "1.35"\n      addons: {{{name}: {{version: {version}}}}}'


def release(text: str) -> tuple[str, str]:
    return POOL, f"release_version: {text}\n        {POOL}"


def test_available_versions_pass(doctor: Doctor) -> None:
    code, said = doctor("eks-a100", addon("coredns", "v1.12.4-eksbuild.1"), release(RELEASE))
    assert code == VERIFIED, said
    assert "add-on coredns of Kubernetes 1.35 in eu-west-1: v1.12.4-eksbuild.1\n" in said
    assert "add-on kube-proxy of Kubernetes 1.35 in eu-west-1: v1.35.0-eksbuild.2, by" in said
    assert f"machine image {RELEASE} (x86_64) of pool demo-gpu-workers: exists" in said


def test_a_version_in_extended_support_is_reported_as_such(doctor: Doctor) -> None:
    code, said = doctor("eks-a100", (NAME, f'{NAME}\n      version: "1.32"'))
    assert code == VERIFIED, said
    assert "Kubernetes 1.32 of EKS in eu-west-1: offered, in extended support, which" in said


@pytest.mark.parametrize(
    ("name", "version", "instead"),
    [
        ("coredns", "v1.9.3-eksbuild.1", "v1.13.1-eksbuild.1 or v1.12.4-eksbuild.1"),
        ("kube-proxy", "v1.34.1-eksbuild.2", "v1.35.0-eksbuild.2"),
    ],
)
def test_an_addon_version_that_does_not_fit_is_named_with_those_that_do(
    doctor: Doctor, name: str, version: str, instead: str
) -> None:
    code, said = doctor("eks-a100", addon(name, version))
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert f"add-on {name} of Kubernetes 1.35 in eu-west-1: {version} does not support" in said
    assert f"write {instead} as cluster.addons.{name}.version" in said


@pytest.mark.parametrize("text", ["1.35.0-20200101", "1.35.99-20260714"])
def test_a_release_that_does_not_exist_is_named_with_one_that_does(
    doctor: Doctor, text: str
) -> None:
    code, said = doctor("eks-a100", VERSION, release(text))
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert f"machine image {text} (x86_64) of pool demo-gpu-workers: does not exist" in said
    assert f"write {RELEASE} as release_version, or remove it" in said


@pytest.mark.parametrize(
    ("method", "right"),
    [
        ("eks.DescribeAddonVersions", "eks:DescribeAddonVersions"),
        ("eks.DescribeClusterVersions", "eks:DescribeClusterVersions"),
        ("ssm.GetParameter", "ssm:GetParameter"),
    ],
)
def test_a_right_that_is_missing_is_named_and_nothing_is_taken_for_passed(
    doctor: Doctor, method: str, right: str
) -> None:
    fault = {"fault": "api-error", "method": method, "code": 403}
    fault |= {"status": "AccessDeniedException"}
    (doctor.environment / "faults.json").write_text(json.dumps([fault]))
    code, said = doctor("eks-a100", VERSION, release(RELEASE))
    assert code == CANNOT_RUN, said
    assert "0 would fail" in said
    assert f"could not be checked: the right {right} is missing" in said
