"""How the stand-in calls AWS: what it retries, what it makes of refusals, and where it may run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from slicewright.rehearsal.clouds.core import access, call_log
from slicewright.rehearsal.clouds.core.client import CloudUnreachable
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.plugins.bridge.resources import Calls
from slicewright.rehearsal.plugins.engine.plugin import ProviderError
from slicewright.rehearsal.plugins.engine.requests import ConfigureRequest
from slicewright.rehearsal.plugins.providers.aws import client
from slicewright.rehearsal.plugins.providers.aws.provider import AwsProvider
from tests.rehearsal.plugins.bridge.engine import cloud_in
from tests.rehearsal.plugins.providers.aws.conftest import AwsEngine

HERE = {"region": "eu-west-1"}


@pytest.fixture
def aws(clouds_over_http: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL", str(tmp_path))
    with cloud_in(tmp_path):
        yield client.connect()


@pytest.mark.parametrize(
    ("service", "operation", "body"),
    [
        ("eks", "ListClusters", {}),
        ("ec2", "DescribeVpcs", {}),
        ("iam", "ListAttachedRolePolicies", {"RoleName": "r"}),
    ],
)
def test_throttled_calls_are_repeated(
    aws: Calls, tmp_path: Path, service: str, operation: str, body: dict[str, str]
) -> None:
    trust = {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}]}
    role = {"RoleName": "r", "AssumeRolePolicyDocument": json.dumps(trust)}
    aws.call("iam", "CreateRole", HERE, role)
    fault = {"fault": "throttling", "method": operation, "times": 2}
    (tmp_path / "faults.json").write_text(json.dumps([fault]))
    aws.call(service, operation, HERE, body)
    (use,) = (json.loads(p.read_text()) for p in (tmp_path / "cloud" / "faults-used").iterdir())
    assert use["met"] == 2


def test_a_broken_connection_is_tried_again(aws: Calls, tmp_path: Path) -> None:
    fault = {"fault": "connection-reset", "method": "ec2.DescribeVpcs", "times": 1}
    (tmp_path / "faults.json").write_text(json.dumps([fault]))
    assert aws.call("ec2", "DescribeVpcs", HERE) == {"Vpcs": []}


def test_a_server_error_that_lasts_ends_with_the_clients_attempts(
    engine: AwsEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_MAX_ATTEMPTS", 2)
    fault = {"fault": "api-error", "method": "ec2.CreateVpc", "code": 500}
    (engine.environment / "faults.json").write_text(json.dumps([fault]))
    with pytest.raises(ProviderError, match="500"):
        engine.make("aws:ec2/vpc:Vpc", "net", cidrBlock="10.0.0.0/16")
    calls = [c for c in call_log.read(engine.environment) if c.operation == "CreateVpc"]
    assert len(calls) == 2


def test_a_refusal_has_the_clouds_code_name_and_message(aws: Calls) -> None:
    with pytest.raises(CloudError, match="No cluster found for name: none") as caught:
        aws.call("eks", "DescribeCluster", HERE, {"name": "none"})
    assert (caught.value.code, caught.value.reason) == (404, "ResourceNotFoundException")


def test_a_parameter_that_botocore_does_not_know_is_a_refusal(aws: Calls) -> None:
    with pytest.raises(CloudError, match="Unknown parameter in input") as caught:
        aws.call("eks", "DescribeCluster", HERE, {"nome": "p4d"})
    assert caught.value.code == 400


def test_answers_are_what_state_can_hold(aws: Calls) -> None:
    trust = {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "sts:AssumeRole"}]}
    role = {"RoleName": "r", "AssumeRolePolicyDocument": json.dumps(trust)}
    made = aws.call("iam", "CreateRole", HERE, role)
    assert json.loads(json.dumps(made)) == made
    assert made["Role"]["CreateDate"].endswith("Z")
    assert "ResponseMetadata" not in made


def test_stopped_cloud_is_reported_immediately(
    clouds_over_http: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL", str(tmp_path))
    with cloud_in(tmp_path):
        stopped = client.connect()
    with pytest.raises(CloudUnreachable, match="is the rehearsal running"):
        stopped.call("sts", "GetCallerIdentity", HERE)


@pytest.mark.parametrize("missing", ["SLICEWRIGHT_REHEARSAL", "AWS_ENDPOINT_URL"])
def test_outside_a_rehearsal_it_calls_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """Without the endpoint botocore would call the real AWS."""
    monkeypatch.setenv("SLICEWRIGHT_REHEARSAL", str(tmp_path))
    keys = access.new_credentials()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys.aws_access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys.aws_secret_access_key)
    monkeypatch.delenv(missing)
    with pytest.raises(ProviderError, match=f"{missing} not set: this is the rehearsal's stand-in"):
        AwsProvider().configure(ConfigureRequest(inputs={"region": "eu-west-1"}))
