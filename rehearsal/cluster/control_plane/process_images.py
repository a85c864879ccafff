"""The images that run as real processes; read by the kubelet stand-in and for kwok's Stages.

A pod on a simulated node is managed by exactly one of the two. With two lists, both or neither
could write a pod's status.
"""

from __future__ import annotations

import re

PROCESS_IMAGES: tuple[str, ...] = (
    r"^(docker\.io/library/)?python[:@]",
    r"^nvcr\.io/nvidia/",
    r"^registry\.k8s\.io/nfd/",
    r"^registry\.k8s\.io/pause[:@]",
    r"^gke\.gcr\.io/nvidia-gpu-device-plugin",
)
"""Regular expressions on the image of a pod's first container, in the syntax that Python and RE2
(kwok) share.
"""

_ANY = re.compile("|".join(PROCESS_IMAGES))


def runs_as_process(image: str) -> bool:
    """Whether the kubelet stand-in, not kwok, runs a pod whose first container has this image."""
    return _ANY.search(image) is not None
