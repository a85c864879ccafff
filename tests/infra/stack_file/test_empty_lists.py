"""An empty list or mapping of a stack file means none, never all: each key is refused or listed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from slicewright.infra import plan, stack_file
from slicewright.infra.stack_file.json_schema import schema
from tests.repository_stacks import DIRECTORY

NONE_IF_EMPTY = frozenset(
    {
        *("AccessEntry.policies", "AccessEntry.groups", "EksAccess.entries"),
        *("Operator.previous", "PodGuard.exempt_namespaces", "EksRepair.rules"),
        *("GkeControlPlane.authorized_networks", "GkeCluster.gpu_networks"),
        *("GkeLogging.components", "GkeMonitoring.components", "GkeMaintenance.exclusions"),
        *("EksCluster.logs", "EksCluster.pod_identities", "EksCluster.addons", "EksAddon.settings"),
        *("EksCluster.tags", "EksCluster.instance_tags", "EksPool.tags", "EksPool.instance_tags"),
        *("GkeCluster.resource_labels", "GkePool.resource_labels", "Exposure.annotations"),
        *("EksPool.other_machine_types", "HostGpu.instances", "GpuGroup.layout"),
        *("ByoFleet.node_pools", "ByoFleet.hosts"),
        *("ExistingPrometheus.selector_labels", "ServiceMonitor.labels"),
        *("PrometheusStack.image_pull_secrets", "GpuOperator.image_pull_secrets"),
        "Fractional.image_pull_secrets",
        *("TritonWorkload.load_models", "ContainerWorkload.ports"),
        # Kubernetes: an empty command or list of arguments is the image's.
        *("ContainerWorkload.command", "ContainerWorkload.args"),
        *(
            f"{fleet}.{key}"
            for fleet in ("GkeFleet", "EksFleet", "ByoFleet")
            for key in ("admin_groups", "image_pull_secrets", "metrics_from", "workloads")
        ),
        *(
            f"{pool}.{key}"
            for pool in ("GkePool", "EksPool", "ByoPool")
            for key in ("labels", "taints")
        ),
        *(
            f"{kind}Workload.{key}"
            for kind in ("Container", "Triton", "Vllm")
            for key in ("image_pull_secrets", "env", "secrets")
        ),
        *("Demand.max_gpus", "Demand.max_machines", "Demand.usd_per_hour"),
        *("TritonWorkload.extra_args", "VllmWorkload.extra_args"),
    }
)
"""Keys for which the cloud, Kubernetes or the program takes an empty value as none."""


def collections(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The lists and the mappings with free keys that a key may have as its value."""
    for alternative in (*node.get("anyOf", ()), *node.get("oneOf", ())):
        yield from collections(alternative)
    if node.get("type") == "array" or (node.get("type") == "object" and "properties" not in node):
        yield node


KEYS = {
    f"{model}.{key}": (node, values)
    for model, definition in schema()["$defs"].items()
    for key, node in definition.get("properties", {}).items()
    if (values := list(collections(node)))
}


def may_be_empty(value: Mapping[str, Any]) -> bool:
    return not (value.get("minItems") or value.get("minProperties"))


@pytest.mark.parametrize("key", KEYS)
def test_a_list_or_mapping_may_be_empty_only_if_that_means_none(key: str) -> None:
    assert any(map(may_be_empty, KEYS[key][1])) == (key in NONE_IF_EMPTY)


def test_every_key_that_may_be_empty_exists() -> None:
    assert KEYS.keys() >= NONE_IF_EMPTY


@pytest.mark.parametrize(
    "key",
    [
        key
        for key, (node, values) in KEYS.items()
        if any(value["type"] == "array" for value in values)
        and not key.startswith(("Boot.", "Operator."))
    ],
)
def test_no_list_may_be_null(key: str) -> None:
    assert {"type": "null"} not in KEYS[key][0].get("anyOf", ())


_VIEWER = {"principal": "arn:aws:iam::111122223333:role/x"}


def refusal(stack: str, *path: str | int, value: Any) -> str:
    text = (DIRECTORY / f"Pulumi.{stack}.yaml").read_text()
    raw = yaml.safe_load(text)["config"]["slicewright:fleet"]
    at = raw
    for step in path[:-1]:
        at = at[step] if isinstance(at, list) else at.setdefault(step, {})
    at[path[-1]] = value
    with pytest.raises(stack_file.SpecError) as refused:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
    return str(refused.value)


@pytest.mark.parametrize(
    ("stack", "path", "value", "why"),
    [
        ("eks-a100", ("cluster", "endpoint", "public_cidrs"), [], "to all addresses"),
        (
            "eks-a100",
            ("cluster", "access", "entries"),
            [_VIEWER | {"policies": [{"name": "AmazonEKSEditPolicy", "namespaces": []}]}],
            "would cover the whole cluster",
        ),
        (
            "gke-h100",
            ("cluster", "control_plane", "authorized_networks"),
            None,
            "open to all addresses",
        ),
        ("gke-h100", ("metrics_from",), [{"namespace": "a", "pods": {}}], "all pods"),
        ("gke-h100", ("system_pool", "zones"), None, "the default zones"),
        ("eks-a100", ("node_pools", 0, "zones"), [], "at least one zone"),
        ("existing-a100-t4", ("node_pools", 0, "select"), {}, "means all nodes"),
        ("eks-a100", ("gpu_operator", "dcgm_exporter", "metrics"), [], "its own list"),
        ("eks-a100", ("gpu_operator", "mig_manager", "host_services"), [], "operator's list"),
    ],
)
def test_an_empty_list_that_would_mean_all_is_refused(
    stack: str, path: tuple[str | int, ...], value: Any, why: str
) -> None:
    assert why in refusal(stack, *path, value=value)
