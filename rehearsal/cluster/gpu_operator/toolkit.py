"""`nvidia-toolkit` of a simulated node: `python -m
slicewright.rehearsal.cluster.gpu_operator.toolkit`.

It configures containerd for NVIDIA's runtime, keeps that up until SIGTERM, and takes it back. The
programs that the real one installs are left out: the kubelet stand-in does what they do. Source:
NVIDIA/nvidia-container-toolkit, cmd/nvidia-ctk-installer.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from slicewright.rehearsal.cluster.node import containerd
from slicewright.telemetry.signals import at_signal

_RUNTIMES = {
    "nvidia": "nvidia-container-runtime",
    "nvidia-cdi": "nvidia-container-runtime.cdi",
    "nvidia-legacy": "nvidia-container-runtime.legacy",
}
"""Handler of a runtime class -> program."""
_DEVICE_LISTS = {containerd.VARIABLE_SETTING: "true", containerd.MOUNTS_SETTING: "false"}
"""Setting of the runtime -> default; the installer has a variable for each."""
_ANOTHER_NETWORK = """\
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dir = "/opt/cni/bin"
"""
"""As `containerd config dump` says in the toolkit's container, where the cloud's file is not seen.
From there it gets into the drop-in, unless the toolkit reads the file. NVIDIA/gpu-operator #1577.
"""


def drop_in(environment: Mapping[str, str]) -> str:
    """containerd's drop-in file, for the toolkit's environment."""
    programs = f"{environment['ROOT']}/toolkit"
    text = "version = 3\n"
    # As in the installer's own flags; with CDI the operator says false.
    if environment.get("NVIDIA_RUNTIME_SET_AS_DEFAULT", "true") == "true":
        text += '[plugins."io.containerd.cri.v1.runtime".containerd]\n'
        text += '  default_runtime_name = "nvidia"\n'
    for name, program in _RUNTIMES.items():
        table = f'plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{name}'
        text += (
            f'[{table}]\n  runtime_type = "io.containerd.runc.v2"\n[{table}.options]\n'
            f'  BinaryName = "{programs}/{program}"\n'
        )
    sources = environment.get("RUNTIME_CONFIG_SOURCE", "command,file").split(",")
    return text if sources[0].startswith("file") else text + _ANOTHER_NETWORK


def runtime_config(environment: Mapping[str, str]) -> str:
    """The configuration of nvidia-container-runtime."""
    mode = environment.get("NVIDIA_CONTAINER_RUNTIME_MODE", "auto")
    kind = environment.get("NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND", "nvidia.com/gpu")
    settings = "".join(
        f"{name} = {environment.get(name.upper().replace('-', '_'), default)}\n"
        for name, default in _DEVICE_LISTS.items()
    )
    return settings + (
        f'[nvidia-container-runtime]\nmode = "{mode}"\n'
        f'[nvidia-container-runtime.modes.cdi]\ndefault-kind = "{kind}"\n'
    )


def install(environment: Mapping[str, str]) -> Path:
    """Writes both files; returns the drop-in."""
    own = Path(environment["ROOT"]) / "toolkit" / containerd.RUNTIME_CONFIG
    written = Path(environment["RUNTIME_DROP_IN_CONFIG"])
    for path, text in ((own, runtime_config(environment)), (written, drop_in(environment))):
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_text(text)
        new.replace(path)
    return written


def main() -> int:
    ended = threading.Event()
    at_signal(ended.set)
    try:
        written = install(os.environ)
    except (KeyError, OSError) as e:
        print(f"nvidia-toolkit: {type(e).__name__}: {e}", file=sys.stderr)
        return 1
    print(f"simulated nvidia-toolkit: wrote {written}", flush=True)
    ended.wait()
    written.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
