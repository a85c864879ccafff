"""Changes to the ClusterPolicy of an operator that this stack installed: somebody edited the
ClusterPolicy or the Helm release without Pulumi.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from slicewright.infra.manifests.gpu_operator.adopted_operator import Mismatch
from slicewright.infra.manifests.gpu_operator.chart import operator_values
from slicewright.infra.manifests.gpu_operator.config_files import OperatorFiles
from slicewright.infra.plan import FleetPlan

_NOT_IN_POLICY: Final = frozenset({"operator", "nfd", "node-feature-discovery"})
"""Sections of the values that configure other objects. All other sections have the same names in
the ClusterPolicy. Source: NVIDIA/gpu-operator chart, templates/clusterpolicy.yaml.
"""


def changed_settings(
    policy: Mapping[str, Any], fleet: FleetPlan, files: OperatorFiles
) -> tuple[Mismatch, ...]:
    """policy: `spec` of the ClusterPolicy. files: from `operator_files`.

    Only settings that the stack declares are compared, and not the defaults of the chart.
    """
    declared = {
        section: content
        for section, content in operator_values(fleet, files).items()
        if section not in _NOT_IN_POLICY
    }
    return tuple(_differences(declared, policy, ()))


def _differences(
    declared: Mapping[str, Any], live: Mapping[str, Any], parents: tuple[str, ...]
) -> Iterator[Mismatch]:
    for key, value in declared.items():
        current, path = live.get(key), (*parents, key)
        if isinstance(value, Mapping):
            yield from _differences(value, current if isinstance(current, Mapping) else {}, path)
        # The chart's template leaves out empty and disabled settings.
        elif current != value and (current or value):
            yield Mismatch(field=".".join(path), required=value, current=current, replacement=value)
