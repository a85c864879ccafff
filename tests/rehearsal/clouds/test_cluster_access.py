"""Who uses the Kubernetes APIs of simulated clusters: real API servers, and the clouds' identities.

Each request runs the credential plugin of the cluster's own kubeconfig, as kubectl does.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slicewright.kubeapi import ApiError, Client
from slicewright.kubeapi.exec_credentials import CredentialSource, NoCredentials
from slicewright.kubeapi.kubeconfig import context_of
from slicewright.processes.credential_plugins import run_plugin
from slicewright.rehearsal.clouds.__main__ import protocols
from slicewright.rehearsal.clouds.aws.account import PROMPT, write_account
from slicewright.rehearsal.clouds.core import access
from slicewright.rehearsal.clouds.endpoint import Endpoint
from slicewright.rehearsal.clouds.gcp.account import write_account as write_google
from slicewright.rehearsal.clouds.service import Cloud
from slicewright.rehearsal.cluster import control_plane
from slicewright.rehearsal.host import processes
from slicewright.rehearsal.host.toolchain import Toolchain
from slicewright.rehearsal.scenario import plugins_and_commands
from tests.rehearsal.clouds.test_real_cluster import WithoutKubelet

MASTERS = "system:masters"
SSO = "/aws-reserved/sso.amazonaws.com/eu-west-1/"
ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
VIEW = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"
NODES = "/api/v1/nodes"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, toolchain: Toolchain) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("access")
    toolchain.dump(path / "toolchain.json")
    for directory in ("bin", "log", "processes", "cloud", "clusters", "pulumi/home"):
        (path / directory).mkdir(parents=True)
    plugins_and_commands.install(path, toolchain)
    yield path
    processes.end_leftovers(path)


@pytest.fixture
def cloud(
    environment: Path, clouds_over_http: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cloud]:
    write_account(environment, **PROMPT)
    cloud = Cloud(environment, WithoutKubelet(environment), ready_timeout_s=240)
    endpoint = Endpoint(environment)
    endpoint.protocols = protocols(cloud, endpoint.credentials)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", endpoint.credentials.aws_access_key_id)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(environment / access.CREDENTIAL_FILE))
    serving = threading.Thread(target=endpoint.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield cloud
    endpoint.shutdown()
    serving.join()
    endpoint.server_close()
    for directory in (environment / "clusters").iterdir():
        control_plane.remove(environment, directory.name)


def person(environment: Path, cluster: str) -> Client:
    """A client of whoever is logged in now."""
    directory = environment / "clusters" / cluster
    config = json.loads((directory / "kubeconfig-user.json").read_text())
    context = context_of(config, directory, context=None)
    return Client(CredentialSource(context, run_plugin).current())


def who(client: Client) -> tuple[str, set[str]]:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    created = client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    user = created["status"]["userInfo"]
    return user["username"], set(user.get("groups") or ()) - {"system:authenticated"}


def refusal(client: Client) -> ApiError:
    with pytest.raises(ApiError) as raised:
        client.get(NODES)
    return raised.value


def until_answered(client: Client, status: int) -> None:
    """The API server keeps the answers of the cloud for a moment."""
    deadline = time.monotonic() + 20
    answered = None
    while answered != status:
        assert time.monotonic() < deadline, f"answered {answered}, not {status}"
        time.sleep(0.2)
        try:
            client.get(NODES)
            answered = 200
        except ApiError as e:
            answered = e.status


def test_a_google_account_is_a_user_without_groups_and_has_the_rights_of_iam(
    gcp, environment: Path
) -> None:
    gcp.make_cluster(locations=["us-central1-c"])
    mine = person(environment, "main")
    assert who(mine) == ("rehearsal@rehearsal.example", set())
    assert mine.get(NODES)["kind"] == "NodeList"

    # Pulumi's identity is a, gcloud's is b: they are two people to Kubernetes.
    write_google(
        environment,
        {
            "application_default": "a@example.com",
            "gcloud": "b@example.com",
            "container_admins": ["a@example.com"],
        },
    )
    file = environment / "clusters" / "main" / "kubeconfig-user.json"
    by_default = file.read_text()
    file.write_text(by_default.replace('"--use_application_default_credentials"', ""))
    other = person(environment, "main")
    assert who(other) == ("b@example.com", set())
    refused = refusal(other)
    assert refused.status == 403
    assert 'User "b@example.com" cannot list resource "nodes"' in refused.message
    assert 'requires one of ["container.nodes.list"] permission(s).' in refused.message
    file.write_text(by_default)
    assert who(person(environment, "main")) == ("a@example.com", set())

    # RBAC decides, too: it lets the other one in.
    person(environment, "main").create(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        {
            "metadata": {"name": "b-views"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:node",
            },
            "subjects": [
                {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "User",
                    "name": "b@example.com",
                }
            ],
        },
    )
    until_answered(other, 200)

    write_google(environment, {"application_default": None})
    with pytest.raises(NoCredentials):
        person(environment, "main")


def test_an_aws_role_is_the_user_of_its_access_entry_and_no_master(aws, environment: Path) -> None:
    def eks(operation: str, principal: str, **more) -> None:
        aws.call("eks", operation, clusterName="p4d", principalArn=principal, **more)

    def log_in(name: str) -> str:
        arn = f"arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_{name}_1/{name}@example.com"
        write_account(environment, **PROMPT, caller={"arn": arn, "role_path": SSO})
        return f"arn:aws:iam::123456789012:role{SSO}AWSReservedSSO_{name}_1"

    admin = log_in("Admin")
    aws.make_cluster()
    # In the mode CONFIG_MAP, EKS lets its creator in as a master, and nobody else.
    assert who(person(environment, "p4d")) == ("kubernetes-admin", {MASTERS})
    operator = log_in("Operator")
    assert refusal(person(environment, "p4d")).status == 401

    log_in("Admin")
    mode = {"authenticationMode": "API_AND_CONFIG_MAP"}
    aws.call("eks", "UpdateClusterConfig", name="p4d", accessConfig=mode)
    assert aws.cloud.tasks.wait(60)
    name = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Admin_1/Admin-example.com"
    mine = person(environment, "p4d")
    assert who(mine) == (name, set())
    assert mine.get(NODES)["kind"] == "NodeList"

    log_in("Operator")
    assert refusal(person(environment, "p4d")).status == 401
    eks("CreateAccessEntry", operator, kubernetesGroups=["gpu-admins"])
    role = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Operator_1"
    theirs = person(environment, "p4d")
    assert who(theirs) == (f"{role}/Operator-example.com", {"gpu-admins"})
    assert refusal(theirs).status == 403
    eks("AssociateAccessPolicy", operator, policyArn=VIEW, accessScope={"type": "cluster"})
    time.sleep(1.5)
    assert theirs.get("/api/v1/namespaces/default/pods")["kind"] == "PodList"
    assert refusal(theirs).status == 403, "nodes have no namespace"
    eks("DisassociateAccessPolicy", operator, policyArn=VIEW)
    eks("AssociateAccessPolicy", operator, policyArn=ADMIN, accessScope={"type": "cluster"})
    until_answered(theirs, 200)
    eks("DisassociateAccessPolicy", operator, policyArn=ADMIN)
    until_answered(theirs, 403)
    eks("DeleteAccessEntry", admin)
    until_answered(mine, 401)
