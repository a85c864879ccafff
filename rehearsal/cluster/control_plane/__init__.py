"""One cluster's control plane on loopback: the real Kubernetes components, etcd, and kwok."""

from slicewright.rehearsal.cluster.control_plane.errors import ControlPlaneError
from slicewright.rehearsal.cluster.control_plane.files import Endpoint
from slicewright.rehearsal.cluster.control_plane.lifecycle import remove, start, stop

__all__ = ["ControlPlaneError", "Endpoint", "remove", "start", "stop"]
