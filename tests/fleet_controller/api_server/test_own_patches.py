"""What the fleet controller may write of a Node.

Asked of a real API server with the policy that the program ships, by the controller's own token.
Each refusal has a twin: the same request, made by an administrator, is a good one.
"""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.apis import names
from slicewright.fleet_controller.objects.node import BroughtLabel, Joined
from slicewright.kubeapi import ApiError, Client
from slicewright.kubeapi.client import PatchKind

GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
RESTRICTED = "node-restriction.kubernetes.io/tenant"
JOINED = Joined(
    pool="p",
    labels={
        "team": BroughtLabel(value="vision", before="before"),
        RESTRICTED: BroughtLabel(value="a", before="b"),
    },
)
OWN_CONDITION = {"type": names.NODE_CONDITION, "status": "True", "reason": "R", "message": "m"}


def metadata(**of: Any) -> dict[str, Any]:
    return {"metadata": of}


ALLOWED: dict[str, tuple[str, Any, PatchKind]] = {
    "a layout": ("", metadata(labels={names.MIG_CONFIG_LABEL: "all-1g.5gb"}), "merge"),
    "no state": ("", metadata(labels={names.MIG_STATE_LABEL: None}), "merge"),
    "a layout, with the status": (
        "/status",
        metadata(labels={names.MIG_CONFIG_LABEL: "all-1g.5gb"}),
        "strategic",
    ),
    "an operand's switch": (
        "",
        metadata(labels={f"{names.DEPLOY_LABEL_PREFIX}device-plugin": "true"}),
        "merge",
    ),
    "a pool": ("", metadata(labels={names.POOL_LABEL: "p"}), "merge"),
    "a label that it notes at once": (
        "",
        metadata(
            labels={"rack": "8"},
            annotations={
                names.JOINED_ANNOTATION: Joined(
                    pool="p", labels={"rack": BroughtLabel(value="8", before=None)}
                ).dump()
            },
        ),
        "merge",
    ),
    "a label that was noted, with the note": (
        "",
        metadata(labels={"team": "before"}, annotations={names.JOINED_ANNOTATION: None}),
        "merge",
    ),
    "a note": ("", metadata(annotations={names.STUCK_ANNOTATION: "{}"}), "merge"),
    "no startup taint": ("", {"spec": {"taints": [GPU_TAINT]}}, "merge"),
    "quarantine": (
        "",
        {
            "spec": {
                "taints": [
                    GPU_TAINT,
                    dict(names.STARTUP_TAINT),
                    {**names.STARTUP_TAINT, "effect": names.QUARANTINE_EFFECT},
                ]
            }
        },
        "merge",
    ),
    "a cordon": ("", {"spec": {"unschedulable": True}}, "merge"),
    "its condition": ("/status", {"status": {"conditions": [OWN_CONDITION]}}, "strategic"),
    "nothing": ("", {}, "merge"),
}
FORBIDDEN: dict[str, tuple[str, Any, PatchKind, str]] = {
    "a label of others": ("", metadata(labels={"rack": "8"}), "merge", "the labels"),
    "a label of others, away": ("", metadata(labels={"rack": None}), "merge", "the labels"),
    "a label of others, with the status": (
        "/status",
        metadata(labels={"rack": "8"}),
        "strategic",
        "the labels",
    ),
    "a label that isolates tenants": (
        "",
        metadata(labels={RESTRICTED: "b"}),
        "merge",
        "none of kubernetes.io and k8s.io",
    ),
    "a label of Kubernetes that it notes at once": (
        "",
        metadata(
            labels={"kubernetes.io/hostname": "x"},
            annotations={
                names.JOINED_ANNOTATION: Joined(
                    pool="p",
                    labels={"kubernetes.io/hostname": BroughtLabel(value="x", before=None)},
                ).dump()
            },
        ),
        "merge",
        "none of kubernetes.io and k8s.io",
    ),
    "a label of k8s.io that was noted": (
        "",
        metadata(
            labels={"sub.k8s.io/a": "b"},
            annotations={
                names.JOINED_ANNOTATION: Joined(
                    pool="p", labels={"sub.k8s.io/a": BroughtLabel(value="b", before=None)}
                ).dump()
            },
        ),
        "merge",
        "none of kubernetes.io and k8s.io",
    ),
    "an annotation": ("", metadata(annotations={"a": "b"}), "merge", "annotations of"),
    "an annotation away": ("", metadata(annotations={"mine": None}), "merge", "annotations of"),
    "a taint of others, away": (
        "",
        {"spec": {"taints": [dict(names.STARTUP_TAINT)]}},
        "merge",
        "the taint",
    ),
    "a taint more": (
        "",
        {
            "spec": {
                "taints": [
                    GPU_TAINT,
                    dict(names.STARTUP_TAINT),
                    {"key": "x", "effect": "NoExecute"},
                ]
            }
        },
        "merge",
        "the taint",
    ),
    "no taints at all": ("", {"spec": {"taints": None}}, "merge", "the taint"),
    "a condition of the kubelet": (
        "/status",
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
        "strategic",
        "the condition",
    ),
    "capacity": (
        "/status",
        {"status": {"capacity": {"nvidia.com/mig-1g.5gb": "7"}}},
        "merge",
        "whether it is cordoned",
    ),
    "addresses": (
        "/status",
        {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}},
        "merge",
        "whether it is cordoned",
    ),
    "a boot": (
        "/status",
        {"status": {"nodeInfo": {"bootID": "forged"}}},
        "merge",
        "whether it is cordoned",
    ),
    "a provider": ("", {"spec": {"providerID": "x"}}, "merge", "whether it is cordoned"),
    "a finalizer": ("", metadata(finalizers=["a/b"]), "merge", "whether it is cordoned"),
    "an owner": (
        "",
        metadata(ownerReferences=[{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "x"}]),
        "merge",
        "whether it is cordoned",
    ),
}


