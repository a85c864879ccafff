"""A stand-in for the chart of Volcano's vGPU device plugin."""

from slicewright.rehearsal.plugins.charts.volcano_device_plugin.manifests import render
from slicewright.rehearsal.plugins.charts.volcano_device_plugin.values import VERSION, check

__all__ = ["VERSION", "check", "render"]
