"""The changes that are worth a pass of the controller. Pure.

Every node writes its status again and again, and every agent its report. In a fleet of thousands
that is several times a second, and none of it changes a decision. Such a change is still kept, and
counts in the next pass, which comes every half minute at the latest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from slicewright.fleet_controller.objects.node import Node
from slicewright.fleet_controller.objects.report import Report

RENEWAL_S: Final = 420.0
"""An agent renews its report every 6 minutes. A late report may have become too old meanwhile."""


def of_node(old: Node | None, new: Node | None) -> bool:
    """True if more than its version has changed: nothing else is kept of a heartbeat.

    HAMi's lock comes and goes with each of its pods.
    """
    if old is None or new is None:
        return old is not new
    return replace(old, version=new.version, share_lock=new.share_lock) != new


def of_report(old: Report | None, new: Report | None) -> bool:
    """True if its content has changed, or if it comes late."""
    if old is None or new is None:
        return old is not new
    return replace(old, time=new.time) != new or not 0 <= new.time - old.time <= RENEWAL_S
