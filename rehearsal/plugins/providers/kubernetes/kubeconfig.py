"""Kubeconfigs, given as text (YAML or JSON) or as a path, and their active context."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubeapi import JsonObject


class BadKubeconfig(Exception):
    """Not readable, or its active context is incomplete.

    Like the official provider, this one then calls the cluster unreachable.
    """


@dataclass(frozen=True, kw_only=True)
class Context:
    """One context with its cluster and user entries."""

    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    namespace: str | None
    directory: Path
    """What relative file names in the kubeconfig are relative to."""

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


def path_of(kubeconfig: str) -> Path | None:
    """The file that the setting names; None if it is the content itself."""
    if "\n" in kubeconfig or "{" in kubeconfig or len(kubeconfig) > 4096:
        return None
    path = Path(kubeconfig).expanduser()
    return path if path.exists() or ":" not in kubeconfig else None


def read(kubeconfig: str | None, *, context: str | None, cluster: str | None) -> Context:
    """The given context, else the current one. Raises BadKubeconfig.

    kubeconfig: None reads $KUBECONFIG, else ~/.kube/config.
    """
    parsed, directory = _parse(kubeconfig)
    name = context or parsed.get("current-context") or ""
    chosen = _named(parsed, "contexts", name).get("context") if name else None
    if not isinstance(chosen, dict):
        known = (
            ", ".join(str(entry.get("name")) for entry in parsed.get("contexts") or []) or "none"
        )
        raise BadKubeconfig(f'context "{name}" does not exist (the kubeconfig has: {known})')
    cluster_name = cluster or str(chosen.get("cluster"))
    entry = _named(parsed, "clusters", cluster_name).get("cluster")
    if not isinstance(entry, dict) or not entry.get("server"):
        raise BadKubeconfig(f'cluster "{cluster_name}" does not exist, or has no server')
    user = _named(parsed, "users", str(chosen.get("user"))).get("user")
    return Context(
        cluster=entry,
        user=user if isinstance(user, dict) else {},
        namespace=chosen.get("namespace") or None,
        directory=directory,
    )


def _parse(kubeconfig: str | None) -> tuple[JsonObject, Path]:
    text, directory = kubeconfig or "", Path.cwd()
    path = path_of(kubeconfig) if kubeconfig else _default_path()
    if path is not None:
        try:
            text = path.read_text()
        except OSError as e:
            raise BadKubeconfig(f"unable to read the kubeconfig: {e}") from e
        directory = path.parent
    parsed = _parse_text(text)
    if not isinstance(parsed, dict):
        raise BadKubeconfig("the kubeconfig is not a map")
    return parsed, directory


def _parse_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        # Imported here: most kubeconfigs of the rehearsal are JSON, and yaml is slow to import.
        import yaml

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError as e:
            raise BadKubeconfig(f"the kubeconfig is neither YAML nor JSON: {e}") from e


def _default_path() -> Path:
    for name in os.environ.get("KUBECONFIG", "").split(":"):
        if name:
            return Path(name).expanduser()
    return Path.home() / ".kube" / "config"


def _named(parsed: Mapping[str, Any], section: str, name: str) -> Mapping[str, Any]:
    entries = parsed.get(section) or []
    found = next(
        (entry for entry in entries if isinstance(entry, dict) and entry.get("name") == name), None
    )
    return found or {}
