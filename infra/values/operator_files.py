"""The files that the GPU Operator's operands read, as ConfigMaps.

The operator does not watch their content, only their names: so a ConfigMap's name has the hash of
what is in it, and a change of it is a new ConfigMap, which restarts the operand that reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from infra import catalog
from infra.plan import FleetPlan
from infra.values.mig_layouts import MIG_CONFIG_KEY, mig_parted_config
from infra.values.plugin_configs import plugin_configs
from infra.values.text import as_yaml, short_hash, words_as_flow_yaml

METRICS_KEY: Final = "dcgm-metrics.csv"
"""The key that the operator mounts. Source: NVIDIA/gpu-operator, controllers/object_controls.go."""
CLIENTS_KEY: Final = "clients.yaml"
"""As above."""
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parents[1] / "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    keep_trailing_newline=True,
    autoescape=select_autoescape(),
)


@dataclass(frozen=True, kw_only=True)
class ConfigFiles:
    """The content of an immutable ConfigMap."""

    name: str
    data: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class OperatorFiles:
    """None: the operand has its own default."""

    mig_layouts: ConfigFiles
    plugin_configs: ConfigFiles | None
    dcgm_metrics: ConfigFiles | None
    gpu_clients: ConfigFiles | None

    def __iter__(self) -> Iterator[ConfigFiles]:
        every = (self.mig_layouts, self.plugin_configs, self.dcgm_metrics, self.gpu_clients)
        return (files for files in every if files is not None)


def operator_files(plan: FleetPlan) -> OperatorFiles:
    """Every file of a fleet's operator, which it must have."""
    assert plan.operator is not None
    shared = plugin_configs(plan.operated)
    metrics = plan.operator.dcgm_exporter.metrics
    services = plan.operator.mig_manager.host_services
    clients = {"version": "v1", "systemd-services": list(services)}
    return OperatorFiles(
        mig_layouts=_files(
            "mig-layouts", {MIG_CONFIG_KEY: words_as_flow_yaml(mig_parted_config(plan.operated))}
        ),
        plugin_configs=_files("plugin-configs", {k: as_yaml(v) for k, v in shared.items()})
        if shared
        else None,
        dcgm_metrics=_files("dcgm-metrics", {METRICS_KEY: metrics_csv(metrics)})
        if metrics
        else None,
        gpu_clients=_files("gpu-clients", {CLIENTS_KEY: as_yaml(clients)}) if services else None,
    )


def metrics_csv(fields: tuple[str, ...]) -> str:
    """dcgm-exporter's list of metrics. Raises KeyError for a field that the catalog lacks."""
    known = catalog.load().dcgm_fields
    template = _TEMPLATES.get_template(f"{METRICS_KEY}.j2")
    return template.render(fields=[known[name] for name in fields])


def _files(prefix: str, data: Mapping[str, str]) -> ConfigFiles:
    digest = short_hash(json.dumps(data, sort_keys=True))
    return ConfigFiles(name=f"{prefix}-{digest}", data=data)
