"""What people write about the simulated accounts: a wrong file is one clear refusal."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.clouds.aws.account import FILE as AWS
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.account import FILE as GOOGLE


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "the file: Invalid JSON"),
        ("[]", "aws-account.json: the file"),
        ('{"vcpu": {}}', "vcpu: Unexpected keyword argument"),
        ('{"vcpus": 3}', "vcpus: "),
        (
            '{"vcpus": {"L-417A185B": -1}}',
            "vcpus.L-417A185B: Input should be greater than",
        ),
        ('{"iam_spread_s": "soon"}', "iam_spread_s: Input should be a valid number"),
    ],
)
def test_a_wrong_aws_account_refuses_the_calls_that_need_it(
    aws: Any, text: str, words: str
) -> None:
    (aws.environment / "cloud" / AWS).write_text(text)
    with pytest.raises(CloudError) as caught:
        aws.cloud.call("ec2", "DescribeAvailabilityZones", {"region": "eu-west-1"}, {})
    assert (caught.value.code, caught.value.reason) == (400, "ACCOUNT_FILE")
    assert words in caught.value.message
    assert "Its members are vcpus, stock" in caught.value.message


@pytest.mark.parametrize("text", ["{", '{"quotas": 250}', '{"quota": {}}'])
def test_a_wrong_google_account_refuses_a_cluster(gcp: Any, text: str) -> None:
    (gcp.environment / "cloud" / GOOGLE).write_text(text)
    with pytest.raises(CloudError) as caught:
        gcp.make_cluster()
    assert (caught.value.code, caught.value.reason) == (400, "ACCOUNT_FILE")
    assert "Its members are quotas, reservations" in caught.value.message
