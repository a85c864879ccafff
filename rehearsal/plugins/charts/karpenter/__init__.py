"""Stand-ins for Karpenter's charts, `karpenter` and `karpenter-crd`."""

from slicewright.rehearsal.plugins.charts.karpenter.manifests import definitions, render
from slicewright.rehearsal.plugins.charts.karpenter.values import VERSION, check, check_definitions

__all__ = ["VERSION", "check", "check_definitions", "definitions", "render"]
