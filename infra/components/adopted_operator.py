"""A GPU operator that the cluster has already: our files for it, and the check of its settings.

Its own objects are read and never changed. Until they are as the pools need them, no pool is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from infra import values
from infra.components.gpu_operator import config_maps
from infra.plan import ExistingFleetPlan

_API_VERSION = "nvidia.com/v1"
_KIND = "ClusterPolicy"


class WrongSettings(pulumi.RunError):
    """The adopted operator would not serve the pools. Printed without a traceback."""


class ClusterPolicy(pulumi.CustomResource):
    """A class of its own, because Pulumi's generic CustomResource has no `spec`."""

    spec: pulumi.Output[Mapping[str, Any] | None] = pulumi.property("spec")

    def __init__(self, name: str, *, opts: pulumi.ResourceOptions) -> None:
        properties = {"apiVersion": _API_VERSION, "kind": _KIND, "spec": None}
        super().__init__(f"kubernetes:{_API_VERSION}:{_KIND}", name, properties, opts)


class AdoptedOperator(pulumi.ComponentResource):
    """Output: `fit`, the ClusterPolicy once it is as the pools need it. Otherwise `up` fails, and
    a preview warns.
    """

    fit: pulumi.Output[pulumi.Resource]

    def __init__(
        self,
        name: str,
        fleet: ExistingFleetPlan,
        *,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """after: resources that must exist before anything relies on the operator."""
        super().__init__("slicewright:index:AdoptedOperator", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        files = values.operator_files(fleet)
        configs = config_maps(name, files, namespace=fleet.operator.namespace, opts=child)
        found = fleet.operator.cluster_policy
        policy = ClusterPolicy(
            f"{name}-cluster-policy",
            # Read at every run. After the files: with them in place, the operator can be changed
            # over to them as soon as this fails.
            opts=pulumi.ResourceOptions(parent=self, id=found, depends_on=[*configs, *after]),
        )

        def judged(spec: Mapping[str, Any] | None) -> pulumi.Resource:
            wrong = values.mismatches(spec or {}, fleet, files)
            if not wrong:
                return policy
            text = values.what_to_change(found, wrong)
            if not pulumi.runtime.is_dry_run():
                raise WrongSettings(f"{text}\nThen run `pulumi up` again.")
            pulumi.log.warn(f"{text}\nUntil then `pulumi up` makes the ConfigMaps and fails.")
            return policy

        self.fit = policy.spec.apply(judged)
        self.register_outputs({})
