"""Each thing that makes a named reservation or key useless to a pool is told, with its remedy."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from slicewright.doctor.checks.eks.capacity import (
    CapacityReservation,
    key_remedies,
    keys_needed,
    reservation_findings,
    reservations_needed,
)
from slicewright.doctor.checks.keys import Key, key_findings
from slicewright.doctor.findings import Finding, NotAnswered, Owned
from slicewright.infra import plan, stack_file
from slicewright.infra.plan import EksFleetPlan

ONE = "cr-0123456789abcdef0"
GROUP = "arn:aws:resource-groups:eu-west-1:123456789012:group/gpus"
KEY = "arn:aws:kms:eu-west-1:123456789012:key/11111111-2222-3333-4444-555555555555"
OTHER_KEY = KEY.replace("1111", "9999")
SILENT = NotAnswered(why="the right ec2:Something is missing")
THERE = CapacityReservation(
    id=ONE,
    instance_type="p4d.24xlarge",
    zone="eu-west-1a",
    zone_id="euw1-az2",
    state="active",
    block=False,
    total=2,
    available=2,
    start=None,
    end=None,
)


ZONES = ("eu-west-1a", "eu-west-1b")


def fleet_of(
    capacity: Any = None, *, nodes: int = 2, zones: tuple[str, ...] = ZONES, **pool: Any
) -> EksFleetPlan:
    raw = {
        "cloud": "eks",
        "cluster": {
            "name": "c",
            "region": "eu-west-1",
            "zones": list(zones),
            "secrets_key": KEY,
        },
        "node_pools": [
            {
                "name": "gpus",
                "machine_type": "p4d.24xlarge",
                "nodes": {"count": nodes},
                **({} if capacity is None else {"capacity": capacity}),
                **pool,
            }
        ],
    }
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, EksFleetPlan)
    return found


NAMED = {"mode": "reservation", "reservation": ONE}
BLOCK = {"mode": "capacity-block", "reservation": ONE}


def of(
    fleet: EksFleetPlan, *there: CapacityReservation, owned: Owned = "no", name: str = ONE
) -> list[Finding]:
    return list(reservation_findings(fleet, {name: there}, owned))


def test_only_resources_that_a_pool_names_are_looked_up() -> None:
    assert reservations_needed(fleet_of()) == {}
    assert reservations_needed(fleet_of({"mode": "reservation"})) == {}
    assert list(reservations_needed(fleet_of(NAMED))) == [ONE]
    assert list(reservations_needed(fleet_of({**NAMED, "reservation": GROUP}))) == [GROUP]


def test_a_reservation_that_fits_passes_with_its_numbers() -> None:
    (found,) = of(fleet_of(NAMED), THERE)
    assert found.verdict == "ok"
    assert found.detail == "2 instances, 2 free; the stack needs 2"


@pytest.mark.parametrize(
    ("changed", "said", "remedy"),
    [
        (
            {"instance_type": "p5.48xlarge"},
            "reserves p5.48xlarge, but the pool's nodes are p4d.24xlarge",
            "name a reservation for that machine type, or change machine_type",
        ),
        (
            {"zone": "eu-west-1c", "zone_id": "euw1-az1"},
            "is in eu-west-1c (euw1-az1), but the pool is also in eu-west-1a",
            "write zones: [eu-west-1c] for the pool",
        ),
        (
            {"state": "expired"},
            "is expired",
            "name an active one: aws ec2 describe-capacity-reservations --filters "
            "Name=state,Values=active Name=instance-type,Values=p4d.24xlarge --region eu-west-1",
        ),
        (
            {"block": True},
            "is a capacity block",
            "write mode: capacity-block as capacity",
        ),
        (
            {"available": 1},
            "2 instances, 1 free; the stack needs 2",
            f"aws ec2 modify-capacity-reservation --capacity-reservation-id {ONE} "
            "--instance-count 3 --region eu-west-1",
        ),
    ],
)
def test_the_one_thing_that_is_wrong_is_named_alone(
    changed: dict[str, Any], said: str, remedy: str
) -> None:
    (found,) = of(fleet_of(NAMED), dataclasses.replace(THERE, **changed))
    assert (found.verdict, found.detail, found.remedy) == ("fails", said, remedy)


def test_a_zone_by_its_id_is_the_same_zone() -> None:
    by_id = fleet_of(NAMED, zones=("euw1-az2", "euw1-az3"))
    (found,) = of(by_id, THERE)
    assert found.verdict == "ok"
    (found,) = of(by_id, dataclasses.replace(THERE, zone="eu-west-1c", zone_id="euw1-az1"))
    assert found.remedy == "write zones: [euw1-az1] for the pool"


def test_a_block_that_has_not_begun_is_reported_with_its_day() -> None:
    later = dataclasses.replace(
        THERE, block=True, state="scheduled", start="2026-12-01 11:30 UTC", available=0
    )
    (found,) = of(fleet_of(BLOCK), later)
    assert found.detail == "is scheduled; it starts at 2026-12-01 11:30 UTC"
    assert found.remedy.startswith("run `pulumi up` once it is active")


def test_a_capacity_block_shows_its_end_and_cannot_grow() -> None:
    block = dataclasses.replace(THERE, block=True, end="2026-12-02 11:30 UTC")
    (found,) = of(fleet_of(BLOCK), block)
    assert found.detail.endswith("it ends at 2026-12-02 11:30 UTC")
    (found,) = of(fleet_of(BLOCK, nodes=3), block)
    assert (found.verdict, found.remedy) == ("fails", "lower nodes to 2")


def test_an_ordinary_reservation_is_no_block() -> None:
    (found,) = of(fleet_of(BLOCK), THERE)
    assert (found.detail, found.remedy) == (
        "is not a capacity block",
        "write mode: reservation as capacity",
    )


def test_the_usage_of_this_stacks_nodes_is_not_counted_twice() -> None:
    full = dataclasses.replace(THERE, available=0)
    (found,) = of(fleet_of(NAMED), full, owned="yes")
    assert found.verdict == "ok"
    (found,) = of(fleet_of(NAMED), full, owned="unknown")
    assert found.verdict == "fails"


def test_a_group_has_the_instances_of_all_its_reservations_that_fit() -> None:
    fleet = fleet_of({**NAMED, "reservation": GROUP}, nodes=4)
    other = dataclasses.replace(THERE, id="cr-1", state="cancelled", total=9, available=9)
    (found,) = of(fleet, THERE, dataclasses.replace(THERE, id="cr-2"), other, name=GROUP)
    assert found.verdict == "ok"
    assert found.detail.startswith("4 instances, 4 free")
    (found,) = of(fleet, name=GROUP)
    assert found.detail == "reserves no machines, but the pool's nodes are p4d.24xlarge"


def test_a_missing_or_unanswered_reservation_never_passes() -> None:
    (found,) = reservation_findings(fleet_of(NAMED), {ONE: None}, "no")
    assert (found.verdict, found.subject) == ("fails", f"capacity reservation {ONE}")
    (found,) = reservation_findings(fleet_of(NAMED), {ONE: SILENT}, "no")
    assert found.verdict == "not asked"


ENABLED = Key(state="Enabled", encrypts=True)


def test_each_key_of_the_plan_is_looked_up_once_with_its_users() -> None:
    fleet = fleet_of(disk={"kms_key": OTHER_KEY})
    assert keys_needed(fleet) == {
        KEY: "cluster.secrets_key",
        OTHER_KEY: "disk.kms_key of pool gpus",
    }


@pytest.mark.parametrize(
    ("key", "verdict", "said", "remedy"),
    [
        (ENABLED, "ok", "enabled", ""),
        (None, "fails", "does not exist", "aws kms list-keys --region eu-west-1"),
        (
            Key(state="Disabled", encrypts=True),
            "fails",
            "is Disabled",
            f"aws kms enable-key --key-id {KEY} --region eu-west-1",
        ),
        (
            Key(state="PendingDeletion", encrypts=True),
            "fails",
            "is PendingDeletion",
            f"aws kms cancel-key-deletion --key-id {KEY} --region eu-west-1; aws kms enable-key "
            f"--key-id {KEY} --region eu-west-1",
        ),
        (
            Key(state="Enabled", encrypts=False),
            "fails",
            "is not a key for symmetric encryption",
            "aws kms create-key --region eu-west-1 creates one",
        ),
        (SILENT, "not asked", "could not be checked: the right ec2:Something is missing", ""),
    ],
)
def test_a_key_that_cannot_encrypt_is_reported_with_the_command_that_repairs_it(
    key: Key | NotAnswered | None, verdict: str, said: str, remedy: str
) -> None:
    (found,) = key_findings(keys_needed(fleet_of()), {KEY: key}, key_remedies("eu-west-1"))
    assert (found.verdict, found.detail, found.remedy) == (verdict, said, remedy)
    assert found.subject == f"key {KEY} (cluster.secrets_key)"
