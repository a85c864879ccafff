"""The files that the GPU Operator's operands read, as ConfigMaps.

The operator watches the names of the ConfigMaps, not their content. So each name contains a hash of
the content: a change creates a new ConfigMap, which restarts the operand that reads it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from slicewright.infra import catalog
from slicewright.infra.manifests.gpu_operator.mig_layouts import MIG_CONFIG_KEY, mig_parted_config
from slicewright.infra.manifests.gpu_operator.plugin_configs import plugin_configs
from slicewright.infra.manifests.text import as_yaml, short_hash, words_as_flow_yaml
from slicewright.infra.plan import FleetPlan

METRICS_KEY: Final = "dcgm-metrics.csv"
"""The key that the operator mounts. Source: NVIDIA/gpu-operator, controllers/object_controls.go."""
CLIENTS_KEY: Final = "clients.yaml"
"""The key that the operator mounts. Source: NVIDIA/gpu-operator, controllers/object_controls.go."""
_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parents[2] / "templates"),
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
    """The ConfigMaps of a fleet's operator. None if the operand has its own default."""

    mig_layouts: ConfigFiles
    plugin_configs: ConfigFiles | None
    dcgm_metrics: ConfigFiles | None
    gpu_clients: ConfigFiles | None

    def __iter__(self) -> Iterator[ConfigFiles]:
        every = (self.mig_layouts, self.plugin_configs, self.dcgm_metrics, self.gpu_clients)
        return (files for files in every if files is not None)


def operator_files(plan: FleetPlan) -> OperatorFiles:
    """The files of a fleet's operator. The fleet must have one."""
    assert plan.operator is not None
    layouts = {MIG_CONFIG_KEY: words_as_flow_yaml(mig_parted_config(plan.operated))}
    plugins = {pool: as_yaml(config) for pool, config in plugin_configs(plan.operated).items()}
    fields = plan.operator.dcgm_exporter.metrics
    metrics = {METRICS_KEY: metrics_csv(fields)} if fields else {}
    services = plan.operator.mig_manager.host_services
    return OperatorFiles(
        mig_layouts=_config_map("mig-layouts", layouts),
        plugin_configs=_optional_config_map("plugin-configs", plugins),
        dcgm_metrics=_optional_config_map("dcgm-metrics", metrics),
        gpu_clients=_optional_config_map("gpu-clients", _gpu_clients(services)),
    )


def _gpu_clients(services: Sequence[str]) -> Mapping[str, str]:
    """The services of the host that mig-manager stops while it changes a layout."""
    if not services:
        return {}
    return {CLIENTS_KEY: as_yaml({"version": "v1", "systemd-services": list(services)})}


def metrics_csv(fields: tuple[str, ...]) -> str:
    """dcgm-exporter's list of metrics. Raises KeyError for a field that the catalog lacks."""
    catalogued = catalog.load().dcgm_fields
    template = _TEMPLATES.get_template(f"{METRICS_KEY}.j2")
    return template.render(fields=[catalogued[name] for name in fields])


def _optional_config_map(prefix: str, data: Mapping[str, str]) -> ConfigFiles | None:
    return _config_map(prefix, data) if data else None


def _config_map(prefix: str, data: Mapping[str, str]) -> ConfigFiles:
    digest = short_hash(json.dumps(data, sort_keys=True))
    return ConfigFiles(name=f"{prefix}-{digest}", data=data)
