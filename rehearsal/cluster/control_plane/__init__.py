"""One cluster's control plane on loopback: real etcd, kube-apiserver, kube-controller-manager and
kube-scheduler, and kwok.
"""

from rehearsal.cluster.control_plane.errors import ControlPlaneError
from rehearsal.cluster.control_plane.files import Endpoint
from rehearsal.cluster.control_plane.lifecycle import remove, start, stop

__all__ = ["ControlPlaneError", "Endpoint", "remove", "start", "stop"]
