"""`slicewright doctor` against the simulated Google Cloud with one reservation or key wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.exit_codes import CANNOT_RUN, NOT_VERIFIED, VERIFIED
from slicewright.rehearsal.clouds.gcp.account import write_account
from tests.slicewright.doctor.conftest import STACKS, Doctor

PROJECT = ("slicewright-gke-h100", "acme")
KEY = "projects/acme-keys/locations/us-central1/keyRings/gke/cryptoKeys/disks"
H100 = {"name": "week", "zone": "us-central1-c", "machine_type": "a3-highgpu-8g", "count": 1}
WITH_KEY = ("location: us-central1", f"location: us-central1\n      kms_key: {KEY}")


def named(reservation: str) -> tuple[str, str]:
    text = (STACKS / "Pulumi.gke-h100.yaml").read_text()
    (line,) = (line for line in text.splitlines() if line.lstrip().startswith("capacity:"))
    indent = line[: len(line) - len(line.lstrip())]
    return line, f"{indent}capacity: {{mode: reservation, reservation: {reservation}}}"


def test_a_reservation_that_fits_passes(doctor: Doctor) -> None:
    write_account(doctor.environment, {"reservations": [H100]})
    code, said = doctor("gke-h100", PROJECT, named("week"))
    assert code == VERIFIED, said
    assert "reservation week in us-central1-c of project acme: 1 machines" in said


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"name": "other"}, "of project acme: does not exist"),
        ({"zone": "us-central1-a"}, "of project acme: does not exist"),
        ({"machine_type": "a3-megagpu-8g"}, "reserves a3-megagpu-8g, but the nodes of pool"),
        ({"specific": False}, "specificReservationRequired is off"),
        ({"taken": 1}, "1 machines, 1 in use; the stack needs 1 there"),
    ],
)
def test_faults_of_a_reservation_are_named(
    doctor: Doctor, changed: dict[str, Any], what: str
) -> None:
    write_account(doctor.environment, {"reservations": [{**H100, **changed}]})
    code, said = doctor("gke-h100", PROJECT, named("week"))
    assert code == NOT_VERIFIED, said
    assert "1 would fail, 0 could not be checked" in said
    assert what in said


def test_a_reservation_of_another_project_must_be_shared(doctor: Doctor) -> None:
    theirs = {**H100, "project": "capacity-1"}
    change = named("projects/capacity-1/reservations/week")
    write_account(doctor.environment, {"reservations": [theirs]})
    code, said = doctor("gke-h100", PROJECT, change)
    assert code == NOT_VERIFIED
    assert "1 would fail" in said
    assert "of project capacity-1: is not shared with project acme" in said
    write_account(doctor.environment, {"reservations": [{**theirs, "shared_with": ["acme"]}]})
    code, said = doctor("gke-h100", PROJECT, change)
    assert code == VERIFIED, said


@pytest.mark.parametrize(
    ("keys", "expected", "what"),
    [
        ({KEY: "ENABLED"}, VERIFIED, "enabled"),
        ({}, NOT_VERIFIED, "does not exist"),
        ({KEY: "DISABLED"}, NOT_VERIFIED, "its primary version is DISABLED"),
    ],
)
def test_faults_of_a_key_are_named(
    doctor: Doctor, keys: dict[str, str], expected: int, what: str
) -> None:
    write_account(doctor.environment, {"keys": keys})
    code, said = doctor("gke-h100", PROJECT, WITH_KEY)
    assert code == expected, said
    assert f"key {KEY} (cluster.kms_key): {what}" in said


@pytest.mark.parametrize(
    ("method", "right", "change"),
    [
        ("compute.reservations.get", "compute.reservations.get", named("week")),
        (
            "cloudkms.projects.locations.keyRings.cryptoKeys.get",
            "cloudkms.cryptoKeys.get",
            WITH_KEY,
        ),
    ],
)
def test_a_right_that_is_missing_is_named_and_nothing_is_taken_for_passed(
    doctor: Doctor, method: str, right: str, change: tuple[str, str]
) -> None:
    write_account(doctor.environment, {"reservations": [H100]})
    fault = {"fault": "api-error", "method": method, "code": 403}
    (doctor.environment / "faults.json").write_text(json.dumps([fault]))
    code, said = doctor("gke-h100", PROJECT, change)
    assert code == CANNOT_RUN, said
    assert "0 would fail, 1 could not be checked" in said
    assert f"could not be checked: the right {right} is missing" in said
