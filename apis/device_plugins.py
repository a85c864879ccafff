"""How a device plugin for NVIDIA's GPUs is recognised, whoever has installed it. Plain functions.

Names of images alone would miss mirrors and forks: a plugin registers devices with the kubelet, so
its pod mounts the directory of the kubelet's socket.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

PLUGIN_DIRECTORY: Final = "/var/lib/kubelet/device-plugins"
"""Source: Kubernetes docs, "Device Plugins"."""
GKE_PLUGIN: Final = "nvidia-gpu-device-plugin"
"""The image of GKE's own plugin, which GKE adds to its node pools and slicewright relies on."""
_OTHER_HARDWARE: Final = re.compile(
    r"efa|neuron|sriov|rdma|tpu|habana|gaudi|intel|amd-|rocm|fpga|smarter|kubevirt", re.I
)
"""Matches names and images of device plugins for other hardware."""
_FOR_GPUS: Final = re.compile(r"nvidia|gpu|cuda|hami", re.I)


def image_name(image: str) -> str:
    """Returns the last part of an image's path, without tag and digest."""
    return image.split("@")[0].rsplit("/", 1)[-1].split(":")[0]


def mounts_plugin_directory(host_paths: Iterable[str]) -> bool:
    return any(path.rstrip("/").startswith(PLUGIN_DIRECTORY) for path in host_paths)


def is_for_gpus(
    name: str,
    images: Iterable[str],
    *,
    runtime_class: str,
    selected_labels: Iterable[str],
    words: Iterable[str],
) -> bool:
    """True if a DaemonSet that registers devices seems to be for NVIDIA's GPUs.

    selected_labels: keys of its node selector.
    words: commands, arguments, and environment as NAME=VALUE of its containers.
    """
    names = " ".join((name, *images))
    if _OTHER_HARDWARE.search(names):
        return False
    return bool(
        _FOR_GPUS.search(names)
        or runtime_class == "nvidia"
        or any(key.startswith("nvidia.com/") for key in selected_labels)
        or any(word.startswith("NVIDIA_") for word in words)
    )
