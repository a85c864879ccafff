"""What botocore is told when a call is refused: by the service, for its signature, or unknown."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as Keys
from botocore.exceptions import ClientError, ConnectionClosedError

from slicewright.rehearsal.clouds.aws.protocols import signatures
from slicewright.rehearsal.clouds.core.access import ADDRESS, new_credentials
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.http_messages import Request
from tests.rehearsal.clouds.aws.protocols.over_http import OverHttp, over_http

WRONG: list[tuple[str, str, dict[str, Any], str, int]] = [
    ("eks", "describe_cluster", {"name": "none"}, "ResourceNotFoundException", 404),
    ("eks", "describe_cluster", {"name": "a/b c"}, "ResourceNotFoundException", 404),
    ("eks", "create_addon", {"clusterName": "!", "addonName": "x"}, "ValidationException", 400),
    ("ec2", "describe_vpcs", {"VpcIds": ["vpc-0"]}, "InvalidVpcID.NotFound", 400),
    ("ec2", "create_vpc", {"CidrBlock": "10.0.0.0/8"}, "InvalidVpc.Range", 400),
    ("iam", "get_role", {"RoleName": "none"}, "NoSuchEntity", 404),
    ("iam", "get_role", {"RoleName": "a" * 65}, "ValidationError", 400),
    ("ec2", "delete_volume", {"VolumeId": "vol-0"}, "InvalidVolume.NotFound", 400),
    ("elb", "describe_load_balancers", {"LoadBalancerNames": ["a"]}, "LoadBalancerNotFound", 400),
    ("elbv2", "describe_load_balancers", {"Names": ["a"]}, "LoadBalancerNotFound", 400),
    ("elbv2", "delete_load_balancer", {"LoadBalancerArn": "a"}, "ValidationError", 400),
]
NOT_SIMULATED = [
    ("eks", "list_fargate_profiles", {"clusterName": "c"}),
    ("ec2", "describe_spot_price_history", {}),
    ("iam", "list_users", {}),
    ("sts", "get_session_token", {}),
    ("elbv2", "describe_ssl_policies", {}),
    ("s3", "list_buckets", {}),
    ("sqs", "list_queues", {}),
    ("dynamodb", "list_tables", {}),
]
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "eks": ("list_clusters", {}),
    "ec2": ("describe_vpcs", {}),
    "iam": ("get_role", {"RoleName": "r"}),
    "sts": ("get_caller_identity", {}),
    "elb": ("describe_load_balancers", {}),
    "elbv2": ("describe_load_balancers", {}),
}


@pytest.fixture(scope="module")
def over(clouds_over_http: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OverHttp]:
    with over_http(tmp_path_factory.mktemp("E")) as over:
        yield over


def refused(client: Any, operation: str, **parameters: Any) -> tuple[str, str, int]:
    """Code, message and HTTP status."""
    with pytest.raises(ClientError) as caught:
        getattr(client, operation)(**parameters)
    said = caught.value.response
    assert len(said["ResponseMetadata"]["RequestId"]) == 36
    return (
        said["Error"]["Code"],
        said["Error"]["Message"],
        said["ResponseMetadata"]["HTTPStatusCode"],
    )


@pytest.mark.parametrize(("service", "operation", "parameters", "code", "status"), WRONG)
def test_a_refusal_has_the_services_code_message_and_status(
    over: OverHttp,
    service: str,
    operation: str,
    parameters: dict[str, Any],
    code: str,
    status: int,
) -> None:
    found = refused(over.client(service), operation, **parameters)
    meant = over.said[-1].refusal
    assert meant is not None
    assert found == (meant.reason, meant.message, meant.code)
    assert (found[0], found[2]) == (code, status)


def test_modelled_errors_are_raised_as_their_own_exceptions(over: OverHttp) -> None:
    eks, iam = over.client("eks"), over.client("iam")
    with pytest.raises(eks.exceptions.ResourceNotFoundException):
        eks.describe_cluster(name="none")
    with pytest.raises(iam.exceptions.NoSuchEntityException):
        iam.get_role(RoleName="none")


@pytest.mark.parametrize(("service", "operation", "parameters"), NOT_SIMULATED)
def test_refusal_names_the_unsupported_request(
    over: OverHttp, service: str, operation: str, parameters: dict[str, Any]
) -> None:
    code, message, status = refused(over.client(service), operation, **parameters)
    assert (code, status) == ("NOT_SIMULATED", 501)
    assert f"The rehearsal's cloud does not simulate {service}" in message.replace("aws-", "")


@pytest.mark.parametrize(
    ("service", "code", "status"),
    [
        ("eks", "UnrecognizedClientException", 403),
        ("ec2", "AuthFailure", 401),
        ("iam", "InvalidClientTokenId", 403),
        ("sts", "InvalidClientTokenId", 403),
    ],
)
def test_another_access_key_is_refused(
    over: OverHttp, service: str, code: str, status: int
) -> None:
    operation, parameters = CALLS[service]
    found = refused(over.client(service, key="REHEARSALOTHER"), operation, **parameters)
    assert (found[0], found[2]) == (code, status)


@pytest.mark.parametrize(
    ("service", "code", "status"),
    [
        ("eks", "InvalidSignatureException", 403),
        ("ec2", "AuthFailure", 401),
        ("iam", "SignatureDoesNotMatch", 403),
        ("sts", "SignatureDoesNotMatch", 403),
    ],
)
def test_another_secret_is_refused(over: OverHttp, service: str, code: str, status: int) -> None:
    before = len(over.said)
    operation, parameters = CALLS[service]
    found = refused(over.client(service, secret="another"), operation, **parameters)
    assert (found[0], found[2]) == (code, status)
    assert len(over.said) == before


def signed(over: OverHttp, service: str, method: str, path: str, body: bytes = b"") -> Request:
    request = AWSRequest(
        method,
        f"{over.access.url}{path}",
        {"Host": f"{ADDRESS}:{over.access.port}", "Content-Type": "x-www-form-urlencoded"},
        body,
    )
    keys = over.access.credentials
    SigV4Auth(
        Keys(keys.aws_access_key_id, keys.aws_secret_access_key), service, "eu-west-1"
    ).add_auth(request)
    path, _, query = path.partition("?")
    headers = {k.lower(): str(v) for k, v in request.headers.items()}
    return Request(method=method, path=path, query=query, headers=headers, body=body)


def sent(over: OverHttp, request: Request) -> tuple[int, str, bytes]:
    connection = http.client.HTTPConnection(ADDRESS, over.access.port, timeout=30)
    path = f"{request.path}?{request.query}" if request.query else request.path
    connection.request(request.method, path, request.body, dict(request.headers))
    answer = connection.getresponse()
    return answer.status, answer.headers.get("x-amzn-errortype", ""), answer.read()


@pytest.mark.parametrize("service", ["ec2", "iam", "sts"])
def test_an_unknown_action_is_an_invalid_action(over: OverHttp, service: str) -> None:
    body = urlencode({"Action": "MakeCoffee", "Version": "1"}).encode()
    status, _, text = sent(over, signed(over, service, "POST", "/", body))
    assert status == 400
    assert b"<Code>InvalidAction</Code>" in text


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/coffee"), ("PUT", "/clusters"), ("GET", "/clusters/a/b/c/d/e")]
)
def test_an_unknown_path_is_an_unknown_operation(over: OverHttp, method: str, path: str) -> None:
    status, code, text = sent(over, signed(over, "eks", method, path))
    assert (status, code) == (404, "UnknownOperationException")
    assert json.loads(text)["__type"] == "UnknownOperationException"


@pytest.mark.parametrize("body", [b"{", b"[]"])
def test_a_body_that_is_no_json_object_is_refused(over: OverHttp, body: bytes) -> None:
    status, code, _ = sent(over, signed(over, "eks", "POST", "/clusters", body))
    assert (status, code) == (400, "SerializationException")


def test_values_of_the_wrong_type_are_refused_in_the_services_words(over: OverHttp) -> None:
    body = urlencode({"Action": "DescribeVpcs", "MaxResults": "many", "Nope.1": "x"}).encode()
    status, _, text = sent(over, signed(over, "ec2", "POST", "/", body))
    assert status == 400
    assert b"Unknown parameter 'Nope'" in text
    assert b"MaxResults" in text


@pytest.mark.parametrize(
    "body", ["Action=DescribeVpcs&A=1&A.B=2", "Action=DescribeVpcs&A.B=2&A=1", "Version=1"]
)
def test_contradictory_forms_are_refused(over: OverHttp, body: str) -> None:
    status, _, text = sent(over, signed(over, "ec2", "POST", "/", body.encode()))
    assert status == 400
    assert b"<Code>M" in text


def test_a_changed_body_path_or_query_breaks_the_signature(over: OverHttp) -> None:
    request = signed(over, "eks", "GET", "/clusters?maxResults=1")
    assert sent(over, request)[0] == 200
    for changed in (
        {"query": "maxResults=2"},
        {"path": "/clusters/a"},
        {"body": b"{}"},
        {"method": "DELETE"},
    ):
        altered = Request(**({**vars(request), **changed}))
        assert sent(over, altered)[:2] == (403, "InvalidSignatureException"), changed


def test_a_signature_is_good_for_five_minutes(over: OverHttp) -> None:
    request = signed(over, "ec2", "POST", "/", b"Action=DescribeVpcs")
    found = signatures.read(request)
    assert found is not None
    now = datetime.now(UTC)
    for minutes in (-4, 0, 4):
        at = now + timedelta(minutes=minutes)
        signatures.verify(request, found, over.access.credentials, "ec2", at=at)
    for minutes in (-6, 6):
        at = now + timedelta(minutes=minutes)
        with pytest.raises(CloudError, match="Signature expired") as caught:
            signatures.verify(request, found, over.access.credentials, "ec2", at=at)
        assert caught.value.reason == "RequestExpired"


def test_a_signature_that_leaves_out_the_host_or_the_time_is_refused(over: OverHttp) -> None:
    request = signed(over, "iam", "POST", "/", b"Action=ListUsers")
    found = signatures.read(request)
    assert found is not None
    for without in ("host", "x-amz-date"):
        rest = tuple(name for name in found.signed_headers if name != without)
        weaker = signatures.Signature(**{**vars(found), "signed_headers": rest})
        with pytest.raises(CloudError, match="does not match"):
            signatures.verify(request, weaker, over.access.credentials, "query")


def test_no_signature_at_all_is_refused(over: OverHttp) -> None:
    request = signed(over, "eks", "GET", "/clusters")
    broken = {**request.headers, "authorization": "AWS4-HMAC-SHA256 Credential=x"}
    status, _, text = sent(over, Request(**{**vars(request), "headers": broken}))
    assert status == 400
    assert b"IncompleteSignature" in text
    bare = {k: v for k, v in request.headers.items() if k != "authorization"}
    assert sent(over, Request(**{**vars(request), "headers": bare}))[0] == 404


def test_a_broken_connection_is_no_answer(over: OverHttp, tmp_path: Path) -> None:
    fault = {"fault": "connection-reset", "method": "sts.GetCallerIdentity", "times": 1}
    path = over.environment / "faults.json"
    path.write_text(json.dumps([fault]))
    client = over.client("sts")
    with pytest.raises(ConnectionClosedError):
        client.get_caller_identity()
    path.unlink()
    assert client.get_caller_identity()["Account"]


def test_an_internal_error_is_answered_in_the_services_form(
    over: OverHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("slip")

    monkeypatch.setattr(over.cloud, "call", broken)
    for service, (operation, parameters) in CALLS.items():
        code, message, status = refused(over.client(service), operation, **parameters)
        assert (code, status) == ("InternalFailure", 500)
        assert "ZeroDivisionError: slip" in message


def test_keys_never_reach_a_refusal(over: OverHttp) -> None:
    other = new_credentials()
    _, message, _ = refused(over.client("sts", key=other.aws_access_key_id), "get_caller_identity")
    for secret in (
        over.access.credentials.aws_secret_access_key,
        over.access.credentials.aws_access_key_id,
    ):
        assert secret not in message
