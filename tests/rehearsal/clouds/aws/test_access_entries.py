"""Access entries of the simulated EKS."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.clouds.core.errors import CloudError

ML = "arn:aws:iam::111122223333:role/ml"
CREATOR = "arn:aws:iam::123456789012:user/rehearsal"
VIEW, ADMIN = (
    f"arn:aws:eks::aws:cluster-access-policy/AmazonEKS{name}Policy"
    for name in ("View", "ClusterAdmin")
)


def asked(aws, operation: str, **body: Any) -> dict[str, Any]:
    return dict(aws.call("eks", operation, clusterName="p4d", **body))


def in_mode(aws, mode: str) -> None:
    aws.call("eks", "UpdateClusterConfig", name="p4d", accessConfig={"authenticationMode": mode})
    assert aws.cloud.tasks.wait(30)


def test_access_entries_come_with_the_mode_and_the_creators_first(aws) -> None:
    aws.make_cluster()
    with pytest.raises(CloudError, match="authentication mode must be set to one of"):
        asked(aws, "CreateAccessEntry", principalArn=ML)
    in_mode(aws, "API_AND_CONFIG_MAP")
    assert asked(aws, "ListAccessEntries")["accessEntries"] == [CREATOR]
    found = asked(aws, "ListAssociatedAccessPolicies", principalArn=CREATOR)
    assert [p["policyArn"] for p in found["associatedAccessPolicies"]] == [ADMIN]
    asked(aws, "DeleteAccessEntry", principalArn=CREATOR)
    in_mode(aws, "API")
    assert asked(aws, "ListAccessEntries")["accessEntries"] == []


def test_a_policy_is_associated_once_and_again_for_another_scope(aws) -> None:
    aws.make_cluster()
    in_mode(aws, "API_AND_CONFIG_MAP")
    asked(aws, "CreateAccessEntry", principalArn=ML, kubernetesGroups=["g"])
    for scope in ({"type": "cluster"}, {"type": "namespace", "namespaces": ["a"]}):
        asked(aws, "AssociateAccessPolicy", principalArn=ML, policyArn=VIEW, accessScope=scope)
    (policy,) = asked(aws, "ListAssociatedAccessPolicies", principalArn=ML)[
        "associatedAccessPolicies"
    ]
    assert policy["accessScope"] == {"type": "namespace", "namespaces": ["a"]}
    asked(aws, "UpdateAccessEntry", principalArn=ML, kubernetesGroups=[])
    assert (
        asked(aws, "DescribeAccessEntry", principalArn=ML)["accessEntry"]["kubernetesGroups"] == []
    )
    asked(aws, "DisassociateAccessPolicy", principalArn=ML, policyArn=VIEW)
    with pytest.raises(CloudError, match="is not associated"):
        asked(aws, "DisassociateAccessPolicy", principalArn=ML, policyArn=VIEW)
    assert aws.cloud.inventory()["eks.accessEntry"] == [f"eu-west-1/p4d/{ML}"]


@pytest.mark.parametrize(
    ("operation", "body", "said"),
    [
        ("CreateAccessEntry", {"principalArn": CREATOR}, "already in use on this cluster"),
        (
            "CreateAccessEntry",
            {"principalArn": ML, "kubernetesGroups": ["system:masters"]},
            "name system:masters is invalid, it cannot start with system:",
        ),
        (
            "CreateAccessEntry",
            {"principalArn": "arn:aws:iam::123456789012:role/nobody"},
            "The specified principalArn is invalid: invalid principal.",
        ),
        (
            "CreateAccessEntry",
            {"principalArn": "arn:aws:sts::111122223333:assumed-role/ml/me"},
            "invalid principal",
        ),
        (
            "CreateAccessEntry",
            {"principalArn": f"{ML.rpartition('/')[0]}/aws-service-role/x/y"},
            "invalid principal",
        ),
        ("DescribeAccessEntry", {"principalArn": ML}, "principalArn could not be found"),
        (
            "AssociateAccessPolicy",
            {"principalArn": ML, "policyArn": VIEW, "accessScope": {"type": "cluster"}},
            "principalArn could not be found",
        ),
        (
            "AssociateAccessPolicy",
            {"principalArn": CREATOR, "policyArn": f"{VIEW}2", "accessScope": {"type": "cluster"}},
            "is invalid",
        ),
        (
            "AssociateAccessPolicy",
            {"principalArn": CREATOR, "policyArn": VIEW, "accessScope": {"type": "namespace"}},
            "namespaces are required",
        ),
    ],
)
def test_eks_refuses_invalid_access_entries(
    aws, operation: str, body: dict[str, Any], said: str
) -> None:
    aws.make_cluster()
    in_mode(aws, "API_AND_CONFIG_MAP")
    with pytest.raises(CloudError, match=said.replace(".", r"\.")):
        asked(aws, operation, **body)
