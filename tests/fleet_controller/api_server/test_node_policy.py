"""Who may repartition and release a pool's nodes: asked of a real API server with the policy that
the program ships, by tokens and certificates of those who may change Nodes there.

Each of them has every right on Nodes that RBAC can give, so that none is refused for another
reason than the policy; the agent alone has none.
"""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.apis import names
from slicewright.apis.admission import node_policy
from slicewright.kubeapi import ApiError, Client
from slicewright.kubeapi.client import PatchKind

OPERATOR_NAMESPACE = "gpu-operator"
MIG_MANAGER = "nvidia-mig-manager"
GPU_OPERATOR = "gpu-operator"
"""NVIDIA's names of their service accounts."""
RBAC = "/apis/rbac.authorization.k8s.io/v1"
POOL = "guarded"
LAYOUT = "mig-balanced-1234"


def _labels(**changes: str | None) -> dict[str, Any]:
    keys = {
        "config": names.MIG_CONFIG_LABEL,
        "state": names.MIG_STATE_LABEL,
        "pool": names.POOL_LABEL,
    }
    return {"metadata": {"labels": {keys.get(k, k): v for k, v in changes.items()}}}


def _taints(*taints: dict[str, str]) -> dict[str, Any]:
    return {"spec": {"taints": list(taints)}}


_GPU_TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
_CONFIG = f"the label {names.MIG_CONFIG_LABEL}"
_TAINT = f"remove the startup taint {names.STARTUP_TAINT_KEY}"
_POOL = f"the label {names.POOL_LABEL}"
_NOTE = "the annotation "
FORBIDDEN: dict[str, tuple[str, Any, PatchKind, str]] = {
    "changes the layout": ("", _labels(config="all-disabled"), "merge", _CONFIG),
    "changes the layout through the status": (
        "/status",
        _labels(config="all-disabled"),
        "merge",
        _CONFIG,
    ),
    "removes the layout": ("", _labels(config=None), "merge", _CONFIG),
    "empties the layout": ("", _labels(config=""), "strategic", _CONFIG),
    "changes layout and state": ("", _labels(config="x", state=None), "strategic", _CONFIG),
    "removes all taints": ("", _taints(), "merge", _TAINT),
    "removes the startup taint": ("", _taints(_GPU_TAINT), "merge", _TAINT),
    "removes the startup taint by its place": (
        "",
        [{"op": "remove", "path": "/spec/taints/1"}],
        "json",
        _TAINT,
    ),
    "weakens the startup taint": (
        "",
        _taints(_GPU_TAINT, {**names.STARTUP_TAINT, "effect": "PreferNoSchedule"}),
        "merge",
        _TAINT,
    ),
    "forges what the node gets back": (
        "",
        {"metadata": {"annotations": {names.JOINED_ANNOTATION: "{}"}}},
        "merge",
        f"the annotation {names.JOINED_ANNOTATION}",
    ),
    "forges a proof through the status": (
        "/status",
        {"metadata": {"annotations": {names.VERIFIED_BOOT_ANNOTATION: "b1"}}},
        "strategic",
        f"the annotation {names.VERIFIED_BOOT_ANNOTATION}",
    ),
    "leaves the pool": ("", _labels(pool=None), "merge", _POOL),
    "moves to another pool": ("", _labels(pool="other"), "merge", _POOL),
    "leaves the pool and changes the layout at once": (
        "",
        _labels(pool=None, config="x"),
        "merge",
        _CONFIG,
    ),
}
"""What is done -> subresource, patch, its kind, and the words of the refusal."""
ALLOWED: dict[str, tuple[str, Any, PatchKind]] = {
    "state of mig-manager": ("", _labels(state="success"), "merge"),
    "deploy labels": ("", _labels(**{"nvidia.com/gpu.deploy.dcgm": "false"}), "strategic"),
    "cordon": ("", {"spec": {"unschedulable": True}}, "strategic"),
    "a taint more": (
        "",
        _taints(
            _GPU_TAINT,
            dict(names.STARTUP_TAINT),
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        ),
        "merge",
    ),
    "another taint less": ("", _taints(dict(names.STARTUP_TAINT)), "merge"),
    "the same layout again": ("", _labels(config=LAYOUT), "merge"),
    "conditions of the kubelet": (
        "/status",
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        "strategic",
    ),
    "resources of a device plugin": (
        "/status",
        {"status": {"capacity": {"nvidia.com/mig-1g.5gb": "7"}}},
        "merge",
    ),
}


