"""`slicewright doctor` against the simulated AWS with one reservation or key wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.exit_codes import CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from tests.slicewright.doctor.conftest import Doctor

ONE = "cr-0123456789abcdef0"
GROUP = "arn:aws:resource-groups:eu-west-1:123456789012:group/gpus"
KEY = "arn:aws:kms:eu-west-1:123456789012:key/11111111-2222-3333-4444-555555555555"
ODCR = {"instance_type": "p4d.24xlarge", "zone": "euw1-az2", "count": 1}


def named(target: str, mode: str = "reservation") -> tuple[str, str]:
    capacity = f"capacity: {{mode: {mode}, reservation: '{target}'}}"
    return ("nodes: { count: 1 }", f"nodes: {{ count: 1 }}\n        {capacity}")


SECRETS = ("name: p4d-cluster", f"name: p4d-cluster\n      secrets_key: '{KEY}'")


def reserve(doctor: Doctor, **changed: Any) -> None:
    reservations = {ONE: {**ODCR, **changed}}
    write_account(doctor.environment, **{**PROMPT, "reservations": reservations})


def test_a_reservation_that_fits_passes(doctor: Doctor) -> None:
    reserve(doctor)
    code, said = doctor("eks-a100", named(ONE))
    assert code == VERIFIED, said
    assert f"capacity reservation {ONE}: 1 instances, 1 free" in said


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"instance_type": "p5.48xlarge"}, "reserves p5.48xlarge"),
        ({"zone": "euw1-az1"}, "is in eu-west-1c (euw1-az1), but the pool is also in eu-west-1a"),
        ({"state": "cancelled"}, "is cancelled"),
        ({"taken": 1}, "1 instances, 0 free; the stack needs 1"),
    ],
)
def test_faults_of_a_reservation_are_named(
    doctor: Doctor, changed: dict[str, Any], what: str
) -> None:
    reserve(doctor, **changed)
    code, said = doctor("eks-a100", named(ONE))
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert what in said


def test_a_reservation_that_does_not_exist_is_named(doctor: Doctor) -> None:
    code, said = doctor("eks-a100", named(ONE))
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert f"capacity reservation {ONE}: does not exist in eu-west-1" in said


def test_a_capacity_block_that_starts_later_is_named_with_its_day(doctor: Doctor) -> None:
    dates = {"start": "2026-12-01T11:30:00Z", "end": "2026-12-02T11:30:00Z"}
    reserve(doctor, kind="capacity-block", state="scheduled", **dates)
    code, said = doctor("eks-a100", named(ONE, "capacity-block"))
    assert code == NOT_VERIFIED
    assert "is scheduled; it starts at 2026-12-01 11:30 UTC" in said
    reserve(doctor, kind="capacity-block", **dates)
    code, said = doctor("eks-a100", named(ONE, "capacity-block"))
    assert code == VERIFIED, said
    assert "it ends at 2026-12-02 11:30 UTC" in said


def test_the_reservations_of_a_resource_group_are_listed(doctor: Doctor) -> None:
    reserve(doctor, groups=[GROUP])
    code, said = doctor("eks-a100", named(GROUP))
    assert code == VERIFIED, said
    assert f"resource group {GROUP}: 1 instances, 1 free" in said
    code, said = doctor("eks-a100", named(GROUP + "-other"))
    assert code == NOT_VERIFIED
    assert f"resource group {GROUP}-other: does not exist in" in said


def test_an_existing_secrets_key_passes(doctor: Doctor) -> None:
    write_account(doctor.environment, **{**PROMPT, "keys": {KEY: {}}})
    code, said = doctor("eks-a100", SECRETS)
    assert code == VERIFIED, said
    assert f"key {KEY} (cluster.secrets_key): enabled" in said


@pytest.mark.parametrize(
    ("keys", "what", "remedy"),
    [
        ({}, "does not exist", "aws kms list-keys"),
        ({KEY: {"state": "Disabled"}}, "is Disabled", "aws kms enable-key --key-id"),
        (
            {KEY: {"state": "PendingDeletion"}},
            "is PendingDeletion",
            "aws kms cancel-key-deletion --key-id",
        ),
        ({KEY: {"spec": "RSA_2048"}}, "is not a key for symmetric", "aws kms create-key"),
    ],
)
def test_a_key_that_cannot_encrypt_is_named_with_the_command_that_mends_it(
    doctor: Doctor, keys: dict[str, Any], what: str, remedy: str
) -> None:
    write_account(doctor.environment, **{**PROMPT, "keys": keys})
    code, said = doctor("eks-a100", SECRETS)
    assert code == NOT_VERIFIED
    assert "1 would fail, 0 could not be checked" in said
    assert f"key {KEY} (cluster.secrets_key): {what}" in said
    assert remedy in said


@pytest.mark.parametrize(
    ("method", "reason", "right", "change"),
    [
        (
            "ec2.DescribeCapacityReservations",
            "UnauthorizedOperation",
            "ec2:DescribeCapacityReservations",
            named(ONE),
        ),
        (
            "resource-groups.ListGroupResources",
            "ForbiddenException",
            "resource-groups:ListGroupResources",
            named(GROUP),
        ),
        ("kms.DescribeKey", "AccessDeniedException", "kms:DescribeKey", SECRETS),
    ],
)
def test_a_right_that_is_missing_is_named_and_nothing_is_taken_for_passed(
    doctor: Doctor, method: str, reason: str, right: str, change: tuple[str, str]
) -> None:
    reserve(doctor, groups=[GROUP])
    fault = {"fault": "api-error", "method": method, "code": 403, "status": reason}
    (doctor.environment / "faults.json").write_text(json.dumps([fault]))
    code, said = doctor("eks-a100", change)
    assert code == CANNOT_RUN, said
    assert "0 would fail, 1 could not be checked" in said
    assert f"could not be checked: the right {right} is missing" in said
