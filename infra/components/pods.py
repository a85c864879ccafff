"""What the pods of agent and controller have in common."""

from __future__ import annotations

import pulumi_kubernetes as k8s

_USER = 65532
"""Nobody in particular, and not root."""
_START_S = 2
"""A Python on a busy node needs a second or two until it listens; asked before that, it would be
reported as unhealthy.
"""


def nobody() -> k8s.core.v1.PodSecurityContextArgs:
    """Of a pod: no root, no system call that containers do not need."""
    return k8s.core.v1.PodSecurityContextArgs(
        run_as_non_root=True,
        run_as_user=_USER,
        run_as_group=_USER,
        seccomp_profile=k8s.core.v1.SeccompProfileArgs(type="RuntimeDefault"),
    )


def locked() -> k8s.core.v1.SecurityContextArgs:
    """Of a container: no privileges, no way to any, nothing to write to."""
    return k8s.core.v1.SecurityContextArgs(
        allow_privilege_escalation=False,
        read_only_root_filesystem=True,
        capabilities=k8s.core.v1.CapabilitiesArgs(drop=["ALL"]),
    )


def readiness(port: str = "http") -> k8s.core.v1.ProbeArgs:
    """port: name of the container's port."""
    return _probe("/readyz", port, first_s=_START_S, period_s=5)


def liveness(port: str = "http") -> k8s.core.v1.ProbeArgs:
    """port: name of the container's port."""
    return _probe("/healthz", port, first_s=20, period_s=20)


def field(name: str, path: str) -> k8s.core.v1.EnvVarArgs:
    """An environment variable with a field of the pod in it."""
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
