"""Pods that request shares of GPUs past their engine, or in a way that it counts wrong, and nodes
that would get a second device plugin: asked of a real API server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slicewright.apis.admission import share_policy
from slicewright.apis.names import POOL_LABEL
from slicewright.apis.shares.engines import ENGINES, EngineName
from slicewright.kubeapi import ApiError
from tests.fleet_controller.conftest import ApiServer

POLICIES = "/apis/admissionregistration.k8s.io/v1"
NAMESPACES: dict[EngineName, str] = {"hami": "shares-hami", "volcano": "shares-volcano"}
CARD: dict[EngineName, dict[str, str]] = {
    "hami": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "2048", "nvidia.com/gpucores": "20"},
    "volcano": {
        "volcano.sh/vgpu-number": "1",
        "volcano.sh/vgpu-memory": "2048",
        "volcano.sh/vgpu-cores": "20",
    },
}
COMPUTE: dict[EngineName, str] = {
    "hami": "nvidia.com/gpucores",
    "volcano": "volcano.sh/vgpu-cores",
}
ENGINE = pytest.mark.parametrize("engine", ["hami", "volcano"])


def pod(
    engine: EngineName,
    *containers: dict[str, str],
    init: tuple[dict[str, str], ...] = (),
    **fields: Any,
) -> dict[str, Any]:
    """containers: the limits of each."""
    spec: dict[str, Any] = {
        "schedulerName": ENGINES[engine].scheduler,
        "containers": [
            {"name": f"c{i}", "image": "i", "resources": {"limits": limits}}
            for i, limits in enumerate(containers)
        ],
        "initContainers": [
            {"name": f"i{i}", "image": "i", "resources": {"limits": limits}}
            for i, limits in enumerate(init)
        ],
        **fields,
    }
    metadata = {"name": "p", "namespace": NAMESPACES[engine]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def guarded(api_server: ApiServer) -> Iterator[ApiServer]:
    """With the policies of both engines, each in a namespace of this module only."""
    for engine, namespace in NAMESPACES.items():
        api_server.apply(
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        )
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        api_server.wait(lambda at=account: _there(api_server, at), account)
        policy, binding = share_policy.share_policy(engine, name=f"test-shares-{engine}")
        policy["spec"]["matchConditions"].insert(
            0, {"name": "of-this-test", "expression": f"request.namespace == '{namespace}'"}
        )
        api_server.apply(f"{POLICIES}/validatingadmissionpolicies", policy)
        api_server.apply(f"{POLICIES}/validatingadmissionpolicybindings", binding)
        refused = pod(engine, CARD[engine], schedulerName="default-scheduler")
        api_server.wait(
            lambda body=refused: _refusal(api_server, body) is not None, "the policy is in force"
        )
    yield api_server
    for engine, namespace in NAMESPACES.items():
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            api_server.admin.delete(f"{POLICIES}/{kind}/test-shares-{engine}")
        api_server.admin.delete(f"/api/v1/namespaces/{namespace}")


def _there(server: ApiServer, path: str) -> bool:
    try:
        server.admin.get(path)
    except ApiError:
        return False
    return True


def _refusal(server: ApiServer, body: dict[str, Any]) -> str | None:
    """The API server's message, or None if it accepts the pod."""
    path = f"/api/v1/namespaces/{body['metadata']['namespace']}/pods"
    try:
        server.admin.create(path, body, dryRun="All")
    except ApiError as e:
        return e.message
    return None


@ENGINE
def test_a_share_by_the_engines_scheduler_is_accepted(
    guarded: ApiServer, engine: EngineName
) -> None:
    assert _refusal(guarded, pod(engine, CARD[engine], {})) is None
    whole = CARD[engine] | {COMPUTE[engine]: "100"}
    assert _refusal(guarded, pod(engine, whole)) is None


