"""The GPU operator of an existing cluster: our files for it, and the check of its settings.

The operator's own objects are read and never changed. No pool is created before they fit the pools.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from slicewright.infra import manifests
from slicewright.infra.components.fleet.gpu_operator import config_maps
from slicewright.infra.plan import ExistingFleetPlan

_API_VERSION = "nvidia.com/v1"
_KIND = "ClusterPolicy"


class WrongSettings(pulumi.RunError):
    """The adopted operator does not fit the pools. Pulumi prints this without a traceback."""


class ClusterPolicy(pulumi.CustomResource):
    """A class of its own, because Pulumi's generic CustomResource has no `spec`."""

    spec: pulumi.Output[Mapping[str, Any] | None] = pulumi.property("spec")

    def __init__(self, name: str, *, opts: pulumi.ResourceOptions) -> None:
        properties = {"apiVersion": _API_VERSION, "kind": _KIND, "spec": None}
        super().__init__(f"kubernetes:{_API_VERSION}:{_KIND}", name, properties, opts)


class AdoptedOperator(pulumi.ComponentResource):
    """Output: `fit`, the ClusterPolicy once it fits the pools. If it does not, `up` fails, and a
    preview warns.
    """

    fit: pulumi.Output[pulumi.Resource]

    def __init__(
        self,
        name: str,
        fleet: ExistingFleetPlan,
        *,
        depends_on: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """depends_on: resources that must exist before anything relies on the operator."""
        super().__init__("slicewright:index:AdoptedOperator", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        files = manifests.operator_files(fleet)
        configs = config_maps(name, files, namespace=fleet.operator.namespace, opts=child)
        policy_name = fleet.operator.cluster_policy
        policy = ClusterPolicy(
            f"{name}-cluster-policy",
            # Read at every run. The files come first: if the check fails, the user can point the
            # operator at them.
            opts=pulumi.ResourceOptions(
                parent=self, id=policy_name, depends_on=[*configs, *depends_on]
            ),
        )

        def require_fit(live: Mapping[str, Any] | None) -> pulumi.Resource:
            if mismatches := manifests.mismatches(live or {}, fleet, files):
                _report_mismatches(manifests.describe_mismatches(policy_name, mismatches))
            return policy

        self.fit = policy.spec.apply(require_fit)
        self.register_outputs({})


def _report_mismatches(changes: str) -> None:
    """Warns in a preview, and raises WrongSettings in an `up`."""
    if not pulumi.runtime.is_dry_run():
        raise WrongSettings(f"{changes}\nThen run `pulumi up` again.")
    pulumi.log.warn(f"{changes}\nUntil then, `pulumi up` creates the ConfigMaps and then fails.")
