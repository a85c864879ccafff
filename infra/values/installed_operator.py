"""Where the ClusterPolicy of an operator that this stack installed is no longer as its chart made
it from the stack's values: it, or the release, was changed without Pulumi.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from infra.plan import FleetPlan
from infra.values.adopted_operator import Mismatch
from infra.values.operator_chart import operator_values
from infra.values.operator_files import OperatorFiles

_NOT_IN_POLICY: Final = frozenset({"operator", "nfd", "node-feature-discovery"})
"""Sections of the values that the chart makes other objects of. The others have the same names in
the ClusterPolicy. Source: NVIDIA/gpu-operator chart, templates/clusterpolicy.yaml.
"""


def changed_settings(
    policy: Mapping[str, Any], fleet: FleetPlan, files: OperatorFiles
) -> tuple[Mismatch, ...]:
    """policy: `spec` of the ClusterPolicy. files: as from `operator_files`.

    Only what the stack declares is compared: the chart's own defaults are its release's.
    """
    wanted = {
        section: content
        for section, content in operator_values(fleet, files).items()
        if section not in _NOT_IN_POLICY
    }
    return tuple(_differences(wanted, policy, ()))


def _differences(
    wanted: Mapping[str, Any], found: Mapping[str, Any], way: tuple[str, ...]
) -> Iterator[Mismatch]:
    for key, value in wanted.items():
        there = found.get(key)
        if isinstance(value, Mapping):
            yield from _differences(value, there if isinstance(there, Mapping) else {}, (*way, key))
        # The chart's template leaves out what is empty or off.
        elif there != value and (there or value):
            yield Mismatch(field=".".join((*way, key)), wanted=value, found=there, right=value)