@pytest.fixture(scope="module")
def accounts(api_server: Any) -> None:
    """The operator's namespace with its accounts; RBAC lets each of them change Nodes."""
    admin = api_server.admin
    rules = [
        {
            "apiGroups": [""],
            "resources": ["nodes", "nodes/status"],
            "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
        }
    ]
    admin.create(f"{RBAC}/clusterroles", {"metadata": {"name": "any-node"}, "rules": rules})
    for name in (MIG_MANAGER, GPU_OPERATOR):
        admin.create(
            f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/serviceaccounts", {"metadata": {"name": name}}
        )
        _may_change_nodes(
            api_server,
            {"kind": "ServiceAccount", "name": name, "namespace": OPERATOR_NAMESPACE},
        )
    group = "rbac.authorization.k8s.io"
    for user in ("system:node:k1", "alice"):
        _may_change_nodes(api_server, {"kind": "User", "apiGroup": group, "name": user})


def _may_change_nodes(api_server: Any, subject: dict[str, str]) -> None:
    api_server.admin.create(
        f"{RBAC}/clusterrolebindings",
        {
            "metadata": {"generateName": "any-node-"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "any-node",
            },
            "subjects": [subject],
        },
    )


@pytest.fixture(scope="module")
def clients(api_server: Any, accounts: None) -> dict[str, Client]:
    """Those who may change Nodes, and are no exception of the policy, but for the first three."""

    def account(name: str, namespace: str) -> Client:
        client: Client = api_server.client(api_server.token(name, namespace=namespace))
        return client

    found = {
        "controller": account(names.CONTROLLER_SERVICE_ACCOUNT, names.NAMESPACE),
        "administrator": api_server.admin,
        "operator": account(GPU_OPERATOR, OPERATOR_NAMESPACE),
        "mig-manager": account(MIG_MANAGER, OPERATOR_NAMESPACE),
        "kubelet": api_server.user(
            "system:node:k1", "system:nodes", signer="kube-apiserver-client-kubelet"
        ),
        "node controller": account("node-controller", "kube-system"),
        "alice": api_server.user("alice", "system:authenticated"),
    }
    api_server.make_node("bites", POOL)

    def bites() -> bool:
        try:
            found["mig-manager"].patch("/api/v1/nodes/bites", _labels(config="x"), dryRun="All")
        except ApiError as e:
            return e.status == 403 and _CONFIG in e.message
        return False

    # A new policy takes a moment to bite, and a new binding of a role to count.
    api_server.wait(bites, "the policy on nodes bites")
    for who, client in found.items():
        name = "k1" if who == "kubelet" else "bites"
        api_server.wait(lambda c=client, n=name: _may_label(c, n), f"{who} may change nodes")
    return found


def _may_label(client: Client, node: str) -> bool:
    """Whether RBAC lets it change the node, or would if there were one."""
    try:
        client.patch(f"/api/v1/nodes/{node}", _labels(state="success"), dryRun="All")
    except ApiError as e:
        return e.status == 404
    return True


_OF_NODE_RESTRICTION = "is not allowed to modify taints"


def _by_node_restriction(who: str, deed: str) -> bool:
    """Whether it is forbidden to a kubelet in every cluster."""
    return who == "kubelet" and "taint" in deed


@pytest.fixture(scope="module")
def partitioned(api_server: Any, clients: dict[str, Client]) -> str:
    """Path of a partitioned node that is not verified yet. Tests only ask what would happen."""
    api_server.make_node("k1", POOL)
    clients["controller"].patch("/api/v1/nodes/k1", _labels(config=LAYOUT))
    return "/api/v1/nodes/k1"


