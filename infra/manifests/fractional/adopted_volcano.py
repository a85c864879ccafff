"""The configuration that an existing Volcano needs, to share GPUs as the plan says.

Sources: volcano-sh/volcano v1.15.1, installer/helm/chart/volcano/templates/scheduler.yaml and the
plugins deviceshare and resource-strategy-fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from slicewright.infra.manifests.fractional.volcano import scheduler_config
from slicewright.infra.plan import Engine

CONFIG_MAP: Final = "volcano-scheduler-configmap"
"""The scheduler's ConfigMap, by the chart's usual release name."""
CONFIG_KEY: Final = "volcano-scheduler.conf"
_REQUIRED: Final = ("deviceshare", "predicates", "resource-strategy-fit")
"""Plugins that place shares."""


def volcano_mismatches(data: Mapping[str, Any], engine: Engine) -> tuple[str, ...]:
    """The differences of a scheduler's ConfigMap from the configuration of the plan.

    data: the ConfigMap's data.
    """
    try:
        configured = _plugins(yaml.safe_load(str(data.get(CONFIG_KEY) or "")))
    except (yaml.YAMLError, TypeError, KeyError, AttributeError):
        return (f"{CONFIG_KEY} cannot be read",)
    return tuple(_mismatches(configured, _plugins(yaml.safe_load(scheduler_config(engine)))))


def _mismatches(
    configured: Mapping[str, Mapping[str, Any]], required: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    for name in _REQUIRED:
        if name not in configured:
            yield f"the plugin {name} is missing"
            continue
        for key, value in required[name].items():
            current = configured[name].get(key)
            if not _is_same(current, value):
                text = "nothing" if current is None else current
                yield f"{name}: wanted {key}: {value}, found {text}"


def _plugins(config: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """Plugin -> its arguments."""
    return {
        plugin["name"]: plugin.get("arguments") or {}
        for tier in config["tiers"]
        for plugin in tier.get("plugins") or ()
    }


def _is_same(current: Any, required: Any) -> bool:
    """Volcano reads an argument as text: true, "true" and True are the same."""
    if isinstance(required, Mapping):
        return isinstance(current, Mapping) and all(
            _is_same(current.get(key), value) for key, value in required.items()
        )
    return str(current).casefold() == str(required).casefold()
