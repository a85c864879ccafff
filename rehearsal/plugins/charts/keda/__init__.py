"""A stand-in for KEDA's chart: its operator, and its server of external metrics."""

from slicewright.rehearsal.plugins.charts.keda.manifests import render
from slicewright.rehearsal.plugins.charts.keda.values import VERSION, check

__all__ = ["VERSION", "check", "render"]
