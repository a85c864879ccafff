"""The differences between kinds of servers: the container's program, its ports and volumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.manifests.workloads.volumes import MountedVolume


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server's container, as far as its kind decides it."""

    command: tuple[str, ...] = ()
    """Empty: the image's own."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, int]
    """Name -> number, of container and Service."""
    ready: JsonObject | None
    """The probe that succeeds once it serves. None: it serves as soon as it runs."""
    alive: JsonObject | None
    """The probe that fails if the server must be started again."""
    volumes: tuple[MountedVolume, ...] = ()
