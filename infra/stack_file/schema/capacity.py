"""How a pool gets its machines. `slicewright.infra.plan` refuses the modes that a cloud does not
have.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue

from slicewright.infra.stack_file.schema.constraints import FreeText, IntRange, Pattern
from slicewright.infra.stack_file.schema.model import Shorthand, SpecModel

FLEX_START_HOURS = 168
"""GKE deletes flex-start machines after seven days. Source: GKE docs, flex-start."""
_Hours = Annotated[
    int,
    IntRange(
        minimum=1,
        maximum=FLEX_START_HOURS,
        unit="hour",
        why_maximum="GKE deletes flex-start machines after seven days",
        source="GKE docs, flex-start",
    ),
]


class OnDemand(SpecModel):
    mode: Literal["on-demand"] = "on-demand"


class Spot(SpecModel):
    """Cheaper machines, which the cloud may reclaim at any time."""

    mode: Literal["spot"] = "spot"


class FlexStart(SpecModel):
    """GKE: machines are created when the zone has capacity and run at most seven days."""

    mode: Literal["flex-start"] = "flex-start"
    max_run_hours: _Hours | None = None
    """1 to 168. By default GKE's maximum of seven days."""


class Queued(SpecModel):
    """GKE: nodes are created only for a ProvisioningRequest (Kueue), all at once."""

    mode: Literal["queued"] = "queued"
    max_run_hours: _Hours | None = None


class Reservation(SpecModel):
    """Machines reserved in advance."""

    mode: Literal["reservation"] = "reservation"
    reservation: (
        Annotated[
            str,
            FreeText(
                "a reservation's ID",
                "EC2 docs, capacity reservations",
                "cr-0123456789abcdef0",
            ),
        ]
        | None
    ) = None
    """ID `cr-…` or resource group ARN. By default any matching open reservation."""


class CapacityBlock(SpecModel):
    """EKS: GPUs reserved for a fixed number of days, starting at a future date."""

    mode: Literal["capacity-block"] = "capacity-block"
    reservation: Annotated[
        str,
        Pattern(
            pattern=r"cr-[0-9a-f]{8,17}",
            is_not="a capacity reservation ID",
            examples=("cr-0123456789abcdef0",),
            source="EC2 API, CapacityReservationId",
        ),
    ]
    """ID of the capacity block's reservation."""


Capacity = Annotated[
    OnDemand | Spot | FlexStart | Queued | Reservation | CapacityBlock,
    Field(discriminator="mode"),
    Shorthand("on-demand", "spot", "flex-start", "queued", "reservation"),
]


class OfferedModes:
    """The modes that a cloud has, for the JSON Schema. `slicewright.infra.plan` refuses the
    others.
    """

    def __init__(self, *modes: str) -> None:
        self.modes = modes

    def __get_pydantic_json_schema__(
        self, core: Any, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        word, full = handler(core)["anyOf"]
        by_mode = {
            mode: ref
            for mode, ref in full["discriminator"]["mapping"].items()
            if mode in self.modes
        }
        return {
            "anyOf": [
                {**word, "enum": [mode for mode in word["enum"] if mode in self.modes]},
                {
                    "discriminator": {**full["discriminator"], "mapping": by_mode},
                    "oneOf": [{"$ref": ref} for ref in by_mode.values()],
                },
            ]
        }


EksCapacity = Annotated[
    Capacity, OfferedModes("on-demand", "spot", "reservation", "capacity-block")
]
