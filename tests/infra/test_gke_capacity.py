"""How GKE pools get their machines: what is refused, what is decided, what the cloud is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from infra import plan, spec
from tests.recorder import Made

Record = Callable[..., list[Made]]


def fleet(**pool: Any) -> dict[str, Any]:
    a = {"name": "a", "machine_type": "a2-highgpu-1g", "nodes": {"count": 1}, **pool}
    cluster = {"name": "c", "location": "us-central1-a"}
    return {"cloud": "gke", "cluster": cluster, "node_pools": [a]}


def planned(**pool: Any) -> plan.GkeFleetPlan:
    raw = fleet(**pool)
    made = plan.read(json.dumps(raw), spec.Source("test", raw))
    assert isinstance(made, plan.GkeFleetPlan)
    assert plan.unbuildable(made) == ()
    return made


def refusal(**pool: Any) -> str:
    with pytest.raises(spec.SpecError) as refused:
        planned(**pool)
    return str(refused.value)


def sent(record: Record, **pool: Any) -> dict[str, Any]:
    """The GPU pool that the cloud is asked for."""
    made = record("x", fleet=yaml.safe_dump(fleet(**pool)))
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
    record: Record, capacity: Any, affinity: Any
) -> None:
    assert sent(record, capacity=capacity)["nodeConfig"].get("reservationAffinity") == affinity


@pytest.mark.parametrize(
    ("capacity", "said"),
    [
        (reservation(reservation="Week"), '"Week" is not a reservation: its name'),
        (reservation(reservation="projects/p/zones/z/reservations/r"), "is not a reservation"),
        (reservation(reservation="r/reservationSubBlocks/s"), "is not a reservation"),
        (
            reservation(reservation="week", fallback="on-demand"),
            "machines come from week or not at all",
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


def test_that_machines_may_be_no_reserved_ones_is_noted() -> None:
    unsure = plan.notes(planned(capacity="reservation"))
    assert any("GKE creates on-demand machines" in note for note in unsure)
    for sure in (reservation(fallback="none"), reservation(reservation="week")):
        assert not any("reserv" in note for note in plan.notes(planned(capacity=sure)))
