"""The simulated AWS IAM."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError


@pytest.mark.parametrize("document", ["{", "{}", '{"Statement": [{"Effect": "Allow"}]}'])
def test_a_malformed_trust_policy_is_refused(aws, document: str) -> None:
    with pytest.raises(CloudError) as caught:
        aws.call("aws-iam", "CreateRole", RoleName="r", AssumeRolePolicyDocument=document)
    assert caught.value.reason == "MalformedPolicyDocument"


def tags_of(aws) -> dict[str, str]:
    role = aws.call("aws-iam", "GetRole", RoleName="r")["Role"]
    return {tag["Key"]: tag["Value"] for tag in role["Tags"]}


def test_iam_has_rules_of_its_own_for_tags(aws) -> None:
    aws.role("r", "ec2.amazonaws.com")

    def tag(*tags: tuple[str, str]) -> None:
        asked = [{"Key": key, "Value": value} for key, value in tags]
        aws.call("aws-iam", "TagRole", RoleName="r", Tags=asked)

    with pytest.raises(CloudError, match="Tag keys are case insensitive"):
        tag(("Team", "a"), ("team", "b"))
    tag(("Team", "a"), ("owner", "ml"))
    tag(("team", "b"))
    assert tags_of(aws) == {"team": "b", "owner": "ml"}
    with pytest.raises(CloudError, match="regular expression pattern"):
        tag(("team", "R&D"))
    with pytest.raises(CloudError, match="maximum of 50"):
        tag(*((f"k{number}", "v") for number in range(49)))


def test_a_policy_that_does_not_exist_cannot_be_attached(aws) -> None:
    aws.role("r", "ec2.amazonaws.com")
    with pytest.raises(CloudError, match="not attachable"):
        aws.call(
            "aws-iam",
            "AttachRolePolicy",
            RoleName="r",
            PolicyArn="arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicie",
        )
