"""The API server's audit log of what the kubelet stand-in requests, and in whose name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slicewright.rehearsal.cluster.control_plane import parts
from slicewright.rehearsal.cluster.control_plane.parts import Part

STAND_IN = "rehearsal-kubelet"
"""The user of the stand-in's certificate."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request of the stand-in, as the API server saw it."""

    user: str
    """The impersonated user, if there is one."""
    verb: str
    resource: str
    """With its subresource."""
    name: str
    status: int

    @property
    def action(self) -> tuple[str, str]:
        return self.verb, self.resource


class AuditLog:
    def __init__(self, path: Path) -> None:
        self._path = path

    def requests(self) -> list[Request]:
        """Those that have been answered, in order."""
        lines = self._path.read_text().splitlines(keepends=True)
        return [_request(json.loads(line)) for line in lines if line.endswith("\n")]


@contextmanager
def audited(directory: Path) -> Iterator[AuditLog]:
    """API servers that this process starts meanwhile log the stand-in's requests."""
    log, policy = directory / "audit.log", directory / "audit-policy.json"
    rules = [{"level": "Metadata", "users": [STAND_IN]}, {"level": "None"}]
    content = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": rules,
    }
    policy.write_text(json.dumps(content))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={log}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "apiserver", _with_flags(parts.apiserver, flags))
        yield AuditLog(log)


def _with_flags(apiserver: Callable[..., Part], flags: tuple[str, ...]) -> Callable[..., Part]:
    def apiserver_with_flags(*args: Any, **named: Any) -> Part:
        part = apiserver(*args, **named)
        return replace(part, argv=(*part.argv, *flags))

    return apiserver_with_flags


def _request(event: dict[str, Any]) -> Request:
    target = event.get("objectRef") or {}
    return Request(
        user=(event.get("impersonatedUser") or event["user"])["username"],
        verb=event["verb"],
        resource="/".join(target[key] for key in ("resource", "subresource") if key in target),
        name=target.get("name", ""),
        status=event["responseStatus"]["code"],
    )
