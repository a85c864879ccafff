"""What agents and controller may do, and may not: asked of a real API server with the objects that
the program ships.

Every refusal has a twin: the same request, made by an administrator, is a good one. So none is
refused for another reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from slicewright.apis import names
from slicewright.kubeapi import ApiError, Client
from slicewright.kubeapi.election import Election, Record
from tests.fleet_controller import kubernetes_objects as objects
from tests.fleet_controller.kubernetes_objects import POOLS, REPORTS

SYSTEM = f"/api/v1/namespaces/{names.NAMESPACE}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
OTHER_NODE = {"own": "other", "other": "own"}


@dataclass(frozen=True)
class Deed:
    """One request, with the words by which RBAC knows it."""

    verb: str
    path: str
    body: Any = None
    group: str = ""
    resource: str = ""
    """With its subresource; by itself the last collection of the path."""

    def do(self, client: Client, **query: str) -> dict[str, Any]:
        match self.verb:
            case "get" | "list":
                return client.get(self.path)
            case "create":
                return client.create(self.path, self.body, **query)
            case "patch":
                return client.patch(self.path, self.body, **query)
            case "delete":
                return client.delete(self.path, **query)
        raise AssertionError(self.verb)

    @property
    def refusal(self) -> str:
        """How RBAC words it."""
        rest = self.path.partition("/namespaces/")[2]
        where = f'in the namespace "{rest.split("/")[0]}"' if rest else "at the cluster scope"
        return f'cannot {self.verb} resource "{self.resource}" in API group "{self.group}" {where}'

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.path.rpartition('/')[2]}"


def _core(verb: str, resource: str, path: str, body: Any = None) -> Deed:
    return Deed(verb, path, body, resource=resource)


def _ours(verb: str, resource: str, path: str, body: Any = None) -> Deed:
    return Deed(verb, path, body, group=names.GROUP, resource=resource)


def _pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "test"}]}}


_CLUSTER_ADMIN = {
    "metadata": {"name": "escalation"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "cluster-admin",
    },
    "subjects": [
        {
            "kind": "ServiceAccount",
            "name": names.AGENT_SERVICE_ACCOUNT,
            "namespace": names.NAMESPACE,
        }
    ],
}
_CONDITION = {
    "type": names.NODE_CONDITION,
    "status": "True",
    "reason": "Proven",
    "message": "by itself",
}
_EVENT = {
    "metadata": {"name": "rights"},
    "type": "Warning",
    "reason": "WrongLayout",
    "message": "node own: GPU 0 wrong",
    "involvedObject": {"apiVersion": names.API_VERSION, "kind": names.POOL_KIND, "name": "rights"},
}
_GUARD = f"{ADMISSION}/validatingadmissionpolicybindings/slicewright-node-reports"

# What neither of the two may do.
_FOR_NOBODY = (
    _core("list", "secrets", "/api/v1/secrets"),
    _core("list", "secrets", f"{SYSTEM}/secrets"),
    _core("get", "secrets", f"{SYSTEM}/secrets/a-secret"),
    _core("get", "configmaps", f"{SYSTEM}/configmaps/kube-root-ca.crt"),
    _core("list", "configmaps", f"{SYSTEM}/configmaps"),
    _core("create", "pods", f"{SYSTEM}/pods", _pod("made")),
    _core("delete", "pods", f"{SYSTEM}/pods/agent-own"),
    _core(
        "create",
        "serviceaccounts/token",
        f"{SYSTEM}/serviceaccounts/{names.AGENT_SERVICE_ACCOUNT}/token",
        {"spec": {}},
    ),
    _core("create", "nodes", "/api/v1/nodes", {"metadata": {"name": "invented"}}),
    _core("delete", "nodes", "/api/v1/nodes/own"),
    _core(
        "create",
        "events",
        f"{SYSTEM}/events",
        {**_EVENT, "involvedObject": {"kind": "Pod", "namespace": names.NAMESPACE}},
    ),
    _ours("delete", "gpunodereports", f"{REPORTS}/own"),
    _ours("create", "gpupools", POOLS, objects.pool("invented")),
    _ours("delete", "gpupools", f"{POOLS}/rights"),
    Deed("list", "/apis/apps/v1/deployments", group="apps", resource="deployments"),
    Deed(
        "create",
        f"{RBAC}/clusterrolebindings",
        _CLUSTER_ADMIN,
        group="rbac.authorization.k8s.io",
        resource="clusterrolebindings",
    ),
    Deed(
        "delete",
        _GUARD,
        group="admissionregistration.k8s.io",
        resource="validatingadmissionpolicybindings",
    ),
)
_EVICTION = _core(
    "create",
    "pods/eviction",
    f"{SYSTEM}/pods/agent-own/eviction",
    {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "agent-own", "namespace": names.NAMESPACE},
    },
)
_NOT_FOR_AGENTS = (
    _EVICTION,
    _core("patch", "nodes", "/api/v1/nodes/own", {"spec": {"taints": []}}),
    _core(
        "patch",
        "nodes",
        "/api/v1/nodes/own",
        {"metadata": {"labels": {names.MIG_CONFIG_LABEL: "all-disabled"}}},
    ),
    _core("patch", "nodes", "/api/v1/nodes/own", {"metadata": {"annotations": {"a": "b"}}}),
    _core("patch", "nodes", "/api/v1/nodes/other", {"metadata": {"annotations": {"a": "b"}}}),
    _core(
        "patch",
        "nodes/status",
        "/api/v1/nodes/own/status",
        {"status": {"conditions": [_CONDITION]}},
    ),
    _core("list", "nodes", "/api/v1/nodes"),
    _core("list", "pods", "/api/v1/pods"),
    _core("create", "events", "/api/v1/namespaces/default/events", _EVENT),
    _ours("list", "gpunodereports", REPORTS),
    _ours("list", "gpupools", POOLS),
    _ours("get", "gpupools", f"{POOLS}/rights"),
    _ours("patch", "gpupools", f"{POOLS}/rights", {"spec": {"expectedNodes": {"min": 0}}}),
    _ours(
        "patch", "gpupools/status", f"{POOLS}/rights/status", {"status": {"nodes": {"verified": 1}}}
    ),
)
_COORDINATION = "coordination.k8s.io"
_LEASES = f"/apis/{_COORDINATION}/v1/namespaces/{names.NAMESPACE}/leases"
_NOT_FOR_THE_CONTROLLER = (
    Deed("get", f"{_LEASES}/another", group=_COORDINATION, resource="leases"),
    Deed("delete", f"{_LEASES}/another", group=_COORDINATION, resource="leases"),
    Deed("list", _LEASES, group=_COORDINATION, resource="leases"),
    _core("get", "pods", f"{SYSTEM}/pods/agent-own"),
    _core("patch", "pods", f"{SYSTEM}/pods/agent-own", {"metadata": {"labels": {"a": "b"}}}),
    _ours(
        "create",
        "gpunodereports",
        REPORTS,
        objects.report({"metadata": {"name": "invented", "uid": "u"}}, "p"),
    ),
    _ours("patch", "gpunodereports", f"{REPORTS}/own", {"report": {"verdict": "Match"}}),
)


@pytest.fixture(scope="module")
def nodes(api_server: Any) -> dict[str, Any]:
    """Two nodes with an agent's pod each, and what else the deeds need to be good ones."""
    made = {name: api_server.make_node(name) for name in ("own", "other")}
    for name in made:
        api_server.make_pod(f"agent-{name}", name, account=names.AGENT_SERVICE_ACCOUNT)
    api_server.make_pod("controller", "own", account=names.CONTROLLER_SERVICE_ACCOUNT)
    api_server.admin.create(f"{SYSTEM}/secrets", {"metadata": {"name": "a-secret"}})
    api_server.admin.create(_LEASES, {"metadata": {"name": "another"}, "spec": {}})
    api_server.admin.create(POOLS, objects.pool("rights"))
    bound = _agent(api_server, "own")

    def bites() -> bool:
        try:
            bound.patch(
                f"{REPORTS}/other",
                objects.report(made["other"], "p"),
                kind="apply",
                fieldManager="probe",
                dryRun="All",
            )
        except ApiError as e:
            # RBAC refuses, too, until it has seen the agents' rights.
            return "this token is bound to node" in e.message
        return False

    # A new policy takes a moment to bite.
    api_server.wait(bites, "the policy on reports bites")
    for name, node in made.items():
        _agent(api_server, name).patch(
            f"{REPORTS}/{name}", objects.report(node, "p"), kind="apply", fieldManager="agent"
        )
    return made


