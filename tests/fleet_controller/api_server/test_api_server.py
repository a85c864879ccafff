"""The resources and the policy as a real API server takes them; the controller at work on it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from slicewright.apis import custom_resources, names
from slicewright.apis.gpu_pool.rollout_policy import RolloutPolicy
from slicewright.apis.reasons.troubles import MIG_MANAGER
from slicewright.fleet_controller.app.loop import Loop
from slicewright.fleet_controller.cluster.execute import execute
from slicewright.fleet_controller.cluster.observe import Cluster
from slicewright.fleet_controller.decision.actions import RemoveStartupTaint
from slicewright.fleet_controller.nodes.watchdog import NOTED_AFTER_S
from slicewright.fleet_controller.objects.pool import read_pool
from slicewright.fleet_controller.objects.stuck import stuck_of
from slicewright.kubeapi import ApiError, Client
from slicewright.kubeapi.client import path_of
from slicewright.node_agent.cluster.node import read
from slicewright.node_agent.nvml.observed import Failure, Observation, ObservedGpu
from slicewright.node_agent.reporting.report import body
from slicewright.node_agent.verdict.findings import Verdict
from slicewright.rehearsal.plugins.charts import gpu_operator
from tests.fleet_controller import kubernetes_objects as objects
from tests.fleet_controller.kubernetes_objects import POOLS, REPORTS

_ENTRY = custom_resources.crds()[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"][
    "properties"
]["report"]["properties"]["gpus"]["items"]

OPERAND = {"app.kubernetes.io/managed-by": "gpu-operator"}


def accepted(client: Client, path: str, body: dict[str, Any]) -> bool:
    try:
        client.create(path, body)
    except ApiError as e:
        if e.status == 404:  # the CRD is not served yet
            return False
        raise
    return True


class TestResources:
    @pytest.mark.parametrize(
        "name",
        [
            "slicewright-controller-nodes",
            "slicewright-node-reports",
            "slicewright-nodes",
            "slicewright-pools",
        ],
    )
    def test_the_policies_pass_the_api_servers_type_check(self, name: str, api_server: Any) -> None:
        path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{name}"
        checked: list[Any] = []

        def type_checked() -> bool:
            status = api_server.admin.get(path).get("status", {})
            checked[:] = [status["typeChecking"]] if "typeChecking" in status else []
            return bool(checked)

        api_server.wait(type_checked, "policy checked")
        assert checked == [{}]

    @pytest.mark.parametrize(
        ("spec", "complaint"),
        [
            ({"layoutHash": "abc"}, "layoutHash"),
            ({"expectedNodes": {"min": 3, "max": 2}}, "min must not be greater than max"),
            ({"expectedNodes": {"min": -1, "max": 2}}, "expectedNodes.min"),
            ({"selector": {"matchLabels": {}}}, "matchLabels"),
            ({"migConfig": "not a label"}, "migConfig"),
            ({"migKonfig": "x"}, "migKonfig"),
            ({"rolloutPolicy": {"maxUnavailable": 0}}, "maxUnavailable"),
            ({"rolloutPolicy": {"maxUnavailable": "0%"}}, "maxUnavailable"),
            ({"rolloutPolicy": {"maxUnavailable": "2"}}, "maxUnavailable"),
            ({"rolloutPolicy": {"canary": -1}}, "canary"),
            ({"rolloutPolicy": {"maxUnverified": -1}}, "maxUnverified"),
            ({"rolloutPolicy": {"maxUnverified": "101%"}}, "maxUnverified"),
            ({"rolloutPolicy": {"quarantine": "NoSchedule"}}, "quarantine"),
            ({"rolloutPolicy": {"maxFailures": 0}}, "maxFailures"),
            ({"rolloutPolicy": {"maxFailures": "0%"}}, "maxFailures"),
            ({"rolloutPolicy": {"maxFailures": "101%"}}, "maxFailures"),
            (
                {"rolloutPolicy": {"maxFailuresInARow": 2}},
                "maxFailuresInARow must not be greater than maxFailures",
            ),
            ({"rolloutPolicy": {"drain": {"timeoutSeconds": 0}}}, "timeoutSeconds"),
            ({"rolloutPolicy": {"drain": {"pods": "Some"}}}, "drain.pods"),
            (
                {"rolloutPolicy": {"drain": {"pods": "None", "onTimeout": "Force"}}},
                "onTimeout must be Stop where no pod is evicted",
            ),
        ],
    )
    def test_a_wrong_pool_is_refused(
        self, spec: dict[str, Any], complaint: str, api_server: Any
    ) -> None:
        with pytest.raises(ApiError) as refused:
            api_server.admin.create(
                POOLS, objects.pool("bad", **spec), fieldValidation="Strict", dryRun="All"
            )
        assert complaint in refused.value.message

    def test_no_mig_config_may_be_null_or_absent(self, api_server: Any) -> None:
        for spec in ({}, {"migConfig": None}):
            api_server.admin.create(
                POOLS, objects.pool("fine", **spec), fieldValidation="Strict", dryRun="All"
            )

    def test_a_new_pool_is_not_yet_current_for_kstatus(self, api_server: Any, kstatus: Any) -> None:
        """Whoever asks before the controller has looked would otherwise go on at once."""
        made = api_server.admin.create(POOLS, objects.pool("fine"), dryRun="All")
        assert made["status"] == {"observedGeneration": names.NOT_OBSERVED}
        assert kstatus([made]) == ["InProgress"]

    def test_a_rollout_policy_has_defaults(self, api_server: Any) -> None:
        for limit in (2, "25%"):
            wanted = objects.pool("fine", rolloutPolicy={"maxUnavailable": limit})
            made = api_server.admin.create(POOLS, wanted, fieldValidation="Strict", dryRun="All")
            assert read_pool(made).policy == RolloutPolicy(max_unavailable=limit)
            assert made["spec"]["rolloutPolicy"]["drain"]["onTimeout"] == "Stop"

    @pytest.mark.parametrize("most", [3, "10%"])
    def test_a_rollout_may_stop_at_failures_in_a_row(
        self, most: int | str, api_server: Any
    ) -> None:
        limits = {"maxFailures": most, "maxFailuresInARow": 3}
        wanted = objects.pool("fine", rolloutPolicy=limits)
        made = api_server.admin.create(POOLS, wanted, fieldValidation="Strict", dryRun="All")
        assert read_pool(made).policy == RolloutPolicy(max_failures=most, max_failures_in_a_row=3)

    @pytest.mark.parametrize("part", [0, 3, "0%", "7%", "100%"])
    def test_a_part_of_the_nodes_may_be_unproven(self, part: int | str, api_server: Any) -> None:
        wanted = objects.pool(
            "fine", rolloutPolicy={"maxUnverified": part, "quarantine": "NoExecute"}
        )
        made = api_server.admin.create(POOLS, wanted, fieldValidation="Strict", dryRun="All")
        assert read_pool(made).policy == RolloutPolicy(max_unverified=part, quarantine=True)

    def test_what_the_agent_writes_is_stored_unchanged(self, api_server: Any) -> None:
        node = read(api_server.make_node("as-it-stands"))
        lost = ObservedGpu(
            index=1, failure=Failure(call="nvmlDeviceGetMigMode", code=15, text="GPU is lost")
        )
        turning = ObservedGpu(
            index=0, model="NVIDIA H100 80GB HBM3", mig="disabled", mig_pending="enabled"
        )
        seen = Observation(
            driver="580.126.20", gpus=(turning, lost, replace(turning, index=2, model="NVIDIA L4"))
        )
        verdict = Verdict(
            verdict="Mismatch",
            reason="GpuLost",
            message="m.",
            checks=(),
            instances=({}, {}, {"1g.10gb": 7}),
        )
        sent = body(verdict, seen, node, pool="p", layout_hash=objects.HASH, at=time.time())
        options = {"fieldManager": "agent", "force": "true", "fieldValidation": "Strict"}
        stored = api_server.admin.patch(f"{REPORTS}/as-it-stands", sent, kind="apply", **options)
        assert stored["report"] == sent["report"]
        assert {key for entry in sent["report"]["gpus"] for key in entry} == set(
            _ENTRY["properties"]
        )

    def test_a_report_stays_small_on_the_server(self, api_server: Any) -> None:
        """managedFields of a nested object are larger than the object itself; here they are a
        line.
        """
        node = api_server.make_node("small")
        api_server.apply(REPORTS, objects.report(node, "p"))
        (fields,) = api_server.admin.get(f"{REPORTS}/small")["metadata"]["managedFields"]
        assert len(str(fields)) < 500


def _replicas(name: str, pool: str) -> dict[str, Any]:
    """A ReplicaSet of one pod with a GPU, for the nodes of a pool."""
    spec = {
        "nodeSelector": {names.POOL_LABEL: pool},
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [
            {"name": "c", "image": "test", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        ],
    }
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


class Clock:
    """Stands still but for what a test adds: what a controller does after a while, such as its
    warnings, comes when a test says so, and not when the machine has been slow.
    """

    def __init__(self) -> None:
        self._began = time.time()
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return self._began + self.ahead_s


@contextmanager
def running(api_server: Any, clock: Clock) -> Iterator[Loop]:
    """The controller as its pod runs it, with its own account's token."""
    cluster = Cluster.for_client(
        api_server.client(api_server.token(names.CONTROLLER_SERVICE_ACCOUNT))
    )
    loop, stop = Loop(cluster, clock=clock), threading.Event()
    cluster.follow(stop)
    thread = threading.Thread(target=loop.run, args=(stop,))
    thread.start()
    try:
        yield loop
    finally:
        stop.set()
        cluster.changed.set()
        thread.join(timeout=120)
        assert not thread.is_alive()


