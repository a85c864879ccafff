"""A stand-in for cert-manager, in clusters whose owner has it: self-signed certificates only.

CRDs are cert-manager's own (v1.19.1, deploy/crds), without their descriptions.
"""

from slicewright.rehearsal.cluster.cert_manager.objects import crds, objects

__all__ = ["crds", "objects"]
