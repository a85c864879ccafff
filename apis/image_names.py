"""Names of container images, and the registries that they name. Pure."""

from __future__ import annotations

import re
from typing import Final

DOCKER_HUB: Final = "docker.io"
_HOST: Final = re.compile(r"[.:]|^localhost$")
_SHORT_DIGEST: Final = 12


def registry_of(image: str) -> str:
    """Returns the host that an image comes from, or `docker.io` if its name has none."""
    first, slash, _ = image.partition("/")
    return first if slash and _HOST.search(first) else DOCKER_HUB


def short(image: str) -> str:
    """Returns the image's name for people: a digest only if it has no tag, and then shortened."""
    name, _, digest = image.partition("@")
    if not digest or ":" in name.rpartition("/")[2]:
        return name
    kind, _, value = digest.partition(":")
    return f"{name}@{kind}:{value[:_SHORT_DIGEST]}…"
