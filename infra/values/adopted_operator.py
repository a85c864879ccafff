"""What the ClusterPolicy of an operator that exists must say, so that it serves the pools.

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

from infra.plan import ExistingFleetPlan
from infra.values.device_list import BY_CDI, BY_MOUNTS, MOUNTS_COUNT, STRATEGY, VARIABLE_COUNTS
from infra.values.operator_files import OperatorFiles
from infra.values.plugin_configs import default_config
from infra.values.pods import tolerations
from infra.values.text import JsonObject

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
_OF_A_STACK: Final = re.compile("(mig-layouts|plugin-configs)-[0-9a-f]{8}")
"""Names of `operator_files`."""
_TRUE: Final = frozenset(("1", "t", "T", "true", "True", "TRUE"))
"""What mig-manager takes for true. Source: Go's strconv.ParseBool."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A field of the ClusterPolicy."""

    field: str
    """Dotted, below `spec`."""
    wanted: Any
    default: Any = None
    """What the operator takes an absent field for; None: nothing that would do."""


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    field: str
    wanted: Any
    found: Any
    """None: not set."""
    right: Any
    """The value to write; for a list more than what is missing of it."""


def wanted_settings(fleet: ExistingFleetPlan, files: OperatorFiles) -> tuple[Setting, ...]:
    """What must hold, besides the tolerations. files: as from `operator_files`."""
    return tuple(_wanted(fleet, files))


def _wanted(fleet: ExistingFleetPlan, files: OperatorFiles) -> Iterator[Setting]:
    yield Setting(field="mig.strategy", wanted=fleet.operator.mig_strategy)
    yield Setting(field="operator.runtimeClass", wanted=RUNTIME_CLASS, default=RUNTIME_CLASS)
    yield Setting(field="devicePlugin.enabled", wanted=True, default=True)
    # The agents check its labels.
    yield Setting(field="gfd.enabled", wanted=True, default=True)
    if files.plugin_configs is not None:
        yield Setting(field="devicePlugin.config.name", wanted=files.plugin_configs.name)
        default = default_config(fleet.operated)
        yield Setting(field="devicePlugin.config.default", wanted=default)
    if any(pool.offer.mig_config is not None for pool in fleet.pools):
        yield Setting(field="migManager.enabled", wanted=True, default=True)
        yield Setting(field="migManager.config.name", wanted=files.mig_layouts.name)


def mismatches(
    policy: Mapping[str, Any], fleet: ExistingFleetPlan, files: OperatorFiles
) -> tuple[Mismatch, ...]:
    """Where the `spec` of a ClusterPolicy is not as the fleet needs it."""
    wrong = []
    for setting in wanted_settings(fleet, files):
        found = _at(policy, setting.field)
        if (setting.default if found is None else found) != setting.wanted:
            wrong.append(
                Mismatch(
                    field=setting.field, wanted=setting.wanted, found=found, right=setting.wanted
                )
            )
    wrong += _without_reboot(policy, fleet)
    wrong += _other_device_list(policy, fleet)
    given = _at(policy, _TOLERATIONS) or []
    missing = [one for one in tolerations(fleet.pools) if not any(_covers(g, one) for g in given)]
    if missing:
        wrong.append(
            Mismatch(field=_TOLERATIONS, wanted=missing, found=given, right=[*given, *missing])
        )
    return tuple(wrong)


def _without_reboot(policy: Mapping[str, Any], fleet: ExistingFleetPlan) -> Iterator[Mismatch]:
    """A GPU whose MIG mode changes at a reset stays pending where the machine refuses the reset, as
    clouds do. mig-manager may then reboot the node, unless the stack file says that it need not.
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
    """field: an operand's environment. missing: variables that have another value there."""
    current: list[Mapping[str, Any]] = _at(policy, field) or []
    kept = [variable for variable in current if variable.get("name") not in missing]
    additions = [{"name": name, "value": value} for name, value in missing.items()]
    return Mismatch(
        field=field,
        wanted=additions,
        found=[variable for variable in current if variable not in kept] or None,
        right=[*kept, *additions],
    )


