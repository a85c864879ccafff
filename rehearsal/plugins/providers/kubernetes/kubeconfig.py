"""Kubeconfigs, given as text (YAML or JSON) or as a path, and their active context."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.kubeapi.kubeconfig import BadKubeconfig, Context, context_of


def path_of(kubeconfig: str) -> Path | None:
    """The file that the setting names; None if it is the content itself."""
    if "\n" in kubeconfig or "{" in kubeconfig or len(kubeconfig) > 4096:
        return None
    path = Path(kubeconfig).expanduser()
    return path if path.exists() or ":" not in kubeconfig else None


def read(kubeconfig: str | None, *, context: str | None, cluster: str | None) -> Context:
    """The given context, else the current one. Raises BadKubeconfig: like the official provider,
    this one then calls the cluster unreachable.

    kubeconfig: None reads $KUBECONFIG, else ~/.kube/config.
    """
    parsed, directory = _parse(kubeconfig)
    return context_of(parsed, directory, context=context, cluster=cluster)


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
