"""Real programs of monitoring, autoscaling and Volcano, each listening on its pod's own address.

All pods share this machine's network. In their pods these programs listen on all addresses, or on
localhost; here that would be reachable from elsewhere, and two pods would want the same port. So
their flags are given the pod's address. All else of a command line is as the pod has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from slicewright.rehearsal.cluster.kubelet.containers.environment_variables import Unsupported
from slicewright.rehearsal.host.toolchain import Toolchain

_ANYWHERE: Final = ("", "0.0.0.0", "[::]", "127.0.0.1", "localhost")  # noqa: S104 - to replace it


@dataclass(frozen=True, kw_only=True)
class _Known:
    """A program, and the flags that say where it listens."""

    path: Callable[[Toolchain], Path | None]
    listens: Mapping[str, int]
    """Flag -> the port that it has by default."""
    asks: tuple[str, ...] = ()
    """Flags whose value is a URL in the same pod."""
    host: str = ""
    """A flag of an address without a port."""
    user: int = 65534
    """Of the image. Sources: their Dockerfiles."""


_KEDA_USER: Final = 65532
_VOLCANO_PORTS: Final[Mapping[str, int]] = {"listen-address": 8080, "healthz-address": 11251}
_DOCKER_HUB: Final = "docker.io/"
_KNOWN: Final[Mapping[str, _Known]] = {
    "quay.io/prometheus/prometheus": _Known(
        path=lambda tools: tools.prometheus, listens={"web.listen-address": 9090}
    ),
    "quay.io/prometheus-operator/prometheus-operator": _Known(
        path=lambda tools: tools.prometheus_operator, listens={"web.listen-address": 8080}
    ),
    "quay.io/prometheus-operator/prometheus-config-reloader": _Known(
        path=lambda tools: tools.config_reloader,
        listens={"listen-address": 8080},
        asks=("reload-url", "runtimeinfo-url"),
    ),
    "ghcr.io/kedacore/keda": _Known(
        path=lambda tools: tools.keda,
        listens={
            "metrics-bind-address": 8080,
            "health-probe-bind-address": 8081,
            "metrics-service-bind-address": 9666,
        },
        user=_KEDA_USER,
    ),
    "ghcr.io/kedacore/keda-metrics-apiserver": _Known(
        path=lambda tools: tools.keda_adapter, listens={}, host="bind-address", user=_KEDA_USER
    ),
    "registry.k8s.io/prometheus-adapter/prometheus-adapter": _Known(
        path=lambda tools: tools.prometheus_adapter, listens={}, host="bind-address"
    ),
    "docker.io/volcanosh/vc-scheduler": _Known(
        path=lambda tools: tools.volcano_scheduler, listens=_VOLCANO_PORTS, user=0
    ),
    "docker.io/volcanosh/vc-controller-manager": _Known(
        path=lambda tools: tools.volcano_controllers,
        listens={**_VOLCANO_PORTS, "listen-address": 8081},
        user=0,
    ),
}


def _known_program(repository: str) -> _Known | None:
    """Of Docker Hub's images, those of a mirror count too."""
    name = "/".join(repository.split("/")[-2:])
    return _KNOWN.get(repository) or _KNOWN.get(f"{_DOCKER_HUB}{name}")


def user(repository: str) -> int | None:
    """The user of the image's own configuration; None for an image that is not one of these."""
    known = _known_program(repository)
    return known.user if known else None


def follows_objects(repository: str) -> bool:
    """Whether the program waits for its mounted Secrets and ConfigMaps to change."""
    return _known_program(repository) is not None


def command_line(
    repository: str, args: Sequence[str], tools: Toolchain, address: str
) -> tuple[str, ...] | None:
    """The program of an image with these arguments; None for an image that is not one of these.

    Raises Unsupported where the environment was made without the program.
    """
    known = _known_program(repository)
    if known is None:
        return None
    path = known.path(tools)
    if path is None:
        raise Unsupported(
            f"image {repository}: this environment was made without its program; obtain it with "
            "`python -m slicewright.rehearsal.host.toolchain --with all` and create the "
            "environment again"
        )
    found = [_placed(arg, known, address) for arg in args]
    given = {_flag(arg) for arg in args}
    found += [f"--{f}={address}:{p}" for f, p in known.listens.items() if f not in given]
    if known.host:
        found.append(f"--{known.host}={address}")
    return (str(path), *found)


def _flag(arg: str) -> str:
    return arg.partition("=")[0].lstrip("-")


def _placed(arg: str, known: _Known, address: str) -> str:
    flag, value = _flag(arg), arg.partition("=")[2]
    if flag in known.listens:
        host, _, port = value.rpartition(":")
        return f"--{flag}={address}:{port}" if host in _ANYWHERE else arg
    if flag in known.asks:
        url = urlsplit(value)
        if url.hostname in _ANYWHERE:
            return f"--{flag}={urlunsplit(url._replace(netloc=f'{address}:{url.port or 80}'))}"
    return arg
