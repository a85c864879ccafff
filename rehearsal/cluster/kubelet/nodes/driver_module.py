"""What a driver container asks of the kernel of its simulated node: see node/driver_kernel.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from slicewright.rehearsal.cluster.kubelet.nodes.request_pipe import RequestPipe
from slicewright.rehearsal.cluster.node import driver_kernel


class Refused(Exception):
    """The kernel does not do it; the message says why."""


def listen(node_root: Path, load: Callable[[str], None], unload: Callable[[], None]) -> RequestPipe:
    """Calls `load` with a version, or `unload`, in the event loop, when a container asks for it.

    Both raise Refused.
    """

    def requested(words: Sequence[str]) -> None:
        match words:
            case [asker, "load", version] if asker.isdigit():
                answer(asker, lambda: load(version))
            case [asker, "unload"] if asker.isdigit():
                answer(asker, unload)

    def answer(asker: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Refused as e:
            driver_kernel.answer(node_root, asker, str(e))
        else:
            driver_kernel.answer(node_root, asker, driver_kernel.DONE)

    pipe = node_root / driver_kernel.PIPE
    pipe.parent.mkdir(parents=True, exist_ok=True)
    return RequestPipe(pipe, requested)
