"""The simulated AWS IAM."""

from __future__ import annotations

import pytest

from rehearsal.clouds.core.errors import CloudError


@pytest.mark.parametrize("document", ["{", "{}", '{"Statement": [{"Effect": "Allow"}]}'])
def test_a_malformed_trust_policy_is_refused(aws, document: str) -> None:
    with pytest.raises(CloudError) as caught:
        aws.call("aws-iam", "CreateRole", RoleName="r", AssumeRolePolicyDocument=document)
    assert caught.value.reason == "MalformedPolicyDocument"


def test_a_policy_that_does_not_exist_cannot_be_attached(aws) -> None:
    aws.role("r", "ec2.amazonaws.com")
    with pytest.raises(CloudError, match="not attachable"):
        aws.call(
            "aws-iam",
            "AttachRolePolicy",
            RoleName="r",
            PolicyArn="arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicie",
        )
