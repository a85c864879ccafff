"""Requests to the simulated Google Cloud are validated against Google's discovery documents."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp import models as google_models

CREATE = "projects.locations.clusters.nodePools.create"
PARENT = {"parent": "projects/p/locations/us-central1/clusters/c"}


def refusal(config: dict, method: str = CREATE, params: dict | None = None) -> str:
    with pytest.raises(CloudError) as caught:
        google_models.validate(
            "container",
            method,
            PARENT if params is None else params,
            {"nodePool": {"config": config}},
        )
    assert caught.value.code == 400
    assert caught.value.reason == "INVALID_ARGUMENT"
    return caught.value.message


def test_a_valid_request_passes() -> None:
    config = {
        "machineType": "a3-highgpu-8g",
        "spot": True,
        "diskSizeGb": 2000,
        "labels": {"any": "thing"},
        "taints": [{"key": "k", "value": "v", "effect": "NO_SCHEDULE"}],
        "accelerators": [{"acceleratorType": "nvidia-h100-80gb", "acceleratorCount": "8"}],
    }
    google_models.validate(
        "container", CREATE, PARENT, {"nodePool": {"name": "x", "config": config}}
    )


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"machinType": "x"},
            "Unknown name \"machinType\" at 'node_pool.config': Cannot find field.",
        ),
        (
            {"accelerators": [{"gpuSize": "1g.5gb"}]},
            "Unknown name \"gpuSize\" at 'node_pool.config.accelerators[0]'",
        ),
        (
            {"taints": [{"effect": "NoSchedule"}]},
            "Invalid value at 'node_pool.config.taints[0].effect'",
        ),
        (
            {"diskSizeGb": "many"},
            "Invalid value at 'node_pool.config.disk_size_gb' (TYPE_INT32), \"many\"",
        ),
        ({"diskSizeGb": 2**31}, "TYPE_INT32"),
        ({"diskSizeGb": True}, "TYPE_INT32"),
        ({"accelerators": [{"acceleratorCount": "8.5"}]}, "TYPE_INT64"),
        ({"spot": "yes"}, "Invalid value at 'node_pool.config.spot' (TYPE_BOOL), \"yes\""),
        ({"machineType": 4}, "Invalid value at 'node_pool.config.machine_type' (TYPE_STRING), 4"),
        ({"taints": {"key": "k"}}, "TYPE_LIST"),
        ({"gvnic": [True]}, "node_pool.config.gvnic"),
        ({"labels": {"a": 1}}, 'node_pool.config.labels["a"]\' (TYPE_STRING)'),
        ({"effectiveCgroupMode": "EFFECTIVE_CGROUP_MODE_V2"}, "output only"),
    ],
)
def test_an_invalid_field_is_refused_with_its_path(config: dict, words: str) -> None:
    assert words in refusal(config)


def test_every_error_of_a_request_is_named() -> None:
    message = refusal({"spot": "yes", "machinType": "x"})
    assert "spot" in message
    assert "machinType" in message


@pytest.mark.parametrize("count", ["8", 8, 8.0])
def test_integers_pass_as_numbers_and_as_strings(count: object) -> None:
    body = {"nodePool": {"config": {"accelerators": [{"acceleratorCount": count}]}}}
    google_models.validate("container", CREATE, PARENT, body)


def test_the_refusal_of_an_enum_lists_its_values() -> None:
    assert "NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE" in refusal(
        {"taints": [{"effect": "NoSchedule"}]}
    )


def test_a_missing_path_parameter_is_refused() -> None:
    assert "Missing required parameter: parent" in refusal({}, params={})


def test_a_malformed_path_parameter_is_refused() -> None:
    assert "does not match" in refusal({}, params={"parent": "clusters/c"})


def test_an_unknown_parameter_is_refused() -> None:
    assert 'Unknown name "zone"' in refusal({}, params={**PARENT, "colour": "red", "zone": "x"})


def test_an_unknown_method_is_not_found() -> None:
    with pytest.raises(CloudError) as caught:
        google_models.find_method("container", "projects.locations.clusters.explode")
    assert caught.value.code == 404


@pytest.mark.parametrize("service", sorted(google_models.DOCUMENTS))
def test_every_service_has_a_discovery_document(service: str) -> None:
    assert google_models.document(service)["name"] == service