def _agent(api_server: Any, node: str) -> Client:
    """As the agent's pod on that node: with a token of the TokenRequest API that is bound to the
    pod.
    """
    client: Client = api_server.client(
        api_server.token(names.AGENT_SERVICE_ACCOUNT, pod=f"agent-{node}")
    )
    return client


@pytest.fixture(scope="module")
def agent(api_server: Any, nodes: dict[str, Any]) -> Client:
    return _agent(api_server, "own")


@pytest.fixture(scope="module")
def controller(api_server: Any, nodes: dict[str, Any]) -> Client:
    client: Client = api_server.client(
        api_server.token(names.CONTROLLER_SERVICE_ACCOUNT, pod="controller")
    )
    return client


def _rights(client: Client, namespace: str) -> set[tuple[str, str, str]]:
    """(verb, group, resource) of everything that the API server says its asker may do in a
    namespace, and cluster-wide.
    """
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    rules = client.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body)["status"][
        "resourceRules"
    ]
    return {
        (v, g, r)
        for rule in rules
        for v in rule["verbs"]
        for g in rule.get("apiGroups", ())
        for r in rule["resources"]
    }


def _refused(deed: Deed, client: Client, account: str) -> None:
    with pytest.raises(ApiError) as refused:
        deed.do(client)
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    assert (
        f'User "system:serviceaccount:{names.NAMESPACE}:{account}" {deed.refusal}'
        in refused.value.message
    )


