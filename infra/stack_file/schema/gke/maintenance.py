"""When GKE may upgrade a cluster and its nodes."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from slicewright.infra.stack_file.schema.constraints import ConstraintError, FreeText, Pattern
from slicewright.infra.stack_file.schema.model import SpecModel

_API = "GKE API, MaintenanceWindow"


class _UtcTime(Pattern):
    """A point in time in UTC, as in GKE's answers: another zone would differ on every `up`."""

    def __init__(self) -> None:
        super().__init__(
            pattern=r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z",
            is_not="a time in UTC: date, T, hours, minutes and seconds, Z",
            examples=('"2026-01-03T00:00:00Z"',),
            source=_API,
        )

    @property
    def example(self) -> str:
        return "2026-01-03T00:00:00Z"

    def check(self, value: Any) -> Any:
        super().check(value)
        try:
            time = datetime.fromisoformat(value)
        except ValueError as e:
            reason = f"{{value}} is not a time: {e}"
            raise ConstraintError(reason, self.instead, self.source) from None
        if not _FIRST_YEAR <= time.year <= _LAST_YEAR:
            raise ConstraintError(
                f"{{value}} is not a time between {_FIRST_YEAR} and {_LAST_YEAR}",
                "write the year of the first window or of the exclusion",
                self.source,
            )
        return value


_FIRST_YEAR = 2014
"""The year of the first GKE release."""
_LAST_YEAR = 2999
"""A limit far in the future that still allows date arithmetic."""
UtcTime = Annotated[str, _UtcTime()]


class DailyMaintenance(SpecModel):
    """The same four hours every day."""

    mode: Literal["daily"]
    start: Annotated[
        str,
        Pattern(
            pattern=r"(?:[01][0-9]|2[0-3]):[0-5][0-9]",
            is_not="a time of the day in UTC: hours and minutes",
            examples=("03:00",),
            source="GKE API, DailyMaintenanceWindow.startTime",
        ),
    ]
    """Time of the day in UTC."""


class RecurringMaintenance(SpecModel):
    """A recurring window."""

    mode: Literal["recurring"]
    start: UtcTime
    """Start of the first window."""
    end: UtcTime
    """End of the first window. All windows have the same length."""
    recurrence: Annotated[
        str,
        Pattern(
            pattern=r"FREQ=(?:DAILY|WEEKLY|MONTHLY|YEARLY)(?:;[A-Z]+=[-+]?[A-Z0-9]+"
            r"(?:,[-+]?[A-Z0-9]+)*)*",
            is_not="a recurrence rule of at most one window a day, starting with FREQ=",
            examples=("FREQ=WEEKLY;BYDAY=SA,SU", "FREQ=DAILY"),
            source="RFC 5545, RRULE; GKE API, RecurringTimeWindow.recurrence",
        ),
    ]
    """An RRULE of RFC 5545, with days in UTC."""


class MaintenanceExclusion(SpecModel):
    """A period without upgrades, even within the maintenance window."""

    name: Annotated[
        str, FreeText("a name", "GKE API, maintenanceExclusions", "year-end", "training-run")
    ]
    start: UtcTime
    end: UtcTime
    scope: Literal["no-upgrades", "no-minor-upgrades", "no-minor-or-node-upgrades"] = "no-upgrades"
    """The upgrades that do not happen in this period."""


class GkeMaintenance(SpecModel):
    window: Annotated[DailyMaintenance | RecurringMaintenance, Field(discriminator="mode")]
    """When GKE may upgrade control plane and nodes by itself."""
    exclusions: tuple[MaintenanceExclusion, ...] = ()
