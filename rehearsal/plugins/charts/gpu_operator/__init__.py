"""Stand-in for NVIDIA's chart `gpu-operator` v26.7.0: its values, its ClusterPolicy, and an
operator with the rights it needs.
"""

from rehearsal.plugins.charts.gpu_operator.crds import crds
from rehearsal.plugins.charts.gpu_operator.manifests import removes_crds, render
from rehearsal.plugins.charts.gpu_operator.values import VERSION, check

__all__ = ["VERSION", "check", "crds", "removes_crds", "render"]
