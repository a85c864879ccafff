"""The pods that the fleet controller may create and delete with `verification.pod`.

Asked of a real API server with the rights and the policy that the program ships, for an account
that has no others.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from slicewright.apis import names, rights
from slicewright.apis.admission.proof_pods import proof_pod_policy
from slicewright.fleet_controller.cluster.proof_pod_body import proof_pod_body
from slicewright.fleet_controller.nodes.pod_proof import CreateProofPod
from slicewright.kubeapi import ApiError, Client
from tests.fleet_controller.conftest import ApiServer
from tests.fleet_controller.nodes.test_pod_proof import SETTINGS

SYSTEM = f"/api/v1/namespaces/{names.NAMESPACE}"
PODS = f"{SYSTEM}/pods"
RBAC = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{names.NAMESPACE}"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
ACCOUNT = "pod-prover"


def _body(name: str = "proof-a") -> dict[str, Any]:
    action = CreateProofPod(node="n1", pod=name, key="k", pool="p", pool_uid="u", settings=SETTINGS)
    body = proof_pod_body(action)
    # The garbage collector would delete the pod of a pool that does not exist.
    del body["metadata"]["ownerReferences"]
    return body


@pytest.fixture(scope="module")
def prover(api_server: ApiServer) -> Iterator[Client]:
    body, binding = proof_pod_policy(service_account=ACCOUNT, name="test-proof-pods")
    api_server.admin.create(f"{SYSTEM}/serviceaccounts", {"metadata": {"name": ACCOUNT}})
    role = {"metadata": {"name": ACCOUNT}, "rules": list(rights.PROOF_POD_RULES)}
    api_server.admin.create(f"{RBAC}/roles", role)
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": names.NAMESPACE}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT}
    bound = {"metadata": {"name": ACCOUNT}, "roleRef": reference, "subjects": [subject]}
    api_server.admin.create(f"{RBAC}/rolebindings", bound)
    api_server.admin.create(f"{ADMISSION}/validatingadmissionpolicies", body)
    api_server.admin.create(f"{ADMISSION}/validatingadmissionpolicybindings", binding)
    client = api_server.client(api_server.token(ACCOUNT))
    api_server.wait(lambda: _is_refused(client, _body("other")), "the policy")
    yield client
    for name in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        api_server.admin.delete(f"{ADMISSION}/{name}/test-proof-pods")


def _is_refused(client: Client, body: dict[str, Any]) -> bool:
    try:
        client.create(PODS, body, dryRun="All")
    except ApiError as e:
        return "the fleet controller" in e.message
    return False


def _changed(*path: Any, value: Any) -> dict[str, Any]:
    body = copy.deepcopy(_body())
    part: Any = body["spec"]
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return body


HOST_PATH = [{"name": "code", "hostPath": {"path": "/"}}]
TOKEN = [{"name": "code", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]
REFUSED = {
    "another name": (_body("other"), "whose name starts with proof-"),
    "a token": (_changed("automountServiceAccountToken", value=True), "has no token"),
    "no word about a token": (_changed("automountServiceAccountToken", value=None), "no token"),
    "the host's network": (_changed("hostNetwork", value=True), "no namespace of the host"),
    "the host's processes": (_changed("hostPID", value=True), "no namespace of the host"),
    "a path of the host": (_changed("volumes", value=HOST_PATH), "mounts ConfigMaps only"),
    "a projected token": (_changed("volumes", value=TOKEN), "mounts ConfigMaps only"),
    "privileges": (
        _changed("containers", 0, "securityContext", value={"privileged": True}),
        "has no privileges",
    ),
    "no security context": (
        _changed("containers", 0, "securityContext", value=None),
        "has no privileges",
    ),
    "root": (_changed("securityContext", value={}), "does not run as root"),
    "an init container": (
        _changed("initContainers", value=[{"name": "i", "image": "x"}]),
        "has no privileges",
    ),
}


def test_a_proof_pod_is_created_and_deleted(prover: Client, api_server: ApiServer) -> None:
    prover.create(PODS, _body())
    prover.delete(f"{PODS}/proof-a")
    with suppress(ApiError):
        api_server.admin.delete(f"{PODS}/proof-a", gracePeriodSeconds="0")


@pytest.mark.parametrize("kind", REFUSED)
def test_any_other_pod_is_refused(kind: str, prover: Client, api_server: ApiServer) -> None:
    body, why = REFUSED[kind]
    api_server.admin.create(PODS, body, dryRun="All")
    with pytest.raises(ApiError) as refusal:
        prover.create(PODS, body, dryRun="All")
    assert refusal.value.status == 403
    assert why in refusal.value.message


def test_the_pods_of_others_are_not_deleted(prover: Client, api_server: ApiServer) -> None:
    api_server.admin.create(PODS, _body("other"))
    with pytest.raises(ApiError) as refusal:
        prover.delete(f"{PODS}/other")
    assert "whose name starts with proof-" in refusal.value.message
    api_server.admin.delete(f"{PODS}/other", gracePeriodSeconds="0")
