"""References to images, as kubelet and containerd read them. Pure.

Sources: distribution/reference (ParseNormalizedNamed, ParseDockerRef); k8s.io/kubernetes v1.36.2,
pkg/util/parsers/parsers.go and pkg/kubelet/images/image_manager.go (applyDefaultImageTag).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_DOCKER_HUB: Final = "docker.io"
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE: Final = re.compile(
    rf"(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+)?")
_ENDPOINTS: Final = {_DOCKER_HUB: "registry-1.docker.io"}


class InvalidReference(Exception):
    """The text names no image; the message is the kubelet's."""


@dataclass(frozen=True, kw_only=True)
class Reference:
    registry: str
    """Host, with its port where one is named."""
    path: str
    """Of the repository, below the registry."""
    tag: str
    """`latest` where neither tag nor digest is named; empty where only a digest is."""
    digest: str

    @property
    def repository(self) -> str:
        return f"{self.registry}/{self.path}"

    @property
    def resolved(self) -> str:
        """The text that containerd uses: a digest goes before the tag."""
        rest = f"@{self.digest}" if self.digest else f":{self.tag}"
        return f"{self.repository}{rest}"

    @property
    def manifest_url(self) -> str:
        host = _ENDPOINTS.get(self.registry, self.registry)
        return f"https://{host}/v2/{self.path}/manifests/{self.digest or self.tag}"

    @property
    def endpoint(self) -> str:
        """The host that is asked."""
        return _ENDPOINTS.get(self.registry, self.registry)


def parse(image: str) -> Reference:
    """Raises InvalidReference."""
    registry, path = _split(image)
    read = _REFERENCE.fullmatch(path)
    if read is None or (registry and not _HOST.fullmatch(registry)):
        raise InvalidReference(f'couldn\'t parse image name "{image}": invalid reference format')
    name = read["path"]
    if not registry:
        registry, name = _DOCKER_HUB, name if "/" in name else f"library/{name}"
    digest = read["digest"] or ""
    return Reference(
        registry=registry,
        path=name,
        tag=read["tag"] or ("" if digest else "latest"),
        digest=digest,
    )


def _split(image: str) -> tuple[str, str]:
    """(registry, the rest); the registry is empty where the first part does not look like one."""
    first, slash, rest = image.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        return "", image
    if first in ("index.docker.io", _DOCKER_HUB):
        return _DOCKER_HUB, rest if "/" in rest else f"library/{rest}"
    return first, rest