class TestController:
    @pytest.fixture(autouse=True)
    def _taken_back(self, api_server: Any) -> Iterator[None]:
        """What a test makes goes with it: a controller has nothing to do for an earlier test."""
        admin = api_server.admin
        kinds = ("/api/v1/namespaces/default/pods", POOLS, REPORTS, "/api/v1/nodes")
        before = {kind: self._paths(api_server, kind) for kind in kinds}
        yield
        for kind in kinds:
            for path in self._paths(api_server, kind) - before[kind]:
                with suppress(ApiError):  # it may be gone already
                    admin.patch(path, {"metadata": {"finalizers": None}}, kind="merge")
                    admin.delete(path, gracePeriodSeconds="0")
            api_server.wait(
                lambda kind=kind: self._paths(api_server, kind) <= before[kind],
                f"what the test made is gone from {kind}",
            )

    @staticmethod
    def _paths(api_server: Any, kind: str) -> set[str]:
        return {f"{kind}/{one['metadata']['name']}" for one in api_server.admin.get(kind)["items"]}

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def loop(self, api_server: Any, clock: Clock) -> Iterator[Loop]:
        with running(api_server, clock) as loop:
            yield loop

    def _verified(self, api_server: Any, pool: str) -> tuple[str, str]:
        status = api_server.admin.get(f"{POOLS}/{pool}").get("status", {})
        for condition in status.get("conditions", []):
            if condition["type"] == "Verified":
                return condition["status"], condition["reason"]
        return "", ""

    @staticmethod
    def _reason(api_server: Any, node: str) -> str:
        """Of the controller's condition on the node; empty without one."""
        condition = api_server.node(node).condition
        return condition.reason if condition else ""

    def _released(self, api_server: Any, node: str) -> None:
        """Waits for it: the pool's status is written though a taint was not lifted, because another
        controller had changed the node's taints since the decision.
        """
        api_server.wait(lambda: not api_server.node(node).held, f"{node} is released")

    def _no_error(self, api_server: Any, loop: Loop) -> None:
        api_server.wait(lambda: loop.progress.error is None, f"no error: {loop.progress.error}")

    def _warnings(self, api_server: Any, pool: str) -> list[str]:
        selector = f"involvedObject.kind=GPUPool,involvedObject.name={pool}"
        listed = api_server.admin.get("/api/v1/namespaces/default/events", fieldSelector=selector)
        return [event["message"] for event in listed["items"]]

    def test_no_report_quotes_why_the_agents_daemon_set_makes_no_pod(
        self, api_server: Any, loop: Loop
    ) -> None:
        words = 'pods "node-agent-mute-" is forbidden: RuntimeClass "nvidia" not found'
        api_server.admin.create(
            f"/api/v1/namespaces/{names.NAMESPACE}/events",
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": "mute", "namespace": names.NAMESPACE},
                "involvedObject": {
                    "apiVersion": "apps/v1",
                    "kind": "DaemonSet",
                    "name": "node-agent-mute",
                    "namespace": names.NAMESPACE,
                },
                "type": "Warning",
                "reason": "FailedCreate",
                "message": words,
                "lastTimestamp": "2026-01-01T00:00:00Z",
            },
        )
        api_server.admin.create(POOLS, objects.pool("mute"))
        api_server.make_node("mute-1", "mute")

        def quoted() -> bool:
            loop._cluster.changed.set()
            condition = api_server.node("mute-1").condition
            return condition is not None and (
                words in condition.message and condition.reason == "NoReport"
            )

        api_server.wait(quoted, "the event in the node's condition")

    def test_no_report_quotes_why_nvidias_operands_are_not_there(
        self, api_server: Any, loop: Loop
    ) -> None:
        """First the operator's own state, then an operand's pod that waits."""
        admin, name = api_server.admin, "unserved-1"
        (crd,) = (c for c in gpu_operator.crds() if c["spec"]["names"]["kind"] == "ClusterPolicy")
        api_server.apply(path_of("apiextensions.k8s.io/v1", "customresourcedefinitions"), crd)
        policies = path_of(names.CLUSTER_POLICY_API, names.CLUSTER_POLICY_PLURAL)
        rendered = gpu_operator.render({}, "theirs", "default")
        (made,) = (one for one in rendered if one["kind"] == "ClusterPolicy")
        api_server.wait(lambda: accepted(admin, policies, made), "ClusterPolicies are served")
        words = "ClusterPolicy is not ready, states not ready: [state-device-plugin]"
        status = {
            "state": "notReady",
            "namespace": "default",
            "conditions": [self._operator_error(words)],
        }
        admin.patch(f"{policies}/cluster-policy/status", {"status": status}, kind="merge")
        admin.create(POOLS, objects.pool("unserved"))
        api_server.make_node(name, "unserved")
        admin.patch(
            f"/api/v1/nodes/{name}",
            {"metadata": {"labels": {"nvidia.com/gpu.present": "true"}}},
            kind="merge",
        )

        def quoted(text: str) -> bool:
            loop._causes._operand_causes._last_query_s = float("-inf")
            loop._cluster.changed.set()
            condition = api_server.node(name).condition
            return condition is not None and text in condition.message

        api_server.wait(lambda: quoted(words), "the operator's state in the node's condition")
        assert api_server.node(name).condition.reason == "NoReport"
        api_server.make_pod("operand", name, namespace="default", labels=OPERAND)
        waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
        container = {
            "name": "c",
            "state": {"waiting": waiting},
            "image": "test",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
        }
        admin.patch(
            "/api/v1/namespaces/default/pods/operand/status",
            {"status": {"containerStatuses": [container]}},
            kind="merge",
        )
        api_server.wait(
            lambda: quoted(
                "GPU operator: pod operand: ImagePullBackOff: docker.io, test: no such image"
            ),
            "the operand's state in the node's condition",
        )
        api_server.wait(
            lambda: "ImagePullBackOff" in str(admin.get(f"{POOLS}/unserved").get("status")),
            "the operand's state in the pool's conditions",
        )
        admin.create("/api/v1/namespaces/kube-system/pods", self._plugin_of_others(name))
        api_server.wait(
            lambda: quoted("DaemonSet kube-system/their-plugin registers the node's GPUs"),
            "the device plugin of others in the node's condition",
        )
        admin.delete(f"{policies}/cluster-policy")

    @staticmethod
    def _plugin_of_others(node: str) -> dict[str, Any]:
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "their-plugin"}
        directory = {"path": "/var/lib/kubelet/device-plugins"}
        return {
            "metadata": {
                "name": "their-plugin-1",
                "ownerReferences": [{**owner, "uid": "of-theirs", "controller": True}],
            },
            "spec": {
                "nodeName": node,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "c", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.14.5"}],
                "volumes": [{"name": "sockets", "hostPath": directory}],
            },
        }

    @staticmethod
    def _operator_error(message: str) -> dict[str, str]:
        return {
            "type": "Error",
            "status": "True",
            "reason": "OperandNotReady",
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }

    def test_pods_end_on_a_node_that_stays_wrong_where_the_policy_says_so(
        self, api_server: Any, loop: Loop, clock: Clock
    ) -> None:
        """By Kubernetes' own taint eviction, and both taints go when the node is proven."""
        admin, wait, name = api_server.admin, api_server.wait, "wrong-1"
        policy = {"quarantine": "NoExecute"}
        admin.create(POOLS, objects.pool("wrong", rolloutPolicy=policy))
        made = api_server.make_node(name, "wrong")
        api_server.apply(REPORTS, objects.report(made, "wrong"))
        self._released(api_server, name)
        for pod, tolerations in (("job", []), ("operand", [{"operator": "Exists"}])):
            api_server.make_pod(pod, name, namespace="default", gpus=1, tolerations=tolerations)
        lost = objects.report(
            made, "wrong", verdict="Mismatch", reason="GpuLost", message="GPU 0 is lost."
        )
        api_server.apply(REPORTS, lost)
        wait(lambda: self._reason(api_server, name) == "GpuLost", "the mismatch is known")
        wait(lambda: api_server.node(name).held, "no pod comes any more")
        assert api_server.node(name).quarantine_at is None, "it may pass"
        clock.ahead_s += 11
        loop._cluster.changed.set()
        wait(lambda: api_server.node(name).quarantine_at is not None, "its pods are to end")

        def pods() -> set[str]:
            listed = admin.get("/api/v1/namespaces/default/pods")["items"]
            there = (p for p in listed if "deletionTimestamp" not in p["metadata"])
            return {p["metadata"]["name"] for p in there} & {"job", "operand"}

        wait(lambda: pods() == {"operand"}, "the job has ended, and the operand has not")
        api_server.apply(REPORTS, objects.report(made, "wrong"))
        self._released(api_server, name)
        assert api_server.node(name).quarantine_at is None

    @pytest.mark.parametrize("layout", ["Keep", "Disable"])
    def test_existing_node_joins_and_leaves_unchanged(
        self, api_server: Any, loop: Loop, layout: str
    ) -> None:
        admin, wait = api_server.admin, api_server.wait
        pool, name = f"lab-{layout.lower()}", f"rack-{layout.lower()}"
        path = f"/api/v1/nodes/{name}"
        found = {
            "metadata": {
                "labels": {"rack": name, "team": "before"},
                "annotations": {"mine": "stays"},
            },
            "spec": {"taints": [{"key": "mine", "value": "x", "effect": "NoSchedule"}]},
        }
        api_server.make_node(name)
        before = admin.patch(path, found, kind="merge")
        existing = {
            "labels": {names.POOL_LABEL: pool, "team": "vision"},
            "migLayoutOnRelease": layout,
        }
        wanted = objects.pool(
            pool,
            selector={"matchLabels": {"rack": name}},
            migConfig="all-3g.20gb",
            existingNodes=existing,
        )
        wanted["metadata"]["finalizers"] = [names.RELEASE_FINALIZER]
        admin.create(POOLS, wanted)
        wait(lambda: api_server.node(name).mig_config == "all-3g.20gb", "the layout is requested")
        joined = api_server.node(name)
        assert joined.labels == {
            "rack": name,
            names.POOL_LABEL: pool,
            "team": "vision",
            names.MIG_CONFIG_LABEL: "all-3g.20gb",
        }
        assert joined.held, "its layout changes"
        success = {"metadata": {"labels": {names.MIG_STATE_LABEL: "success"}}}
        admin.patch(path, success, kind="merge")
        api_server.apply(REPORTS, objects.report(before, pool))
        wait(
            lambda: self._verified(api_server, pool) == ("True", "AllNodesProven"),
            "the node is verified",
        )

        admin.delete(f"{POOLS}/{pool}")
        if layout == "Disable":
            wait(lambda: api_server.node(name).mig_config == "all-disabled", "MIG is disabled")
            assert api_server.node(name).held
            admin.get(f"{POOLS}/{pool}")  # waits for mig-manager
            admin.patch(path, success, kind="merge")

        def pools() -> list[str]:
            return [one["metadata"]["name"] for one in admin.get(POOLS)["items"]]

        wait(lambda: pool not in pools(), "the pool is let go")
        after = admin.get(path)
        left = {
            names.MIG_CONFIG_LABEL: "all-3g.20gb" if layout == "Keep" else "all-disabled",
            names.MIG_STATE_LABEL: "success",
        }
        assert after["metadata"]["labels"] == {**before["metadata"]["labels"], **left}
        # The node controller of Kubernetes adds the other.
        assert after["metadata"]["annotations"].keys() - {"node.alpha.kubernetes.io/ttl"} == {
            "mine"
        }
        assert after["spec"] == before["spec"]
        kinds = [one["type"] for one in after["status"]["conditions"]]
        assert kinds == [one["type"] for one in before["status"]["conditions"]]

    def test_a_node_from_birth_to_proof_to_fault_and_back(
        self, api_server: Any, loop: Loop, clock: Clock
    ) -> None:
        admin, wait = api_server.admin, api_server.wait
        admin.create(POOLS, objects.pool("birth"))
        wait(
            lambda: self._verified(api_server, "birth") == ("False", "TooFewNodes"),
            "an empty pool waits",
        )
        node = api_server.make_node("b1", "birth")
        wait(
            lambda: self._verified(api_server, "birth") == ("False", "NodesNotProven"),
            "a new node is unknown",
        )
        wait(lambda: self._reason(api_server, "b1") == "NoReport", "its condition says why")
        assert api_server.node("b1").held

        api_server.apply(REPORTS, objects.report(node, "birth"))
        wait(
            lambda: self._verified(api_server, "birth") == ("True", "AllNodesProven"),
            "a proven node",
        )
        self._released(api_server, "b1")
        proven = api_server.node("b1")
        assert proven.condition.status == "True"
        assert "nvidia.com/gpu" in proven.taint_keys
        assert admin.get(f"{POOLS}/birth")["status"]["observedGeneration"] == 1

        words = "GPU 3 wanted 3g.40gb x2, found 1g.10gb x7: somebody; do something."
        api_server.apply(
            REPORTS,
            objects.report(node, "birth", verdict="Mismatch", reason="WrongLayout", message=words),
        )
        wait(
            lambda: self._verified(api_server, "birth") == ("False", "NodesFailing"),
            "a fault is seen",
        )
        assert self._warnings(api_server, "birth") == []
        clock.ahead_s += 11
        loop._cluster.changed.set()
        wait(
            lambda: self._warnings(api_server, "birth") == [f"node b1: {words}"],
            "an event about a fault that stays",
        )
        assert admin.get(f"{POOLS}/birth")["status"]["failingNodes"] == [
            {"name": "b1", "reason": "WrongLayout", "message": words}
        ]

        api_server.apply(REPORTS, objects.report(node, "birth"))
        wait(
            lambda: self._verified(api_server, "birth") == ("True", "AllNodesProven"),
            "a repaired node",
        )
        wait(lambda: self._warnings(api_server, "birth") == [], "the warning is taken back")
        self._no_error(api_server, loop)

    def test_at_rest_it_writes_nothing(self, api_server: Any, loop: Loop) -> None:
        node = api_server.make_node("q1", "quiet")
        api_server.admin.create(POOLS, objects.pool("quiet"))
        api_server.apply(REPORTS, objects.report(node, "quiet"))
        api_server.wait(lambda: self._verified(api_server, "quiet")[0] == "True", "proven")
        self._released(api_server, "q1")

        def passes(count: int) -> None:
            for number in range(loop.progress.passes, loop.progress.passes + count):
                loop._cluster.changed.set()
                api_server.wait(lambda number=number: loop.progress.passes > number, "a pass")

        def rests() -> bool:
            before = dict(loop.progress.done)
            passes(3)
            return loop.progress.done == before

        # Its watches may bring late what it or another controller wrote.
        api_server.wait(rests, "three passes without a write")

    def test_a_changed_pool_must_be_proven_again(self, api_server: Any, loop: Loop) -> None:
        node = api_server.make_node("c1", "change")
        api_server.admin.create(POOLS, objects.pool("change"))
        api_server.apply(REPORTS, objects.report(node, "change"))
        api_server.wait(lambda: self._verified(api_server, "change")[0] == "True", "proven")
        api_server.admin.patch(f"{POOLS}/change", {"spec": {"layoutHash": "b" * 64}})
        api_server.wait(
            lambda: self._verified(api_server, "change")[0] == "False",
            "not proven for the new layout",
        )
        api_server.wait(
            lambda: self._reason(api_server, "c1") == "ReportOfAnotherLayout",
            "its condition says why",
        )
        api_server.apply(REPORTS, objects.report(node, "change", observedHash="b" * 64))
        api_server.wait(
            lambda: self._verified(api_server, "change")[0] == "True", "proven for the new layout"
        )
        assert api_server.admin.get(f"{POOLS}/change")["status"]["observedGeneration"] == 2

    def test_a_layout_is_requested_and_the_old_success_removed(
        self, api_server: Any, loop: Loop
    ) -> None:
        admin = api_server.admin
        node = api_server.make_node("m1", "mig")
        stale = {"nvidia.com/mig.config": "all-disabled", "nvidia.com/mig.config.state": "success"}
        admin.patch("/api/v1/nodes/m1", {"metadata": {"labels": stale}})
        api_server.apply(REPORTS, objects.report(node, "mig"))
        admin.create(POOLS, objects.pool("mig", migConfig="mig-1234"))
        api_server.wait(lambda: api_server.node("m1").mig_config == "mig-1234", "the label is set")
        assert api_server.node("m1").mig_state is None
        assert api_server.node("m1").held
        api_server.apply(REPORTS, objects.later_report(node, "mig"))
        api_server.wait(
            lambda: self._reason(api_server, "m1") == "MigManagerBusy", "it waits for mig-manager"
        )
        admin.patch(
            "/api/v1/nodes/m1", {"metadata": {"labels": {"nvidia.com/mig.config.state": "success"}}}
        )
        api_server.wait(lambda: self._verified(api_server, "mig")[0] == "True", "proven")
        self._released(api_server, "m1")

    def test_a_layout_never_changes_under_a_pod(self, api_server: Any, loop: Loop) -> None:
        admin = api_server.admin
        node = api_server.make_node("h1", "held")
        done = {"nvidia.com/mig.config": "old-1", "nvidia.com/mig.config.state": "success"}
        admin.patch("/api/v1/nodes/h1", {"metadata": {"labels": done}})
        admin.create(POOLS, objects.pool("held", migConfig="old-1"))
        api_server.apply(REPORTS, objects.report(node, "held"))
        api_server.wait(lambda: self._verified(api_server, "held")[0] == "True", "proven")
        self._released(api_server, "h1")
        api_server.make_pod("llm-0", "h1", namespace="default", gpus=1)
        admin.patch(f"{POOLS}/held", {"spec": {"migConfig": "new-2"}})
        api_server.wait(
            lambda: self._reason(api_server, "h1") == "ChangeHeldByPods", "the change is refused"
        )
        said = api_server.node("h1").condition.message
        assert "default/llm-0 (no controller would recreate it)" in said
        assert (api_server.node("h1").mig_config, api_server.node("h1").held) == ("old-1", False)
        assert api_server.node("h1").unschedulable, "no pod comes in its place"
        admin.delete("/api/v1/namespaces/default/pods/llm-0")
        loop._cluster.changed.set()
        api_server.wait(lambda: api_server.node("h1").mig_config == "new-2", "the change follows")
        assert api_server.node("h1").held

    def test_a_failed_mig_manager_is_recreated_by_its_daemon_set(
        self, api_server: Any, loop: Loop, clock: Clock
    ) -> None:
        admin, wait = api_server.admin, api_server.wait
        node = api_server.make_node("stuck-1", "stuck")
        failed = {names.MIG_CONFIG_LABEL: "old-1", names.MIG_STATE_LABEL: "failed"}
        admin.patch("/api/v1/nodes/stuck-1", {"metadata": {"labels": failed}})
        admin.create(POOLS, objects.pool("stuck", migConfig="old-1"))
        labels = {"app": MIG_MANAGER}
        spec = {
            "nodeSelector": {names.POOL_LABEL: "stuck"},
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "test"}],
        }
        daemon_set = {
            "metadata": {"name": MIG_MANAGER},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        sets = "/apis/apps/v1/namespaces/default/daemonsets"
        admin.create(sets, daemon_set)
        selector = f"app={MIG_MANAGER}"

        def bound() -> list[str]:
            listed = admin.get("/api/v1/namespaces/default/pods", labelSelector=selector)
            there = [pod for pod in listed["items"] if "nodeName" in pod["spec"]]
            return [pod["metadata"]["uid"] for pod in there]

        wait(lambda: len(bound()) == 1, "mig-manager's pod is bound")
        (before,) = bound()
        api_server.apply(REPORTS, objects.report(node, "stuck"))
        wait(lambda: self._reason(api_server, "stuck-1") == "MigManagerFailed", "it has failed")
        clock.ahead_s += NOTED_AFTER_S
        loop._cluster.changed.set()
        wait(lambda: bound() not in ([], [before]), "another pod of mig-manager's")
        note = stuck_of(api_server.node("stuck-1"))
        assert note is not None
        assert (note.trouble, note.tries) == ("MigManagerFailed", 1)
        (after,) = bound()
        done = {"metadata": {"labels": {names.MIG_STATE_LABEL: "success"}}}
        admin.patch("/api/v1/nodes/stuck-1", done)
        self._released(api_server, "stuck-1")
        wait(lambda: not api_server.node("stuck-1").stuck, "the note is taken back")
        assert bound() == [after], "one try was enough"
        self._no_error(api_server, loop)
        admin.delete(f"{sets}/{MIG_MANAGER}")

    def test_a_pod_leaves_by_eviction_and_its_disruption_budget_is_respected(
        self, api_server: Any, loop: Loop, clock: Clock
    ) -> None:
        admin, wait = api_server.admin, api_server.wait
        node = api_server.make_node("e1", "evict")
        done = {"nvidia.com/mig.config": "old-1", "nvidia.com/mig.config.state": "success"}
        admin.patch("/api/v1/nodes/e1", {"metadata": {"labels": done}})
        gpus = {"capacity": {"nvidia.com/gpu": "1"}, "allocatable": {"nvidia.com/gpu": "1"}}
        admin.patch("/api/v1/nodes/e1/status", {"status": gpus})
        admin.create(POOLS, objects.pool("evict", migConfig="old-1"))
        api_server.apply(REPORTS, objects.report(node, "evict"))
        self._released(api_server, "e1")
        admin.create("/apis/apps/v1/namespaces/default/replicasets", _replicas("web", "evict"))
        budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        budget = {
            "metadata": {"name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
        admin.create(budgets, budget)

        def pods() -> list[dict[str, Any]]:
            listed = admin.get("/api/v1/namespaces/default/pods", labelSelector="app=web")
            return list(listed["items"])

        wait(lambda: any(pod["spec"].get("nodeName") == "e1" for pod in pods()), "a pod is bound")
        (pod,) = pods()
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}"
        admin.patch(f"{path}/status", {"status": ready})
        wait(
            lambda: admin.get(f"{budgets}/web").get("status", {}).get("currentHealthy") == 1,
            "the budget knows the pod",
        )
        admin.patch(f"{POOLS}/evict", {"spec": {"migConfig": "new-2"}})
        wait(lambda: self._reason(api_server, "e1") == "ChangeHeldByPods", "the budget has none")
        assert "The disruption budget web needs 1" in api_server.node("e1").condition.message
        assert api_server.node("e1").unschedulable
        assert admin.get(path)["metadata"]["uid"] == pod["metadata"]["uid"]
        assert loop.progress.error is None, "a refusal is no failure of a pass"
        assert loop.progress.done["EvictPod", "refused"] >= 1
        admin.patch(f"{budgets}/web", {"spec": {"minAvailable": 0}})
        wait(
            lambda: admin.get(f"{budgets}/web")["status"].get("disruptionsAllowed") == 1,
            "the budget has one",
        )
        clock.ahead_s += 60
        loop._cluster.changed.set()
        wait(lambda: api_server.node("e1").mig_config == "new-2", "the change follows")
        assert api_server.node("e1").held
        assert api_server.node("e1").unschedulable
        assert loop.progress.done["EvictPod", "done"] == 1
        (other,) = pods()
        assert other["metadata"]["uid"] != pod["metadata"]["uid"]
        assert "nodeName" not in other["spec"], "nothing is bound to it"
        made = {"metadata": {"labels": {"nvidia.com/mig.config.state": "success"}}}
        admin.patch("/api/v1/nodes/e1", made)
        api_server.apply(REPORTS, objects.later_report(node, "evict"))
        wait(lambda: self._verified(api_server, "evict")[0] == "True", "proven")
        self._released(api_server, "e1")
        assert not api_server.node("e1").unschedulable
        assert api_server.node("e1").change == ""
        wait(lambda: pods()[0]["spec"].get("nodeName") == "e1", "pods come again")
        admin.delete("/apis/apps/v1/namespaces/default/replicasets/web")
        admin.delete(f"{budgets}/web")

    def test_a_restarted_controller_goes_on_with_a_change(
        self, api_server: Any, clock: Clock
    ) -> None:
        admin, wait = api_server.admin, api_server.wait
        node = api_server.make_node("k1", "goes-on")
        done = {"nvidia.com/mig.config": "old-1", "nvidia.com/mig.config.state": "success"}
        admin.patch("/api/v1/nodes/k1", {"metadata": {"labels": done}})
        admin.create(POOLS, objects.pool("goes-on", migConfig="old-1"))
        api_server.apply(REPORTS, objects.report(node, "goes-on"))
        with running(api_server, clock):
            self._released(api_server, "k1")
            api_server.make_pod("stays", "k1", namespace="default", gpus=1)
            admin.patch(f"{POOLS}/goes-on", {"spec": {"migConfig": "new-2"}})
            wait(lambda: api_server.node("k1").unschedulable, "cordoned")
        assert api_server.node("k1").mig_config == "old-1"
        note = json.loads(api_server.node("k1").change)
        assert (note["target"], note["phase"], note["cordoned"]) == ("new-2", "Draining", True)
        with running(api_server, clock):
            admin.patch(f"{POOLS}/goes-on", {"spec": {"migConfig": "old-1"}})
            wait(lambda: not api_server.node("k1").unschedulable, "uncordoned: an undo")
            wait(lambda: self._verified(api_server, "goes-on")[0] == "True", "proven")
        assert (api_server.node("k1").change, api_server.node("k1").held) == ("", False)
        assert admin.get("/api/v1/namespaces/default/pods/stays")
        admin.delete("/api/v1/namespaces/default/pods/stays")

    def test_a_node_that_boots_or_is_not_ready_is_held_until_it_is_verified_again(
        self, api_server: Any, loop: Loop
    ) -> None:
        admin, wait = api_server.admin, api_server.wait
        node = api_server.make_node("boots", "reboot")
        admin.create(POOLS, objects.pool("reboot"))
        api_server.apply(REPORTS, objects.report(node, "reboot"))
        self._released(api_server, "boots")
        assert api_server.node("boots").verified_boot == "boot-of-boots"

        def report_status(**status: Any) -> None:
            admin.patch("/api/v1/nodes/boots/status", {"status": status}, kind="strategic")

        report_status(nodeInfo={"bootID": "second"})
        wait(lambda: api_server.node("boots").held, "held at the new boot id")
        wait(lambda: self._verified(api_server, "reboot")[0] == "False", "the pool says so")
        wait(
            lambda: self._reason(api_server, "boots") == "ReportFromEarlierBoot",
            "its condition says why",
        )
        api_server.apply(REPORTS, objects.report(node, "reboot", bootID="second"))
        wait(lambda: not api_server.node("boots").held, "released in the new boot")
        assert api_server.node("boots").verified_boot == "second"

        report_status(conditions=[{"type": "Ready", "status": "Unknown"}])
        wait(lambda: api_server.node("boots").held, "held while it is not Ready")
        wait(lambda: self._reason(api_server, "boots") == "NodeNotReady", "its condition says so")
        report_status(conditions=[{"type": "Ready", "status": "True"}])
        wait(lambda: not api_server.node("boots").held, "released: it is the same boot")
        self._no_error(api_server, loop)

    def test_a_node_that_boots_after_the_decision_is_not_released(self, api_server: Any) -> None:
        api_server.make_node("late", "elsewhere")
        cluster = Cluster.for_client(
            api_server.client(api_server.token(names.CONTROLLER_SERVICE_ACCOUNT))
        )
        position = api_server.node("late").taint_keys.index(names.STARTUP_TAINT_KEY)
        lift = RemoveStartupTaint(
            node="late", position=position, boot_id="an-earlier-one", layout=None
        )
        with pytest.raises(ApiError) as refused:
            execute(cluster, lift)
        assert refused.value.status == 422
        assert api_server.node("late").held

    def test_a_node_whose_layout_was_changed_after_the_decision_is_not_released(
        self, api_server: Any
    ) -> None:
        """By somebody, or by another replica: what was verified is no longer asked for there."""
        admin, path = api_server.admin, "/api/v1/nodes/relabelled"
        api_server.make_node("relabelled", "elsewhere")
        cluster = Cluster.for_client(
            api_server.client(api_server.token(names.CONTROLLER_SERVICE_ACCOUNT))
        )
        node = api_server.node("relabelled")
        position = node.taint_keys.index(names.STARTUP_TAINT_KEY)
        lift = RemoveStartupTaint(
            node="relabelled", position=position, boot_id=node.boot_id, layout="all-1g.5gb"
        )
        for label in (None, "all-balanced"):
            admin.patch(path, {"metadata": {"labels": {names.MIG_CONFIG_LABEL: label}}})
            with pytest.raises(ApiError) as refused:
                execute(cluster, lift)
            assert refused.value.status == 422
            assert api_server.node("relabelled").held
        admin.patch(path, {"metadata": {"labels": {names.MIG_CONFIG_LABEL: "all-1g.5gb"}}})
        execute(cluster, lift)
        assert not api_server.node("relabelled").held
        admin.delete(path)

    def test_a_restarted_controller_deletes_warnings_that_are_no_longer_true(
        self, api_server: Any, clock: Clock
    ) -> None:
        node = api_server.make_node("r1", "again")
        api_server.admin.create(POOLS, objects.pool("again"))
        api_server.apply(
            REPORTS,
            objects.report(
                node, "again", verdict="Mismatch", reason="WrongLayout", message="GPU 0 wrong"
            ),
        )
        with running(api_server, clock) as loop:
            api_server.wait(
                lambda: self._verified(api_server, "again")[1] == "NodesFailing", "a fault is seen"
            )
            clock.ahead_s += 11
            loop._cluster.changed.set()
            api_server.wait(
                lambda: self._warnings(api_server, "again") == ["node r1: GPU 0 wrong"], "an event"
            )
        api_server.apply(REPORTS, objects.report(node, "again"))
        with running(api_server, clock):
            api_server.wait(lambda: self._warnings(api_server, "again") == [], "taken back")
