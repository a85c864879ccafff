"""Which kinds live in namespaces: by the built-in table, by CRDs of this run, by the server; else
they count as namespaced.
"""

from __future__ import annotations

import threading

from kubeapi import ApiError, JsonObject, Unreachable
from rehearsal.plugins.providers.kubernetes import go_types
from rehearsal.plugins.providers.kubernetes.cluster import Cluster, NoSuchKind


class Scopes:
    """Thread-safe."""

    def __init__(self, cluster: Cluster | None = None) -> None:
        self._cluster = cluster
        self._learnt: dict[tuple[str, str], bool] = {}
        self._lock = threading.Lock()

    def learn(self, manifest: JsonObject) -> None:
        """Takes note of a CRD that will exist; ignores other objects."""
        if manifest.get("kind") != "CustomResourceDefinition":
            return
        spec = manifest.get("spec")
        if not isinstance(spec, dict) or not isinstance(spec.get("names"), dict):
            return
        with self._lock:
            self._learnt[(str(spec.get("group")), str(spec["names"].get("kind")))] = (
                spec.get("scope") != "Cluster"
            )

    def is_namespaced(self, api_version: str, kind: str) -> bool:
        """Whether an object of the kind needs a namespace."""
        scope = go_types.scope_of(api_version, kind)
        if scope is not None:
            return scope == "namespaced"
        with self._lock:
            learnt = self._learnt.get((api_version.partition("/")[0], kind))
        if learnt is not None:
            return learnt
        if self._cluster is not None:
            try:
                return self._cluster.served(api_version, kind).namespaced
            except (NoSuchKind, ApiError, Unreachable):
                pass  # its CRD is yet to come, and this run has not shown it
        return True
