"""Each thing that makes a named reservation or key useless is told, with its remedy."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from slicewright.doctor.checks.gke.capacity import (
    ReservationPath,
    Reserved,
    key_remedies,
    keys_needed,
    reservation_findings,
    reservations_needed,
)
from slicewright.doctor.checks.keys import Key, key_findings
from slicewright.doctor.findings import Finding, NotAnswered, Owned
from slicewright.infra import plan, stack_file
from slicewright.infra.plan import GkeFleetPlan

HERE = ReservationPath(project="acme", zone="us-central1-a", name="week")
KEY = "projects/acme-keys/locations/us-central1/keyRings/gke/cryptoKeys/disks"
SILENT = NotAnswered(why="the right x.y.get is missing")
THERE = Reserved(
    machine_type="a2-highgpu-1g",
    gpus=None,
    count=2,
    in_use=0,
    specific=True,
    ready=True,
    shared_with=frozenset(),
)


def fleet_of(reservation: str | None = "week", *, nodes: int = 2, **pool: Any) -> GkeFleetPlan:
    capacity = {} if reservation is None else {"reservation": reservation}
    raw = {
        "cloud": "gke",
        "cluster": {"name": "c", "location": "us-central1", "kms_key": KEY},
        "node_pools": [
            {
                "name": "gpus",
                "machine_type": "a2-highgpu-1g",
                "zones": ["us-central1-a"],
                "nodes": {"count": nodes},
                "capacity": {"mode": "reservation", **capacity},
                **pool,
            }
        ],
    }
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, GkeFleetPlan)
    return found


def of(
    fleet: GkeFleetPlan,
    there: Reserved | NotAnswered | None,
    path: ReservationPath = HERE,
    own: Owned = "no",
) -> list[Finding]:
    return list(reservation_findings(fleet, {path: there}, own, project="acme"))


@pytest.mark.parametrize(
    ("reservation", "project"),
    [
        ("week", "acme"),
        ("projects/shared/reservations/week", "shared"),
        ("projects/acme-ml/reservations/week/reservationBlocks/b1", "acme-ml"),
    ],
)
def test_a_reservation_is_looked_up_in_its_project_and_zone(reservation: str, project: str) -> None:
    paths = reservations_needed(fleet_of(reservation), "acme")
    assert list(paths) == [dataclasses.replace(HERE, project=project)]


def test_a_reservation_without_a_name_is_not_looked_up() -> None:
    assert reservations_needed(fleet_of(None), "acme") == {}


def test_a_reservation_that_fits_passes_with_its_numbers() -> None:
    (found,) = of(fleet_of(), THERE)
    assert found.verdict == "ok"
    assert found.detail == "2 machines, 0 in use; the stack needs 2 there"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"machine_type": "a2-highgpu-2g"},
            "reserves a2-highgpu-2g, but the nodes of pool gpus are a2-highgpu-1g",
        ),
        (
            {"gpus": ("nvidia-l4", 1)},
            "reserves machines with 1 nvidia-l4, but the nodes of pool gpus have 1 "
            "nvidia-tesla-a100",
        ),
        (
            {"specific": False},
            "does not allow machines to name it: specificReservationRequired is off",
        ),
        ({"ready": False}, "is not ready"),
        ({"in_use": 1}, "2 machines, 1 in use; the stack needs 2 there"),
    ],
)
def test_the_one_thing_that_is_wrong_is_named_alone(changed: dict[str, Any], said: str) -> None:
    (found,) = of(fleet_of(), dataclasses.replace(THERE, **changed))
    assert (found.verdict, found.detail) == ("fails", said)
    assert found.subject == "reservation week in us-central1-a of project acme"
    assert found.remedy


def test_too_few_machines_come_with_the_command_that_reserves_more() -> None:
    (found,) = of(fleet_of(nodes=3), dataclasses.replace(THERE, in_use=1))
    assert found.remedy == (
        "gcloud compute reservations update week --zone=us-central1-a --project=acme --vm-count=4"
    )


def test_the_usage_of_this_stacks_nodes_is_not_counted_twice() -> None:
    (found,) = of(fleet_of(), dataclasses.replace(THERE, in_use=2), own="yes")
    assert found.verdict == "ok"


def test_another_projects_reservation_must_be_shared_with_this_one() -> None:
    fleet = fleet_of("projects/shared/reservations/week")
    path = dataclasses.replace(HERE, project="shared")
    (found,) = of(fleet, THERE, path)
    assert found.detail == "is not shared with project acme"
    assert found.remedy.endswith("--project=shared --add-share-with=acme")
    (found,) = of(fleet, dataclasses.replace(THERE, shared_with=frozenset({"acme"})), path)
    assert found.verdict == "ok"
    (found,) = of(fleet, dataclasses.replace(THERE, shared_with=None), path)
    assert found.verdict == "ok"


def test_a_missing_or_unanswered_reservation_never_passes() -> None:
    (found,) = of(fleet_of(), None)
    assert (found.verdict, found.detail) == ("fails", "does not exist")
    (found,) = of(fleet_of(), SILENT)
    assert found.verdict == "not asked"


def test_each_key_of_the_cluster_is_looked_up() -> None:
    assert keys_needed(fleet_of()) == {KEY: "cluster.kms_key"}


@pytest.mark.parametrize(
    ("key", "verdict", "said", "remedy"),
    [
        (Key(encrypts=True, state="ENABLED"), "ok", "enabled", ""),
        (None, "fails", "does not exist", "gcloud kms keys list --keyring=gke"),
        (
            Key(encrypts=True, state="DISABLED"),
            "fails",
            "its primary version is DISABLED",
            "gcloud kms keys versions enable VERSION --key=disks --keyring=gke",
        ),
        (
            Key(encrypts=True, state="DESTROY_SCHEDULED"),
            "fails",
            "its primary version is DESTROY_SCHEDULED",
            "gcloud kms keys versions restore VERSION --key=disks --keyring=gke",
        ),
        (
            Key(encrypts=True, state=None),
            "fails",
            "has no primary version",
            "gcloud kms keys versions create --key=disks --primary --keyring=gke",
        ),
        (
            Key(encrypts=False, state=None),
            "fails",
            "is not a key for symmetric encryption",
            "gcloud kms keys create NAME --purpose=encryption --keyring=gke",
        ),
        (SILENT, "not asked", "could not be checked: the right x.y.get is missing", ""),
    ],
)
def test_a_key_that_cannot_encrypt_is_reported_with_the_command_that_repairs_it(
    key: Key | NotAnswered | None, verdict: str, said: str, remedy: str
) -> None:
    (found,) = key_findings(keys_needed(fleet_of()), {KEY: key}, key_remedies)
    assert (found.verdict, found.detail) == (verdict, said)
    assert found.remedy.startswith(remedy)
    assert found.subject == f"key {KEY} (cluster.kms_key)"
