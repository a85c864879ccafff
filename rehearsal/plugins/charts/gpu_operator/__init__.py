"""A stand-in for NVIDIA's chart `gpu-operator` v26.7.0."""

from rehearsal.cluster.gpu_operator.crds import crds
from rehearsal.plugins.charts.gpu_operator.hooks import after_delete, before_upgrade
from rehearsal.plugins.charts.gpu_operator.manifests import removed_crds, render
from rehearsal.plugins.charts.gpu_operator.values import VERSION, check

__all__ = ["VERSION", "after_delete", "before_upgrade", "check", "crds", "removed_crds", "render"]
