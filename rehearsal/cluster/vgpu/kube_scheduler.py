"""`kube-scheduler` in HAMi's pod: the real program, whose extender is on the pod's own address.

In the pod the two find each other on localhost. All pods here share this machine's network, so the
configuration is written again with the pod's address.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_CONFIG = "--config="
_LOCALHOST = "//127.0.0.1:"


def arguments_with(config: Path, arguments: Sequence[str], address: str) -> list[str]:
    """The arguments, with a configuration in `config` that names the address. Without a port of
    its own: nothing asks for its health, and all pods' ports would be one.
    """
    placed = []
    for argument in arguments:
        if argument.startswith(_CONFIG):
            text = Path(argument.removeprefix(_CONFIG)).read_text()
            config.write_text(text.replace(_LOCALHOST, f"//{address}:"))
            placed.append(f"{_CONFIG}{config}")
        else:
            placed.append(argument)
    return [*placed, "--secure-port=0"]


def main(arguments: Sequence[str]) -> None:
    """arguments: the control plane's program, then those of the container."""
    program, *given = arguments
    config = Path(tempfile.mkdtemp()) / "config.yaml"
    placed = arguments_with(config, given, os.environ["SLICEWRIGHT_REHEARSAL_POD_ADDRESS"])
    os.execv(program, [program, "kube-scheduler", *placed])  # noqa: S606 - as the same process


if __name__ == "__main__":
    main(sys.argv[1:])
