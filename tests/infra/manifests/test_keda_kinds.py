"""What is written for KEDA, held to KEDA's own definition by a real API server, with the schema of
the module that publishes it.
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
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.host.toolchain.go_sdk import Sdk
from tests.infra.cross_check import go_module
from tests.infra.plan.test_pod_autoscaling import TRITON, URL, VLLM, scaled

MODULE = "github.com/kedacore/keda/v2@v2.21.0"
SUM = "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps="
DEFINITION = "config/crd/bases/keda.sh_scaledobjects.yaml"
CUSTOM = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATH = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"


@pytest.fixture(scope="module")
def definition(go: tuple[Sdk, dict[str, str]], tmp_path_factory: Any) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("no-module")
    (text,) = go_module.files(go, directory, MODULE, checksum=SUM, within=DEFINITION)
    read: dict[str, Any] = yaml.safe_load(text)
    return read


@pytest.fixture(scope="module")
def client(toolchain: Toolchain, definition: dict[str, Any]) -> Iterator[Client]:
    with tempfile.TemporaryDirectory(prefix="keda-") as directory:
        environment = Path(directory)
        endpoint = control_plane.start(environment, "c", toolchain)
        try:
            client = Client.from_kubeconfig(endpoint.kubeconfig)
            client.create(CUSTOM, definition)
            end = time.monotonic() + 180
            while not _served(client):
                assert time.monotonic() < end, "ScaledObjects are not served"
                time.sleep(0.05)
            yield client
        finally:
            control_plane.remove(environment, "c")


def _served(client: Client) -> bool:
    """404 before the API server knows a new kind, 429 while it prepares to store it."""
    try:
        client.get(PATH)
    except ApiError as e:
        if e.status not in (404, 429):
            raise
        return False
    return True


def tried(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    """As the API server would store it; unknown fields are errors."""
    return dict(client.create(PATH, body, dryRun="All", fieldValidation="Strict"))


def written(of: int) -> dict[str, Any]:
    body = copy.deepcopy(dict(manifests.scaled_object(scaled(of=of), URL)))
    body["metadata"]["namespace"] = "default"
    return body


@pytest.mark.parametrize("of", [TRITON, VLLM])
def test_every_scaled_object_is_as_keda_defines_it(client: Client, of: int) -> None:
    body = written(of)
    stored = tried(client, body)["spec"]
    # What is written is what is stored: no default of KEDA's takes its place.
    assert {key: stored[key] for key in body["spec"]} == body["spec"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("unknown",), 1),
        (("pollingInterval",), 0),
        (("maxReplicaCount",), 0),
        (("minReplicaCount",), -1),
        (("fallback", "behavior"), "keep"),
        (("fallback", "replicas"), -1),
        (("triggers",), []),
        (("triggers", 0, "metricType"), 7),
        (("triggers", 0, "metadata", "threshold"), 50),
        (("advanced", "horizontalPodAutoscalerConfig", "behavior", "scaleUp", "policy"), "Pods"),
    ],
)
def test_the_definition_refuses_invalid_objects(
    client: Client, path: tuple[str | int, ...], value: Any
) -> None:
    body = written(TRITON)
    at: Any = body["spec"]
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with pytest.raises(ApiError):
        tried(client, body)
