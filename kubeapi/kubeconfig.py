"""The contexts of a parsed kubeconfig. Text is parsed elsewhere: pods have no YAML library."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class BadKubeconfig(Exception):
    """The kubeconfig is not readable, or the requested context is missing or incomplete."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """One context with its cluster and user entries."""

    name: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    namespace: str | None
    directory: Path
    """The base directory of relative file names in the kubeconfig."""

    @property
    def server(self) -> str:
        return str(self.cluster["server"])

    def ca_pem(self) -> bytes | None:
        """Raises BadKubeconfig."""
        return self.data(self.cluster, "certificate-authority")

    def data(self, entry: Mapping[str, Any], key: str) -> bytes | None:
        """The decoded `key`-data, or the content of the file in `key`. Raises BadKubeconfig."""
        try:
            if inline := entry.get(f"{key}-data"):
                return base64.b64decode(inline, validate=True)
            if named := entry.get(key):
                return (self.directory / Path(named).expanduser()).read_bytes()
        except (binascii.Error, OSError) as e:
            raise BadKubeconfig(f"unable to read {key}: {e}") from e
        return None


def context_of(
    parsed: Mapping[str, Any],
    directory: Path,
    *,
    context: str | None = None,
    cluster: str | None = None,
) -> Context:
    """The named context, else the current context. Raises BadKubeconfig.

    cluster: overrides the context's cluster.
    """
    name = context or parsed.get("current-context") or ""
    chosen = named(parsed, "contexts", name).get("context") if name else None
    if not isinstance(chosen, dict):
        names = (
            ", ".join(str(entry.get("name")) for entry in parsed.get("contexts") or []) or "none"
        )
        raise BadKubeconfig(f'context "{name}" does not exist (the kubeconfig has: {names})')
    cluster_name = cluster or str(chosen.get("cluster"))
    entry = named(parsed, "clusters", cluster_name).get("cluster")
    if not isinstance(entry, dict) or not entry.get("server"):
        raise BadKubeconfig(f'cluster "{cluster_name}" does not exist, or has no server')
    user = named(parsed, "users", str(chosen.get("user"))).get("user")
    return Context(
        name=str(name),
        cluster=entry,
        user=user if isinstance(user, dict) else {},
        namespace=chosen.get("namespace") or None,
        directory=directory,
    )


def named(parsed: Mapping[str, Any], section: str, name: str) -> Mapping[str, Any]:
    """The named entry in `contexts`, `clusters` or `users`, empty if it is missing."""
    entries = parsed.get(section) or []
    entry = next(
        (item for item in entries if isinstance(item, dict) and item.get("name") == name), None
    )
    return entry or {}
