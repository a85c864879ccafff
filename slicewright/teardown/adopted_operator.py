"""An adopted GPU operator after its stack is gone: the stack's files that it still refers to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slicewright.infra import manifests
from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.kubeapi.client import path_of
from slicewright.live.access import NoCluster

_POLICIES: Final = ("nvidia.com/v1", "clusterpolicies")


@dataclass(frozen=True, kw_only=True)
class AdoptedOperator:
    policy: str
    """The name of its ClusterPolicy."""
    namespace: str
    """The namespace of its pods and of our ConfigMaps."""
    connect: Callable[[], Client]
    """Raises NoCluster."""

    def dangling(self) -> Sequence[str]:
        """The stack's ConfigMaps that it still names, each with the remedy.

        `pulumi destroy` deletes them, and a pod that mounts a deleted ConfigMap does not start.
        """
        try:
            client = self.connect()
            spec = self._spec(client)
            named = manifests.named_config_maps(spec)
            existing = {name for name in named.values() if self._exists(client, name)}
        except (NoCluster, ApiError, Unreachable) as e:
            return [
                f"cannot tell whether ClusterPolicy {self.policy} still names this stack's "
                f"ConfigMaps: {' '.join(str(e).split())}"
            ]
        if not named:
            return []
        which = ", ".join(f"spec.{field}: {name}" for field, name in sorted(named.items()))
        when = "that this command deletes" if existing else "that no longer exist"
        return [
            f"ClusterPolicy {self.policy} names ConfigMaps {when} ({which}); its pods cannot "
            "restart without them: change these fields in the operator's configuration, or run: "
            f"{manifests.release_command(self.policy, spec)}"
        ]

    def _spec(self, client: Client) -> Mapping[str, Any]:
        try:
            policy = client.get(path_of(*_POLICIES, self.policy))
        except ApiError as e:
            if e.status == 404:  # the operator is gone, too
                return {}
            raise
        return dict(policy.get("spec") or {})

    def _exists(self, client: Client, name: str) -> bool:
        try:
            client.get(path_of("v1", "configmaps", name, self.namespace))
        except ApiError as e:
            if e.status == 404:
                return False
            raise
        return True
