"""A stand-in for the chart `cluster-autoscaler` 9.59.0, for AWS."""

from slicewright.rehearsal.plugins.charts.cluster_autoscaler.manifests import render
from slicewright.rehearsal.plugins.charts.cluster_autoscaler.values import (
    APP_VERSION,
    VERSION,
    check,
)

__all__ = ["APP_VERSION", "VERSION", "check", "render"]
