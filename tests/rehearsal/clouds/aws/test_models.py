"""Requests to the simulated AWS are validated against botocore's service models."""

from __future__ import annotations

import re

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws import models as aws_models
from slicewright.rehearsal.clouds.core.errors import CloudError

GROUP = {
    "clusterName": "c",
    "nodegroupName": "n",
    "subnets": ["subnet-1"],
    "nodeRole": "arn:aws:iam::123456789012:role/node",
}


def refusal(service: str, operation: str, body: dict) -> CloudError:
    with pytest.raises(CloudError) as caught:
        aws_models.validate(service, operation, body)
    return caught.value


def test_a_valid_request_passes() -> None:
    taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}]
    aws_models.validate(
        "eks",
        "CreateNodegroup",
        {**GROUP, "amiType": "AL2023_x86_64_NVIDIA", "labels": {"a": "b"}, "taints": taints},
    )


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"instanceType": "p4d"}, "InvalidParameterException", "Unknown parameter 'instanceType'"),
        (
            {"scalingConfig": {"min": 1}},
            "InvalidParameterException",
            "Unknown parameter 'scalingConfig.min'",
        ),
        ({"amiType": "AL2023_NVIDIA"}, "ValidationException", "Member must satisfy enum value set"),
        (
            {"taints": [{"key": "k", "effect": "NoSchedule"}]},
            "ValidationException",
            "'taints.1.member.effect'",
        ),
        ({"labels": {"a": ""}}, "ValidationException", "length greater than or equal to 1"),
        ({"labels": {"k" * 64: "v"}}, "ValidationException", "length less than or equal to 63"),
        ({"labels": {"k": "v" * 64}}, "ValidationException", "length less than or equal to 63"),
        (
            {"taints": [{"key": "k" * 64, "effect": "NO_SCHEDULE"}]},
            "ValidationException",
            "'taints.1.member.key'",
        ),
        (
            {"scalingConfig": {"maxSize": 0}},
            "ValidationException",
            "value greater than or equal to 1",
        ),
        ({"diskSize": "big"}, "ValidationException", "Invalid type for parameter diskSize"),
    ],
)
def test_an_invalid_field_is_refused_with_its_path(fields: dict, error: str, words: str) -> None:
    found = refusal("eks", "CreateNodegroup", {**GROUP, **fields})
    assert found.reason == error
    assert words in found.message
    assert found.code == 400


def test_a_missing_member_is_refused() -> None:
    found = refusal("eks", "CreateNodegroup", {k: v for k, v in GROUP.items() if k != "subnets"})
    assert 'Missing required parameter in input: "subnets"' in found.message


def test_a_string_that_does_not_match_its_pattern_is_refused() -> None:
    assert (
        "regular expression"
        in refusal(
            "eks", "CreateCluster", {"name": "-c", "roleArn": "x", "resourcesVpcConfig": {}}
        ).message
    )


def test_every_service_has_its_own_error_names() -> None:
    assert refusal("ec2", "CreateVpc", {"Cidr": "x"}).reason == "UnknownParameter"
    assert refusal("ec2", "CreateSubnet", {}).reason == "MissingParameter"
    assert refusal("aws-iam", "CreateRole", {"RoleName": "x"}).reason == "ValidationError"


def test_an_unknown_operation_is_refused() -> None:
    assert refusal("eks", "ExplodeCluster", {}).reason == "InvalidAction"


@pytest.mark.parametrize(
    ("service", "operation", "answer", "said"),
    [
        ("ec2", "CreateVpc", {"Vpc": {"_attributes": {}}}, "Unknown parameter 'Vpc._attributes'"),
        ("eks", "ListClusters", {"clusters": "p4d"}, "Invalid type for parameter clusters"),
        ("eks", "DescribeCluster", {"cluster": {"status": "Active"}}, "must satisfy enum value"),
        ("ec2", "DeleteVpc", {"Return": True}, "Unknown parameter 'Return'"),
        ("sts", "GetCallerIdentity", {"Account": 123456789012}, "Invalid type"),
    ],
)
def test_an_answer_that_the_service_cannot_give_is_a_slip(
    service: str, operation: str, answer: JsonObject, said: str
) -> None:
    with pytest.raises(aws_models.WrongAnswer, match=re.escape(said)):
        aws_models.check_answer(service, operation, answer)


def test_an_answer_may_be_shorter_than_a_request_may() -> None:
    """EKS answers `tags: {}`, and refuses it in a request."""
    aws_models.check_answer("eks", "DescribeCluster", {"cluster": {"tags": {}}})


def test_a_state_that_only_the_documentation_lists_may_be_answered() -> None:
    attachment = {"VpcId": "vpc-1", "State": "available"}
    answer = {"InternetGateways": [{"Attachments": [attachment]}]}
    aws_models.check_answer("ec2", "DescribeInternetGateways", answer)
