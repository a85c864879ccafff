"""How a pool gets its machines. What a cloud does not have is refused in `infra.plan`, where the
cloud is known.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue

from infra.spec.schema.base import Short, Spec
from infra.spec.schema.limits import Form, Named, Whole

_Hours = Annotated[
    int,
    Whole(
        least=1,
        below="a machine for no time is none",
        most=168,
        above="Google takes flex-start machines back after seven days",
        source="GKE docs, flex-start",
    ),
]


class OnDemand(Spec):
    mode: Literal["on-demand"] = "on-demand"


class Spot(Spec):
    """Cheap, and taken away at any time."""

    mode: Literal["spot"] = "spot"


class FlexStart(Spec):
    """GKE: machines come when there are some, and stay at most seven days."""

    mode: Literal["flex-start"] = "flex-start"
    max_run_hours: _Hours | None = None
    """1 to 168; GKE's seven days where not said."""


class Queued(Spec):
    """GKE: nodes come only for a ProvisioningRequest (Kueue), all at once."""

    mode: Literal["queued"] = "queued"
    max_run_hours: _Hours | None = None


class Reservation(Spec):
    """Machines reserved before."""

    mode: Literal["reservation"] = "reservation"
    reservation: (
        Annotated[
            str,
            Named(
                "a reservation",
                "Compute Engine and EC2 docs, reservations",
                "h100-week",
                "cr-0123456789abcdef0",
            ),
        ]
        | None
    ) = None
    """Name (GKE), or ID `cr-…` or ARN of a resource group (EKS). Not said: any open one that
    fits.
    """


class CapacityBlock(Spec):
    """EKS: GPUs reserved for a span of days in the future."""

    mode: Literal["capacity-block"] = "capacity-block"
    reservation: Annotated[
        str,
        Form(
            pattern=r"cr-[0-9a-f]{8,17}",
            wrong="is no ID of a capacity reservation",
            examples=("cr-0123456789abcdef0",),
            source="EC2 API, CapacityReservationId",
        ),
    ]
    """ID of the block's capacity reservation."""


Capacity = Annotated[
    OnDemand | Spot | FlexStart | Queued | Reservation | CapacityBlock,
    Field(discriminator="mode"),
    Short("on-demand", "spot", "flex-start", "queued", "reservation"),
]


class _Offered:
    """The modes that a cloud has, for editors. The others are read all the same: `infra.plan` says
    what comes nearest.
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


GkeCapacity = Annotated[
    Capacity, _Offered("on-demand", "spot", "flex-start", "queued", "reservation")
]
EksCapacity = Annotated[Capacity, _Offered("on-demand", "spot", "reservation", "capacity-block")]