@pytest.fixture(scope="module", params=["in a pool", "in none"])
def node(request: Any, api_server: Any, node_writers: dict[str, Client]) -> str:
    """Path of a node with labels, annotations and a note."""
    pool = "p" if request.param == "in a pool" else None
    name = f"own-{'p' if pool else 'x'}"
    api_server.make_node(name, pool)
    path = f"/api/v1/nodes/{name}"
    labels = {"rack": "7", "team": "vision", RESTRICTED: "a", names.MIG_STATE_LABEL: "success"}
    noted = {"mine": "stays", names.JOINED_ANNOTATION: JOINED.dump()}
    api_server.admin.patch(path, metadata(labels=labels, annotations=noted))
    wanted = "of a Node, the fleet controller may write"

    def bites() -> bool:
        try:
            node_writers["controller"].patch(path, metadata(annotations={"a": "b"}), dryRun="All")
        except ApiError as e:
            return wanted in e.message
        return False

    api_server.wait(bites, "the policy on the controller bites")
    return path


@pytest.mark.parametrize("deed", ALLOWED)
def test_it_writes_what_it_uses(
    api_server: Any, node_writers: dict[str, Client], node: str, deed: str
) -> None:
    subresource, patch, kind = ALLOWED[deed]
    # A node whose heartbeat is late has a taint more, and the patches name taints by their place.
    api_server.wait(
        lambda: len(api_server.admin.get(node)["spec"]["taints"]) == 2, "the node's own taints"
    )
    assert node_writers["controller"].patch(node + subresource, patch, kind=kind, dryRun="All")


@pytest.mark.parametrize("deed", FORBIDDEN)
def test_it_writes_nothing_else(node_writers: dict[str, Client], node: str, deed: str) -> None:
    subresource, patch, kind, words = FORBIDDEN[deed]
    with pytest.raises(ApiError) as refused:
        node_writers["controller"].patch(node + subresource, patch, kind=kind, dryRun="All")
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    assert "of a Node, the fleet controller may write" in refused.value.message
    assert words in refused.value.message
    assert node_writers["administrator"].patch(node + subresource, patch, kind=kind, dryRun="All")
