"""The plan as JSON (docs/reference/plan-json.md). `version` changes if a key goes or changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import date
from typing import Any

from pydantic import BaseModel

from slicewright.infra import manifests, plan
from slicewright.infra.manifests import JsonObject
from slicewright.infra.plan.gpu_operator import drivers
from slicewright.infra.plan.machines import partition_prices, prices
from slicewright.infra.plan.partition.partitions import minimum_driver
from slicewright.infra.stack_file import Path
from slicewright.show.picture import placements_of
from slicewright.show.shared_cards_json import shared_cards_json

VERSION = 1


def as_json(fleet: plan.FleetPlan, *, today: date | None = None) -> JsonObject:
    """Returns the whole plan, with its rendered files."""
    written: JsonObject = {
        "version": VERSION,
        "cloud": plan.cloud_of(fleet),
        "cluster": _plain(fleet.cluster),
        "pools": [_pool(pool, fleet) for pool in fleet.pools],
        "hosts": [_host(host) for host in fleet.hosts]
        if isinstance(fleet, plan.ExistingFleetPlan)
        else [],
        "workloads": [_plain(request) for request in fleet.workloads],
        "fractional": shared_cards_json(fleet),
        "deployments": [_deployment(deployment) for deployment in fleet.deployments],
        "monitoring": _monitoring(fleet),
        "files": _files(fleet),
        "totals": totals(fleet),
        "notes": list(plan.notes(fleet, today=today)),
        "cannot_be_built_yet": [
            {"path": _path(p.path), "reason": p.reason} for p in plan.unbuildable(fleet)
        ],
    }
    if not isinstance(fleet, plan.ExistingFleetPlan) and (system := fleet.system) is not None:
        written["system_pool"] = {
            "machine_type": system.machine_type,
            "zones": list(system.zones),
            "nodes": _plain(system.nodes),
            **_price(prices.system_quote(system, fleet)),
        }
    return written


def totals(fleet: plan.FleetPlan) -> JsonObject:
    """Returns sums over the GPU pools, at their minimum and maximum number of nodes."""
    resources: dict[str, dict[str, int]] = {}
    for pool in fleet.pools:
        for name, count in pool.offer.resources.items():
            at = resources.setdefault(name, {"min": 0, "max": 0})
            at["min"] += count * pool.nodes.min
            at["max"] += count * pool.nodes.max
    return {
        "nodes": {
            "min": sum(p.nodes.min for p in fleet.pools),
            "max": sum(p.nodes.max for p in fleet.pools),
        },
        "gpus": {
            "min": sum(p.gpu_count * p.nodes.min for p in fleet.pools),
            "max": sum(p.gpu_count * p.nodes.max for p in fleet.pools),
        },
        "allocatable": dict(sorted(resources.items())),
        "usd_per_hour": (cost := prices.fleet_cost(fleet)).as_json(),
        "usd_per_month": cost.as_json(prices.HOURS_PER_MONTH),
    }


def change_json(change: plan.FleetChange) -> JsonObject:
    """Returns the JSON of `slicewright plan --diff A B --json`."""
    return {
        "version": VERSION,
        "fleet": [_change(c) for c in change.fleet],
        "pools": [_part(pool) for pool in change.pools],
        "hosts": [_part(host) for host in change.hosts],
    }


def _part(part: plan.PartChange) -> JsonObject:
    return {
        "name": part.name,
        "kind": part.kind,
        "effect": part.effect.text,
        "changes": [_change(c) for c in part.changes],
    }


def _change(change: plan.Change) -> JsonObject:
    rule = change.rule
    return {
        "field": rule.field,
        "cloud_field": rule.cloud_field,
        "before": _plain(change.before),
        "after": _plain(change.after),
        "effect": change.effect.text,
        "why": change.why,
        "source": rule.source,
    }


def _pool(pool: plan.PoolPlan, fleet: plan.FleetPlan) -> JsonObject:
    written: JsonObject = {
        "name": pool.name,
        "nodes": _plain(pool.nodes),
        "gpu": {
            "model": pool.gpu.name,
            "memory_mib": pool.gpu.memory_mib,
            "per_node": pool.gpu_count,
        },
        "gpus": _layouts(pool),
        "devices": dict(pool.offer.devices),
        "sharing": [_plain(share) for share in pool.offer.sharing],
        "allocatable": dict(pool.offer.resources),
        "labels": dict(pool.labels),
        "taints": [_plain(taint) for taint in pool.taints],
        "mig_config": pool.offer.mig_config,
        "layout_hash": pool.offer.layout_hash,
        "desired": pool.offer.desired,
        "rollout": _plain(pool.rollout),
        "driver": _driver(pool, fleet),
        "pod": manifests.pod_request(pool, fleet.workloads),
    }
    if isinstance(pool.settings, plan.CloudSettings):
        written |= {
            "machine_type": pool.settings.machine.name,
            "zones": list(pool.settings.zones),
            "capacity": _plain(pool.settings.capacity),
            **_price(quote := prices.pool_quote(pool.settings, pool.gpu_count, fleet)),
            "usd_per_partition_month": _partition_costs(pool, quote),
        }
    if isinstance(pool.settings, plan.ExistingSettings):
        written["select"] = dict(pool.settings.select)
        written["on_destroy"] = _plain(pool.settings.on_destroy)
    return written


def _layouts(pool: plan.PoolPlan) -> list[JsonObject]:
    return [
        {
            "index": index,
            "layout": dict(layout),
            "placements": [_plain(p) for p in placements_of(pool.gpu, layout)],
        }
        for index, layout in enumerate(pool.offer.layouts)
    ]


def _deployment(deployment: plan.DeploymentPlan) -> JsonObject:
    memory = deployment.memory
    return {
        "name": deployment.name,
        "namespace": deployment.namespace,
        "kind": deployment.workload.kind,
        "pool": deployment.workload.pool,
        "resource": deployment.resource,
        "per_pod": deployment.devices,
        "gpu_share": _share(deployment.share),
        "profiles": list(deployment.profiles),
        "replicas": deployment.at_first,
        "autoscaling": _autoscaling(deployment),
        "run": deployment.runs,
        "pending": deployment.pending,
        "awaited": deployment.awaited,
        "memory_mib": {
            "needed": memory.needed_mib,
            "weights": memory.weights_mib,
            "context": memory.context_mib,
            "overhead": memory.overhead_mib,
            "usable": deployment.usable_mib,
        }
        if memory
        else None,
    }


def _share(share: plan.WorkloadPlan | None) -> JsonObject | None:
    if share is None:
        return None
    return {
        "cards": share.cards,
        "memory_mib_per_card": share.memory_mib_per_card,
        "compute_percent_per_card": share.compute_percent_per_card,
        "requests": dict(share.requests),
        "annotations": dict(share.annotations),
    }


def _autoscaling(deployment: plan.DeploymentPlan) -> JsonObject | None:
    scaling = deployment.autoscaling
    if scaling is None:
        return None
    return {
        "min": scaling.min,
        "max": scaling.max,
        "metric": scaling.settings.metric,
        "target": scaling.target,
        "unit": "us" if scaling.metric.unit == "duration" else scaling.metric.unit,
        "per_replica": not scaling.metric.mean,
        "query": manifests.scaling_query(deployment),
        "fallback_replicas": scaling.fallback_replicas,
    }


def _monitoring(fleet: plan.FleetPlan) -> JsonObject | None:
    monitoring = fleet.monitoring
    if monitoring is None:
        return None
    records, alerts = manifests.rule_counts(fleet)
    return {
        "prometheus": monitoring.settings.prometheus,
        "namespace": monitoring.namespace,
        "url": monitoring.prometheus_url or None,
        "scrapes": [{"name": name, "interval_s": s} for name, s in manifests.scraped(fleet)],
        "recording_rules": records,
        "alerts": alerts,
        "dashboards": len(manifests.dashboards_of(fleet)) if monitoring.dashboards else 0,
    }


def _host(host: plan.HostPlan) -> JsonObject:
    return {
        "name": host.name,
        "gpu": {
            "model": host.gpu.name,
            "memory_mib": host.gpu.memory_mib,
            "per_host": host.gpu_count,
        },
        "wait_minutes": host.wait_minutes,
        "gpus": [_plain(gpu) for gpu in host.gpus],
    }


def _files(fleet: plan.FleetPlan) -> JsonObject:
    files: JsonObject = {}
    if any(pool.offer.mig_config for pool in fleet.pools):
        files["mig_parted"] = manifests.mig_parted_config(fleet.pools)
    if shared := manifests.plugin_configs(operated(fleet)):
        files["device_plugin"] = dict(shared)
    if isinstance(fleet, plan.ExistingFleetPlan) and fleet.hosts:
        files["hosts"] = dict(manifests.host_files(fleet.hosts))
    return files


def operated(fleet: plan.FleetPlan) -> tuple[plan.PoolPlan, ...]:
    """The pools whose GPUs NVIDIA's device plugin advertises, not GKE's plugin."""
    return tuple(
        p
        for p in fleet.pools
        if not isinstance(p.settings, plan.GkeSettings) or p.settings.sharing_strategy is None
    )


def _driver(pool: plan.PoolPlan, fleet: plan.FleetPlan) -> JsonObject:
    driver = drivers.driver_of(pool, fleet)
    return {
        "minimum": minimum_driver(pool.gpu, pool.offer.layouts),
        "known": driver.version,
        "exact": driver.exact,
        "of": driver.of,
        "source": driver.source,
    }


def _price(quote: prices.Quote) -> JsonObject:
    return {
        "usd_per_node_hour": dataclasses.asdict(quote.price) if quote.price else None,
        "usd_per_node_hour_elsewhere": dataclasses.asdict(quote.elsewhere)
        if quote.elsewhere
        else None,
        "no_price": quote.missing or None,
    }


def _partition_costs(pool: plan.PoolPlan, quote: prices.Quote) -> JsonObject | None:
    if quote.price is None:
        return None
    costs = partition_prices.partition_costs(pool, quote.price)
    return {name: cost.as_json() for name, cost in costs.items()}


def _path(path: Path) -> str:
    return ".".join(map(str, path))


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = getattr(value, "name", None)
        # The catalog's rows are given by name: the facts about a GPU are not part of a plan.
        if type(value).__module__.startswith("slicewright.infra.catalog"):
            return name
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