@ENGINE
def test_a_pod_without_a_share_is_accepted(guarded: ApiServer, engine: EngineName) -> None:
    assert _refusal(guarded, pod(engine, {"cpu": "1"}, schedulerName="default-scheduler")) is None
    none = {ENGINES[engine].cards: "0"}
    assert _refusal(guarded, pod(engine, none, schedulerName="default-scheduler")) is None


@ENGINE
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"schedulerName": "default-scheduler"}, "only {title}'s scheduler allocates them"),
        ({"nodeName": "n1"}, "has a nodeName, so no scheduler allocates"),
    ],
)
def test_a_share_that_comes_past_the_engines_scheduler_is_refused(
    guarded: ApiServer, engine: EngineName, fields: dict[str, Any], why: str
) -> None:
    message = _refusal(guarded, pod(engine, CARD[engine], **fields))
    assert message is not None
    assert why.format(title=ENGINES[engine].title) in message


@ENGINE
def test_more_than_a_whole_card_is_refused(guarded: ApiServer, engine: EngineName) -> None:
    """HAMi 2.10 runs it with 100 % and says nothing."""
    message = _refusal(guarded, pod(engine, CARD[engine] | {COMPUTE[engine]: "240"}))
    assert message is not None
    assert "containers c0 request more than 100 % of a card" in message


@ENGINE
def test_amounts_without_a_card_are_refused(guarded: ApiServer, engine: EngineName) -> None:
    limits = {k: v for k, v in CARD[engine].items() if k != ENGINES[engine].cards}
    message = _refusal(guarded, pod(engine, {}, limits))
    assert message is not None
    assert f"containers c1 request memory or compute of GPUs without {ENGINES[engine].cards}" in (
        message
    )


def test_several_sharing_containers_are_refused_with_volcano_only(guarded: ApiServer) -> None:
    """Volcano 1.15.1 counts them once: 18000 of 16384 MiB were on one card."""
    message = _refusal(guarded, pod("volcano", CARD["volcano"], CARD["volcano"]))
    assert message is not None
    assert "containers c0, c1 each request shares of GPUs" in message
    message = _refusal(guarded, pod("volcano", CARD["volcano"], init=(CARD["volcano"],)))
    assert message is not None
    assert "c0, i0" in message
    assert _refusal(guarded, pod("hami", CARD["hami"], CARD["hami"])) is None


@ENGINE
def test_policies_that_the_api_server_types_have_no_warnings(
    guarded: ApiServer, engine: EngineName
) -> None:
    where = f"{POLICIES}/validatingadmissionpolicies/test-shares-{engine}"
    guarded.wait(lambda: "typeChecking" in guarded.admin.get(where)["status"], "types are checked")
    assert not guarded.admin.get(where)["status"]["typeChecking"].get("expressionWarnings")


def test_a_device_plugin_of_an_engine_comes_to_nodes_of_its_pools_only(
    guarded: ApiServer,
) -> None:
    name, pool = "test-share-nodes", "shared"
    policy, binding = share_policy.share_node_policy("volcano", pools=[pool], name=name)
    key, value = ENGINES["volcano"].node_label

    def node(labels: dict[str, str]) -> str | None:
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "share-node", "labels": labels},
        }
        try:
            guarded.admin.create("/api/v1/nodes", body, dryRun="All")
        except ApiError as e:
            return e.message
        return None

    guarded.apply(f"{POLICIES}/validatingadmissionpolicies", policy)
    guarded.apply(f"{POLICIES}/validatingadmissionpolicybindings", binding)
    try:
        guarded.wait(lambda: node({key: value}) is not None, "the policy is in force")
        refusal = node({key: value, POOL_LABEL: "other"})
        assert refusal is not None
        assert "may only run on nodes of the pools shared" in refusal
        assert node({key: value, POOL_LABEL: pool}) is None
        assert node({POOL_LABEL: "other"}) is None
        assert node({key: "off"}) is None
    finally:
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            guarded.admin.delete(f"{POLICIES}/{kind}/{name}")
