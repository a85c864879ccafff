"""The settings that an adopted operator's ClusterPolicy needs in order to serve the pools.

The field names are those of the ClusterPolicy; the operator's Helm chart has the same. Source:
NVIDIA/gpu-operator, api/nvidia/v1/clusterpolicy_types.go.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slicewright.infra.manifests.gpu_operator.config_files import OperatorFiles
from slicewright.infra.manifests.gpu_operator.device_list import (
    BY_CDI,
    BY_MOUNTS,
    MOUNTS_COUNT,
    STRATEGY,
    VARIABLE_COUNTS,
)
from slicewright.infra.manifests.gpu_operator.plugin_configs import default_config
from slicewright.infra.manifests.pods import tolerations
from slicewright.infra.manifests.text import JsonObject
from slicewright.infra.plan import ExistingFleetPlan

RUNTIME_CLASS: Final = "nvidia"
"""The runtime class that the operator makes for its operands, and that the agents' pods name.
Source: NVIDIA/gpu-operator, api/nvidia/v1 (OperatorSpec.RuntimeClass, by default nvidia).
"""
_TOLERATIONS: Final = "daemonsets.tolerations"
_MIG_MANAGER_ENV: Final = "migManager.env"
_WITH_REBOOT: Final = "WITH_REBOOT"
_TOOLKIT_ENV: Final = "toolkit.env"
_PLUGIN_ENV: Final = "devicePlugin.env"
_VARIABLE_ALLOWED: Final = [{"name": VARIABLE_COUNTS, "value": "true"}]
_CONFIGS: Final = ("migManager.config.name", "devicePlugin.config.name")
_STACK_CONFIG_MAP: Final = re.compile("(mig-layouts|plugin-configs)-[0-9a-f]{8}")
"""The names of ConfigMaps of `operator_files`."""
_TRUE: Final = frozenset(("1", "t", "T", "true", "True", "TRUE"))
"""The values that mig-manager reads as true. Source: Go's strconv.ParseBool."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A field of the ClusterPolicy."""

    field: str
    """The dotted path below `spec`."""
    required: Any
    default: Any = None
    """The operator's default for an absent field, if it can be the required value."""


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """A field of the ClusterPolicy that differs from the required value."""

    field: str
    required: Any
    """Its missing entries, if it is a list."""
    current: Any
    """None: the field is not set."""
    replacement: Any
    """The value to write: all entries, if it is a list."""


def _required_settings(fleet: ExistingFleetPlan, files: OperatorFiles) -> Iterator[Setting]:
    """Every required setting with a fixed value. files: from `operator_files`."""
    yield Setting(field="mig.strategy", required=fleet.operator.mig_strategy)
    yield Setting(field="operator.runtimeClass", required=RUNTIME_CLASS, default=RUNTIME_CLASS)
    # A node has one device plugin. With an engine for fractions it is the engine's.
    yield Setting(field="devicePlugin.enabled", required=fleet.engine is None, default=True)
    # The agents check the labels of GPU feature discovery.
    yield Setting(field="gfd.enabled", required=True, default=True)
    if files.plugin_configs is not None:
        yield Setting(field="devicePlugin.config.name", required=files.plugin_configs.name)
        default = default_config(fleet.operated)
        yield Setting(field="devicePlugin.config.default", required=default)
    if any(pool.offer.mig_config is not None for pool in fleet.pools):
        yield Setting(field="migManager.enabled", required=True, default=True)
        yield Setting(field="migManager.config.name", required=files.mig_layouts.name)


def mismatches(
    policy: Mapping[str, Any], fleet: ExistingFleetPlan, files: OperatorFiles
) -> tuple[Mismatch, ...]:
    """The fields of a ClusterPolicy's `spec` that differ from the values that the fleet needs."""
    return (
        *_wrong_settings(policy, fleet, files),
        *_forbidden_reboot(policy, fleet),
        *_wrong_device_list(policy, fleet),
        *_missing_tolerations(policy, fleet),
    )


def _wrong_settings(
    policy: Mapping[str, Any], fleet: ExistingFleetPlan, files: OperatorFiles
) -> Iterator[Mismatch]:
    for setting in _required_settings(fleet, files):
        current = _at(policy, setting.field)
        if (setting.default if current is None else current) != setting.required:
            yield Mismatch(
                field=setting.field,
                required=setting.required,
                current=current,
                replacement=setting.required,
            )


def _missing_tolerations(policy: Mapping[str, Any], fleet: ExistingFleetPlan) -> Iterator[Mismatch]:
    current = _at(policy, _TOLERATIONS) or []
    missing = [
        toleration
        for toleration in tolerations(fleet.pools)
        if not any(_covers(other, toleration) for other in current)
    ]
    if missing:
        yield Mismatch(
            field=_TOLERATIONS,
            required=missing,
            current=current,
            replacement=[*current, *missing],
        )


def _forbidden_reboot(policy: Mapping[str, Any], fleet: ExistingFleetPlan) -> Iterator[Mismatch]:
    """If a machine refuses to reset a GPU, as clouds do, the change of the GPU's MIG mode stays
    pending. mig-manager must then be allowed to reboot the node, unless the stack file forbids it.
    """
    if not fleet.operator.mig_manager.with_reboot or not any(
        pool.gpu.mode_change_resets and pool.offer.mig_config is not None for pool in fleet.pools
    ):
        return
    if _variables(policy, _MIG_MANAGER_ENV).get(_WITH_REBOOT) not in _TRUE:
        yield _other_values(policy, _MIG_MANAGER_ENV, {_WITH_REBOOT: "true"})


def _variables(policy: Mapping[str, Any], field: str) -> Mapping[str, str | None]:
    """The environment of an operand; the last value of a name counts."""
    return {variable["name"]: variable.get("value") for variable in _at(policy, field) or []}


