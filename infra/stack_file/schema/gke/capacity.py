"""How a GKE pool gets its machines: Google Cloud's additions to the kinds of all clouds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from slicewright.infra.stack_file.schema.capacity import (
    CapacityBlock,
    FlexStart,
    OfferedModes,
    OnDemand,
    Queued,
    Reservation,
    Spot,
)
from slicewright.infra.stack_file.schema.constraints import IntRange, Pattern
from slicewright.infra.stack_file.schema.model import Shorthand

_NAME = r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?"
PROJECT = (
    r"(?:(?:[-a-z0-9]{1,63}\.)*[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?:)?"
    r"[a-z][-a-z0-9]{4,28}[a-z0-9]"
)
"""The ID of a project, which may begin with a domain. Source: Compute Engine API, project."""
_PART = rf"/reservationBlocks/{_NAME}(?:/reservationSubBlocks/{_NAME})?"


_RunHours = Annotated[
    int,
    IntRange(
        minimum=1,
        maximum=2880,
        unit="hour",
        why_maximum="Compute Engine limits the run time of a machine to at most 120 days",
        source="Compute Engine docs, limit the run time of a VM",
    ),
]


class GkeOnDemand(OnDemand):
    max_run_hours: _RunHours | None = None
    """Time from a machine's creation until the cloud ends it. By default unlimited."""


class GkeSpot(Spot):
    max_run_hours: _RunHours | None = None
    """Time from a machine's creation until the cloud ends it. By default unlimited."""


class GkeReservation(Reservation):
    reservation: (
        Annotated[
            str,
            Pattern(
                pattern=rf"(?:projects/{PROJECT}/reservations/)?{_NAME}(?:{_PART})?",
                is_not="a reservation: its name, after projects/…/reservations/ if another project "
                "shares it, and before /reservationBlocks/… to use only a block of it",
                examples=("h100-week", "projects/capacity/reservations/h100-week"),
                source="GKE docs, consume reserved zonal resources",
            ),
        ]
        | None
    ) = None
    """Name of the reservation. If another project shares it, its path, beginning with
    `projects/…/reservations/`. For a block of it, add `/reservationBlocks/…`. By default any
    matching reservation that can be used without its name.
    """
    fallback: Literal["on-demand", "none"] | None = None
    """Capacity without a name if no reservation matches: `on-demand` (the default) or `none`."""


GkeCapacity = Annotated[
    GkeOnDemand | GkeSpot | FlexStart | Queued | GkeReservation | CapacityBlock,
    Field(discriminator="mode"),
    Shorthand("on-demand", "spot", "flex-start", "queued", "reservation"),
    OfferedModes("on-demand", "spot", "flex-start", "queued", "reservation"),
]