def _triples(group: str, resource: str, verbs: Iterable[str]) -> set[tuple[str, str, str]]:
    return {(verb, group, resource) for verb in verbs}


class TestTheAgent:
    @pytest.mark.parametrize("node", ["own", "other"])
    def test_it_writes_its_own_report(
        self, api_server: Any, nodes: dict[str, Any], node: str
    ) -> None:
        agent = _agent(api_server, node)
        for message in ("first", "second"):
            words = objects.report(nodes[node], "p", message=message)
            written = agent.patch(
                f"{REPORTS}/{node}", words, kind="apply", fieldManager="agent", force="true"
            )
            assert written["report"]["message"] == message

    def test_it_reads_its_node_and_its_report(self, agent: Client) -> None:
        assert agent.get("/api/v1/nodes/own", resourceVersion="0")["metadata"]["name"] == "own"
        assert agent.get(f"{REPORTS}/own")["metadata"]["name"] == "own"

    def test_it_reads_other_nodes_and_reports_by_name_too(self, agent: Client) -> None:
        """RBAC cannot narrow `get` to the asker's own node, and an admission policy does not see
        it.
        """
        assert agent.get("/api/v1/nodes/other")["metadata"]["name"] == "other"
        assert agent.get(f"{REPORTS}/other")["metadata"]["name"] == "other"

    @pytest.mark.parametrize("node", ["own", "other"])
    def test_it_may_not_write_another_nodes_report(
        self, api_server: Any, nodes: dict[str, Any], node: str
    ) -> None:
        agent, other = _agent(api_server, node), OTHER_NODE[node]
        words = objects.report(nodes[other], "p", message="forged")
        tries = {
            "apply": lambda c, **dry: c.patch(
                f"{REPORTS}/{other}", words, kind="apply", fieldManager="x", force="true", **dry
            ),
            "merge": lambda c, **dry: c.patch(
                f"{REPORTS}/{other}", {"report": words["report"]}, **dry
            ),
        }
        for attempt in tries.values():
            with pytest.raises(ApiError) as refused:
                attempt(agent)
            assert refused.value.status == 403
            assert (
                f'this token is bound to node "{node}", the report is of node "{other}"'
                in refused.value.message
            )
            attempt(api_server.admin, dryRun="All")
        assert api_server.admin.get(f"{REPORTS}/{other}")["report"]["message"] != "forged"

    def test_it_may_not_invent_a_report(
        self, api_server: Any, agent: Client, nodes: dict[str, Any]
    ) -> None:
        words = objects.report(nodes["own"], "p")
        words["metadata"] = {"name": "no-such-node"}
        with pytest.raises(ApiError) as refused:
            agent.create(REPORTS, words)
        assert refused.value.status == 403
        assert (
            'this token is bound to node "own", the report is of node "no-such-node"'
            in refused.value.message
        )
        api_server.admin.create(REPORTS, words, dryRun="All")

    def test_it_may_not_give_its_report_to_another_node(
        self, api_server: Any, agent: Client, nodes: dict[str, Any]
    ) -> None:
        words = objects.report(nodes["own"], "p")
        words["metadata"]["ownerReferences"][0].update(
            name="other", uid=nodes["other"]["metadata"]["uid"]
        )
        with pytest.raises(ApiError) as refused:
            agent.patch(f"{REPORTS}/own", words, kind="apply", fieldManager="agent", force="true")
        assert refused.value.status == 403
        assert (
            "the only owner of a report must be the Node of the same name" in refused.value.message
        )
        api_server.admin.patch(
            f"{REPORTS}/own", words, kind="apply", fieldManager="agent", force="true", dryRun="All"
        )

    def test_a_token_without_a_node_is_refused(
        self, api_server: Any, nodes: dict[str, Any]
    ) -> None:
        """One that was not made for a pod on a node, such as `kubectl create token` makes."""
        unbound = api_server.client(api_server.token(names.AGENT_SERVICE_ACCOUNT))
        with pytest.raises(ApiError) as refused:
            unbound.patch(
                f"{REPORTS}/own",
                objects.report(nodes["own"], "p"),
                kind="apply",
                fieldManager="agent",
                force="true",
            )
        assert refused.value.status == 403
        assert (
            'this token is bound to node "", the report is of node "own"' in refused.value.message
        )
        assert unbound.get("/api/v1/nodes/own"), "its other rights it has"

    @pytest.mark.parametrize("deed", [*_FOR_NOBODY, *_NOT_FOR_AGENTS], ids=str)
    def test_it_may_not(self, deed: Deed, agent: Client, api_server: Any) -> None:
        _refused(deed, agent, names.AGENT_SERVICE_ACCOUNT)
        deed.do(api_server.admin, dryRun="All")

    @pytest.mark.parametrize("namespace", [names.NAMESPACE, names.EVENTS_NAMESPACE, "kube-system"])
    def test_it_has_these_rights_and_no_others(
        self, namespace: str, agent: Client, api_server: Any
    ) -> None:
        anybody = api_server.client(api_server.token("default"))
        assert _rights(agent, namespace) - _rights(anybody, namespace) == {
            ("get", "", "nodes"),
            *_triples(names.GROUP, "gpunodereports", ("get", "create", "patch")),
        }


