"""What is written for Karpenter, held to Karpenter's own definitions by a real API server: schemas
and CEL rules of the module that publishes them.
"""

from __future__ import annotations

import copy
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import catalog, manifests, plan, stack_file
from slicewright.kubeapi import ApiError, Client
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.host.toolchain.go_sdk import Sdk
from tests.infra.cross_check import go_module

MODULE = "github.com/aws/karpenter-provider-aws"
SUM = "h1:6eH///KgWKDwD2R6wHRnKGN8Vu8OHueaXjNdx64TnuY="
KINDS = {
    "EC2NodeClass": (manifests.CLASS_API, "ec2nodeclasses"),
    "NodePool": (manifests.NODE_API, "nodepools"),
    "NodeOverlay": (manifests.OVERLAY_API, "nodeoverlays"),
}
RESERVED = {"mode": "reservation", "reservation": "cr-0123456789abcdef0"}
POOL: dict[str, Any] = {
    "name": "a",
    "machine_type": "p4d.24xlarge",
    "nodes": {"min": 0, "max": 2},
    "release_version": "1.35.0-20260714",
    "partition": {"mode": "operator", "layout": {"1g.5gb": 7}},
}
FULL: dict[str, Any] = {
    **POOL,
    "name": "b",
    "capacity": RESERVED,
    "labels": {"team": "ml", "example.com/a": "b"},
    "taints": [{"key": "team", "value": "ml", "effect": "NoExecute"}],
    "disk": {"size_gb": 59_000, "kms_key": "arn:aws:kms:us-west-2:111122223333:key/a"},
    "instance_store": "raid0",
    "instance_metadata": {"hop_limit": 64},
    "instance_tags": {"cost-center": "research"},
    "update": {"max_unavailable": "100%"},
}
KARPENTER = {
    "mode": "karpenter",
    "consolidation": "underutilized",
    "empty_minutes": 1440,
    "drain_minutes": 10_080,
}


@pytest.fixture(scope="module")
def definitions(go: tuple[Sdk, dict[str, str]], tmp_path_factory: Any) -> list[dict[str, Any]]:
    """Karpenter's, of the release that is installed by default."""
    module = f"{MODULE}@v{catalog.karpenter_release().chart}"
    directory = tmp_path_factory.mktemp("no-module")
    texts = go_module.files(go, directory, module, checksum=SUM, within="pkg/apis/crds/")
    return [yaml.safe_load(text) for text in texts]


@pytest.fixture(scope="module")
def client(toolchain: Toolchain, definitions: list[dict[str, Any]]) -> Iterator[Client]:
    with tempfile.TemporaryDirectory(prefix="karp-") as directory:
        environment = Path(directory)
        endpoint = control_plane.start(environment, "c", toolchain)
        try:
            client = Client.from_kubeconfig(endpoint.kubeconfig)
            for one in definitions:
                client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", one)
            until_served(client)
            yield client
        finally:
            control_plane.remove(environment, "c")


def until_served(client: Client) -> None:
    """404 before the API server knows a new kind, 429 while it prepares to store it."""
    end = time.monotonic() + 180
    for api, plural in KINDS.values():
        while (status := _status(client, f"/apis/{api}/{plural}")) != 200:
            assert status in (404, 429), status
            assert time.monotonic() < end, f"{plural} is not served"
            time.sleep(0.05)


def _status(client: Client, path: str) -> int | None:
    try:
        client.get(path)
    except ApiError as e:
        return e.status
    return 200


def objects() -> list[dict[str, Any]]:
    asked = {"name": "c", "region": "us-west-2", "version": "1.35", "autoscaler": KARPENTER}
    raw = {"cloud": "eks", "cluster": asked, "node_pools": [POOL, FULL]}
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(fleet, plan.EksFleetPlan)
    karpenter = fleet.cluster.autoscaler
    assert isinstance(karpenter, plan.KarpenterPlan)
    found = []
    for pool in fleet.karpenter_pools:
        subnets = ["subnet-0123456789abcdef0"]
        made = {
            "EC2NodeClass": manifests.node_class(
                pool, role="eks-nodes-1", subnet_ids=subnets, security_group="sg-0123456789abcdef0"
            ),
            "NodePool": manifests.node_pool(pool, karpenter),
            "NodeOverlay": manifests.node_overlay(pool),
        }
        for kind, body in made.items():
            metadata = {"name": pool.name}
            found.append(
                {"apiVersion": KINDS[kind][0], "kind": kind, "metadata": metadata, "spec": body}
            )
    return found


def tried(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    """As the API server would store it; unknown fields are errors."""
    api, plural = KINDS[body["kind"]]
    return dict(
        client.create(f"/apis/{api}/{plural}", body, dryRun="All", fieldValidation="Strict")
    )


@pytest.mark.parametrize("body", objects(), ids=lambda b: f"{b['kind']} {b['metadata']['name']}")
def test_every_object_is_as_karpenter_defines_it(client: Client, body: dict[str, Any]) -> None:
    stored = tried(client, body)["spec"]
    # What is written is what is stored: no default of Karpenter's takes its place.
    assert {key: stored[key] for key in body["spec"]} == body["spec"]


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("EC2NodeClass", ("amiSelectorTerms", 0, "alias"), "al2024@v20260714"),
        ("EC2NodeClass", ("subnetSelectorTerms",), []),
        ("EC2NodeClass", ("tags", "karpenter.sh/nodepool"), "a"),
        ("EC2NodeClass", ("blockDeviceMappings", 0, "ebs", "volumeSize"), "59001Gi"),
        ("NodePool", ("template", "spec", "unknown"), 1),
        ("NodePool", ("disruption", "budgets", 0, "nodes"), "-1"),
        ("NodePool", ("template", "spec", "expireAfter"), "never"),
        ("NodePool", ("template", "metadata", "labels", "karpenter.sh/x"), "y"),
        ("NodeOverlay", ("capacity", "cpu"), "1"),
    ],
)
def test_the_definitions_refuse_invalid_objects(
    client: Client, kind: str, path: tuple[str | int, ...], value: object
) -> None:
    body = copy.deepcopy(next(o for o in reversed(objects()) if o["kind"] == kind))
    at: Any = body["spec"]
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(ApiError) as caught:
        tried(client, body)
    assert caught.value.status in (400, 422)
