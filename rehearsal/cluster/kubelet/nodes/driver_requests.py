"""Google's driver installer on a simulated node: a pod whose first container brings the driver.

The stand-in of its program asks the kubelet stand-in for the driver, and ends when it is loaded.
Over a loaded module it fails, unless the container's command looks for one first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slicewright.rehearsal.cluster.kubelet.nodes.request_pipe import RequestPipe

PIPE = "run/driver-installer"
PROGRAM = "google-driver-installer"
GUARDED = "guarded"
"""Argument: the container's command looks for a loaded module first, as Google's does."""
SCRIPT = f"""\
root=${{ROOT_MOUNT_DIR:-/root}}
if [ -e "$root/proc/driver/nvidia/version" ]; then
  [ "${{1-}}" = {GUARDED} ] && echo "simulated: the driver is loaded already" && exit 0
  echo "rmmod: ERROR: Module nvidia is in use" >&2
  exit 1
fi
echo "simulated: installing the driver in ${{NVIDIA_INSTALL_DIR_HOST:-/home/kubernetes/bin/nvidia}}"
echo install > "$root/{PIPE}"
until [ -e "$root/proc/driver/nvidia/version" ]; do sleep 0.2; done
cat "$root/proc/driver/nvidia/version"
"""


def listen(node_root: Path, requested: Callable[[], None]) -> RequestPipe:
    """Calls `requested`, in the event loop, when an installer runs."""
    return RequestPipe(node_root / PIPE, lambda words: requested() if words else None)
