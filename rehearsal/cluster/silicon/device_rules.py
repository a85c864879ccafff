"""The device rules of containers' cgroups: which containers lose their GPUs to systemd.

NVIDIA's hook adds the GPUs to the rules of a container behind systemd's back. `systemctl
daemon-reload` writes the rules again without them, so that the container keeps its device nodes and
can open none. Source: NVIDIA Container Toolkit, "Troubleshooting", containers losing access to
GPUs. The C side is library/access.c.
"""

from __future__ import annotations

import threading
from pathlib import Path


def times_written(silicon: Path) -> int:
    """How often systemd has written the rules of the node's containers again.

    silicon: the state file of the node's GPUs.
    """
    try:
        return int(_file(silicon).read_text())
    except FileNotFoundError:
        return 0


def reload_daemon(silicon: Path) -> None:
    """`systemctl daemon-reload` on the node."""
    new = _file(silicon).with_suffix(f".{threading.get_native_id()}.new")
    new.write_text(f"{times_written(silicon) + 1}\n")
    new.chmod(0o644)
    new.replace(_file(silicon))


def marker(times_written: int) -> str:
    """The name of a file in /dev of a container whose rules the hook has changed.

    times_written: at that moment.
    """
    return f".device-rules-{times_written}"


def _file(silicon: Path) -> Path:
    return Path(f"{silicon}.device-rules")