def _other_values(policy: Mapping[str, Any], field: str, missing: Mapping[str, str]) -> Mismatch:
    """field: an operand's environment. missing: variables that lack these values there."""
    environment: list[Mapping[str, Any]] = _at(policy, field) or []
    unaffected = [variable for variable in environment if variable.get("name") not in missing]
    additions = [{"name": name, "value": value} for name, value in missing.items()]
    return Mismatch(
        field=field,
        required=additions,
        current=[variable for variable in environment if variable not in unaffected] or None,
        replacement=[*unaffected, *additions],
    )


def _wrong_device_list(policy: Mapping[str, Any], fleet: ExistingFleetPlan) -> Iterator[Mismatch]:
    """Settings of toolkit and device plugin that contradict `device_list`. With them, agents and
    pods that request GPUs would get none, or any container could get them by the variable.
    """
    variables = _variables(policy, _TOOLKIT_ENV)
    variable_counts = variables.get(VARIABLE_COUNTS, "true") in _TRUE
    installed = _at(policy, "toolkit.enabled") is not False
    if fleet.operator.device_list == "envvar":
        if installed and not variable_counts:
            yield _other_values(policy, _TOOLKIT_ENV, {VARIABLE_COUNTS: "true"})
        return
    if not installed:
        # The settings of a toolkit that somebody else installed on the nodes are unknown.
        yield Mismatch(field="toolkit.enabled", required=True, current=False, replacement=True)
    missing = {}
    if variable_counts:
        missing[VARIABLE_COUNTS] = "false"
    if variables.get(MOUNTS_COUNT) not in _TRUE:
        missing[MOUNTS_COUNT] = "true"
    if missing:
        yield _other_values(policy, _TOOLKIT_ENV, missing)
    cdi = _at(policy, "cdi.enabled") is not False
    strategy = _variables(policy, _PLUGIN_ENV).get(STRATEGY, BY_CDI if cdi else "envvar")
    strategies = BY_CDI if cdi else BY_MOUNTS
    if not set(strategies.split(",")) & set((strategy or "").split(",")):
        yield _other_values(policy, _PLUGIN_ENV, {STRATEGY: strategies})


def describe_mismatches(name: str, wrong: Sequence[Mismatch]) -> str:
    """The message about an adopted operator that would not serve the pools. name: the name of the
    ClusterPolicy.
    """
    lines = [
        f"ClusterPolicy {name} of the GPU operator that gpu_operator.existing adopts does not have "
        "the settings that this stack needs:"
    ]
    lines += [f"  {_describe(mismatch)}" for mismatch in wrong]
    if any(item.field == _TOOLKIT_ENV and item.required == _VARIABLE_ALLOWED for item in wrong):
        lines.append(
            "Its runtime ignores NVIDIA_VISIBLE_DEVICES in unprivileged containers, so that pods "
            "cannot use GPUs that they did not request. To keep it so, write gpu_operator: "
            "{device_list: volume-mounts} in the stack file."
        )
    return "\n".join(
        [
            *lines,
            "slicewright does not change this operator. Change its Helm values, which have the "
            "same names, or apply the change at once:",
            f"  {patch_command(name, wrong)}",
        ]
    )


def patch_command(name: str, wrong: Sequence[Mismatch]) -> str:
    """The command that corrects a ClusterPolicy. name: the name of the ClusterPolicy."""
    spec: JsonObject = {}
    for mismatch in wrong:
        *parents, last = mismatch.field.split(".")
        section = spec
        for key in parents:
            section = section.setdefault(key, {})
        section[last] = mismatch.replacement
    patch = shlex.quote(json.dumps({"spec": spec}))
    return f"kubectl patch clusterpolicies.nvidia.com {name} --type merge -p {patch}"


def named_config_maps(policy: Mapping[str, Any]) -> Mapping[str, str]:
    """Field of a ClusterPolicy's `spec` -> the ConfigMap of a stack that it names."""
    named = {field: str(_at(policy, field) or "") for field in _CONFIGS}
    return {field: name for field, name in named.items() if _STACK_CONFIG_MAP.fullmatch(name)}


def release_command(name: str, policy: Mapping[str, Any]) -> str:
    """The command that removes a stack's ConfigMaps from a ClusterPolicy: mig-manager then has the
    operator's default layouts, and no GPU is shared. name: the name of the ClusterPolicy.
    """
    fields = [*named_config_maps(policy)]
    if "devicePlugin.config.name" in fields:
        fields.append("devicePlugin.config.default")
    return patch_command(
        name,
        [Mismatch(field=field, required="", current=None, replacement="") for field in fields],
    )


def _describe(mismatch: Mismatch) -> str:
    current = mismatch.current
    difference = "found nothing" if current is None else f"found {_as_text(current)}"
    if mismatch.field == _TOLERATIONS:
        difference = f"missing among the {len(current)} that are set" if current else "found none"
    return f"spec.{mismatch.field}: wanted {_as_text(mismatch.required)}, {difference}"


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _at(policy: Mapping[str, Any], field: str) -> Any:
    value: Any = policy
    for key in field.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value == "" else value


def _covers(current: Mapping[str, Any], required: Mapping[str, Any]) -> bool:
    """True if the current toleration tolerates all that the required one does. Source:
    k8s.io/component-helpers, scheduling/corev1 (ToleratesTaint).
    """
    if current.get("effect") not in (None, "", required["effect"]):
        return False
    exists = current.get("operator") == "Exists"
    if not current.get("key"):
        return exists
    if current["key"] != required["key"]:
        return False
    same = required["operator"] == "Equal" and current.get("value", "") == required.get("value", "")
    return exists or same
