"""How GKE pools get their machines: what is refused, what is decided, what the cloud is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests, plan, stack_file
from tests.recorder import Made

Record = Callable[..., list[Made]]


def fleet(**pool: Any) -> dict[str, Any]:
    a = {"name": "a", "machine_type": "a2-highgpu-1g", "nodes": {"count": 1}, **pool}
    cluster = {"name": "c", "location": "us-central1-a"}
    return {"cloud": "gke", "cluster": cluster, "node_pools": [a]}


def planned(**pool: Any) -> plan.GkeFleetPlan:
    raw = fleet(**pool)
    made = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(made, plan.GkeFleetPlan)
    assert plan.unbuildable(made) == ()
    return made


def refusal(**pool: Any) -> str:
    with pytest.raises(stack_file.SpecError) as refused:
        planned(**pool)
    return str(refused.value)


def sent(record_cloud: Record, **pool: Any) -> dict[str, Any]:
    """The GPU pool that the cloud is asked for."""
    made = record_cloud("x", fleet=yaml.safe_dump(fleet(**pool)))
    (found,) = (m for m in made if m.type.endswith(":NodePool") and m.name.endswith("-a"))
    return dict(found.inputs)


def reservation(**keys: Any) -> dict[str, Any]:
    return {"mode": "reservation", **keys}


@pytest.mark.parametrize(
    ("capacity", "affinity"),
    [
        ("on-demand", None),
        ("spot", None),
        ("reservation", {"consumeReservationType": "ANY_RESERVATION"}),
        (
            reservation(fallback="on-demand"),
            {"consumeReservationType": "ANY_RESERVATION"},
        ),
        (
            reservation(fallback="none"),
            {"consumeReservationType": "ANY_RESERVATION_THEN_FAIL"},
        ),
        *(
            (
                reservation(reservation=name),
                {
                    "consumeReservationType": "SPECIFIC_RESERVATION",
                    "key": "compute.googleapis.com/reservation-name",
                    "values": [name],
                },
            )
            for name in (
                "week",
                "projects/other-project/reservations/week",
                "week/reservationBlocks/one/reservationSubBlocks/two",
            )
        ),
    ],
)
def test_the_affinity_to_reservations_follows_from_the_capacity(
    record_cloud: Record, capacity: Any, affinity: Any
) -> None:
    assert (
        sent(record_cloud, capacity=capacity)["nodeConfig"].get("reservationAffinity") == affinity
    )


@pytest.mark.parametrize(
    ("capacity", "said"),
    [
        (reservation(reservation="Week"), '"Week" is not a reservation: its name'),
        (reservation(reservation="projects/p/zones/z/reservations/r"), "is not a reservation"),
        (reservation(reservation="r/reservationSubBlocks/s"), "is not a reservation"),
        (
            reservation(reservation="week", fallback="on-demand"),
            "has no effect with reservation week",
        ),
    ],
)
def test_a_reservation_that_google_cannot_have_is_refused(capacity: Any, said: str) -> None:
    assert said in refusal(capacity=capacity)


@pytest.mark.parametrize(
    ("said", "fallback"), [({}, "on-demand"), ({"reservation": "week"}, "none")]
)
def test_stating_what_happens_without_a_free_reservation_changes_nothing(
    said: dict[str, str], fallback: str
) -> None:
    short, long = (
        planned(capacity=reservation(**said, **more)).pools for more in ({}, {"fallback": fallback})
    )
    assert short == long


def test_a_note_says_that_machines_may_be_on_demand_ones() -> None:
    unsure = plan.notes(planned(capacity="reservation"))
    assert any("GKE creates on-demand machines" in note for note in unsure)
    for sure in (reservation(fallback="none"), reservation(reservation="week")):
        assert not any("reserv" in note for note in plan.notes(planned(capacity=sure)))


EMPTY = {"min": 0, "max": 2}


@pytest.mark.parametrize(
    ("capacity", "flex_start", "queued", "run_time"),
    [
        ("flex-start", True, None, None),
        ({"mode": "flex-start", "max_run_hours": 2}, True, None, "7200s"),
        ("queued", None, {"enabled": True}, None),
        ({"mode": "queued", "max_run_hours": 168}, None, {"enabled": True}, "604800s"),
    ],
)
def test_machines_that_come_later_are_requested_without_reservations_and_nodes(
    record_cloud: Record, capacity: Any, flex_start: Any, queued: Any, run_time: Any
) -> None:
    pool = sent(record_cloud, capacity=capacity, nodes=EMPTY)
    node = pool["nodeConfig"]
    assert node.get("flexStart") == flex_start
    assert pool.get("queuedProvisioning") == queued
    assert node.get("maxRunDuration") == run_time
    assert node["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert pool["initialNodeCount"] == 0
    assert pool["management"]["autoRepair"] is (flex_start is None)
    assert node["spot"] is False


@pytest.mark.parametrize("mode", ["on-demand", "spot"])
def test_other_machines_may_be_limited_in_time_too(record_cloud: Record, mode: str) -> None:
    capacity = {"mode": mode, "max_run_hours": 240}
    node = sent(record_cloud, capacity=capacity)["nodeConfig"]
    assert (node["maxRunDuration"], node["spot"]) == ("864000s", mode == "spot")
    assert any(
        "ends each node 240 hours" in note for note in plan.notes(planned(capacity=capacity))
    )


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        (
            {"capacity": "flex-start", "nodes": {"min": 1, "max": 2}},
            "a flex-start pool without nodes",
        ),
        (
            {"capacity": "flex-start", "nodes": EMPTY, "machine_type": "g4-standard-48"},
            "g4-standard-48 is not offered as flex-start",
        ),
        (
            {"capacity": "flex-start", "nodes": EMPTY, "machine_type": "a4x-highgpu-4g"},
            "a4x-highgpu-4g is not offered as flex-start",
        ),
        ({"capacity": {"mode": "on-demand", "max_run_hours": 2881}}, "at most 120 days"),
        ({"capacity": {"mode": "reservation", "max_run_hours": 1}}, "unknown key"),
    ],
)
def test_capacity_that_google_does_not_provision_is_refused(
    pool: dict[str, Any], said: str
) -> None:
    assert said in refusal(**pool)


def test_agents_and_workloads_tolerate_gkes_taints_of_queued_nodes() -> None:
    """Or the nodes would stay unverified for ever."""
    taint = {
        "key": "cloud.google.com/gke-queued",
        "operator": "Equal",
        "value": "true",
        "effect": "NoSchedule",
    }
    (pool,) = planned(capacity="queued", nodes=EMPTY).pools
    assert taint in manifests.tolerations([pool])
    assert taint in manifests.pod_request(pool, ())["tolerations"]
    assert taint["key"] not in {t.key for t in pool.taints}, "GKE adds it itself"
    (other,) = planned(capacity="flex-start", nodes=EMPTY).pools
    assert taint not in manifests.tolerations([other])


SURGE = {"strategy": "SURGE", "maxSurge": 0, "maxUnavailable": 1}


def blue_green(soak: str = "3600s", **policy: Any) -> dict[str, Any]:
    batches = {"batchSoakDuration": "0s", **policy}
    settings = {"standardRolloutPolicy": batches, "nodePoolSoakDuration": soak}
    return {"strategy": "BLUE_GREEN", "blueGreenSettings": settings}


@pytest.mark.parametrize(
    ("pool", "settings"),
    [
        ({}, SURGE),
        ({"upgrade": "surge"}, SURGE),
        ({"upgrade": {"mode": "surge", "max_surge": 2}}, {**SURGE, "maxSurge": 2}),
        ({"upgrade": "blue-green"}, blue_green(batchNodeCount=1)),
        (
            {
                "upgrade": {
                    "mode": "blue-green",
                    "batch_nodes": "25%",
                    "batch_soak_minutes": 10,
                    "soak_minutes": 0,
                }
            },
            blue_green("0s", batchPercentage=0.25, batchSoakDuration="600s"),
        ),
    ],
)
def test_upgrade_settings_are_sent_as_written(
    record_cloud: Record, pool: dict[str, Any], settings: dict[str, Any]
) -> None:
    assert sent(record_cloud, **pool)["upgradeSettings"] == settings


def test_placement_and_location_policy_are_sent_as_written(record_cloud: Record) -> None:
    plain = sent(record_cloud, nodes=EMPTY)
    assert "placementPolicy" not in plain
    assert "locationPolicy" not in plain["autoscaling"]
    pool = sent(record_cloud, nodes=EMPTY, placement="compact", location_policy="ANY")
    assert pool["placementPolicy"] == {"type": "COMPACT"}
    assert pool["autoscaling"]["locationPolicy"] == "ANY"
    named = sent(record_cloud, placement="compact", placement_policy="rack")
    assert named["placementPolicy"] == {"type": "COMPACT", "policyName": "rack"}


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ({"upgrade": {"mode": "surge", "max_unavailable": 0}}, "are 0 together"),
        ({"upgrade": {"mode": "surge", "max_surge": 20}}, "are 21 together"),
        (
            {"upgrade": {"mode": "blue-green", "batch_percent": 5}},
            "batch_percent is now batch_nodes: 5%",
        ),
        ({"upgrade": {"mode": "blue-green", "soak_minutes": 10_081}}, "after seven days"),
        ({"capacity": "flex-start", "nodes": EMPTY, "upgrade": "surge"}, "in its own way"),
        ({"location_policy": "ANY"}, "this one has a fixed number of nodes"),
        ({"placement_policy": "rack"}, "with compact placement only"),
        (
            {
                "placement": "compact",
                "zones": ["us-central1-a", "us-central1-c"],
                "nodes": {"count": 2},
            },
            "compact nodes are in one zone",
        ),
        ({"placement": "compact", "upgrade": "blue-green"}, "cannot be upgraded blue-green"),
        ({"placement": "compact", "capacity": "queued", "nodes": EMPTY}, "queued nodes cannot"),
        (
            {"placement": "compact", "capacity": "flex-start", "nodes": EMPTY},
            "flex-start nodes of a2-highgpu-1g cannot be placed compactly",
        ),
        (
            {
                "placement": "compact",
                "machine_type": "n1-standard-8",
                "gpu": {"model": "T4", "count": 1},
            },
            "no N1 machines compactly",
        ),
    ],
)
def test_upgrades_and_placements_that_gke_does_not_have_are_refused(
    pool: dict[str, Any], said: str
) -> None:
    assert said in refusal(**pool)


def test_an_upgrade_that_needs_more_reserved_machines_is_noted() -> None:
    week = reservation(reservation="week")
    for upgrade, noted in (("surge", False), ("blue-green", True)):
        notes = plan.notes(planned(capacity=week, upgrade=upgrade))
        assert any("reserved ones too" in note for note in notes) is noted