@pytest.mark.parametrize("who", ["mig-manager", "kubelet", "operator", "alice"])
@pytest.mark.parametrize("deed", FORBIDDEN)
def test_whoever_may_change_nodes_may_not(
    clients: dict[str, Client], partitioned: str, who: str, deed: str
) -> None:
    subresource, patch, kind, words = FORBIDDEN[deed]
    with pytest.raises(ApiError) as refused:
        clients[who].patch(partitioned + subresource, patch, kind=kind, dryRun="All")
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    if _by_node_restriction(who, deed):
        assert _OF_NODE_RESTRICTION in refused.value.message
        return
    assert words in refused.value.message
    assert "only the fleet controller and members of system:masters may" in refused.value.message


@pytest.mark.parametrize("who", ["controller", "administrator"])
@pytest.mark.parametrize("deed", FORBIDDEN)
def test_the_controller_and_administrators_may(
    clients: dict[str, Client], partitioned: str, who: str, deed: str
) -> None:
    subresource, patch, kind, _ = FORBIDDEN[deed]
    if (who, deed) == ("controller", "removes all taints"):
        pytest.skip("one of them is not its own: test_own_patches.py")
    assert clients[who].patch(partitioned + subresource, patch, kind=kind, dryRun="All")


@pytest.mark.parametrize(
    "who", ["mig-manager", "kubelet", "operator", "alice", "node controller", "administrator"]
)
@pytest.mark.parametrize("deed", ALLOWED)
def test_everything_else_stays_allowed(
    clients: dict[str, Client], partitioned: str, who: str, deed: str
) -> None:
    subresource, patch, kind = ALLOWED[deed]
    if _by_node_restriction(who, deed):
        with pytest.raises(ApiError, match=_OF_NODE_RESTRICTION):
            clients[who].patch(partitioned + subresource, patch, kind=kind, dryRun="All")
        return
    assert clients[who].patch(partitioned + subresource, patch, kind=kind, dryRun="All")


@pytest.mark.parametrize("who", ["mig-manager", "alice"])
def test_a_replaced_node_is_compared_as_a_patched_one(
    clients: dict[str, Client], partitioned: str, who: str
) -> None:
    client = clients[who]

    def replaced(**labels: str) -> str:
        """The refusal; empty without one. The node may change since it was read: then once more."""
        while True:
            same = client.get(partitioned)
            same["metadata"]["labels"] |= labels
            try:
                client.replace(partitioned, same, dryRun="All")
            except ApiError as e:
                if e.reason != "Conflict":
                    return e.message
            else:
                return ""

    assert replaced() == ""
    assert "may set, change or remove" in replaced(**{names.MIG_CONFIG_LABEL: "all-disabled"})


def test_the_agent_has_no_right_to_change_nodes_at_all(
    api_server: Any, clients: dict[str, Client], partitioned: str
) -> None:
    api_server.make_pod("agent-k1", "k1", account=names.AGENT_SERVICE_ACCOUNT)
    agent = api_server.client(api_server.token(names.AGENT_SERVICE_ACCOUNT, pod="agent-k1"))
    for patch in (_labels(config="all-disabled"), _taints()):
        with pytest.raises(ApiError, match='cannot patch resource "nodes"'):
            agent.patch(partitioned, patch, dryRun="All")


@pytest.fixture(scope="module")
def bare(api_server: Any, clients: dict[str, Client]) -> str:
    """Path of a node without a layout."""
    api_server.make_node("bare", POOL)
    return "/api/v1/nodes/bare"


