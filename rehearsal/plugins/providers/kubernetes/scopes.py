"""Whether a kind is namespaced: by the built-in table, this run's CRDs, or the API server."""

from __future__ import annotations

import threading

from slicewright.kubeapi import ApiError, JsonObject, Unreachable
from slicewright.rehearsal.plugins.providers.kubernetes import go_types
from slicewright.rehearsal.plugins.providers.kubernetes.cluster import Cluster, NoSuchKind


class Scopes:
    """The scopes of kinds; unknown ones count as namespaced. Thread-safe."""

    def __init__(self, cluster: Cluster | None = None) -> None:
        self._cluster = cluster
        self._learnt: dict[tuple[str, str], bool] = {}
        self._lock = threading.Lock()

    def learn(self, manifest: JsonObject) -> None:
        """Records the scope of a CRD that this run creates; ignores other objects."""
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
        """Whether objects of the kind have a namespace."""
        scope = go_types.scope_of(api_version, kind)
        if scope is not None:
            return scope == "namespaced"
        with self._lock:
            learnt = self._learnt.get((api_version.partition("/")[0], kind))
        if learnt is not None:
            return learnt
        if self._cluster is not None:
            try:
                return self._cluster.served_kind(api_version, kind).namespaced
            except (NoSuchKind, ApiError, Unreachable):
                pass  # the CRD does not exist yet, and this run has not declared it
        return True