def _other_device_list(policy: Mapping[str, Any], fleet: ExistingFleetPlan) -> Iterator[Mismatch]:
    """Settings of toolkit and device plugin that contradict `device_list`: agents, or pods that
    request GPUs, would get none, or any container would get them by the variable.
    """
    variables = _variables(policy, _TOOLKIT_ENV)
    variable_counts = variables.get(VARIABLE_COUNTS, "true") in _TRUE
    installed = _at(policy, "toolkit.enabled") is not False
    if fleet.operator.device_list == "envvar":
        if installed and not variable_counts:
            yield _other_values(policy, _TOOLKIT_ENV, {VARIABLE_COUNTS: "true"})
        return
    if not installed:
        # The settings of a toolkit of the nodes' own are not known.
        yield Mismatch(field="toolkit.enabled", wanted=True, found=False, right=True)
    missing = {}
    if variable_counts:
        missing[VARIABLE_COUNTS] = "false"
    if variables.get(MOUNTS_COUNT) not in _TRUE:
        missing[MOUNTS_COUNT] = "true"
    if missing:
        yield _other_values(policy, _TOOLKIT_ENV, missing)
    cdi = _at(policy, "cdi.enabled") is not False
    strategy = _variables(policy, _PLUGIN_ENV).get(STRATEGY, BY_CDI if cdi else "envvar")
    right = BY_CDI if cdi else BY_MOUNTS
    if not set(right.split(",")) & set((strategy or "").split(",")):
        yield _other_values(policy, _PLUGIN_ENV, {STRATEGY: right})


def what_to_change(name: str, wrong: Sequence[Mismatch]) -> str:
    """The message about an adopted operator that would not serve the pools. name: of its
    ClusterPolicy.
    """
    lines = [
        f"ClusterPolicy {name}, of the GPU operator that gpu_operator.existing adopts, is not as "
        "this stack needs it:"
    ]
    lines += [f"  spec.{one.field}: wanted {_shown(one.wanted)}, {_found(one)}" for one in wrong]
    if any(item.field == _TOOLKIT_ENV and item.wanted == _VARIABLE_ALLOWED for item in wrong):
        lines.append(
            "Its runtime ignores the variable of containers without privileges, which keeps pods "
            "from GPUs that they did not request. To leave that so, write gpu_operator: "
            "{device_list: volume-mounts} in the stack file."
        )
    return "\n".join(
        [
            *lines,
            "slicewright does not change that operator. Change it where its settings are kept (its "
            "Helm values have the same names), or at once:",
            f"  {patch_command(name, wrong)}",
        ]
    )


def patch_command(name: str, wrong: Sequence[Mismatch]) -> str:
    """What makes a ClusterPolicy right. name: of it."""
    spec: JsonObject = {}
    for one in wrong:
        *way, last = one.field.split(".")
        at = spec
        for key in way:
            at = at.setdefault(key, {})
        at[last] = one.right
    patch = shlex.quote(json.dumps({"spec": spec}))
    return f"kubectl patch clusterpolicies.nvidia.com {name} --type merge -p {patch}"


def our_config_maps(policy: Mapping[str, Any]) -> Mapping[str, str]:
    """Field of a ClusterPolicy's `spec` -> the ConfigMap of a stack that it names."""
    named = {field: str(_at(policy, field) or "") for field in _CONFIGS}
    return {field: name for field, name in named.items() if _OF_A_STACK.fullmatch(name)}


def way_back(name: str, policy: Mapping[str, Any]) -> str:
    """The command by which a ClusterPolicy names no ConfigMap of a stack: mig-manager then has the
    operator's default layouts, and no GPU is shared. name: of the ClusterPolicy.
    """
    fields = [*our_config_maps(policy)]
    if "devicePlugin.config.name" in fields:
        fields.append("devicePlugin.config.default")
    return patch_command(
        name, [Mismatch(field=one, wanted="", found=None, right="") for one in fields]
    )


def _found(one: Mismatch) -> str:
    if one.field == _TOLERATIONS:
        return f"missing among the {len(one.found)} that are set" if one.found else "found none"
    return "found nothing" if one.found is None else f"found {_shown(one.found)}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _at(policy: Mapping[str, Any], field: str) -> Any:
    found: Any = policy
    for key in field.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return None if found == "" else found


def _covers(given: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a toleration tolerates all that another one does. Source: k8s.io/component-helpers,
    scheduling/corev1 (ToleratesTaint).
    """
    if given.get("effect") not in (None, "", wanted["effect"]):
        return False
    exists = given.get("operator") == "Exists"
    if not given.get("key"):
        return exists
    if given["key"] != wanted["key"]:
        return False
    same = wanted["operator"] == "Equal" and given.get("value", "") == wanted.get("value", "")
    return exists or same
