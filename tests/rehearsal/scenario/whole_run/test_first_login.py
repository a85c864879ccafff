"""The first `up` in an account that is logged in as the guide says, and what such a person may do.

Google: application default credentials only, gcloud is logged out. AWS: a role of IAM Identity
Center. Neither is in `system:masters`, nor bound to cluster-admin by RBAC.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from slicewright.apis.names import MIG_CONFIG_LABEL, POOL_LABEL
from slicewright.kubeapi import ApiError, Client
from slicewright.kubeapi.exec_credentials import CredentialSource
from slicewright.kubeapi.kubeconfig import context_of
from slicewright.processes.credential_plugins import run_plugin
from slicewright.rehearsal.clouds.aws.account import write_account as write_aws
from slicewright.rehearsal.clouds.core.control_planes import USER_KUBECONFIG
from slicewright.rehearsal.clouds.gcp.account import write_account as write_google
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.gitops.pipelines import ACCOUNT
from tests.rehearsal.scenario.whole_run.from_git import Repository
from tests.rehearsal.scenario.whole_run.waiting import until

pytestmark = [pytest.mark.rehearsal, pytest.mark.timeout(1800)]

ADMIN = "arn:aws:sts::123456789012:assumed-role/AWSReservedSSO_Admin_1/me@example.com"
OPERATOR = "arn:aws:iam::111122223333:role/gpu-operators"
ACCESS = (
    f"access: {{entries: [{{principal: '{OPERATOR}', groups: [gpu-admins], "
    "policies: [{name: AmazonEKSClusterAdminPolicy}]}]}"
)
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def log_in(environment: Environment, arn: str) -> None:
    path = "/aws-reserved/sso.amazonaws.com/eu-west-1/" if "Reserved" in arn else "/"
    write_aws(environment.root, caller={"arn": arn, "role_path": path})


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Callable[[Environment], Client]:
    """A client of whoever is logged in now, by the kubeconfig that people use."""

    def client(environment: Environment) -> Client:
        for name, value in environment.variables().items():
            monkeypatch.setenv(name, value)
        (path,) = environment.root.glob(f"clusters/*/{USER_KUBECONFIG}")
        context = context_of(json.loads(path.read_text()), path.parent, context=None)
        return Client(CredentialSource(context, run_plugin).current())

    return client


def who(client: Client) -> tuple[str, set[str]]:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    user = client.create(REVIEWS, review)["status"]["userInfo"]
    return user["username"], set(user.get("groups") or ()) - {"system:authenticated"}


def change_layout(client: Client) -> None:
    """By hand: a label that only the fleet controller and `admin_groups` may set."""
    node = client.get("/api/v1/nodes", labelSelector=POOL_LABEL)["items"][0]
    labels = {MIG_CONFIG_LABEL: "all-disabled"}
    name = node["metadata"]["name"]
    client.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}}, kind="merge")


def is_changed(client: Client) -> bool:
    try:
        change_layout(client)
    except ApiError:
        return False
    return True


def refused(client: Client) -> str:
    with pytest.raises(ApiError) as raised:
        change_layout(client)
    return raised.value.message


def test_gke_is_brought_up_with_application_default_credentials_only(
    make_environment: Callable[[str], Environment],
    simulated_programs: None,
    person: Callable[[Environment], Client],
) -> None:
    environment = make_environment("gke-h100")
    write_google(environment.root, {"application_default": "me@example.com", "gcloud": None})
    engine = Engine(environment, "gke-h100", print)
    assert engine.init().code == 0
    up = engine.up()
    assert up.code == 0, up.output

    mine = person(environment)
    assert who(mine) == ("me@example.com", set())
    assert "only the fleet controller and members of system:masters may" in refused(mine)
    # Break-glass, as docs/reference/integrity.md says.
    mine.delete(f"{BINDINGS}/slicewright-nodes")
    # The API server drops the policy from its cache a moment later.
    until(lambda: is_changed(mine), "the label is set by hand")


def test_eks_is_brought_up_by_a_role_of_a_single_sign_on(
    make_environment: Callable[[str], Environment],
    simulated_programs: None,
    person: Callable[[Environment], Client],
) -> None:
    environment = make_environment("s1-first-login")
    log_in(environment, ADMIN)
    file = environment.stack_file("eks-a100")
    text, clusters = re.subn(
        r"^( *)(name: p4d-cluster)$", rf"\1\2\n\1{ACCESS}", file.read_text(), flags=re.M
    )
    text, clouds = re.subn(
        r"^( *)cloud: eks$", r"\1cloud: eks\n\1admin_groups: [gpu-admins]", text, flags=re.M
    )
    assert (clusters, clouds) == (1, 1)
    file.write_text(text)
    engine = Engine(environment, "eks-a100", print)
    assert engine.init().code == 0
    up = engine.up()
    assert up.code == 0, up.output

    name, groups = who(person(environment))
    assert name == ADMIN.replace("@", "-")
    assert groups == set(), "the creator has a policy of EKS, and is no master"
    assert "only the fleet controller and members of gpu-admins may" in refused(person(environment))
    # Break-glass: a role whose access entry has the group.
    log_in(environment, "arn:aws:sts::111122223333:assumed-role/gpu-operators/oncall")
    change_layout(person(environment))
    log_in(environment, "arn:aws:sts::111122223333:assumed-role/nobody/me")
    with pytest.raises(ApiError) as raised:
        person(environment).get("/api/v1/nodes")
    assert raised.value.status == 401
    log_in(environment, ADMIN)


def test_gitlabs_job_brings_up_gke_as_its_service_account(
    make_environment: Callable[[str], Environment],
    simulated_programs: None,
    policy_environment: Path,
) -> None:
    """The job has a credential file, and no gcloud that is logged in."""
    environment = make_environment("gitlab")
    write_google(environment.root, {"application_default": None, "container_admins": [ACCOUNT]})
    assert Engine(environment, "gke-h100", print).init().code == 0
    pushed = Repository.of(environment, "gke-h100", platform="gitlab").push()
    assert pushed.report.code == 0, pushed.report.output
    assert pushed.deploy.code == 0, pushed.deploy.output
