"""One cluster's control plane on loopback: the real Kubernetes components, etcd, and kwok."""

from rehearsal.cluster.control_plane.errors import ControlPlaneError
from rehearsal.cluster.control_plane.files import Endpoint
from rehearsal.cluster.control_plane.lifecycle import remove, start, stop

__all__ = ["ControlPlaneError", "Endpoint", "remove", "start", "stop"]
