"""A stand-in for Volcano's chart: its scheduler, its controllers and its resource definitions."""

from slicewright.rehearsal.plugins.charts.volcano.manifests import render
from slicewright.rehearsal.plugins.charts.volcano.values import VERSION, check

__all__ = ["VERSION", "check", "render"]
