"""A stand-in for the chart `kube-prometheus-stack`: Prometheus's operator and one Prometheus."""

from slicewright.rehearsal.plugins.charts.prometheus_stack.manifests import crds, render
from slicewright.rehearsal.plugins.charts.prometheus_stack.values import APP_VERSION, VERSION, check

__all__ = ["APP_VERSION", "VERSION", "check", "crds", "render"]
