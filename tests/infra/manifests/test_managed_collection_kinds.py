"""What is written for GKE's managed collection, held to its own definitions by a real API server,
with the schemas of the module that publishes them: the newest of which the Go module proxy and the
checksum database both have (2026-11-25).
"""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests
from slicewright.kubeapi import ApiError, Client
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.clouds.gcp.gke import managed_prometheus
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.host.toolchain.go_sdk import Sdk
from tests.infra.cross_check import go_module
from tests.infra.manifests.monitoring.test_objects import SERVERS
from tests.infra.manifests.monitoring.test_settings import CLOUDS, planned

MODULE = "github.com/GoogleCloudPlatform/prometheus-engine@v0.10.0"
SUM = "h1:gg6PmMnjuiHH+3SD+SSamdotDY+Vn88JPAfsvcTreVo="
DEFINITIONS = "cmd/operator/deploy/crds/monitoring.googleapis.com_"
CUSTOM = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
API = "monitoring.googleapis.com/v1"
PLURALS = {"PodMonitoring": "podmonitorings", "ClusterRules": "clusterrules"}
METADATA_LABELS = {"pod", "container", "node"}
"""What a PodMonitoring may add of a pod. Source: prometheus-engine, doc/api.md, TargetLabels."""
ITS_OWN = {"project_id", "location", "cluster", "namespace", "job", "instance", "__address__"}
"""Labels that nothing may write. Source: prometheus-engine, doc/api.md, ScrapeEndpoint."""


def objects() -> list[dict[str, Any]]:
    """All that a fleet has: with servers of all kinds, GPUs of the operator, and attribution."""
    (pool,) = CLOUDS["gke"]["node_pools"]
    operated = {"mode": "operator", "layout": {"1g.5gb": 7}}
    fleet = planned(
        {"prometheus": "managed", "scrape_interval": "30s", "runbooks": "https://example.com/"},
        "gke",
        node_pools=[pool, {**pool, "name": "b", "partition": operated}],
        workloads=SERVERS,
        node_agent={"attribution": True},
    )
    return [dict(one) for one in manifests.monitoring_objects(fleet)]


@pytest.fixture(scope="module")
def definitions(go: tuple[Sdk, dict[str, str]], tmp_path_factory: Any) -> list[dict[str, Any]]:
    directory = tmp_path_factory.mktemp("no-module")
    texts = go_module.files(go, directory, MODULE, checksum=SUM, within=DEFINITIONS)
    found = [yaml.safe_load(text) for text in texts]
    return [one for one in found if one["spec"]["names"]["kind"] in PLURALS]


@pytest.fixture(scope="module")
def client(toolchain: Toolchain, definitions: list[dict[str, Any]]) -> Iterator[Client]:
    with tempfile.TemporaryDirectory(prefix="gmp-") as directory:
        environment = Path(directory)
        endpoint = control_plane.start(environment, "c", toolchain)
        try:
            client = Client.from_kubeconfig(endpoint.kubeconfig)
            for one in definitions:
                client.create(CUSTOM, one)
            end = time.monotonic() + 180
            while not all(_served(client, plural) for plural in PLURALS.values()):
                assert time.monotonic() < end, "the kinds are not served"
                time.sleep(0.05)
            for namespace in {one["metadata"].get("namespace", "default") for one in objects()}:
                if namespace != "default":
                    metadata = {"name": namespace}
                    client.create("/api/v1/namespaces", {"metadata": metadata})
            yield client
        finally:
            control_plane.remove(environment, "c")


def _served(client: Client, plural: str) -> bool:
    """404 before the API server knows a new kind, 429 while it prepares to store it."""
    try:
        client.get(f"/apis/{API}/{plural}")
    except ApiError as e:
        if e.status not in (404, 429):
            raise
        return False
    return True


def tried(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    """As the API server would store it; unknown fields are errors."""
    assert body["apiVersion"] == API
    metadata = body["metadata"]
    path = path_of(API, PLURALS[body["kind"]], metadata["name"], metadata.get("namespace"))
    collection = path.rpartition("/")[0]
    return dict(client.create(collection, body, dryRun="All", fieldValidation="Strict"))


def one_of(kind: str) -> dict[str, Any]:
    return copy.deepcopy(next(one for one in objects() if one["kind"] == kind))


def without_descriptions(value: Any) -> Any:
    """Of a schema."""
    match value:
        case dict():
            return {
                key: without_descriptions(one)
                for key, one in value.items()
                if key != "description" or not isinstance(one, str)
            }
        case list():
            return [without_descriptions(one) for one in value]
        case _:
            return value


def test_the_kinds_of_a_simulated_gke_are_googles(definitions: list[dict[str, Any]]) -> None:
    simulated = {one["metadata"]["name"]: one for one in managed_prometheus.definitions()}
    assert simulated == {one["metadata"]["name"]: without_descriptions(one) for one in definitions}


def test_both_kinds_are_written_and_dcgms_exporter_is_among_them() -> None:
    assert {one["kind"] for one in objects()} == set(PLURALS)
    names = {one["metadata"]["name"] for one in objects()}
    assert {"node-agent", "fleet-controller", "dcgm-exporter"} <= names


@pytest.mark.parametrize(
    "body", objects(), ids=lambda body: f"{body['kind']} {body['metadata']['name']}"
)
def test_every_object_is_as_google_defines_it(client: Client, body: dict[str, Any]) -> None:
    stored = tried(client, body)["spec"]
    # What is written is what is stored: no default of Google's takes its place.
    assert stored == body["spec"]


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("PodMonitoring", ("unknown",), 1),
        ("PodMonitoring", ("selector", "matchLabels"), ["a"]),
        ("PodMonitoring", ("endpoints", 0, "interval"), "30"),
        ("PodMonitoring", ("endpoints", 0, "honorLabels"), True),
        ("PodMonitoring", ("endpoints", 0, "scrapeTimeout"), "10s"),
        ("PodMonitoring", ("targetLabels", "fromPod", 0, "target"), "pool"),
        ("ClusterRules", ("groups", 0, "interval"), None),
        ("ClusterRules", ("groups", 0, "rules", 0, "keep_firing_for"), "1m"),
        ("ClusterRules", ("groups", 0, "rules", 0, "expr"), 1),
    ],
)
def test_the_definitions_refuse_invalid_objects(
    client: Client, kind: str, path: tuple[str | int, ...], value: Any
) -> None:
    body = one_of(kind)
    at: Any = body["spec"]
    for step in path[:-1]:
        at = at[step]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    with pytest.raises(ApiError):
        tried(client, body)


@pytest.mark.parametrize(
    "body",
    [one for one in objects() if one["kind"] == "PodMonitoring"],
    ids=lambda body: body["metadata"]["name"],
)
def test_labels_of_targets_are_such_as_may_be_written(body: dict[str, Any]) -> None:
    """Rules of Google's operator that no schema states."""
    labels = body["spec"]["targetLabels"]
    assert set(labels["metadata"]) <= METADATA_LABELS
    assert not {one["to"] for one in labels.get("fromPod", ())} & ITS_OWN
