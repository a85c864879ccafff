"""Google's driver installer on a simulated node: a pod whose first container brings the driver.

The stand-in of its program asks the kubelet stand-in for the driver, and ends when it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slicewright.rehearsal.cluster.kubelet.nodes.request_pipe import RequestPipe

PIPE = "run/driver-installer"
PROGRAM = "google-driver-installer"
SCRIPT = f"""\
root=${{ROOT_MOUNT_DIR:-/root}}
echo "simulated: installing the driver in ${{NVIDIA_INSTALL_DIR_HOST:-/home/kubernetes/bin/nvidia}}"
echo install > "$root/{PIPE}"
until [ -e "$root/proc/driver/nvidia/version" ]; do sleep 0.2; done
cat "$root/proc/driver/nvidia/version"
"""


def listen(node_root: Path, requested: Callable[[], None]) -> RequestPipe:
    """Calls `requested`, in the event loop, when an installer runs."""
    return RequestPipe(node_root / PIPE, lambda words: requested() if words else None)