class TestTheOperator:
    """Its default is the one layout that somebody else sets."""

    def test_it_sets_its_default_on_a_node_without_a_layout(
        self, api_server: Any, clients: dict[str, Client]
    ) -> None:
        api_server.make_node("fresh", POOL)
        default = {
            "nvidia.com/gpu.present": "true",
            names.MIG_CONFIG_LABEL: names.DEFAULT_MIG_CONFIG,
        }
        clients["operator"].patch("/api/v1/nodes/fresh", {"metadata": {"labels": default}})
        assert api_server.node("fresh").mig_config == "all-disabled"

    def test_it_sets_no_other_layout(self, clients: dict[str, Client], bare: str) -> None:
        with pytest.raises(ApiError, match="may set, change or remove"):
            clients["operator"].patch(bare, _labels(config="all-1g.5gb"), dryRun="All")

    def test_it_does_not_overwrite_a_layout_that_it_has_not_seen_yet(
        self, clients: dict[str, Client], partitioned: str
    ) -> None:
        """It patches without a resourceVersion what it read from its cache."""
        with pytest.raises(ApiError, match="may set, change or remove"):
            clients["operator"].patch(
                partitioned, _labels(config=names.DEFAULT_MIG_CONFIG), dryRun="All"
            )

    @pytest.mark.parametrize("who", ["mig-manager", "kubelet", "alice"])
    def test_no_other_object_sets_its_default(
        self, clients: dict[str, Client], bare: str, who: str
    ) -> None:
        words = "not allowed to modify node" if who == "kubelet" else "may set, change or remove"
        with pytest.raises(ApiError, match=words):
            clients[who].patch(bare, _labels(config=names.DEFAULT_MIG_CONFIG), dryRun="All")


@pytest.fixture(scope="module")
def kubelet(api_server: Any, clients: dict[str, Client]) -> Client:
    """Of a node that there is not yet."""
    client: Client = api_server.user(
        "system:node:k2", "system:nodes", signer="kube-apiserver-client-kubelet"
    )
    return client


class TestNodesComeAndGo:
    def _node(self, name: str, **labels: str) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "labels": {names.POOL_LABEL: POOL, **labels}},
            "spec": {"taints": [dict(names.STARTUP_TAINT)]},
        }

    def test_a_kubelet_creates_its_node_with_the_startup_taint_and_keeps_its_status(
        self, kubelet: Client, clients: dict[str, Client]
    ) -> None:
        node = "/api/v1/nodes/k2"
        kubelet.create("/api/v1/nodes", self._node("k2"))
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
        kubelet.patch(f"{node}/status", {"status": {"conditions": [ready]}}, kind="strategic")
        # As it does at every start, for labels of its own.
        kubelet.patch(node, _labels(**{"kubernetes.io/os": "linux"}), kind="strategic")
        clients["alice"].delete(node)

    def test_a_kubelet_brings_no_layout_along(self, kubelet: Client) -> None:
        born = self._node("k2", **{names.MIG_CONFIG_LABEL: "all-disabled"})
        with pytest.raises(ApiError, match="may set, change or remove"):
            kubelet.create("/api/v1/nodes", born, dryRun="All")

    def test_node_controllers_taint_and_delete(
        self, api_server: Any, clients: dict[str, Client]
    ) -> None:
        node = "/api/v1/nodes/gone"
        api_server.make_node("gone", POOL)
        taints = api_server.admin.get(node)["spec"]["taints"]
        lost = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
        clients["node controller"].patch(node, _taints(*taints, lost), kind="strategic")
        clients["alice"].delete(node)

    def test_a_node_may_join_a_pool_later(
        self, api_server: Any, clients: dict[str, Client]
    ) -> None:
        """GKE and EKS apply changed labels of a node pool to its living nodes."""
        api_server.make_node("joins")
        assert clients["alice"].patch("/api/v1/nodes/joins", _labels(pool=POOL), dryRun="All")

    @pytest.mark.parametrize("deed", [d for d, of in FORBIDDEN.items() if _NOTE not in of[3]])
    def test_other_nodes_are_ignored(
        self, api_server: Any, clients: dict[str, Client], deed: str
    ) -> None:
        name = f"foreign-{list(FORBIDDEN).index(deed)}"
        api_server.make_node(name)
        subresource, patch, kind, _ = FORBIDDEN[deed]
        assert clients["alice"].patch(
            f"/api/v1/nodes/{name}{subresource}", patch, kind=kind, dryRun="All"
        )


def test_a_node_with_hundreds_of_labels_and_taints_is_within_the_limits_of_cel(
    api_server: Any, clients: dict[str, Client]
) -> None:
    many = [
        {"key": f"example.com/{n}", "value": "x" * 60, "effect": "NoSchedule"} for n in range(300)
    ]
    body = {
        "metadata": {
            "name": "many",
            "labels": {
                names.POOL_LABEL: POOL,
                **{f"example.com/{n}": "x" * 60 for n in range(600)},
            },
        },
        "spec": {"taints": [*many, dict(names.STARTUP_TAINT)]},
    }
    clients["alice"].create("/api/v1/nodes", body)
    assert clients["alice"].patch("/api/v1/nodes/many", _labels(a="b"))
    with pytest.raises(ApiError, match="may remove the startup taint"):
        clients["alice"].patch("/api/v1/nodes/many", _taints(*many))


