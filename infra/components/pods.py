"""The common parts of the pods of agent and controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pulumi
import pulumi_kubernetes as k8s

from slicewright.infra import delivery

PART_OF: Final[Mapping[str, str]] = {"app.kubernetes.io/part-of": "slicewright"}
"""A label of every pod. The NetworkPolicy selects by it."""
CODE_DIRECTORY: Final = "/opt/slicewright"
"""The directory where a container mounts the ConfigMap with its zipapp."""
_START: Final = Path(__file__).with_name("verified_start.py").read_text(encoding="utf-8")
_USER = 65532
"""An unprivileged user, as in distroless images (`nonroot`)."""
_START_S = 2
"""Python needs a second or two until it listens on a busy node."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """The image of the pods of agent and controller."""

    name: str
    pull_secrets: Sequence[str] = ()
    """Names of Secrets in their namespace."""

    def references(self) -> list[k8s.core.v1.LocalObjectReferenceArgs] | None:
        """A pod's imagePullSecrets."""
        named = [k8s.core.v1.LocalObjectReferenceArgs(name=name) for name in self.pull_secrets]
        return named or None


def unprivileged() -> k8s.core.v1.PodSecurityContextArgs:
    """A pod's security context: not root, with the runtime's default seccomp profile."""
    return k8s.core.v1.PodSecurityContextArgs(
        run_as_non_root=True,
        run_as_user=_USER,
        run_as_group=_USER,
        seccomp_profile=k8s.core.v1.SeccompProfileArgs(type="RuntimeDefault"),
    )


def restricted() -> k8s.core.v1.SecurityContextArgs:
    """A container's security context: no privileges, escalation or writable root file system."""
    return k8s.core.v1.SecurityContextArgs(
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=k8s.core.v1.CapabilitiesArgs(drop=["ALL"]),
    )


def command(zipapp: delivery.Zipapp, *arguments: str) -> list[str]:
    """Runs a mounted zipapp, if it holds the code that this run of the program delivers.

    -I: imports nothing from the environment or the working directory. -S: nothing that the image
    has installed.
    """
    program = f"{CODE_DIRECTORY}/{zipapp.name}"
    return ["python", "-I", "-S", "-c", _START, program, zipapp.sources_hash, *arguments]


def code_volume(config_map: pulumi.Input[str]) -> k8s.core.v1.VolumeArgs:
    """The volume of a zipapp. config_map: name of the ConfigMap that holds it."""
    return k8s.core.v1.VolumeArgs(
        name="code", config_map=k8s.core.v1.ConfigMapVolumeSourceArgs(name=config_map)
    )


def code_mount() -> k8s.core.v1.VolumeMountArgs:
    """The mount of `code_volume`, where `command` expects the zipapp."""
    return k8s.core.v1.VolumeMountArgs(name="code", mount_path=CODE_DIRECTORY, read_only=True)


def readiness(port: str = "http") -> k8s.core.v1.ProbeArgs:
    """port: name of the container's port."""
    return _probe("/readyz", port, first_s=_START_S, period_s=5)


def liveness(port: str = "http") -> k8s.core.v1.ProbeArgs:
    """port: name of the container's port."""
    return _probe("/healthz", port, first_s=20, period_s=20)


def field(name: str, path: str) -> k8s.core.v1.EnvVarArgs:
    """An environment variable with the value of a field of the pod."""
    source = k8s.core.v1.EnvVarSourceArgs(
        field_ref=k8s.core.v1.ObjectFieldSelectorArgs(field_path=path)
    )
    return k8s.core.v1.EnvVarArgs(name=name, value_from=source)


def _probe(path: str, port: str, *, first_s: int, period_s: int) -> k8s.core.v1.ProbeArgs:
    return k8s.core.v1.ProbeArgs(
        http_get=k8s.core.v1.HTTPGetActionArgs(path=path, port=port),
        initial_delay_seconds=first_s,
        period_seconds=period_s,
        timeout_seconds=3,
    )
