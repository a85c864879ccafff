"""The log of the clouds' calls: both clouds, every end of a call, and no secrets."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slicewright.rehearsal.clouds.core import call_log
from slicewright.rehearsal.clouds.core.errors import CloudError, ConnectionLost
from slicewright.rehearsal.clouds.service import Cloud

HERE = {"region": "eu-west-1"}


def test_calls_of_both_clouds_are_logged_with_their_answers_code(
    cloud: Cloud, environment: Path
) -> None:
    began = datetime.now(UTC)
    cloud.call("ec2", "CreateVpc", HERE, {"CidrBlock": "10.0.0.0/16"})
    with pytest.raises(CloudError):
        cloud.call("eks", "DescribeCluster", HERE, {"name": "none"})
    with pytest.raises(CloudError):
        cloud.call("compute", "networks.get", {"project": "acme", "network": "none"}, {})
    first, second, third = call_log.read(environment)
    assert (first.service, first.operation, first.code, first.error) == (
        "ec2",
        "CreateVpc",
        200,
        None,
    )
    assert first.parameters == {"region": "eu-west-1", "CidrBlock": "10.0.0.0/16"}
    assert (second.code, second.error) == (404, "ResourceNotFoundException")
    assert (third.service, third.code, third.error) == ("compute", 404, "NOT_FOUND")
    assert abs(datetime.fromisoformat(first.at) - began).total_seconds() < 60
    assert first.seconds >= 0


def test_injected_errors_and_broken_connections_are_logged(cloud: Cloud, environment: Path) -> None:
    faults = [
        {"fault": "throttling", "method": "ec2.DescribeVpcs", "times": 1},
        {"fault": "connection-reset", "method": "eks.ListClusters", "times": 1},
    ]
    (environment / "faults.json").write_text(json.dumps(faults))
    with pytest.raises(CloudError):
        cloud.call("ec2", "DescribeVpcs", HERE, {})
    with pytest.raises(ConnectionLost):
        cloud.call("eks", "ListClusters", HERE, {})
    assert [(c.code, c.error) for c in call_log.read(environment)] == [
        (503, "RequestLimitExceeded"),
        (None, None),
    ]


def test_secrets_are_left_out_wherever_they_are(cloud: Cloud, environment: Path) -> None:
    data = {"UserData": "c2VjcmV0", "ImageId": "ami-1"}
    with pytest.raises(CloudError):
        cloud.call("ec2", "CreateLaunchTemplate", HERE, {"LaunchTemplateData": data})
    with pytest.raises(CloudError):
        cloud.call(
            "container",
            "projects.locations.clusters.create",
            {"parent": "projects/acme/locations/x"},
            {"cluster": {"masterAuth": {"password": "c2VjcmV0"}}},
        )
    log = environment / call_log.FILE
    assert "c2VjcmV0" not in log.read_text()
    assert "ami-1" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_slip_of_the_simulation_is_a_500(environment: Path) -> None:
    log = call_log.CallLog(environment)
    with pytest.raises(ZeroDivisionError), log.call("eks", "ListClusters", {}):
        raise ZeroDivisionError
    (only,) = call_log.read(environment)
    assert (only.code, only.error) == (500, "ZeroDivisionError")


def test_an_environment_without_calls_has_an_empty_log(tmp_path: Path) -> None:
    assert call_log.read(tmp_path) == []
