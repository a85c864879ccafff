"""What a change of each key of a stack file does in `plan --diff`, or that it is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from slicewright.infra import plan, stack_file
from slicewright.infra.plan import ChangeEffect

IN_PLACE, ROLL, REPLACE = ChangeEffect.IN_PLACE, ChangeEffect.ROLL, ChangeEffect.REPLACE
Changes = dict[str, Any]
"""Dotted path -> value; None takes the key away."""

CUT = {"mode": "operator", "layout": {"1g.5gb": 7}}
BY_INDEX = {
    "mode": "operator",
    "gpus": [{"index": [0], "layout": {"1g.5gb": 7}}, {"index": [1], "layout": {}}],
}
FRACTION: Changes = {
    "fractional": {"provider": "hami"},
    "workloads": [{"name": "w", "gpu_share": {"memory": "4Gi", "compute_percent": 10, "cards": 1}}],
    "node_pools.0.sharing": "fractional",
    "node_pools.0.partition": "none",
}
SERVER: dict[str, Any] = {
    "name": "w",
    "kind": "vllm",
    "namespace": "models",
    "pool": "a",
    "image": "vllm/vllm-openai:v0.6.2",
    "model": {
        "name": "org/small",
        "revision": "v1",
        "parameters": "500M",
        "weight_bits": 16,
        "attention": {"layers": 8, "kv_heads": 4, "head_dim": 64},
    },
    "max_model_len": 1024,
    "replicas": 2,
    "requests": {"cpu": 1, "memory": "1Gi"},
    "limits": {"cpu": 8, "memory": "8Gi"},
    "secrets": {"HF_TOKEN": {"name": "s", "key": "k"}},
    "cache": {"size": "10Gi", "storage_class": "filestore"},
}
BASE: dict[str, dict[str, Any]] = {
    "gke": {
        "cloud": "gke",
        "cluster": {"name": "c", "location": "us-central1"},
        "system_pool": {
            "machine_type": "e2-standard-4",
            "nodes": {"count": 1},
            "zones": ["us-central1-a"],
        },
        "node_pools": [
            {
                "name": "a",
                "machine_type": "a2-highgpu-2g",
                "zones": ["us-central1-a"],
                "nodes": {"count": 2},
                "partition": {"mode": "native", "profile": "1g.5gb"},
            }
        ],
    },
    "eks": {
        "cloud": "eks",
        "cluster": {"name": "c", "region": "us-east-1"},
        "system_pool": {
            "machine_type": "m7i.large",
            "nodes": {"count": 1},
            "zones": ["us-east-1a"],
        },
        "node_pools": [
            {"name": "a", "machine_type": "p4d.24xlarge", "nodes": {"count": 2}, "partition": CUT}
        ],
    },
    "byo": {
        "cloud": "byo",
        "cluster": {"name": "c", "context": "c"},
        "node_pools": [
            {
                "name": "a",
                "gpu": {"model": "A100-40", "count": 2},
                "nodes": {"count": 2},
                "partition": CUT,
            }
        ],
        "hosts": [
            {
                "name": "h",
                "gpu": {"model": "A100-40", "count": 4},
                "gpus": [{"index": 0, "instances": [{"profile": "3g.20gb", "start": 0}]}],
            }
        ],
    },
}


@dataclass(frozen=True)
class Row:
    key: str
    after: Changes
    effect: ChangeEffect | None
    """None: this cloud refuses the key, in each of its values."""
    before: Changes = field(default_factory=dict)
    where: str = "pools"


def common(cloud: str) -> Iterator[Row]:
    """What all fleets have."""
    operated: Changes = {"node_pools.0.partition": CUT} if cloud == "gke" else {}
    fraction = FRACTION | (
        {"node_pools.0.image_type": "UBUNTU_CONTAINERD"} if cloud == "gke" else {}
    )
    fleet: dict[str, Any] = {"where": "fleet"}
    yield Row("cloud", {}, None)  # another fleet altogether; see test_plan_changes
    if cloud != "byo":
        yield Row("allow_unlisted", {}, None)  # nothing of the plan
    yield Row("verify_timeout_minutes", {"verify_timeout_minutes": 90}, IN_PLACE, **fleet)
    yield Row("image", {"image": "python@sha256:" + "0" * 64}, IN_PLACE, **fleet)
    yield Row("image_pull_secrets", {"image_pull_secrets": ["mirror"]}, IN_PLACE, **fleet)
    yield Row("node_agent.attribution", {"node_agent": {"attribution": True}}, IN_PLACE, **fleet)
    yield Row("node_agent.utilization", {"node_agent": {"utilization": True}}, IN_PLACE, **fleet)
    yield Row("verification.compute", {"verification": {"compute": False}}, IN_PLACE)
    yield Row("verification.pod", {"verification": {"pod": True}}, IN_PLACE)
    yield Row("admin_groups", {"admin_groups": ["gpu-admins"]}, IN_PLACE, **fleet)
    yield Row(
        "pod_guard.exempt_namespaces",
        {"pod_guard.exempt_namespaces": ["storage"]},
        IN_PLACE,
        {"pod_guard": {"exempt_namespaces": ["monitoring"]}},
        **fleet,
    )
    opened: Changes = {"metrics_from": [{"namespace": "monitoring", "pods": {"app": "prometheus"}}]}
    for name, value in (("namespace", "gmp-system"), ("pods", {"app": "agent"})):
        changed = {f"metrics_from.0.{name}": value}
        yield Row(f"metrics_from.{name}", changed, IN_PLACE, opened, **fleet)
    yield Row(
        "metrics_from.cidr",
        {"metrics_from.0.cidr": "10.1.0.0/16"},
        IN_PLACE,
        {"metrics_from": [{"cidr": "10.0.0.0/16"}]},
        **fleet,
    )
    provider = IN_PLACE if cloud == "byo" else None
    yield Row("fractional.provider", {"fractional.provider": "volcano"}, REPLACE, fraction, **fleet)
    policy, volcano = (
        {"fractional.compute_policy": "native-burst-share"},
        fraction | {"fractional": {"provider": "vke"}},
    )
    yield Row(
        "fractional.compute_policy",
        policy,
        provider,
        volcano if cloud == "byo" else fraction,
        **fleet,
    )
    yield Row(
        "fractional.node_policy", {"fractional.node_policy": "spread"}, IN_PLACE, fraction, **fleet
    )
    yield Row(
        "fractional.gpu_policy", {"fractional.gpu_policy": "binpack"}, IN_PLACE, fraction, **fleet
    )
    yield Row(
        "fractional.shares_per_gpu", {"fractional.shares_per_gpu": 4}, IN_PLACE, fraction, **fleet
    )
    scaled = {"memory_percent": 150, "compute_percent": 150}
    for name, value in scaled.items():
        changed = {"fractional.oversubscription": {name: value}}
        yield Row(f"fractional.oversubscription.{name}", changed, IN_PLACE, fraction, **fleet)
    by_volcano = fraction | {"fractional": {"provider": "volcano"}}
    yield Row(
        "fractional.namespace",
        {"fractional.namespace": "gpu-sharing"},
        REPLACE,
        by_volcano,
        **fleet,
    )
    exists = REPLACE if cloud == "byo" else None  # a new cluster has no Volcano
    yield Row("fractional.existing", {"fractional.existing": True}, exists, by_volcano, **fleet)
    for name, value in (
        ("repository", "oci://registry.example.com/charts"),
        ("chart_version", "1.15.2"),
        ("plugin_repository", "oci://registry.example.com/charts"),
        ("plugin_version", "1.12.1"),
        ("registry", "registry.example.com"),
        ("image_pull_secrets", ["mirror"]),
    ):
        changed = {f"fractional.{name}": value}
        yield Row(f"fractional.{name}", changed, IN_PLACE, by_volcano, **fleet)
    yield Row("workloads.containers", {"workloads.0.containers": 2}, IN_PLACE, fraction, **fleet)
    for name, value in (("priority", "low"), ("node_policy", "spread"), ("gpu_policy", "binpack")):
        changed = {f"workloads.0.gpu_share.{name}": value}
        yield Row(f"workloads.gpu_share.{name}", changed, IN_PLACE, fraction, **fleet)
    yield Row("workloads.name", {"workloads.0.name": "v"}, IN_PLACE, fraction, **fleet)
    for name, value in (("memory", "8Gi"), ("compute_percent", 20), ("cards", 2)):
        yield Row(
            f"workloads.gpu_share.{name}",
            {f"workloads.0.gpu_share.{name}": value},
            IN_PLACE,
            fraction,
            **fleet,
        )

    yield from servers(cloud)
    yield from triton()
    yield from container()
    yield from monitoring()
    yield from autoscaled()

    yield Row("node_pools.name", {}, None)  # one gone, one new; see test_plan_changes
    yield Row("node_pools.nodes.count", {"node_pools.0.nodes.count": 3}, IN_PLACE)
    for name in ("min", "max"):
        scaled = {"node_pools.0.nodes": {"min": 1, "max": 3}}
        yield Row(f"node_pools.nodes.{name}", {f"node_pools.0.nodes.{name}": 2}, IN_PLACE, scaled)
    yield Row("node_pools.labels", {"node_pools.0.labels": {"a": "b"}}, IN_PLACE)
    tainted = {"node_pools.0.taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}
    for name, value in (("key", "z"), ("value", "z"), ("effect", "NoExecute")):
        yield Row(
            f"node_pools.taints.{name}", {f"node_pools.0.taints.0.{name}": value}, IN_PLACE, tainted
        )
    for name, value in (
        ("max_unavailable", 2),
        ("canary", 0),
        ("drain_timeout_minutes", 5),
        ("on_drain_timeout", "force"),
        ("evict", "all"),
        ("delete_local_data", True),
        ("one_zone_at_a_time", True),
        ("max_failures", 3),
        ("max_failures_in_a_row", 1),
        ("max_unverified", "10%"),
        ("quarantine", True),
    ):
        yield Row(f"node_pools.rollout.{name}", {f"node_pools.0.rollout.{name}": value}, IN_PLACE)
    sliced = operated | {"node_pools.0.sharing": {"mode": "time-slicing", "replicas": 2}}
    if cloud != "gke":
        yield Row("node_pools.sharing.mode", sliced, IN_PLACE)
        yield Row(
            "node_pools.sharing.replicas", {"node_pools.0.sharing.replicas": 3}, IN_PLACE, sliced
        )
    yield Row(
        "node_pools.sharing.rename_by_default",
        {"node_pools.0.sharing.rename_by_default": True},
        IN_PLACE,
        sliced,
    )
    one_each = {"node_pools.0.sharing.fail_requests_greater_than_one": False}
    yield Row("node_pools.sharing.fail_requests_greater_than_one", one_each, IN_PLACE, sliced)
    if cloud != "gke":
        yield Row("node_pools.partition.mode", {"node_pools.0.partition": "none"}, ROLL)
    yield Row(
        "node_pools.partition.layout",
        {"node_pools.0.partition.layout": {"2g.10gb": 3}},
        ROLL,
        operated,
    )
    named = {"node_pools.0.partition": {"mode": "operator", "config": "all-1g.5gb"}}
    yield Row(
        "node_pools.partition.config",
        {"node_pools.0.partition.config": "all-balanced"},
        ROLL,
        named,
    )
    if cloud == "eks":
        rest = {"index": [2, 3, 4, 5, 6, 7], "layout": {}}
        indexed: Changes = {
            "node_pools.0.partition": {**BY_INDEX, "gpus": [*BY_INDEX["gpus"], rest]}
        }
    else:
        indexed = {"node_pools.0.partition": BY_INDEX}
    turned = {
        "node_pools.0.partition.gpus.0.index": [1],
        "node_pools.0.partition.gpus.1.index": [0],
    }
    yield Row("node_pools.partition.gpus.index", turned, ROLL, indexed)
    yield Row(
        "node_pools.partition.gpus.layout",
        {"node_pools.0.partition.gpus.0.layout": {"7g.40gb": 1}},
        ROLL,
        indexed,
    )
    now = indexed["node_pools.0.partition"]
    # A copy, so that a change of it does not change `gpus` too.
    kept = {"node_pools.0.partition": {**now, "previous": [copy.deepcopy(now["gpus"])]}}
    for name, value in (("index", [1]), ("layout", {"7g.40gb": 1})):
        other: Changes = {f"node_pools.0.partition.previous.0.0.{name}": value}
        if name == "index":
            other["node_pools.0.partition.previous.0.1.index"] = [0]
        yield Row(f"node_pools.partition.previous.{name}", other, IN_PLACE, kept)

    yield from operator(operated, cloud)


def servers(cloud: str) -> Iterator[Row]:
    """Workloads that the stack makes."""
    fleet: dict[str, Any] = {"where": "fleet"}
    there: Changes = {"workloads": [SERVER]}
    yield Row("workloads.kind", {}, None)  # the keys of another kind are others
    resource = "gpu" if cloud == "gke" else "mig-1g.5gb"
    for name, value in (
        ("namespace", "other"),
        ("create_namespace", False),
        ("resource", resource),
        ("replicas", 3),
        ("image", "vllm/vllm-openai:v0.7.0"),
        ("image_pull_secrets", ["mirror"]),
        ("env", {"VLLM_LOGGING_LEVEL": "DEBUG"}),
        ("secrets.name", {"HF_TOKEN": {"name": "t", "key": "k"}}),
        ("secrets.key", {"HF_TOKEN": {"name": "s", "key": "l"}}),
        ("requests.cpu", 2),
        ("requests.memory", "2Gi"),
        ("limits.cpu", 9),
        ("limits.memory", "9Gi"),
        ("shared_memory", "2Gi"),
        ("startup_minutes", 31),
        ("grace_seconds", 61),
        ("max_unavailable", 2),
        ("run_as_user", 1001),
        ("service.type", "LoadBalancer"),
        ("service.annotations", {"networking.gke.io/load-balancer-type": "Internal"}),
        ("served_name", "small"),
        ("dtype", "bfloat16"),
        ("kv_cache_dtype", "fp8"),
        ("max_model_len", 2048),
        ("max_num_seqs", 8),
        ("gpu_memory_percent", 80),
        ("extra_args", ["--enable-prefix-caching"]),
        ("model.name", "org/other"),
        ("model.revision", "v2"),
        ("model.parameters", "600M"),
        ("model.weight_bits", 8),
        ("model.attention.layers", 9),
        ("model.attention.kv_heads", 5),
        ("model.attention.head_dim", 65),
        ("cache.size", "20Gi"),
        ("cache.storage_class", "other"),
    ):
        path = name.split(".")[0] if name.startswith("secrets.") else name
        yield Row(f"workloads.{name}", {f"workloads.0.{path}": value}, IN_PLACE, there, **fleet)
    one_node = {"node_pools.0.nodes.count": 1} | there
    once = {"workloads.0.cache.access_mode": "ReadWriteOnce"}
    yield Row("workloads.cache.access_mode", once, IN_PLACE, one_node, **fleet)
    (pool,) = BASE[cloud]["node_pools"]
    two = {"node_pools": [pool, pool | {"name": "b"}]} | there
    yield Row("workloads.pool", {"workloads.0.pool": "b"}, IN_PLACE, two, **fleet)
    whole = {"node_pools.0.partition": "none"} | there
    several = {"workloads.0.tensor_parallel": 2}
    yield Row("workloads.tensor_parallel", several, IN_PLACE, whole, **fleet)
    model = {"path": "small", "parameters": "500M"}
    kept: Changes = {"workloads": [SERVER | {"model": model, "cache": {"claim": "models"}}]}
    yield Row("workloads.model.path", {"workloads.0.model.path": "b"}, IN_PLACE, kept, **fleet)
    yield Row("workloads.cache.claim", {"workloads.0.cache.claim": "b"}, IN_PLACE, kept, **fleet)


TRITON: dict[str, Any] = {
    "name": "w",
    "kind": "triton",
    "pool": "a",
    "image": "nvcr.io/nvidia/tritonserver:23.05-py3",
    "model_repository": {"server": "10.0.0.1", "path": "/models"},
    "model_control": "explicit",
    "load_models": ["m"],
}


def triton() -> Iterator[Row]:
    """Keys that only Triton has."""
    fleet: dict[str, Any] = {"where": "fleet"}
    there: Changes = {"workloads": [TRITON]}
    for name, value in (
        ("model_repository.server", "10.0.0.2"),
        ("model_repository.path", "/other"),
        ("model_repository.read_only", False),
        ("load_models", ["n"]),
        ("gpu_memory", "1Gi"),
    ):
        yield Row(f"workloads.{name}", {f"workloads.0.{name}": value}, IN_PLACE, there, **fleet)
    polled = {"workloads.0.load_models": [], "workloads.0.model_control": "poll"}
    yield Row("workloads.model_control", polled, IN_PLACE, there, **fleet)
    claimed = {"workloads": [TRITON | {"model_repository": {"claim": "a"}}]}
    other = {"workloads.0.model_repository.claim": "b"}
    yield Row("workloads.model_repository.claim", other, IN_PLACE, claimed, **fleet)


CONTAINER: dict[str, Any] = {
    "name": "w",
    "kind": "container",
    "pool": "a",
    "image": "example.com/server:1",
    "ports": {"http": 8000},
    "health": {"port": "http", "path": "/health"},
}


def container() -> Iterator[Row]:
    """Keys that only a container has."""
    fleet: dict[str, Any] = {"where": "fleet"}
    there: Changes = {"workloads": [CONTAINER]}
    for name, value in (
        ("command", ["serve"]),
        ("args", ["--fast"]),
        ("ports", {"http": 8001}),
        ("health.path", "/ready"),
        ("health.alive_path", "/alive"),
    ):
        yield Row(f"workloads.{name}", {f"workloads.0.{name}": value}, IN_PLACE, there, **fleet)
    named = {"workloads.0.ports": {"web": 8000}, "workloads.0.health.port": "web"}
    yield Row("workloads.health.port", named, IN_PLACE, there, **fleet)
    whole = {"node_pools.0.partition": "none"} | there
    yield Row("workloads.gpus", {"workloads.0.gpus": 2}, IN_PLACE, whole, **fleet)


def monitoring() -> Iterator[Row]:
    """A Prometheus, none of whose changes reaches a node."""
    fleet: dict[str, Any] = {"where": "fleet"}
    stack: Changes = {
        "monitoring": {
            "prometheus": "stack",
            "create_namespace": False,
            "storage": {"size": "20Gi", "storage_class": "a"},
            "alertmanager": {"config_secret": "a"},
        }
    }
    for name, value in (
        ("namespace", "other"),
        ("release", "other"),
        ("repository", "oci://example.com/charts"),
        ("chart_version", "88.5.2"),
        ("chart_path", "charts/kube-prometheus-stack-88.5.3.tgz"),
        ("registry", "registry.example.com"),
        ("image_pull_secrets", ["mirror"]),
        ("retention_days", 3),
        ("storage.size", "30Gi"),
        ("storage.storage_class", "b"),
        ("alertmanager.config_secret", "b"),
        ("scrape_interval", "30s"),
        ("alerts", False),
        ("dashboards", False),
        ("runbooks", "https://git.example.com/slicewright/docs"),
    ):
        path = f"monitoring.{name}"
        yield Row(path, {path: value}, IN_PLACE, stack, **fleet)
    there: Changes = {
        "monitoring": {"prometheus": "existing", "url": "http://prometheus.monitoring.svc:9090"}
    }
    made = {"monitoring": {"prometheus": "stack"}}
    yield Row("monitoring.prometheus", made, IN_PLACE, there, **fleet)
    own = {"monitoring.create_namespace": False}
    yield Row("monitoring.create_namespace", own, IN_PLACE, made, **fleet)
    for name, value in (("url", "http://p.m.svc:9090"), ("selector_labels", {"team": "gpu"})):
        path = f"monitoring.{name}"
        yield Row(path, {path: value}, IN_PLACE, there, **fleet)


def autoscaled() -> Iterator[Row]:
    """Keys of workloads that are scaled, and of what scales them."""
    fleet: dict[str, Any] = {"where": "fleet"}
    asked = {"metric": "queue-time", "target": "50ms", "max": 2}
    there: Changes = {
        "workloads": [TRITON | {"autoscaling": asked}],
        "pod_autoscaling": {"prometheus_url": "http://prometheus:9090"},
    }
    pace = {"replicas": 1, "per": "1m"}
    paces: Changes = {
        "workloads.0.autoscaling.scale_up": pace,
        "workloads.0.autoscaling.scale_down": pace,
    }
    for name, value in (
        ("min", 2),
        ("max", 3),
        ("target", "51ms"),
        ("model", "m"),
        ("window", "2m"),
        ("fallback.failures", 4),
        ("fallback.replicas", 2),
        ("fallback.behavior", "static"),
        *((f"scale_{way}.stabilization", "2m") for way in ("up", "down")),
        *((f"scale_{way}.replicas", 2) for way in ("up", "down")),
        *((f"scale_{way}.per", "2m") for way in ("up", "down")),
    ):
        path = f"workloads.0.autoscaling.{name}"
        before = there | (paces if name.startswith("scale") else {})
        yield Row(f"workloads.autoscaling.{name}", {path: value}, IN_PLACE, before, **fleet)
    server = {key: value for key, value in SERVER.items() if key != "replicas"}
    own = {"metric": "query", "query": "sum(a)", "target": 5, "min": 0, "max": 2, "wake": "sum(b)"}
    queried = there | {"workloads": [server | {"autoscaling": own}]}
    for name, value in (("query", "sum(c)"), ("wake", "sum(c)"), ("cooldown", "6m")):
        path = f"workloads.0.autoscaling.{name}"
        yield Row(f"workloads.autoscaling.{name}", {path: value}, IN_PLACE, queried, **fleet)
    waiting = {"metric": "requests-waiting", "target": 5, "max": 2}
    followed = there | {"workloads": [server | {"autoscaling": waiting}]}
    other = {"workloads.0.autoscaling.metric": "cache-usage"}
    yield Row("workloads.autoscaling.metric", other, IN_PLACE, followed, **fleet)
    yield Row("pod_autoscaling.by", {}, None)
    for name, value in (
        ("existing", True),
        ("namespace", "scaler"),
        ("release", "scaler"),
        ("repository", "https://charts.example.com"),
        ("chart_version", "2.20.1"),
        ("prometheus_url", "http://other:9090"),
    ):
        yield Row(
            f"pod_autoscaling.{name}", {f"pod_autoscaling.{name}": value}, IN_PLACE, there, **fleet
        )
    adapter = there | {"pod_autoscaling": there["pod_autoscaling"] | {"by": "prometheus-adapter"}}
    image = {"pod_autoscaling.image": "registry.example.com/adapter:v0.12.0"}
    yield Row("pod_autoscaling.image", image, IN_PLACE, adapter, **fleet)


def operator(operated: Changes, cloud: str) -> Iterator[Row]:
    for name, value, effect in (
        ("namespace", "other", REPLACE),
        ("release", "other", REPLACE),
        ("repository", "oci://example.com/charts", IN_PLACE),
        ("chart_path", "charts/gpu-operator-v26.7.0.tgz", IN_PLACE),
        ("registry", "registry.example.com", IN_PLACE),
        ("image_pull_secrets", ["mirror"], IN_PLACE),
        ("upgrade_crds", False, IN_PLACE),
        ("validator.version", "v26.3.3", IN_PLACE),
        ("dcgm_exporter.metrics", ["DCGM_FI_DEV_FB_USED"], IN_PLACE),
        ("dcgm_exporter.service_monitor.enabled", True, IN_PLACE),
        ("dcgm_exporter.service_monitor.interval_seconds", 30, IN_PLACE),
        ("dcgm_exporter.service_monitor.labels", {"release": "p"}, IN_PLACE),
        ("mig_manager.host_services", ["nvidia-persistenced.service"], IN_PLACE),
        ("chart_version", "v26.3.3", IN_PLACE),
        ("mig_strategy", "single", IN_PLACE),
        ("device_plugin.version", "v0.19.3", IN_PLACE),
        ("gfd.version", "v0.19.3", IN_PLACE),
        ("dcgm_exporter.enabled", False, IN_PLACE),
        ("dcgm_exporter.version", "4.5.3-4.8.2", IN_PLACE),
        ("mig_manager.with_reboot", False, IN_PLACE),
        ("mig_manager.stop_kubelet", False, IN_PLACE),
        ("mig_manager.default_config", "", IN_PLACE),
        ("mig_manager.version", "v0.14.2", IN_PLACE),
    ):
        yield Row(
            f"gpu_operator.{name}", {f"gpu_operator.{name}": value}, effect, operated, where="fleet"
        )
    mounts: Changes = {"gpu_operator.device_list": "volume-mounts"}
    if cloud == "eks":
        yield Row("gpu_operator.device_list", mounts, None)  # the images bring the runtime
    else:
        with_toolkit = operated or {"gpu_operator.toolkit.enabled": True}
        yield Row("gpu_operator.device_list", mounts, IN_PLACE, with_toolkit, where="fleet")
    # A new cluster has no other.
    there: Changes = {} if cloud == "byo" else {"cluster.existing": True}
    discovery = {"gpu_operator.nfd.enabled": False}
    yield Row("gpu_operator.nfd.enabled", discovery, IN_PLACE, operated | there, where="fleet")
    # On GKE, only beside the operator's own driver.
    own_driver = {
        "node_pools.0.image_type": "UBUNTU_CONTAINERD",
        "gpu_operator.driver.enabled": True,
    }
    before = operated | own_driver if operated else {}
    installed = before | {"gpu_operator.driver.enabled": True, "gpu_operator.toolkit.enabled": True}
    for name, value, effect in (
        ("driver.version", "580.126.20", ROLL),
        ("toolkit.version", "v1.19.1", IN_PLACE),
    ):
        # EKS's images have both, and the operator installs neither there.
        change: Changes = {f"gpu_operator.{name}": value}
        if cloud == "eks":
            yield Row(f"gpu_operator.{name}", change, None)
        else:
            yield Row(f"gpu_operator.{name}", change, effect, installed, where="fleet")
    yield Row("gpu_operator.cdi", {"gpu_operator.cdi": False}, IN_PLACE, before, where="fleet")


def cloud_pools(cloud: str) -> Iterator[Row]:
    """What both clouds have."""
    zone = "us-central1-c" if cloud == "gke" else "us-east-1b"
    machine, system = (
        ("a2-highgpu-4g", "e2-standard-8") if cloud == "gke" else ("p4de.24xlarge", "m7i.xlarge")
    )
    system_roll = ROLL if cloud == "gke" else REPLACE
    fleet: dict[str, Any] = {"where": "fleet"}
    yield Row(
        "system_pool.machine_type", {"system_pool.machine_type": system}, system_roll, **fleet
    )
    yield Row("system_pool.nodes.count", {"system_pool.nodes.count": 2}, IN_PLACE, **fleet)
    for name in ("min", "max"):
        scaled = {"system_pool.nodes": {"min": 1, "max": 3}}
        yield Row(
            f"system_pool.nodes.{name}", {f"system_pool.nodes.{name}": 2}, IN_PLACE, scaled, **fleet
        )
    yield Row("system_pool.zones", {"system_pool.zones": [zone]}, REPLACE, **fleet)
    yield Row("cluster.name", {"cluster.name": "other"}, REPLACE, **fleet)
    version = IN_PLACE if cloud == "gke" else ROLL
    yield Row(
        "cluster.version",
        {"cluster.version": "1.34" if cloud == "eks" else "1.36"},
        version,
        **fleet,
    )
    yield Row("cluster.existing", {"cluster.existing": True}, IN_PLACE, **fleet)
    layout: Changes = (
        {"node_pools.0.partition": {"mode": "operator", "layout": {"1g.10gb": 7}}}
        if cloud == "eks"
        else {}
    )
    yield Row("node_pools.machine_type", {"node_pools.0.machine_type": machine} | layout, REPLACE)
    yield Row("node_pools.zones", {"node_pools.0.zones": [zone]}, REPLACE)
    yield Row("node_pools.capacity.mode", {"node_pools.0.capacity": "spot"}, REPLACE)
    name, other = ("r", "s") if cloud == "gke" else ("cr-0123456789abcdef0", "cr-0123456789abcdef1")
    reserved = {"node_pools.0.capacity": {"mode": "reservation", "reservation": name}}
    yield Row(
        "node_pools.capacity.reservation",
        {"node_pools.0.capacity.reservation": other},
        REPLACE if cloud == "gke" else ROLL,
        reserved,
    )
    queued = {
        "node_pools.0.capacity": {"mode": "queued", "max_run_hours": 2},
        "node_pools.0.nodes": {"min": 0, "max": 2},
    }
    longer = REPLACE if cloud == "gke" else None
    yield Row(
        "node_pools.capacity.max_run_hours",
        {"node_pools.0.capacity.max_run_hours": 3},
        longer,
        queued,
    )


def _maintenance(fleet: dict[str, Any]) -> Iterator[Row]:
    daily: dict[str, Any] = {"mode": "daily", "start": "03:00"}
    weekly = {
        "mode": "recurring",
        "start": "2026-01-03T00:00:00Z",
        "end": "2026-01-03T12:00:00Z",
        "recurrence": "FREQ=WEEKLY",
    }
    excluded = {
        "name": "year-end",
        "start": "2026-12-15T00:00:00Z",
        "end": "2027-01-08T00:00:00Z",
    }
    at = "cluster.maintenance"
    before: Changes = {at: {"window": weekly, "exclusions": [excluded]}}
    yield Row(f"{at}.window.mode", {f"{at}.window": daily}, IN_PLACE, before, **fleet)
    for key, value in (
        ("start", "2026-01-02T20:00:00Z"),
        ("end", "2026-01-03T13:00:00Z"),
        ("recurrence", "FREQ=DAILY"),
    ):
        yield Row(f"{at}.window.{key}", {f"{at}.window.{key}": value}, IN_PLACE, before, **fleet)
    for key, value in (
        ("name", "freeze"),
        ("start", "2026-12-14T00:00:00Z"),
        ("end", "2027-01-09T00:00:00Z"),
        ("scope", "no-minor-upgrades"),
    ):
        changed = {f"{at}.exclusions.0.{key}": value}
        yield Row(f"{at}.exclusions.{key}", changed, IN_PLACE, before, **fleet)


def gke() -> Iterator[Row]:
    n1 = {
        "node_pools.0.machine_type": "n1-standard-8",
        "node_pools.0.gpu": {"model": "T4", "count": 1},
        "node_pools.0.partition": "none",
    }
    ssd = {"node_pools.0.local_ssd": {"ephemeral": 2}}
    shared = {"node_pools.0.sharing": {"mode": "time-slicing", "replicas": 2}}
    fleet: dict[str, Any] = {"where": "fleet"}
    yield Row("cluster.location", {"cluster.location": "us-central1-a"}, REPLACE, **fleet)
    for key, value, other in (
        ("mode", "surge", "blue-green"),
        ("max_surge", 0, 1),
        ("max_unavailable", 1, 2),
    ):
        yield Row(
            f"node_pools.upgrade.{key}",
            {"node_pools.0.upgrade": {"mode": "surge"} | {key: other}},
            IN_PLACE,
            {"node_pools.0.upgrade": {"mode": "surge"} | {key: value}},
        )
    for key, value, other in (
        ("batch_nodes", 1, "20%"),
        ("batch_soak_minutes", 0, 1),
        ("soak_minutes", 60, 1),
    ):
        yield Row(
            f"node_pools.upgrade.{key}",
            {"node_pools.0.upgrade": {"mode": "blue-green", key: other}},
            IN_PLACE,
            {"node_pools.0.upgrade": {"mode": "blue-green", key: value}},
        )
    yield Row(
        "node_pools.location_policy",
        {"node_pools.0.location_policy": "ANY"},
        IN_PLACE,
        {"node_pools.0.nodes": {"min": 0, "max": 2}},
    )
    yield Row("node_pools.placement", {"node_pools.0.placement": "compact"}, REPLACE)
    yield Row(
        "node_pools.placement_policy",
        {"node_pools.0.placement_policy": "rack"},
        REPLACE,
        {"node_pools.0.placement": "compact"},
    )
    yield Row(
        "node_pools.capacity.fallback",
        {"node_pools.0.capacity": {"mode": "reservation", "fallback": "none"}},
        REPLACE,
        {"node_pools.0.capacity": "reservation"},
    )
    yield Row("cluster.release_channel", {"cluster.release_channel": "RAPID"}, IN_PLACE, **fleet)
    network = {"vpc": "v", "subnet": "s", "pods_range": "p", "services_range": "q"}
    existing: Changes = {"cluster.network": network}
    plane: Changes = {
        "cluster.control_plane": {
            "private_endpoint": False,
            "authorized_networks": [{"cidr": "10.0.0.0/8", "name": "office"}],
        }
    }
    at, listed = "cluster.control_plane", "cluster.control_plane.authorized_networks"
    yield Row(f"{at}.dns_endpoint", {f"{at}.dns_endpoint": True}, IN_PLACE, plane, **fleet)
    yield Row(f"{at}.private_endpoint", {f"{at}.private_endpoint": True}, IN_PLACE, plane, **fleet)
    for key, value in (("cidr", "172.16.0.0/12"), ("name", "ci")):
        yield Row(f"{listed}.{key}", {f"{listed}.0.{key}": value}, IN_PLACE, plane, **fleet)
    yield Row("cluster.private_nodes", {"cluster.private_nodes": True}, ROLL, **fleet)
    yield from _maintenance(fleet)
    system = {"components": ["SYSTEM_COMPONENTS"]}
    for at in ("cluster.monitoring", "cluster.logging"):
        yield Row(f"{at}.components", {f"{at}.components": []}, IN_PLACE, {at: system}, **fleet)
    at = "cluster.monitoring.managed_prometheus"
    before: Changes = {"cluster.monitoring": system}
    yield Row(at, {at: False}, IN_PLACE, before, **fleet)
    key = "projects/keys-1/locations/us-central1/keyRings/r/cryptoKeys/k"
    labels = {"cluster.resource_labels": {"team": "ml"}}
    yield Row("cluster.resource_labels", labels, IN_PLACE, **fleet)
    yield Row("cluster.kms_key", {"cluster.kms_key": key}, REPLACE, **fleet)
    yield Row("cluster.secrets_key", {"cluster.secrets_key": key}, IN_PLACE, **fleet)
    for key in network:
        changed = {f"cluster.network.{key}": "other"}
        yield Row(f"cluster.network.{key}", changed, REPLACE, existing, **fleet)
    yield Row("gpu_operator.existing", {"gpu_operator.existing": True}, None)  # a new cluster
    yield Row("gpu_operator.cluster_policy", {"gpu_operator.cluster_policy": "x"}, None)
    yield Row(
        "gpu_operator.driver.enabled",
        {"gpu_operator.driver.enabled": True},
        ROLL,
        {"node_pools.0.partition": CUT, "node_pools.0.image_type": "UBUNTU_CONTAINERD"},
        **fleet,
    )
    yield Row(
        "gpu_operator.toolkit.enabled",
        {"gpu_operator.toolkit.enabled": False},
        None,  # its images have none
        {"node_pools.0.partition": CUT},
        **fleet,
    )
    yield Row("node_pools.sharing.mode", shared, REPLACE)
    yield Row("node_pools.sharing.replicas", {"node_pools.0.sharing.replicas": 3}, REPLACE, shared)
    yield Row("node_pools.gpu.model", {"node_pools.0.gpu.model": "L4"}, None, n1)
    yield Row("node_pools.gpu.count", {"node_pools.0.gpu.count": 2}, REPLACE, n1)
    yield Row("node_pools.partition.mode", {"node_pools.0.partition": "none"}, REPLACE)
    yield Row(
        "node_pools.partition.profile", {"node_pools.0.partition.profile": "7g.40gb"}, REPLACE
    )
    yield Row("node_pools.driver", {"node_pools.0.driver": "LATEST"}, REPLACE)
    yield Row("node_pools.image_type", {"node_pools.0.image_type": "UBUNTU_CONTAINERD"}, ROLL)
    yield Row("node_pools.disk.size_gb", {"node_pools.0.disk.size_gb": 200}, ROLL)
    yield Row("node_pools.disk.type", {"node_pools.0.disk.type": "pd-ssd"}, ROLL)
    yield Row(
        "node_pools.local_ssd.ephemeral", {"node_pools.0.local_ssd.ephemeral": 4}, REPLACE, ssd
    )
    yield Row("node_pools.local_ssd.raw", {"node_pools.0.local_ssd": {"raw": 2}}, REPLACE, ssd)
    rdma: Changes = {
        "node_pools.0.machine_type": "a3-ultragpu-8g",
        "node_pools.0.zones": ["us-central1-b"],
        "node_pools.0.disk": {"type": "hyperdisk-balanced"},
        "node_pools.0.partition": "none",
    }
    yield Row("node_pools.gpu_network", {"node_pools.0.gpu_network": "dranet"}, REPLACE, rdma)
    there = [{"vpc": f"gpu-{i}", "subnet": f"gpu-{i}"} for i in range(4)]
    tcpx: Changes = {
        "node_pools.0.machine_type": "a3-highgpu-8g",
        "node_pools.0.partition": "none",
        "node_pools.0.gpu_network": "tcpx",
        "cluster.gpu_networks": there,
    }
    for key in ("vpc", "subnet"):
        changed = {f"cluster.gpu_networks.0.{key}": "other"}
        # The pool's own row says that it is replaced: test_gke_gpu_direct.
        yield Row(f"cluster.gpu_networks.{key}", changed, IN_PLACE, tcpx, **fleet)
    yield Row("node_pools.max_pods_per_node", {"node_pools.0.max_pods_per_node": 64}, REPLACE)
    yield Row("node_pools.resource_labels", {"node_pools.0.resource_labels": {"a": "b"}}, ROLL)
    for name, value in (
        ("gvnic", False),
        ("gcfs", True),
        ("fast_socket", True),
        ("logging_variant", "MAX_THROUGHPUT"),
    ):
        yield Row(f"node_pools.features.{name}", {f"node_pools.0.features.{name}": value}, ROLL)
    for name, effect in (("auto_repair", IN_PLACE), ("auto_upgrade", None)):
        yield Row(
            f"node_pools.management.{name}", {f"node_pools.0.management.{name}": False}, effect
        )


def eks() -> Iterator[Row]:
    fleet: dict[str, Any] = {"where": "fleet"}
    moved = {"cluster.region": "us-west-2", "system_pool.zones": ["us-west-2a"]}
    yield Row("cluster.region", moved, REPLACE, **fleet)
    yield Row(
        "cluster.zones",
        {"cluster.zones": ["us-east-1a", "us-east-1b", "us-east-1c"]},
        REPLACE,
        **fleet,
    )
    closer: Changes = {"cluster.endpoint": {"private": True}}
    yield Row(
        "cluster.endpoint.public", {"cluster.endpoint.public": False}, IN_PLACE, closer, **fleet
    )
    yield Row("cluster.endpoint.private", {"cluster.endpoint.private": True}, IN_PLACE, **fleet)
    closed = {"cluster.endpoint.public_cidrs": ["203.0.113.0/24"]}
    yield Row("cluster.endpoint.public_cidrs", closed, IN_PLACE, closer, **fleet)
    yield Row("cluster.logs", {"cluster.logs": ["audit"]}, IN_PLACE, **fleet)
    yield Row("cluster.tags", {"cluster.tags": {"team": "ml"}}, IN_PLACE, **fleet)
    boundary = "arn:aws:iam::111122223333:policy/boundary"
    bounded = {"cluster.permissions_boundary": boundary}
    yield Row("cluster.permissions_boundary", bounded, IN_PLACE, **fleet)
    of_instances = {"cluster.instance_tags": {"team": "ml"}}
    yield Row("cluster.instance_tags", of_instances, REPLACE, **fleet)
    key = "arn:aws:kms:us-east-1:111122223333:key/a"  # another one: test_changes_shown
    yield Row("cluster.secrets_key", {"cluster.secrets_key": key}, IN_PLACE, **fleet)
    version = {"cluster.addons": {"coredns": {"version": "v1.13.1-eksbuild.1"}}}
    yield Row("cluster.addons.version", version, IN_PLACE, **fleet)
    settings = {"cluster.addons": {"coredns": {"settings": {"replicaCount": 3}}}}
    yield Row("cluster.addons.settings", settings, IN_PLACE, **fleet)
    scaled: Changes = {"cluster.version": "1.35", "cluster.autoscaler.mode": "cluster-autoscaler"}
    mirror = "registry.example.com/autoscaler:v1.35.0"
    for name, value in (
        ("chart_version", "9.58.0"),
        ("repository", "oci://registry.example.com/charts"),
        ("image", mirror),
        ("expander", "random"),
        ("scale_down.enabled", False),
        ("scale_down.unneeded_minutes", 5),
        ("scale_down.after_scale_up_minutes", 5),
        ("scale_down.utilization_percent", 5),
    ):
        path = f"cluster.autoscaler.{name}"
        yield Row(path, {path: value}, IN_PLACE, scaled, **fleet)
    of_pods: Changes = {"cluster.autoscaler.mode": "cluster-autoscaler"}
    versioned: Changes = {"cluster.version": "1.35"}
    yield Row("cluster.autoscaler.mode", of_pods, IN_PLACE, versioned, **fleet)
    by_karpenter: Changes = {**versioned, "cluster.autoscaler.mode": "karpenter"}
    for name, value in (
        ("consolidation", "underutilized"),
        ("empty_minutes", 5),
        ("interruption_queue", "q"),
    ):
        path = f"cluster.autoscaler.{name}"
        yield Row(path, {path: value}, IN_PLACE, by_karpenter, **fleet)
    made: Changes = {
        **by_karpenter,
        "node_pools.0.nodes": {"min": 0, "max": 1},
        "node_pools.0.release_version": "1.35.0-20260714",
    }
    path = "cluster.autoscaler.drain_minutes"
    yield Row(path, {path: 5}, ROLL, made)
    at, role = "cluster.pod_identities", "arn:aws:iam::111122223333:role"
    pods: Changes = {at: [{"namespace": "a", "service_account": "b", "role": f"{role}/a"}]}
    for name, value in (("namespace", "c"), ("service_account", "c"), ("role", f"{role}/c")):
        yield Row(f"{at}.{name}", {f"{at}.0.{name}": value}, IN_PLACE, pods, **fleet)
    at = "cluster.access.entries"
    policy = {"name": "AmazonEKSClusterAdminPolicy"}
    entry: Changes = {at: [{"principal": f"{role}/a", "policies": [policy]}]}
    alone = {"cluster.access.creator_admin": False}
    yield Row("cluster.access.creator_admin", alone, IN_PLACE, entry, **fleet)
    for name, value in (
        ("principal", f"{role}/b"),
        ("policies.0.name", "AmazonEKSViewPolicy"),
        ("policies.0.namespaces", ["a"]),
        ("groups", ["gpu-admins"]),
    ):
        changed = {f"{at}.0.{name}": value}
        yield Row(f"{at}.{name.replace('.0', '')}", changed, IN_PLACE, entry, **fleet)
    yield Row("cluster.network.mode", {"cluster.network": "private"}, REPLACE, **fleet)
    private: Changes = {"cluster.network": {"mode": "private"}}
    each = {"cluster.network.nat_gateways": "per-zone"}
    yield Row("cluster.network.nat_gateways", each, IN_PLACE, private, **fleet)
    there: Changes = {"cluster.network": {"mode": "existing", "subnets": ["subnet-01234567"]}}
    others = {"cluster.network.subnets": ["subnet-89abcdef"]}
    yield Row("cluster.network.subnets", others, REPLACE, there, **fleet)
    yield Row("gpu_operator.existing", {"gpu_operator.existing": True}, None)  # a new cluster
    yield Row("gpu_operator.cluster_policy", {"gpu_operator.cluster_policy": "x"}, None)
    # The machine images bring them.
    yield Row("gpu_operator.driver.enabled", {"gpu_operator.driver.enabled": True}, None)
    yield Row("gpu_operator.toolkit.enabled", {"gpu_operator.toolkit.enabled": True}, None)
    block = {"mode": "capacity-block", "reservation": "cr-0123456789abcdef0"}
    arm: Changes = {
        "node_pools.0.capacity": block,
        "node_pools.0.machine_type": "p6e-gb200.36xlarge",
        "node_pools.0.partition": "none",
    }
    yield Row("node_pools.ami_type", {"node_pools.0.ami_type": "AL2023_x86_64_NVIDIA"}, None, arm)
    bottlerocket: Changes = {
        "node_pools.0.ami_type": "BOTTLEROCKET_x86_64_NVIDIA",
        "node_pools.0.partition": {"mode": "native", "profile": "1g.5gb"},
    }
    yield Row(
        "node_pools.partition.profile",
        {"node_pools.0.partition.profile": "3g.20gb"},
        ROLL,
        bottlerocket,
    )
    yield Row(
        "node_pools.release_version", {"node_pools.0.release_version": "1.34.0-20260714"}, ROLL
    )
    yield Row("node_pools.disk.size_gb", {"node_pools.0.disk.size_gb": 200}, REPLACE)
    yield Row("node_pools.tags", {"node_pools.0.tags": {"a": "b"}}, IN_PLACE)
    yield Row(
        "node_pools.other_machine_types",
        {"node_pools.0.other_machine_types": ["g6.2xlarge"]},
        REPLACE,
        {"node_pools.0.machine_type": "g6.xlarge", "node_pools.0.partition": "none"},
    )
    for name, value in (("max_unavailable", "50%"), ("strategy", "default")):
        yield Row(f"node_pools.update.{name}", {f"node_pools.0.update.{name}": value}, IN_PLACE)
    on: Changes = {"node_pools.0.repair": {}}
    yield Row("node_pools.repair.enabled", {"node_pools.0.repair.enabled": False}, IN_PLACE, on)
    for key, limit in (("max_unhealthy", 9), ("max_parallel", "9%")):
        yield Row(f"node_pools.repair.{key}", {f"node_pools.0.repair.{key}": limit}, IN_PLACE, on)
    rule: Changes = {
        "node_pools.0.repair.rules": [
            {
                "condition": "AcceleratedHardwareReady",
                "reason": "NvidiaXID64Error",
                "wait_minutes": 5,
                "action": "reboot",
            }
        ]
    }
    for name, value in (
        ("condition", "KernelReady"),
        ("reason", "NvidiaXID74Error"),
        ("wait_minutes", 10),
        ("action", "replace"),
    ):
        changed = {f"node_pools.0.repair.rules.0.{name}": value}
        yield Row(f"node_pools.repair.rules.{name}", changed, IN_PLACE, rule)
    # A first key that needs a launch template replaces the pool; the others change the template.
    first: Changes = {"node_pools.0.instance_metadata": {}}
    yield Row("node_pools.disk.encrypted", {"node_pools.0.disk.encrypted": True}, REPLACE)
    yield Row(
        "node_pools.disk.kms_key",
        {"node_pools.0.disk.kms_key": "arn:aws:kms:us-east-1:111122223333:key/1234abcd"},
        ROLL,
        first,
    )
    yield Row(
        "node_pools.instance_metadata.hop_limit",
        {"node_pools.0.instance_metadata.hop_limit": 2},
        ROLL,
        first,
    )
    yield Row("node_pools.instance_store", {"node_pools.0.instance_store": "raid0"}, ROLL, first)
    yield Row("node_pools.instance_tags", {"node_pools.0.instance_tags": {"a": "b"}}, ROLL, first)
    yield Row("node_pools.placement", {"node_pools.0.placement": "cluster"}, ROLL, first)
    private: Changes = {**first, "cluster.network": "private"}
    yield Row("node_pools.efa", {"node_pools.0.efa": True}, ROLL, private)


def byo() -> Iterator[Row]:
    fleet: dict[str, Any] = {"where": "fleet"}
    hosts: dict[str, Any] = {"where": "hosts"}
    yield Row("cluster.name", {"cluster.name": "other"}, IN_PLACE, **fleet)
    yield Row("cluster.context", {"cluster.context": "other"}, REPLACE, **fleet)
    yield Row("cluster.kubeconfig", {"cluster.kubeconfig": "/k"}, IN_PLACE, **fleet)
    yield Row("gpu_operator.driver.enabled", {"gpu_operator.driver.enabled": True}, ROLL, **fleet)
    yield Row(
        "gpu_operator.toolkit.enabled", {"gpu_operator.toolkit.enabled": True}, IN_PLACE, **fleet
    )
    larger: Changes = {"node_pools.0.partition": {"mode": "operator", "layout": {"1g.10gb": 7}}}
    yield Row("node_pools.gpu.model", {"node_pools.0.gpu.model": "A100-80"} | larger, ROLL)
    whole = {
        "node_pools.0.partition": "none",
        "node_pools.0.gpu": {"product": "NVIDIA A10", "count": 8},
    }
    yield Row("node_pools.gpu.product", whole, ROLL)
    yield Row("node_pools.gpu.count", {"node_pools.0.gpu.count": 4}, IN_PLACE)
    yield Row("node_pools.select", {"node_pools.0.select": {"a": "b"}}, IN_PLACE)
    yield Row("gpu_operator.existing", {"gpu_operator.existing": True}, REPLACE, **fleet)
    yield Row(
        "gpu_operator.cluster_policy",
        {"gpu_operator.cluster_policy": "other"},
        IN_PLACE,
        {"gpu_operator.existing": True},
        **fleet,
    )
    yield Row("startup_taint", {"startup_taint": "registered"}, IN_PLACE, **fleet)
    yield Row("on_destroy.mig_layout", {"on_destroy": {"mig_layout": "disable"}}, IN_PLACE)
    yield Row("hosts.name", {}, None)  # one gone, one new, as with pools
    yield Row("hosts.partition", {"hosts.0.partition": "operator"}, None)
    yield Row(
        "hosts.gpu.model",
        {"hosts.0.gpu.model": "A100-80", "hosts.0.gpus": [{"index": 0}]},
        ROLL,
        **hosts,
    )
    yield Row("hosts.gpu.count", {"hosts.0.gpu.count": 8}, IN_PLACE, **hosts)
    wait = {"hosts.0.in_use": {"mode": "wait", "minutes": 5}}
    yield Row("hosts.in_use.mode", wait, IN_PLACE, **hosts)
    yield Row("hosts.in_use.minutes", {"hosts.0.in_use.minutes": 6}, IN_PLACE, wait, **hosts)
    yield Row("hosts.gpus.index", {"hosts.0.gpus.0.index": 1}, ROLL, **hosts)
    yield Row(
        "hosts.gpus.mig",
        {"hosts.0.gpus.0.mig": False},
        ROLL,
        {"hosts.0.gpus": [{"index": 0}]},
        **hosts,
    )
    yield Row("hosts.gpus.persistence", {"hosts.0.gpus.0.persistence": False}, ROLL, **hosts)
    yield Row(
        "hosts.gpus.instances.profile",
        {"hosts.0.gpus.0.instances.0.profile": "2g.10gb"},
        ROLL,
        **hosts,
    )
    yield Row("hosts.gpus.instances.start", {"hosts.0.gpus.0.instances.0.start": 4}, ROLL, **hosts)


ROWS = {
    "gke": [*common("gke"), *cloud_pools("gke"), *gke()],
    "eks": [*common("eks"), *cloud_pools("eks"), *eks()],
    "byo": [*common("byo"), *byo()],
}
FLEETS: dict[str, type[BaseModel]] = {
    "gke": stack_file.GkeFleet,
    "eks": stack_file.EksFleet,
    "byo": stack_file.ByoFleet,
}


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models(inner)


def keys(model: type[BaseModel], at: str = "") -> Iterator[str]:
    for name, info in model.model_fields.items():
        inner = list(models(info.annotation))
        if not inner:
            yield f"{at}{name}"
        for one in inner:
            yield from keys(one, f"{at}{name}.")


def written(cloud: str, *changes: Changes) -> dict[str, Any]:
    raw = copy.deepcopy(BASE[cloud])
    for path, value in ((p, v) for some in changes for p, v in some.items()):
        *way, last = path.split(".")
        at: Any = raw
        for step in way:
            at = at[int(step)] if isinstance(at, list) else at.setdefault(step, {})
        at[int(last) if isinstance(at, list) else last] = copy.deepcopy(value)
    return raw


def planned(raw: dict[str, Any]) -> plan.FleetPlan:
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


@pytest.mark.parametrize("cloud", ["gke", "eks"])
def test_a_changed_demand_changes_nothing_that_up_creates(cloud: str) -> None:
    demand: Changes = {"demand": {"classes": [{"name": "chat", "replicas": 2}]}}
    change = plan.compare(planned(written(cloud)), planned(written(cloud, demand)))
    assert change == plan.compare(planned(written(cloud)), planned(written(cloud)))


@pytest.mark.parametrize("cloud", list(FLEETS))
def test_every_key_of_a_stack_file_has_a_row(cloud: str) -> None:
    rows = [row.key for row in ROWS[cloud]]
    assert set(rows) == {key for key in keys(FLEETS[cloud]) if not key.startswith("demand.")}
    assert len(set(rows)) == len(rows)


@pytest.mark.parametrize(
    ("cloud", "row"),
    [
        pytest.param(c, row, id=f"{c}-{row.key}")
        for c, rows in ROWS.items()
        for row in rows
        if row.effect
    ],
)
def test_each_changed_key_has_its_effect(cloud: str, row: Row) -> None:
    found = plan.compare(
        planned(written(cloud, row.before)), planned(written(cloud, row.before, row.after))
    )
    assert (
        plan.compare(planned(written(cloud, row.before)), planned(written(cloud, row.before))).fleet
        == ()
    )
    if row.where == "fleet":
        assert max(change.effect for change in found.fleet) is row.effect
    else:
        (part,) = found.hosts if row.where == "hosts" else found.pools
        assert part.effect is row.effect
        assert found.fleet == ()


@pytest.mark.parametrize(
    ("cloud", "row"),
    [
        pytest.param(c, r, id=f"{c}-{r.key}")
        for c, rows in ROWS.items()
        for r in rows
        if r.effect is None and r.after
    ],
)
def test_a_key_without_an_effect_is_refused(cloud: str, row: Row) -> None:
    with pytest.raises(stack_file.SpecError) as refused:
        planned(written(cloud, row.before, row.after))
    assert any(
        set(row.key.split(".")[1:]) & set(problem.path) for problem in refused.value.problems
    )