class TestTheController:
    def test_controller_may_set_layout_condition_and_remove_the_taint(
        self, controller: Client, api_server: Any
    ) -> None:
        api_server.make_node("changed")
        path = "/api/v1/nodes/changed"
        controller.patch(path, {"metadata": {"labels": {names.MIG_CONFIG_LABEL: "mig-1"}}})
        kept = [
            t for t in controller.get(path)["spec"]["taints"] if t["key"] != names.STARTUP_TAINT_KEY
        ]
        controller.patch(path, {"spec": {"taints": kept}})
        controller.patch(
            f"{path}/status", {"status": {"conditions": [_CONDITION]}}, kind="strategic"
        )
        changed = api_server.node("changed")
        assert changed.mig_config == "mig-1"
        assert not changed.held
        assert changed.condition.status == "True"

    @pytest.mark.parametrize(
        "deed",
        [
            _core("list", "nodes", "/api/v1/nodes"),
            _core("list", "pods", "/api/v1/pods"),
            _ours("list", "gpunodereports", REPORTS),
            _ours("get", "gpunodereports", f"{REPORTS}/own"),
            _ours("list", "gpupools", POOLS),
            _ours(
                "patch",
                "gpupools/status",
                f"{POOLS}/rights/status",
                {"status": {"nodes": {"total": 1}}},
            ),
            _core("list", "events", "/api/v1/namespaces/default/events"),
            _core("list", "events", f"{SYSTEM}/events"),
        ],
        ids=str,
    )
    def test_it_may(self, deed: Deed, controller: Client) -> None:
        assert deed.do(controller)

    def test_controller_may_evict_a_pod(self, controller: Client) -> None:
        assert _EVICTION.do(controller, dryRun="All")

    def test_controller_may_cordon_a_node(self, controller: Client, api_server: Any) -> None:
        api_server.make_node("cordoned")
        note = {"metadata": {"annotations": {names.CHANGE_ANNOTATION: "{}"}}}
        controller.patch("/api/v1/nodes/cordoned", {**note, "spec": {"unschedulable": True}})
        node = api_server.node("cordoned")
        assert (node.unschedulable, node.change) == (True, "{}")

    def test_controller_may_remove_only_its_own_finalizer_of_a_pool(
        self, controller: Client, api_server: Any
    ) -> None:
        made = objects.pool("let-go")
        made["metadata"]["finalizers"] = ["example.org/keep", names.RELEASE_FINALIZER]
        api_server.admin.create(POOLS, made)
        controller.patch(f"{POOLS}/let-go", {"metadata": {"finalizers": ["example.org/keep"]}})
        left = api_server.admin.get(f"{POOLS}/let-go")
        assert left["metadata"]["finalizers"] == ["example.org/keep"]

    def test_controller_may_remove_an_undo_and_may_not_request_one(
        self, controller: Client, api_server: Any
    ) -> None:
        made = objects.pool("undone")
        made["metadata"]["annotations"] = {names.ROLLOUT_ANNOTATION: "undo:new,paused", "a": "b"}
        api_server.admin.create(POOLS, made)

        def tried(asked: str | None) -> str:
            change = {"metadata": {"annotations": {names.ROLLOUT_ANNOTATION: asked}}}
            try:
                controller.patch(f"{POOLS}/undone", change)
            except ApiError as e:
                return e.message
            return ""

        words = "the fleet controller may write the status only"
        api_server.wait(lambda: words in tried("undo:other"), "the policy on pools bites")
        assert tried("paused") == ""
        assert words in tried("aborted")
        assert words in tried(None), "it does not resume what people have paused"
        api_server.admin.patch(
            f"{POOLS}/undone", {"metadata": {"annotations": {names.ROLLOUT_ANNOTATION: "undo:new"}}}
        )
        assert tried(None) == ""
        left = api_server.admin.get(f"{POOLS}/undone")["metadata"]["annotations"]
        assert left == {"a": "b"}

    @pytest.mark.parametrize(
        "change",
        [
            {"spec": {"expectedNodes": {"min": 0}}},
            {"spec": {"layoutHash": "b" * 64}},
            {"metadata": {"labels": {"a": "b"}}},
            {"metadata": {"annotations": {"a": "b"}}},
            {"metadata": {"annotations": {names.ROLLOUT_ANNOTATION: "paused"}}},
            {"metadata": {"finalizers": ["example.org/other"]}},
        ],
        ids=str,
    )
    def test_controller_may_change_only_its_finalizer_of_a_pool(
        self, controller: Client, api_server: Any, change: dict[str, Any]
    ) -> None:
        def tried() -> str:
            try:
                controller.patch(f"{POOLS}/rights", change, dryRun="All")
            except ApiError as e:
                return f"{e.status} {e.message}"
            return ""

        # A new policy takes a moment to bite, and RBAC one to see the controller's rights.
        words = "the fleet controller may write the status only"
        api_server.wait(lambda: words in tried(), "the policy on pools bites")
        assert tried().startswith("403")
        api_server.admin.patch(f"{POOLS}/rights", change, dryRun="All")

    def test_controller_may_write_and_delete_warning_events(self, controller: Client) -> None:
        events = "/api/v1/namespaces/default/events"
        controller.create(events, {**_EVENT, "metadata": {"name": "taken-back"}})
        controller.patch(f"{events}/taken-back", {"count": 2})
        assert controller.get(f"{events}/taken-back")["count"] == 2
        controller.delete(f"{events}/taken-back")

    def test_controller_may_hold_and_release_its_lease(
        self, controller: Client, api_server: Any
    ) -> None:
        with suppress(ApiError):  # of replicas that another test has killed
            api_server.admin.delete(f"{_LEASES}/{names.CONTROLLER_LEASE}")
        election = Election(
            controller, namespace=names.NAMESPACE, name=names.CONTROLLER_LEASE, identity="one"
        )
        assert election.attempt()
        assert election.attempt()
        election.release()
        lease = Record.from_lease(controller.get(f"{_LEASES}/{names.CONTROLLER_LEASE}"))
        assert (lease.holder, lease.lease_s, lease.transitions) == ("", 1.0, 0)

    @pytest.mark.parametrize("deed", [*_FOR_NOBODY, *_NOT_FOR_THE_CONTROLLER], ids=str)
    def test_it_may_not(self, deed: Deed, controller: Client, api_server: Any) -> None:
        _refused(deed, controller, names.CONTROLLER_SERVICE_ACCOUNT)
        deed.do(api_server.admin, dryRun="All")

    @pytest.mark.parametrize("namespace", [names.NAMESPACE, names.EVENTS_NAMESPACE, "kube-system"])
    def test_it_has_these_rights_and_no_others(
        self, namespace: str, controller: Client, api_server: Any
    ) -> None:
        anybody = api_server.client(api_server.token("default"))
        events = {
            names.EVENTS_NAMESPACE: _triples(
                "", "events", ("get", "list", "create", "patch", "delete")
            ),
            # Why the agents' DaemonSets make no pods.
            names.NAMESPACE: {
                *_triples("", "events", ("list",)),
                *_triples(_COORDINATION, "leases", ("create", "get", "update")),
            },
        }
        assert _rights(controller, namespace) - _rights(anybody, namespace) == {
            *_triples("", "nodes", ("get", "list", "watch", "patch")),
            ("patch", "", "nodes/status"),
            *_triples("", "pods", ("list", "watch")),
            ("create", "", "pods/eviction"),
            *_triples(names.GROUP, "gpunodereports", ("get", "list", "watch")),
            *_triples(names.GROUP, "gpupools", ("get", "list", "watch", "patch")),
            ("patch", names.GROUP, "gpupools/status"),
            # Which driver the operator's DaemonSet has.
            ("get", "apps", "daemonsets"),
            # Why NVIDIA's operands do not serve a node.
            ("list", "nvidia.com", "clusterpolicies"),
            *events.get(namespace, ()),
        }
