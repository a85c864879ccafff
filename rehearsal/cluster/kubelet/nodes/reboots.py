"""`reboot` on a simulated node: mig-manager runs `chroot /host reboot`.

A simulated node's root has no programs, so `chroot` is a script that requests the reboot through
the named pipe /run/initctl, as with System V init. The simulated cloud writes to the same pipe:
`reboot SECONDS` keeps the node down for so long.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from slicewright.rehearsal.cluster.kubelet.nodes.request_pipe import RequestPipe

PIPE = "run/initctl"
_CHROOT = """\
#!/bin/sh
# chroot(1) of a simulated node: `chroot ROOT reboot` requests a simulated reboot. nvidia-mig-parted
# runs from where mig-manager has copied it; that root has no libraries to change into.
root=$1
shift
case "$1" in
reboot | */reboot) echo reboot > "$root/run/initctl" ;;
nvidia-smi | */nvidia-smi) ;;
/usr/local/nvidia/mig-manager/nvidia-mig-parted)
  for word; do
    shift
    case "$word" in /usr/local/nvidia/*) word=$root$word ;; esac
    set -- "$@" "$word"
  done
  exec "$@"
  ;;
*) echo "simulated node: its root file system has no $1; only reboot is simulated" >&2; exit 127 ;;
esac
"""


def write_shims(directory: Path) -> Path:
    """Writes `chroot` to `directory`, which goes on PATH; repeated at every start."""
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory / ".chroot.new"
    temporary.write_text(_CHROOT)
    temporary.chmod(0o755)
    temporary.replace(directory / "chroot")
    return directory


def request(node_root: Path, down_s: float = 0.0) -> None:
    """Requests a reboot of the node from outside. Raises OSError where no kubelet runs it."""
    descriptor = os.open(node_root / PIPE, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"reboot {down_s:g}\n".encode())
    finally:
        os.close(descriptor)


class RebootListener(RequestPipe):
    """Calls `requested`, in the event loop, when a reboot of the node is requested.

    It gets the seconds for which the node is to stay down.
    """

    def __init__(self, node_root: Path, requested: Callable[[float], None]) -> None:
        def see(words: Sequence[str]) -> None:
            if words[:1] == ["reboot"]:
                requested(float(words[1]) if len(words) > 1 else 0.0)

        super().__init__(node_root / PIPE, see)
