"""The agents' reports, parsed from the API server's objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slicewright.fleet_controller.objects.bounds import (
    EPOCH_S,
    LONGEST_NAME,
    identifier,
    name,
    reason,
    seconds,
    text,
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """A GPUNodeReport. Text is as the agent wrote it, and empty if it is missing."""

    name: str
    owner_uid: str
    verdict: str
    reason: str
    message: str
    pool: str
    layout_hash: str
    boot_id: str
    time: float
    driver: str = ""
    """Version of the driver that answered, or empty."""
    computed: bool = False
    """True if a program has computed on every device of the node as it is."""
    unreadable: str = ""
    """Why the object cannot be read, or empty. If set, all other fields but `name` are empty."""


def read_report(raw: Mapping[str, Any]) -> Report:
    report = raw.get("report") or {}
    owners = [
        owner["uid"]
        for owner in raw["metadata"].get("ownerReferences") or ()
        if owner.get("kind") == "Node"
    ]
    return Report(
        name=name(raw["metadata"]),
        owner_uid=owners[0] if owners else "",
        # Repeated in conditions, events and statuses, which people read in terminals.
        verdict=text(report.get("verdict"), LONGEST_NAME),
        reason=reason(report.get("reason")),
        message=text(report.get("message")),
        pool=text(report.get("pool"), LONGEST_NAME),
        layout_hash=text(report.get("observedHash"), LONGEST_NAME),
        boot_id=identifier(report.get("bootID")),
        time=seconds(report.get("time")),
        driver=text(report.get("driver"), LONGEST_NAME),
        computed=(report.get("compute") or {}).get("outcome") == "computed",
    )


def unreadable_report(raw: Mapping[str, Any], why: str, last: Report | None = None) -> Report:
    """Returns a stand-in for a report that cannot be read. The last readable report no longer
    counts.

    Raises KeyError, TypeError or ValueError if not even its name can be read.
    """
    return Report(
        name=name(raw["metadata"]),
        owner_uid="",
        verdict="",
        reason="",
        message="",
        pool="",
        layout_hash="",
        boot_id="",
        time=EPOCH_S,
        unreadable=why,
    )
