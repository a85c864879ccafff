"""The Volcano of an existing cluster: the check of its scheduler's configuration.

It is read and never changed. The device plugin is installed once the configuration fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from slicewright.infra import manifests
from slicewright.infra.components.fleet.adopted_operator import WrongSettings
from slicewright.infra.plan import Engine


def fitting_volcano(
    name: str, engine: Engine, namespace: str, opts: pulumi.ResourceOptions
) -> pulumi.Output[pulumi.Resource]:
    """The scheduler's ConfigMap, once it fits the plan. If it does not, `up` fails, and a preview
    warns.
    """
    object_name = f"{namespace}/{manifests.VOLCANO_CONFIG_MAP}"
    config = k8s.core.v1.ConfigMap.get(f"{name}-scheduler-config", object_name, opts=opts)
    resource: pulumi.Resource = config

    def require_fit(data: Mapping[str, Any] | None) -> pulumi.Resource:
        if wrong := manifests.volcano_mismatches(data or {}, engine):
            _report("\n".join((f"Volcano's ConfigMap {object_name} does not fit:", *wrong)))
        return resource

    fit: pulumi.Output[pulumi.Resource] = config.data.apply(require_fit)
    return fit


def _report(mismatches: str) -> None:
    """Warns in a preview, and raises WrongSettings in an `up`."""
    how = "Correct it where that Volcano's settings are kept, and restart its scheduler."
    if not pulumi.runtime.is_dry_run():
        raise WrongSettings(f"{mismatches}\n{how} Then run `pulumi up` again.")
    pulumi.log.warn(f"{mismatches}\n{how} Until then, `pulumi up` fails.")