def test_a_node_without_anything_but_its_pool_is_judged_without_an_error(
    clients: dict[str, Client],
) -> None:
    bare = {"metadata": {"name": "empty", "labels": {names.POOL_LABEL: POOL}}}
    clients["alice"].create("/api/v1/nodes", bare)
    assert clients["alice"].patch("/api/v1/nodes/empty", {"spec": {"unschedulable": True}})
    with pytest.raises(ApiError, match="may change or remove"):
        clients["alice"].patch("/api/v1/nodes/empty", {"metadata": {"labels": None}})


def test_a_member_keeps_the_labels_by_which_it_was_selected(
    api_server: Any, clients: dict[str, Client]
) -> None:
    """Else whoever may change nodes takes one out of its pool, and out of this protection."""
    policy, binding = node_policy.node_policy(
        admin_groups=[], operator_account=None, selecting=["rack", "row"], name="test-selecting"
    )
    path = "/apis/admissionregistration.k8s.io/v1"
    policy["spec"]["matchConditions"].append(
        {"name": "one-node", "expression": "object.metadata.name == 'selected'"}
    )
    api_server.make_node("selected")
    node = "/api/v1/nodes/selected"
    api_server.admin.patch(node, _labels(rack="7"), kind="merge")
    api_server.admin.create(f"{path}/validatingadmissionpolicies", policy)
    api_server.admin.create(f"{path}/validatingadmissionpolicybindings", binding)
    clients["controller"].patch(node, _labels(pool="p"))

    def refusal(**labels: str | None) -> str:
        try:
            clients["alice"].patch(node, _labels(**labels), dryRun="All")
        except ApiError as e:
            return e.message
        return ""

    api_server.wait(lambda: bool(refusal(rack=None)), "the policy bites")
    for change in ({"rack": None}, {"rack": "8"}, {"row": "1"}):
        assert "the labels by which pools select nodes (rack, row)" in refusal(**change)
    assert refusal(rack="7", other="x") == ""
    given_back = _labels(rack=None)
    given_back["metadata"]["annotations"] = {
        names.JOINED_ANNOTATION: '{"pool":"p","labels":{"rack":{"value":"7","before":null}}}'
    }
    assert clients["controller"].patch(node, given_back, dryRun="All")
    api_server.admin.delete(f"{path}/validatingadmissionpolicybindings/test-selecting")
    api_server.admin.delete(f"{path}/validatingadmissionpolicies/test-selecting")


def test_another_group_of_administrators_takes_the_place_of_the_default(
    api_server: Any, clients: dict[str, Client], partitioned: str
) -> None:
    policy, binding = node_policy.node_policy(
        admin_groups=["gpu-admins@example.com", 'a "quoted" one'],
        operator_account=None,
        name="test-other-admins",
    )
    path = "/apis/admissionregistration.k8s.io/v1"
    # For one node only, so that the other tests do not meet it.
    policy["spec"]["matchConditions"].append(
        {"name": "one-node", "expression": "object.metadata.name == 'other-admins'"}
    )
    api_server.make_node("other-admins", "theirs")
    api_server.admin.create(f"{path}/validatingadmissionpolicies", policy)
    api_server.admin.create(f"{path}/validatingadmissionpolicybindings", binding)
    node = "/api/v1/nodes/other-admins"

    def refused() -> bool:
        try:
            api_server.admin.patch(node, _labels(config="x"), dryRun="All")
        except ApiError as e:
            return 'members of gpu-admins@example.com, a "quoted" one may' in e.message
        return False

    api_server.wait(refused, "even system:masters is refused where it is not named")
    api_server.admin.delete(f"{path}/validatingadmissionpolicybindings/test-other-admins")
    api_server.admin.delete(f"{path}/validatingadmissionpolicies/test-other-admins")
