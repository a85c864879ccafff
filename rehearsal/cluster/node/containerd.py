"""containerd's configuration on a simulated node, as far as NVIDIA's container toolkit changes it.

Sources: NVIDIA/nvidia-container-toolkit, cmd/nvidia-ctk-installer (the drop-in file, and the
runtime's own configuration beside its program); containerd docs, CRI plugin config.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DROP_IN: Final = "etc/containerd/conf.d/99-nvidia.toml"
"""Below the node's root. Source: NVIDIA/gpu-operator, DefaultContainerdDropInConfigFile."""
RUNTIME_CONFIG: Final = ".config/nvidia-container-runtime/config.toml"
"""Below the directory of nvidia-container-runtime, where the operator's toolkit installs both."""
VARIABLE_SETTING: Final = "accept-nvidia-visible-devices-envvar-when-unprivileged"
MOUNTS_SETTING: Final = "accept-nvidia-visible-devices-as-volume-mounts"
"""Settings of the runtime. Source: NVIDIA/nvidia-container-toolkit, internal/config/config.go."""
_CRI: Final = "io.containerd.cri.v1.runtime"


@dataclass(frozen=True, kw_only=True)
class Containerd:
    runtimes: frozenset[str]
    """The handlers of runtime classes besides containerd's own."""
    network_plugins: str | None
    """The directory of the network's plugins, where the drop-in names another than the cloud's."""
    devices: str | None
    """Which devices NVIDIA_VISIBLE_DEVICES=all means for NVIDIA's runtime, as a CDI kind; None
    where nothing on the node says that it uses CDI.
    """

    nvidia_by_default: bool
    """Whether NVIDIA's runtime runs containers without a runtime class, too."""
    variable_counts: bool
    """True if NVIDIA's runtime obeys the variable of containers without privileges."""
    mounts_count: bool
    """True if NVIDIA's runtime obeys mounts that name devices."""

    @property
    def management(self) -> bool:
        """Whether NVIDIA's runtime gives a container that asks for all GPUs every device node."""
        return self.devices == "management.nvidia.com/gpu"


def read(root: Path) -> Containerd:
    """root: the node's file system."""
    drop_in = _toml(root / DROP_IN)
    plugin = drop_in.get("plugins", {}).get(_CRI, {})
    runtimes: Mapping[str, Any] = plugin.get("containerd", {}).get("runtimes", {})
    binary = runtimes.get("nvidia", {}).get("options", {}).get("BinaryName", "")
    own = root / Path(binary.lstrip("/")).parent / RUNTIME_CONFIG
    settings = _toml(own) if binary else {}
    runtime = settings.get("nvidia-container-runtime", {})
    by_cdi = runtime.get("mode") == "cdi"
    return Containerd(
        runtimes=frozenset(runtimes),
        nvidia_by_default=plugin.get("containerd", {}).get("default_runtime_name") == "nvidia",
        network_plugins=plugin.get("cni", {}).get("bin_dir"),
        devices=runtime.get("modes", {}).get("cdi", {}).get("default-kind") if by_cdi else None,
        variable_counts=settings.get(VARIABLE_SETTING, True),
        mounts_count=settings.get(MOUNTS_SETTING, False),
    )


def _toml(file: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, tomllib.TOMLDecodeError):
        return {}
