"""A stand-in for NVIDIA's chart `gpu-operator` v26.7.0."""

from slicewright.rehearsal.cluster.gpu_operator.crds import crds
from slicewright.rehearsal.plugins.charts.gpu_operator.hooks import after_delete, before_upgrade
from slicewright.rehearsal.plugins.charts.gpu_operator.manifests import removed_crds, render
from slicewright.rehearsal.plugins.charts.gpu_operator.values import VERSION, check

__all__ = ["VERSION", "after_delete", "before_upgrade", "check", "crds", "removed_crds", "render"]
