"""Node pools on reserved machines: which reservation they use, and when it has none left."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.account import write_account

ZONE = "us-central1-c"
A100 = {
    "machineType": "a2-highgpu-1g",
    "accelerators": [{"acceleratorType": "nvidia-tesla-a100", "acceleratorCount": "1"}],
}


def affinity(kind: str, *values: str) -> dict[str, Any]:
    key = {"key": "compute.googleapis.com/reservation-name", "values": list(values)}
    return {"consumeReservationType": kind, **(key if values else {})}


def on(value: str, **config: Any) -> dict[str, Any]:
    return {**A100, **config, "reservationAffinity": affinity("SPECIFIC_RESERVATION", value)}


def of_kind(kind: str, **config: Any) -> dict[str, Any]:
    return {**A100, **config, "reservationAffinity": affinity(kind)}


def reserve(gcp, *reservations: dict[str, Any]) -> None:
    common = {"zone": ZONE, "machine_type": "a2-highgpu-1g"}
    write_account(gcp.environment, {"reservations": [{**common, **r} for r in reservations]})


def refused(gcp, code: int, said: str, **pool: Any) -> None:
    with pytest.raises(CloudError) as caught:
        gcp.make_pool(**pool)
    assert (caught.value.code, said in caught.value.message) == (code, True), caught.value.message


def test_a_pool_takes_the_machines_of_the_reservation_that_it_names(gcp) -> None:
    gcp.make_cluster()
    reserve(gcp, {"name": "week", "count": 3})
    gcp.make_pool(config=on("week"), initialNodeCount=2)
    short = (
        'Reservation does not have enough resources for the request: specific reservation "week" '
        f'is insufficient for node pool "two" at zone "{ZONE}": required 2 and short of 1 VM '
        "count of machine type a2-highgpu-1g."
    )
    refused(gcp, 429, short, name="two", config=on("week"), initialNodeCount=2)
    gcp.make_pool(name="two", config=on("projects/acme/reservations/week"))


def test_a_reservation_must_exist_in_each_zone_of_the_pool_even_for_no_nodes(gcp) -> None:
    gcp.make_cluster()
    reserve(gcp, {"name": "week", "count": 3})
    said = 'Google Compute Engine: reservation "week" not found for node pool "pool" at zone '
    zones = [ZONE, "us-central1-a"]
    refused(gcp, 404, said + '"us-central1-a".', config=on("week"), locations=zones)
    refused(gcp, 404, 'reservation "day" not found', config=on("day"), initialNodeCount=0)


@pytest.mark.parametrize(
    "other", [{"machine_type": "a2-highgpu-2g"}, {"specific": False}], ids=["machine", "unnamed"]
)
def test_a_reservation_of_another_kind_has_nothing_for_the_pool(gcp, other) -> None:
    gcp.make_cluster()
    reserve(gcp, {"name": "week", "count": 3, **other})
    refused(gcp, 429, "required 1 and short of 1 VM count", config=on("week"))


def test_a_reservation_of_another_project_is_found_by_its_path_where_it_is_shared(gcp) -> None:
    gcp.make_cluster()
    theirs = "projects/capacity/reservations/week"
    reserve(gcp, {"name": "week", "count": 1, "project": "capacity"})
    refused(gcp, 404, "not found", config=on(theirs))
    reserve(gcp, {"name": "week", "count": 1, "project": "capacity", "shared_with": ["acme"]})
    refused(gcp, 404, "not found", config=on("week"))
    gcp.make_pool(config=on(theirs))
    block = f"{theirs}/reservationBlocks/one"
    refused(gcp, 400, "Shared extended reservations", name="two", config=on(block))


def test_a_block_has_its_own_machines_within_the_reservations(gcp) -> None:
    gcp.make_cluster()
    blocks = {"one": {"count": 2, "sub_blocks": {"x": 1}}, "two": {"count": 2}}
    reserve(gcp, {"name": "week", "count": 4, "blocks": blocks})
    refused(gcp, 404, "not found", config=on("week/reservationBlocks/three"))
    one = "week/reservationBlocks/one"
    gcp.make_pool(name="x", config=on(f"{one}/reservationSubBlocks/x"))
    refused(gcp, 429, "short of 1", name="y", config=on(one), initialNodeCount=2)
    gcp.make_pool(name="y", config=on(one))
    gcp.make_pool(name="z", config=on("week"), initialNodeCount=2)
    refused(gcp, 429, "short of 1", name="w", config=on("week/reservationBlocks/two"))


def test_a_resize_and_another_zone_need_reserved_machines_too(gcp) -> None:
    gcp.make_cluster()
    reserve(
        gcp, {"name": "week", "count": 2}, {"name": "week", "zone": "us-central1-a", "count": 1}
    )
    gcp.make_pool(config=on("week"))
    with pytest.raises(CloudError, match="required 2 and short of 1"):
        gcp.on_pool("setSize", nodeCount=3)
    gcp.wait(gcp.on_pool("setSize", nodeCount=2))
    with pytest.raises(CloudError, match='"us-central1-a": required 2 and short of 1'):
        gcp.on_pool("update", locations=[ZONE, "us-central1-a"])
    gcp.wait(gcp.on_pool("setSize", nodeCount=1))
    gcp.wait(gcp.on_pool("update", locations=[ZONE, "us-central1-a"]))


def test_any_reservation_falls_back_and_any_then_fail_does_not(gcp) -> None:
    gcp.make_cluster()
    reserve(gcp, {"name": "open", "count": 2, "specific": False}, {"name": "week", "count": 9})
    gcp.make_pool(config=of_kind("ANY_RESERVATION_THEN_FAIL"))
    gcp.make_pool(name="any", config=of_kind("ANY_RESERVATION"), initialNodeCount=3)
    said = "any matching reservation is insufficient for node pool"
    refused(gcp, 429, said, name="two", config=of_kind("ANY_RESERVATION_THEN_FAIL"))


def test_reserved_machines_are_not_counted_against_the_quota_again(gcp) -> None:
    gcp.make_cluster()
    week = {"name": "week", "count": 1, "zone": ZONE, "machine_type": "a2-highgpu-1g"}
    no_gpus = {"quotas": {"NVIDIA_A100_GPUS": 0}, "reservations": [week]}
    write_account(gcp.environment, no_gpus)
    refused(gcp, 403, "NVIDIA_A100_GPUS", config=A100)
    gcp.make_pool(config=on("week"))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (of_kind("SPECIFIC_RESERVATION"), "exactly one value"),
        (
            {**A100, "reservationAffinity": affinity("SPECIFIC_RESERVATION", "a", "b")},
            "exactly one value",
        ),
        ({**A100, "reservationAffinity": affinity("ANY_RESERVATION", "a")}, "no key and no values"),
        (of_kind("ANY_RESERVATION", spot=True), "Spot and preemptible nodes cannot use"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(gcp, config, said: str) -> None:
    gcp.make_cluster()
    refused(gcp, 400, said, config=config)


def test_without_a_list_there_is_a_reservation_for_whatever_is_asked_for(gcp) -> None:
    gcp.make_cluster()
    gcp.make_pool(config=on("whatever"), initialNodeCount=5)
    assert len(gcp.nodes("pool")) == 5
