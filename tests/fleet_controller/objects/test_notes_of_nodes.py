"""Who may write the annotations in which the fleet controller keeps what it knows of nodes.

Asked of a real API server with the policy that the program ships, by the tokens of those who may
change Nodes there, about nodes in a pool and in none.
"""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.apis import names
from slicewright.kubeapi import ApiError, Client
from tests.fleet_controller.node_writers import KUBELETS_NODE

POOL = "writers"
NOTES = sorted(
    value
    for name, value in vars(names).items()
    if name.endswith("_ANNOTATION") and value.startswith(names.NOTE_PREFIX)
)
FORGED = ["slicewright.io/of-a-later-version", *NOTES]
WHO = ["mig-manager", "alice", "node controller"]
NODES = "/api/v1/nodes"


def notes(**of: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": of}}


@pytest.fixture(scope="module")
def nodes(api_server: Any, node_writers: dict[str, Client]) -> dict[str, str]:
    """Paths of nodes without a note and with all of them, in a pool and in none."""
    made = {"in a pool": f"{NODES}/{KUBELETS_NODE}"}
    for name, pool in (("noted", POOL), ("noted-outside", None), ("outside", None)):
        api_server.make_node(name, pool)
        made[name] = f"{NODES}/{name}"
    for name in ("noted", "noted-outside"):
        node_writers["controller"].patch(made[name], notes(**dict.fromkeys(NOTES, "as it was")))
    return made


@pytest.fixture(scope="module")
def kubelet(api_server: Any, node_writers: dict[str, Client]) -> Client:
    """Of a node that there is not yet."""
    client: Client = api_server.user(
        "system:node:notes-k2", "system:nodes", signer="kube-apiserver-client-kubelet"
    )
    return client


def refused(client: Client, path: str, patch: dict[str, Any], **of: Any) -> str:
    """The words of the refusal."""
    with pytest.raises(ApiError) as answer:
        client.patch(path, patch, dryRun="All", **of)
    assert (answer.value.status, answer.value.reason) == (403, "Forbidden")
    return answer.value.message


@pytest.mark.parametrize("key", FORGED)
@pytest.mark.parametrize("who", WHO)
def test_nobody_writes_one_on_a_node_of_others(
    node_writers: dict[str, Client], nodes: dict[str, str], who: str, key: str
) -> None:
    for path in nodes.values():
        for subresource, kind in (("", "merge"), ("/status", "strategic")):
            said = refused(node_writers[who], path + subresource, notes(**{key: "{}"}), kind=kind)
            assert f"may set, change or remove the annotation {key} of a node" in said


@pytest.mark.parametrize("key", NOTES)
@pytest.mark.parametrize("who", WHO)
def test_nobody_removes_one(
    node_writers: dict[str, Client], nodes: dict[str, str], who: str, key: str
) -> None:
    for name in ("noted", "noted-outside"):
        said = refused(node_writers[who], nodes[name], notes(**{key: None}))
        assert f"may set, change or remove the annotation {key} of a node" in said


@pytest.mark.parametrize("key", FORGED)
def test_a_kubelet_writes_none_on_its_own_node(
    node_writers: dict[str, Client], nodes: dict[str, str], key: str
) -> None:
    for subresource, kind in (("", "merge"), ("/status", "strategic")):
        path = nodes["in a pool"] + subresource
        said = refused(node_writers["kubelet"], path, notes(**{key: "{}"}), kind=kind)
        assert f"the annotation {key} of a node" in said


@pytest.mark.parametrize("pool", [POOL, None])
@pytest.mark.parametrize("key", FORGED)
def test_none_is_there_when_a_node_is_made(
    node_writers: dict[str, Client], kubelet: Client, key: str, pool: str | None
) -> None:
    metadata = {
        "name": "notes-k2",
        "labels": {names.POOL_LABEL: pool} if pool else {},
        "annotations": {key: "x"},
    }
    for client in (kubelet, node_writers["alice"], node_writers["mig-manager"]):
        with pytest.raises(ApiError, match=f"the annotation {key} of a node"):
            client.create(NODES, {"metadata": metadata}, dryRun="All")


def test_a_node_in_no_pool_is_not_taken_into_one_by_its_own_kubelet(
    api_server: Any, node_writers: dict[str, Client], kubelet: Client
) -> None:
    kubelet.create(NODES, {"metadata": {"name": "notes-k2"}})
    joins = {"metadata": {"labels": {names.POOL_LABEL: POOL}}}
    for subresource in ("", "/status"):
        said = refused(kubelet, f"{NODES}/notes-k2{subresource}", joins, kind="strategic")
        assert "a kubelet may register with the label" in said
    assert node_writers["alice"].patch(f"{NODES}/notes-k2", joins, dryRun="All")
    other = {"metadata": {"labels": {"example.org/rack": "7"}, "annotations": {"a": "b"}}}
    assert kubelet.patch(f"{NODES}/notes-k2", other)
    api_server.admin.delete(f"{NODES}/notes-k2")


@pytest.mark.parametrize("who", ["controller", "administrator"])
@pytest.mark.parametrize("key", NOTES)
def test_the_controller_and_administrators_write_them(
    node_writers: dict[str, Client], nodes: dict[str, str], who: str, key: str
) -> None:
    for name, path in nodes.items():
        assert node_writers[who].patch(path, notes(**{key: "x"}), dryRun="All")
        if name.startswith("noted"):
            assert node_writers[who].patch(path, notes(**{key: None}), dryRun="All")


@pytest.mark.parametrize("who", WHO)
def test_foreign_and_unchanged_annotations_are_ignored(
    node_writers: dict[str, Client], nodes: dict[str, str], who: str
) -> None:
    for key in ("a", "example.org/joined", "rehearsal.slicewright.io/down", "slicewright.io.x/a"):
        for path in nodes.values():
            assert node_writers[who].patch(path, notes(**{key: "x"}), dryRun="All")
    same = notes(**dict.fromkeys(NOTES, "as it was"))
    assert node_writers[who].patch(nodes["noted"], same, dryRun="All")
    cordon = {"spec": {"unschedulable": True}}
    assert node_writers[who].patch(nodes["noted-outside"], cordon, dryRun="All")


def test_a_tenant_and_an_agent_change_no_node_at_all(
    api_server: Any, nodes: dict[str, str]
) -> None:
    api_server.make_pod("agent-notes", KUBELETS_NODE, account=names.AGENT_SERVICE_ACCOUNT)
    agent = api_server.client(api_server.token(names.AGENT_SERVICE_ACCOUNT, pod="agent-notes"))
    for client in (agent, api_server.user("tenant", "system:authenticated")):
        for path in nodes.values():
            said = refused(client, path, notes(**{names.VERIFIED_BOOT_ANNOTATION: "b"}))
            assert 'cannot patch resource "nodes"' in said


def test_a_node_full_of_annotations_is_still_written(
    api_server: Any, node_writers: dict[str, Client]
) -> None:
    """The cost of the policies' expressions has a limit, beyond which a node could neither report
    nor be held. Of some ten times as many annotations, the API server is at limits of its own.
    """
    letters = "abcdefghijklmnopqrstuvwxyz"
    keys = [a + b + c for a in letters for b in letters for c in letters][:8000]
    api_server.make_node("full-of-notes", POOL)
    path = f"{NODES}/full-of-notes"
    node_writers["mig-manager"].patch(path, notes(**dict.fromkeys(keys, "x")))
    node_writers["node controller"].patch(path, {"metadata": {"labels": {"x": "y"}}})
    node_writers["alice"].patch(f"{path}/status", {"status": {"phase": "Running"}})
    node_writers["controller"].patch(path, notes(**{names.VERIFIED_BOOT_ANNOTATION: "b1"}))
    said = refused(node_writers["alice"], path, notes(**{names.VERIFIED_BOOT_ANNOTATION: "b2"}))
    assert "the annotation" in said
    api_server.admin.delete(path)
