"""The simulated registries: each serves every image, unless a fault `registry` says otherwise.

The faults are entries of the environment's faults.json (rehearsal/clouds/core/fault_file.py), read
again before each pull when the file has changed. What limits pulls by itself is Docker Hub:
nodes that share an address share what it serves without a login. Source: Docker docs, usage and
limits: 100 pulls in 6 hours for each IPv4 address.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from slicewright.rehearsal.cluster.kubelet.images.answers import Answer
from slicewright.rehearsal.cluster.kubelet.images.references import Reference

_log = logging.getLogger(__name__)
FAULTS: Final = "faults.json"
"""In the environment's directory."""
KIND: Final = "registry"
DOCKER_HUB: Final = "docker.io"
_GOOGLES_CACHE: Final = "mirror.gcr.io"
_HUB_PULLS: Final = 100


@dataclass(frozen=True, kw_only=True)
class RegistryFault:
    """Which pulls a registry answers how."""

    registry: str
    answer: Answer
    repository: str = ""
    """Beginning of the path; empty: all."""
    architecture: str = ""
    """Only nodes of it meet the fault; empty: all."""
    pool: str = ""
    """Only its nodes; empty: all."""
    login: str = ""
    """`USER:PASSWORD` with which the registry serves all the same; empty: none."""
    pulls: int = 0
    """How many pulls without a login each address is served before."""

    def concerns(self, registry: str, image: Reference, puller: Puller) -> bool:
        return (
            self.registry == registry
            and image.path.startswith(self.repository)
            and self.architecture in ("", puller.architecture)
            and self.pool in ("", *puller.pools)
        )


@dataclass(frozen=True, kw_only=True)
class Puller:
    """The node that pulls."""

    architecture: str
    address: str
    """By which registries count its pulls; nodes behind one NAT gateway have the same."""
    shared: bool
    """Whether other nodes have that address, too."""
    asks_googles_cache: bool
    """GKE's nodes ask mirror.gcr.io for Docker Hub's images first. Source: Artifact Registry docs,
    pulling cached Docker Hub images.
    """
    pools: tuple[str, ...] = ()
    """Names of its pool."""


class Registries:
    """For one thread."""

    def __init__(self, faults: Path) -> None:
        self._file = faults
        self._stamp: tuple[int, int] | None = None
        self._faults: tuple[RegistryFault, ...] = ()
        self._pulls: Counter[tuple[str, str]] = Counter()
        """Without a login, by registry and address."""

    def answer(self, image: Reference, puller: Puller, login: str | None) -> Answer | None:
        """None: the image was served."""
        self._read()
        cached = image.registry == DOCKER_HUB and puller.asks_googles_cache
        if cached and self._of(_GOOGLES_CACHE, image, puller, None) is None:
            return None
        if (answer := self._of(image.registry, image, puller, login)) is not None:
            return answer
        if login is None:
            key = (image.registry, puller.address)
            if image.registry == DOCKER_HUB and puller.shared and self._pulls[key] >= _HUB_PULLS:
                return "too-many-requests"
            self._pulls[key] += 1
        return None

    def _of(
        self, registry: str, image: Reference, puller: Puller, login: str | None
    ) -> Answer | None:
        for fault in self._faults:
            if not fault.concerns(registry, image, puller):
                continue
            if login is not None and login == fault.login:
                continue
            if login is None and self._pulls[registry, puller.address] < fault.pulls:
                continue
            return fault.answer
        return None

    def _read(self) -> None:
        try:
            status = self._file.stat()
        except FileNotFoundError:
            self._stamp, self._faults = None, ()
            return
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._faults = faults_in(self._file.read_text())
        except (OSError, ValueError, KeyError, TypeError) as e:
            # The simulated cloud reports a file with problems at its next call.
            _log.warning("%s is not readable, and no registry has a fault: %r", self._file, e)
            self._faults = ()


def faults_in(text: str) -> tuple[RegistryFault, ...]:
    """Those of registries in a fault file. Raises ValueError, KeyError, TypeError."""
    entries: list[dict[str, Any]] = json.loads(text)
    found = []
    for entry in entries:
        if entry.get("fault") != KIND:
            continue
        if entry["answer"] not in get_args(Answer):
            raise ValueError(f"unknown answer {entry['answer']!r}")
        found.append(RegistryFault(**{k: v for k, v in entry.items() if k != "fault"}))
    return tuple(found)


def refused(answers: Sequence[str]) -> str:
    """The kubelet's text for pulls with several logins. Source: apimachinery, NewAggregate."""
    different = list(dict.fromkeys(answers))
    return different[0] if len(different) == 1 else f"[{', '.join(different)}]"
