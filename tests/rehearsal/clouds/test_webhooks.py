"""The answers to API servers of the clouds' clusters: who has a token, and may it do this."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.rehearsal.clouds.aws import cli
from slicewright.rehearsal.clouds.cluster_access import ClusterAccess
from slicewright.rehearsal.clouds.core import tokens
from slicewright.rehearsal.clouds.core.http_messages import Request
from slicewright.rehearsal.clouds.gcp import gke_auth
from slicewright.rehearsal.clouds.gcp.account import write_account as write_google
from slicewright.rehearsal.clouds.service import Cloud

SECRET = "of the environment"
ME = "arn:aws:iam::123456789012:user/rehearsal"
ROLE = "arn:aws:iam::111122223333:role/team/gpu-operators"
SESSION = "arn:aws:sts::111122223333:assumed-role/gpu-operators/a@example.com"
ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"


@pytest.fixture
def access(cloud: Cloud) -> ClusterAccess:
    return ClusterAccess(cloud.cluster_users, SECRET, (gke_auth.PREFIX, cli.PREFIX))


def ask(access: ClusterAccess, path: str, spec: dict[str, Any], secret: str = SECRET) -> Any:
    review = {"apiVersion": "v1", "kind": "Review", "spec": spec}
    key = tokens.webhook_key(path.partition("/")[0], secret=secret)
    request = Request(
        method="POST",
        path=f"/cluster-access/{key}/{path}",
        body=json.dumps(review).encode(),
    )
    assert access.accepts(request)
    answer = access.answer(request)
    return json.loads(answer.body)["status"] if answer.status == 200 else answer.status


def user(access: ClusterAccess, at: str, prefix: str, **claims: str) -> Any:
    token = prefix + tokens.make(claims, secret=SECRET, seconds=60)
    return ask(access, f"{at}/users", {"token": token})


def allowed(access: ClusterAccess, cluster: str, name: str, **attributes: str) -> bool:
    spec = {"user": name, "resourceAttributes": {"verb": "list", "resource": "pods", **attributes}}
    return bool(ask(access, f"{cluster}/rights", spec)["allowed"])


def test_google_account_is_a_user_without_groups_and_iam_gives_it_rights(
    gcp, access: ClusterAccess, environment
) -> None:
    gcp.make_cluster()
    email = "rehearsal@rehearsal.example"
    status = user(access, "main", gke_auth.PREFIX, cloud="google", account=email)
    assert status["authenticated"]
    assert (status["user"]["username"], status["user"]["groups"]) == (email, [])
    assert allowed(access, "main", email)
    write_google(environment, {"container_admins": ["b@example.com"]})
    spec = {"user": email, "resourceAttributes": {"verb": "watch", "resource": "nodes"}}
    assert ask(access, "main/rights", spec) == {
        "allowed": False,
        "reason": 'requires one of ["container.nodes.list"] permission(s).',
    }
    path = {"user": "b@example.com", "nonResourceAttributes": {"verb": "get", "path": "/x"}}
    assert ask(access, "main/rights", path)["allowed"]


def test_creator_of_a_cluster_without_access_entries_is_a_master_and_nobody_else(
    aws, access: ClusterAccess
) -> None:
    aws.make_cluster()
    mine = {"cloud": "aws", "cluster": "p4d", "arn": ME, "principal": ME}
    assert user(access, "p4d", cli.PREFIX, **mine)["user"]["groups"] == ["system:masters"]
    theirs = mine | {"arn": SESSION, "principal": ROLE}
    assert user(access, "p4d", cli.PREFIX, **theirs) == {"authenticated": False}


def test_principal_is_the_user_of_its_access_entry_with_the_rights_of_its_policies(
    aws, access: ClusterAccess
) -> None:
    aws.make_cluster()
    for mode in ("API_AND_CONFIG_MAP", "API"):
        change = {"authenticationMode": mode}
        aws.call("eks", "UpdateClusterConfig", name="p4d", accessConfig=change)
        assert aws.cloud.tasks.wait(30)
    mine = {"cloud": "aws", "cluster": "p4d", "arn": ME, "principal": ME}
    status = user(access, "p4d", cli.PREFIX, **mine)
    assert (status["user"]["username"], status["user"]["groups"]) == (ME, [])
    assert allowed(access, "p4d", ME, verb="create", resource="clusterroles")

    def eks(operation: str, **more: Any) -> None:
        aws.call("eks", operation, clusterName="p4d", principalArn=ROLE, **more)

    theirs = mine | {"arn": SESSION, "principal": ROLE}
    assert user(access, "p4d", cli.PREFIX, **theirs) == {"authenticated": False}
    eks("CreateAccessEntry", kubernetesGroups=["gpu-admins"])
    person = user(access, "p4d", cli.PREFIX, **theirs)["user"]
    name = "arn:aws:sts::111122223333:assumed-role/gpu-operators/a-example.com"
    assert (person["username"], person["groups"]) == (name, ["gpu-admins"])
    assert not allowed(access, "p4d", name, namespace="a")
    scope = {"type": "namespace", "namespaces": ["a*"]}
    eks("AssociateAccessPolicy", policyArn=VIEW, accessScope=scope)
    assert allowed(access, "p4d", name, namespace="ab")
    assert not allowed(access, "p4d", name, namespace="b")
    assert not allowed(access, "p4d", name, namespace="a", verb="delete")
    assert not allowed(access, "p4d", name, namespace="a", resource="secrets")
    eks("AssociateAccessPolicy", policyArn=ADMIN, accessScope={"type": "cluster"})
    assert allowed(access, "p4d", name, verb="delete", resource="nodes")
    eks("DeleteAccessEntry")
    assert user(access, "p4d", cli.PREFIX, **theirs) == {"authenticated": False}


def test_tokens_of_others_are_refused(gcp, access: ClusterAccess) -> None:
    gcp.make_cluster()
    claims = {"cloud": "google", "account": "a@example.com"}
    forged = gke_auth.PREFIX + tokens.make(claims, secret="another", seconds=60)
    assert not ask(access, "main/users", {"token": forged})["authenticated"]
    expired = gke_auth.PREFIX + tokens.make(claims, secret=SECRET, seconds=-1)
    assert ask(access, "main/users", {"token": expired})["error"] == "the token has expired"
    assert ask(access, "main/users", {"token": "eyJhbGciOi"}) == {"authenticated": False}
    assert not user(access, "nope", gke_auth.PREFIX, **claims)["authenticated"]
    assert ask(access, "main/users", {"token": forged}, secret="x") == 403
