"""The policy that adds the startup taint, asked of a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from slicewright.apis import names
from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.plan import ExistingFleetPlan
from slicewright.kubeapi import Client
from slicewright.kubeapi.client import path_of

NODES = "/api/v1/nodes"
STACK = {
    "cloud": "byo",
    "cluster": {"name": "c", "context": "c"},
    "node_pools": [
        {
            "name": "two-labels",
            "gpu": {"model": "T4", "count": 1},
            "nodes": {"count": 1},
            "select": {"example.org/rack": "7", "example.org/odd": "x"},
        },
        {
            "name": "by-default",
            "gpu": {"model": "T4", "count": 1},
            "nodes": {"count": 1},
        },
    ],
}
BOTH = {"example.org/rack": "7", "example.org/odd": "x"}


@pytest.fixture(scope="module")
def policy(api_server: Any) -> Iterator[None]:
    fleet = plan.read(json.dumps(STACK), stack_file.Source("test", STACK))
    assert isinstance(fleet, ExistingFleetPlan)
    made = list(
        zip(
            manifests.startup_policy(fleet.pools),
            ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"),
            strict=True,
        )
    )
    for body, plural in made:
        api_server.apply(path_of(body["apiVersion"], plural), body)

    def bites() -> bool:
        return held(api_server.admin.create(NODES, body_of("probe", BOTH), dryRun="All"))

    # A new policy takes a moment to bite.
    api_server.wait(bites, "the policy adds the taint")
    yield
    for body, plural in reversed(made):
        name = body["metadata"]["name"]
        api_server.admin.delete(f"{path_of(body['apiVersion'], plural)}/{name}")


def body_of(name: str, labels: dict[str, str], *taints: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]}
        if taints
        else {},
    }


def keys(node: dict[str, Any]) -> list[str]:
    return [taint["key"] for taint in node["spec"].get("taints") or ()]


def held(node: dict[str, Any]) -> bool:
    return dict(names.STARTUP_TAINT) in (node["spec"].get("taints") or ())


@pytest.mark.parametrize(
    ("labels", "joins"),
    [
        (BOTH, True),
        ({names.POOL_LABEL: "by-default"}, True),
        ({"example.org/rack": "7"}, False),
        ({**BOTH, "example.org/rack": "8"}, False),
        ({names.POOL_LABEL: "other"}, False),
        ({}, False),
    ],
)
def test_a_new_node_gets_the_taint_if_a_pool_selects_it(
    api_server: Any, policy: None, labels: dict[str, str], joins: bool
) -> None:
    made = api_server.admin.create(NODES, body_of("new", labels), dryRun="All")
    assert held(made) is joins


def test_startup_policy_keeps_other_taints_and_adds_its_taint_once(
    api_server: Any, policy: None
) -> None:
    with_others = api_server.admin.create(NODES, body_of("a", BOTH, "mine"), dryRun="All")
    assert [key for key in keys(with_others) if "kubernetes.io/not-ready" not in key] == [
        "mine",
        names.STARTUP_TAINT_KEY,
    ]
    registered = body_of("b", BOTH, names.STARTUP_TAINT_KEY)
    made = api_server.admin.create(NODES, registered, dryRun="All")
    assert keys(made).count(names.STARTUP_TAINT_KEY) == 1


def test_a_node_that_gets_its_labels_later_is_held_then_and_not_again(
    api_server: Any, policy: None
) -> None:
    admin: Client = api_server.admin
    made = admin.create(NODES, body_of("labelled-later", {"example.org/rack": "7"}))
    assert not held(made)
    path = f"{NODES}/labelled-later"
    joined = admin.patch(path, {"metadata": {"labels": BOTH}}, kind="merge")
    assert held(joined)
    released = admin.patch(path, {"spec": {"taints": None}}, kind="merge")
    assert not held(released), "the fleet controller can remove it"
    again = admin.patch(path, {"metadata": {"labels": {"more": "x"}}}, kind="merge")
    assert not held(again), "it was a member before"


def test_a_node_without_any_taint_is_held_too(api_server: Any, policy: None) -> None:
    """A ready node has none. API servers of 1.36 panic where a patch's value is a list of objects,
    and close the connection: kubernetes/kubernetes #142181.
    """
    admin: Client = api_server.admin
    admin.create(NODES, body_of("without-taints", {"example.org/rack": "7"}))
    path = f"{NODES}/without-taints"
    bare = admin.patch(path, {"spec": {"taints": None}}, kind="merge")
    assert not keys(bare)
    joined = admin.patch(path, {"metadata": {"labels": BOTH}}, kind="merge")
    ours = [key for key in keys(joined) if not key.startswith("node.kubernetes.io/")]
    assert ours == [names.STARTUP_TAINT_KEY]


def test_a_kubelet_registers_with_the_taint_and_its_updates_are_not_refused(
    api_server: Any, policy: None
) -> None:
    kubelet = api_server.user(
        "system:node:own-kubelet", "system:nodes", signer="kube-apiserver-client-kubelet"
    )
    made = kubelet.create(NODES, body_of("own-kubelet", BOTH))
    assert held(made)
    path = f"{NODES}/own-kubelet"
    api_server.admin.patch(
        path, {"metadata": {"labels": {"example.org/rack": None}}, "spec": {"taints": None}}
    )
    changed = kubelet.patch(path, {"metadata": {"annotations": {"a": "b"}}}, kind="merge")
    assert changed["metadata"]["annotations"]["a"] == "b"
    assert not held(changed)
