"""The EBS driver in the simulated EKS, and the pod identity association that it owns."""

from __future__ import annotations

import json
from typing import Any


def asked(aws, operation: str, **body: Any) -> dict[str, Any]:
    return dict(aws.call("eks", operation, clusterName="p4d", **body))


def role(aws, name: str, *actions: str) -> str:
    principal = {"Service": "pods.eks.amazonaws.com"}
    statement = {"Effect": "Allow", "Principal": principal, "Action": [*actions]}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    made = aws.call("aws-iam", "CreateRole", RoleName=name, AssumeRolePolicyDocument=trust)
    return str(made["Role"]["Arn"])


def addon(aws, name: str, **body: Any) -> None:
    asked(aws, "CreateAddon", addonName=name, **body)
    assert aws.cloud.tasks.wait(30)


def test_the_ebs_driver_needs_a_role_and_the_agent(aws) -> None:
    aws.make_cluster()
    aws.make_group(instanceTypes=["m6i.large"], amiType="AL2023_x86_64_STANDARD")
    driver = "aws-ebs-csi-driver"

    def status() -> str:
        return str(asked(aws, "DescribeAddon", addonName=driver)["addon"]["status"])

    addon(aws, driver)
    assert status() == "DEGRADED"
    arn = role(aws, "csi", "sts:AssumeRole", "sts:TagSession")
    of_pods = [{"serviceAccount": "ebs-csi-controller-sa", "roleArn": arn}]
    asked(aws, "UpdateAddon", addonName=driver, podIdentityAssociations=of_pods)
    assert aws.cloud.tasks.wait(30)
    assert status() == "DEGRADED"
    addon(aws, "eks-pod-identity-agent")
    assert status() == "ACTIVE"
    (own,) = asked(aws, "ListPodIdentityAssociations")["associations"]
    assert own["ownerArn"].split("/")[2] == driver
    asked(aws, "DeleteAddon", addonName=driver)
    assert aws.cloud.tasks.wait(30)
    assert asked(aws, "ListPodIdentityAssociations")["associations"] == []
