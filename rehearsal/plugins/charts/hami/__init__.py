"""A stand-in for HAMi's chart: its scheduler with the extender, its webhook, its device plugin."""

from slicewright.rehearsal.plugins.charts.hami.manifests import render
from slicewright.rehearsal.plugins.charts.hami.values import VERSION, check

__all__ = ["VERSION", "check", "render"]
