"""Which images run as real processes: the one place that the kubelet stand-in and kwok's stages
both read.

A pod on a simulated node belongs to exactly one of the two. Were their lists kept apart, a pod
could have two owners fighting over its status, or none.
"""

from __future__ import annotations

import re

PROCESS_IMAGES: tuple[str, ...] = (
    r"^(docker\.io/library/)?python[:@]",
    r"^nvcr\.io/nvidia/",
    r"^registry\.k8s\.io/nfd/",
    r"^gke\.gcr\.io/nvidia-gpu-device-plugin",
)
"""Regular expressions on the image of a pod's first container, in the syntax that Python and RE2
(kwok) share.
"""

_ANY = re.compile("|".join(PROCESS_IMAGES))


def runs_as_process(image: str) -> bool:
    """Whether a pod whose first container has this image is run by the kubelet stand-in; kwok
    leaves it alone.
    """
    return _ANY.search(image) is not None
