"""Histograms of the time that nodes take until they are verified. In this process only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from slicewright.fleet_controller.objects.layout_change import UNDER_WAY, change_of
from slicewright.fleet_controller.objects.node import Node
from slicewright.telemetry.prometheus import Histogram

BOUNDS_S: Final = (10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0)
"""A node whose driver is there takes seconds, a node that installs it and reboots takes a quarter
of an hour, and a drain takes up to its limit.
"""


@dataclass
class Durations:
    to_verified: Histogram = field(default_factory=lambda: Histogram(BOUNDS_S))
    """Time from the creation of the Node until it is verified for the first time. It is released at
    once then, or in the next pass.
    """
    of_changes: Histogram = field(default_factory=lambda: Histogram(BOUNDS_S))
    """Time of successful changes of a layout or driver in service, from the cordon to the end."""

    def verified(self, node: Node, now: float) -> None:
        """Records that the node has just been marked as verified in its boot.

        node: its state before. A node that was in service without that mark has been there for
        long.
        """
        if node.held and not node.verified_boot:
            self.to_verified.observe(now - node.created)

    def changed(self, node: Node, now: float) -> None:
        change = change_of(node)
        if change is None or change.phase not in UNDER_WAY:
            return
        if change.target in ("", node.mig_config):
            self.of_changes.observe(now - change.started)
