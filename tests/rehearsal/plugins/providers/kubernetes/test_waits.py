"""What Create and Update wait for, the live status, and how a wait fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from slicewright.kubeapi import ApiError, JsonObject
from slicewright.rehearsal.plugins.engine.plugin import Severity
from slicewright.rehearsal.plugins.providers.kubernetes import readiness

DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
JOB = "kubernetes:batch/v1:Job"
SERVICE = "kubernetes:core/v1:Service"
POOLS = "/apis/slicewright.io/v1alpha1/gpupools"


def pool(name: str, size: int = 1, **annotations: str) -> JsonObject:
    annotations = {"waitFor": "condition=Verified", **annotations}
    metadata = {
        "name": name,
        "annotations": {f"pulumi.com/{key}": value for key, value in annotations.items()},
    }
    return {
        "apiVersion": "slicewright.io/v1alpha1",
        "kind": "GPUPool",
        "metadata": metadata,
        "spec": {"size": size},
    }


def workload(
    kind: str, namespace: str, name: str, annotations: JsonObject | None = None, **spec: Any
) -> JsonObject:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]},
    }
    metadata: JsonObject = {"namespace": namespace, "name": name}
    if annotations:
        metadata["annotations"] = annotations
    body = {"selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": body}


@pytest.fixture
def set_verified(cluster: Any, until: Any) -> Callable[..., None]:
    """Gives a pool the condition Verified, as the product's controller does."""

    def set_(name: str, status: str, generation: int | None = None) -> None:
        def patch() -> bool:
            condition: JsonObject = {
                "type": "Verified",
                "status": status,
                "reason": "Mismatch",
                "message": "n1: 3 of 7 slices",
            }
            if generation is not None:
                condition["observedGeneration"] = generation
            try:
                cluster.admin.patch(
                    f"{POOLS}/{name}/status", {"status": {"conditions": [condition]}}
                )
            except ApiError as e:
                if e.status != 404:
                    raise
                return False
            return True

        until(patch)

    return set_


@pytest.fixture
def node(cluster: Any, until: Any) -> str:
    """A node whose pods kwok runs."""
    body = {
        "metadata": {
            "name": "kwok-node",
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"kubernetes.io/hostname": "kwok-node", "kubernetes.io/os": "linux"},
        },
        "status": {
            key: {"cpu": "8", "memory": "32Gi", "pods": "110"}
            for key in ("allocatable", "capacity")
        },
    }
    try:
        cluster.admin.create("/api/v1/nodes", body)
    except ApiError as e:
        if e.status != 409:
            raise

    def ready() -> bool:
        node = cluster.admin.get("/api/v1/nodes/kwok-node")
        conditions = node.get("status", {}).get("conditions", [])
        # A new node carries not-ready:NoSchedule until the node controller has seen it ready; no
        # DaemonSet wants it till then.
        return not node["spec"].get("taints") and any(
            c["type"] == "Ready" and c["status"] == "True" for c in conditions
        )

    until(ready)
    return "kwok-node"


# WaitFor and partial failure.


def test_create_returns_when_the_condition_is_true(
    provider: Any, pool_kind: str, set_verified: Any, in_background: Callable[..., Any], until: Any
) -> None:
    making = in_background(lambda: provider.create(pool_kind, "p", pool("verified")))
    until(lambda: (Severity.WARNING, "Has no .status.conditions", True) in provider.engine.said)
    set_verified("verified", "False", 1)
    until(lambda: "Resource has condition Verified=False (want True)" in provider.engine.texts())
    assert not making.done()
    set_verified("verified", "True", 1)
    made = making.result(240)
    assert made.outputs["status"]["conditions"][0]["status"] == "True"
    assert provider.engine.said[-1][1] == ""


def test_a_wait_that_times_out_is_a_partial_failure_and_the_next_update_waits_again(
    provider: Any,
    pool_kind: str,
    set_verified: Any,
    refused: type[Exception],
    stored: Callable[..., Any],
) -> None:
    with pytest.raises(refused) as caught:
        provider.create(pool_kind, "p", pool("never"), timeout_s=0.5)
    assert caught.value.reasons == [
        f'resource "urn:pulumi:dev::test::{pool_kind}::p" was successfully created, but '
        "the Kubernetes API server reported that "
        "it failed to fully initialize or become live: timed out waiting for the condition"
    ]
    assert caught.value.id == "never"
    assert caught.value.outputs["metadata"]["uid"]

    old = stored("never", caught.value.outputs["__inputs"], caught.value.outputs)
    with pytest.raises(refused) as again:
        provider.update(pool_kind, "p", old, pool("never"), timeout_s=0.5)
    assert again.value.reasons == [
        'the Kubernetes API server reported that "never" failed to fully initialize or '
        "become live: "
        "timed out waiting for the condition"
    ]
    set_verified("never", "True", 1)
    assert provider.update(pool_kind, "p", old, pool("never"), timeout_s=180).outputs["status"]


def test_a_spec_change_waits_for_the_new_generation(
    provider: Any, pool_kind: str, set_verified: Any, in_background: Callable[..., Any], until: Any
) -> None:
    making = in_background(lambda: provider.create(pool_kind, "p", pool("generations")))
    set_verified("generations", "True", 1)
    made = making.result(240)
    updating = in_background(lambda: provider.update(pool_kind, "p", made, pool("generations", 2)))
    until(lambda: "Generation 1 is less than expected 2" in provider.engine.texts())
    set_verified("generations", "True", 2)
    updating.result(240)


def test_an_invalid_wait_for_fails_after_the_object_is_stored(
    provider: Any, cluster: Any, pool_kind: str, refused: type[Exception]
) -> None:
    with pytest.raises(refused, match=r'expected a "jsonpath=" or "condition=" prefix') as caught:
        provider.create(pool_kind, "p", pool("bad-form", waitFor="Verified"))
    assert caught.value.reasons == []
    assert cluster.admin.get(f"{POOLS}/bad-form")


def test_an_interrupted_wait_is_a_partial_failure(
    provider: Any,
    pool_kind: str,
    in_background: Callable[..., Any],
    until: Any,
    refused: type[Exception],
) -> None:
    making = in_background(lambda: provider.create(pool_kind, "p", pool("interrupted")))
    until(lambda: "Has no .status.conditions" in provider.engine.texts())
    provider.cancel()
    with pytest.raises(refused) as caught:
        making.result(240)
    assert caught.value.reasons[0].endswith(": context canceled")
    assert caught.value.id == "interrupted"


# Events.


def test_only_warning_events_of_the_object_are_shown_live(
    provider: Any,
    cluster: Any,
    pool_kind: str,
    set_verified: Any,
    in_background: Callable[..., Any],
    until: Any,
) -> None:
    making = in_background(lambda: provider.create(pool_kind, "p", pool("events")))
    until(lambda: "Has no .status.conditions" in provider.engine.texts())
    uid = cluster.admin.get(f"{POOLS}/events")["metadata"]["uid"]

    def event(name: str, kind: str, message: str, of: str) -> None:
        body = {
            "metadata": {"name": name, "namespace": "default"},
            "type": kind,
            "reason": "Mismatch",
            "message": message,
            "involvedObject": {
                "kind": "GPUPool",
                "apiVersion": "slicewright.io/v1alpha1",
                "name": "events",
                "uid": of,
            },
        }
        cluster.admin.create("/api/v1/namespaces/default/events", body)

    event("e1", "Normal", "not shown", uid)
    event("e2", "Warning", "somebody else's", "other-uid")
    event("e3", "Warning", "node n1: 3 of 7 slices", uid)
    event("e4", "Warning", "node n2: 0 of 7 slices", uid)
    until(
        lambda: (Severity.WARNING, "Mismatch: node n2: 0 of 7 slices", True) in provider.engine.said
    )
    set_verified("events", "True")
    making.result(240)
    shown = [text for text in provider.engine.texts() if text.startswith("Mismatch")]
    assert shown == ["Mismatch: node n1: 3 of 7 slices", "Mismatch: node n2: 0 of 7 slices"]


# Built-in kinds.


def test_a_daemonset_waits_for_every_node(
    provider: Any,
    node: str,
    namespace: str,
    cluster: Any,
    in_background: Callable[..., Any],
    until: Any,
) -> None:
    daemonset = workload("DaemonSet", namespace, "d")
    # A pod that is not scheduled: its node selector fits none of the nodes until one gets the
    # label.
    made = provider.create(DAEMON_SET, "d", daemonset, timeout_s=180)
    assert made.outputs["status"]["numberReady"] == 1
    assert "All replicas scheduled as expected. Replicas: 1" in provider.engine.texts()


def test_a_daemonset_without_nodes_is_ready_immediately(provider: Any, namespace: str) -> None:
    daemonset = workload("DaemonSet", namespace, "d")
    daemonset["spec"]["template"]["spec"]["nodeSelector"] = {"never": "there"}
    made = provider.create(DAEMON_SET, "d", daemonset, timeout_s=180)
    assert made.outputs["status"]["desiredNumberScheduled"] == 0


def test_a_daemonset_that_never_gets_ready_times_out_with_its_count(
    provider: Any, node: str, namespace: str, refused: type[Exception]
) -> None:
    daemonset = workload("DaemonSet", namespace, "d")
    daemonset["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"nvidia.com/gpu": 1}
    }
    with pytest.raises(refused) as caught:
        provider.create(DAEMON_SET, "d", daemonset, timeout_s=15)
    assert caught.value.reasons[0].endswith("become live: timed out waiting for the condition")
    assert "Available: 0/1" in provider.engine.texts()


def test_a_deployment_waits_for_its_pods(provider: Any, node: str, namespace: str) -> None:
    made = provider.create(
        DEPLOYMENT, "d", workload("Deployment", namespace, "d", replicas=2), timeout_s=60
    )
    assert made.outputs["status"]["readyReplicas"] == 2
    updated = workload("Deployment", namespace, "d", replicas=2)
    updated["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2"
    rolled = provider.update(DEPLOYMENT, "d", made, updated, timeout_s=180)
    assert rolled.outputs["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
    assert rolled.outputs["status"]["updatedReplicas"] == 2


def test_a_deployment_that_never_gets_ready_reports_its_conditions(
    provider: Any, namespace: str, refused: type[Exception], stored: Callable[..., Any]
) -> None:
    deployment = workload("Deployment", namespace, "d", replicas=1)
    deployment["spec"]["template"]["spec"]["nodeSelector"] = {"never": "there"}
    with pytest.raises(refused) as caught:
        provider.create(DEPLOYMENT, "d", deployment, timeout_s=15)
    assert caught.value.reasons[0].endswith("become live: 'd' timed out waiting to be Ready")
    assert caught.value.reasons[1:] == [
        "[MinimumReplicasUnavailable] Deployment does not have minimum availability.",
        "Minimum number of live Pods was not attained",
    ]
    assert (
        "Waiting for app ReplicaSet to be available (0/1 Pods available)" in provider.engine.texts()
    )

    # A refresh finds the same; from this answer the engine only warns.
    with pytest.raises(refused) as read:
        provider.read(
            DEPLOYMENT,
            "d",
            stored(f"{namespace}/d", caught.value.outputs["__inputs"], caught.value.outputs),
        )
    assert read.value.reasons[0] == "Resource 'd' was created but failed to initialize"


def test_a_failed_job_ends_the_wait(
    provider: Any,
    cluster: Any,
    namespace: str,
    in_background: Callable[..., Any],
    until: Any,
    refused: type[Exception],
) -> None:
    pod = {
        "containers": [{"name": "c", "image": "nginx"}],
        "restartPolicy": "Never",
        "nodeSelector": {"never": "there"},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": namespace, "name": "j"},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }
    making = in_background(lambda: provider.create(JOB, "j", job, timeout_s=180))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    (failing,) = until(lambda: cluster.admin.get(pods)["items"])
    cluster.admin.patch(
        f"{pods}/{failing['metadata']['name']}/status", {"status": {"phase": "Failed"}}
    )
    with pytest.raises(refused) as caught:
        making.result(240)
    assert caught.value.reasons[0].endswith(
        "[BackoffLimitExceeded] Job has reached the specified backoff limit"
    )


def test_a_service_waits_until_its_endpoints_stop_changing(
    provider: Any, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        readiness._RULES, ("v1", "Service"), lambda: readiness.Service(settle_s=0.6)
    )
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": "s"},
        "spec": {"selector": {"app": "none"}, "ports": [{"port": 80}]},
    }
    began = time.monotonic()
    provider.create(SERVICE, "s", service, timeout_s=180)
    assert time.monotonic() - began >= 0.6
    # A headless one would not come back in time if it settled.
    monkeypatch.setitem(
        readiness._RULES, ("v1", "Service"), lambda: readiness.Service(settle_s=3600)
    )
    headless = {
        **service,
        "metadata": {"namespace": namespace, "name": "h"},
        "spec": {**service["spec"], "clusterIP": "None"},
    }
    provider.create(SERVICE, "h", headless, timeout_s=180)
    assert readiness.Service()._settle_s == 10


def test_a_load_balancer_without_an_address_times_out(
    provider: Any, namespace: str, refused: type[Exception]
) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"namespace": namespace, "name": "lb"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    }
    with pytest.raises(refused) as caught:
        provider.create(SERVICE, "lb", service, timeout_s=10)
    assert caught.value.reasons[0].endswith("'lb' timed out waiting to be Ready")
    assert caught.value.reasons[1].startswith("Service was not allocated an IP address")


def test_a_custom_resource_without_wait_for_is_ready_immediately(
    provider: Any, pool_kind: str
) -> None:
    manifest = pool("no-wait")
    del manifest["metadata"]["annotations"]
    assert provider.create(pool_kind, "p", manifest, timeout_s=1).id == "no-wait"


# Timeouts and skipAwait.


def test_the_custom_timeout_overrides_the_annotation(
    provider: Any, pool_kind: str, refused: type[Exception]
) -> None:
    # With the annotation's the call itself would be cut off, which is another refusal.
    with pytest.raises(refused, match=r"timed out waiting for the condition"):
        provider.create(
            pool_kind, "p", pool("custom-timeout", timeoutSeconds="3600"), timeout_s=0.5
        )


def test_the_annotation_overrides_the_default(
    provider: Any, pool_kind: str, refused: type[Exception]
) -> None:
    with pytest.raises(refused, match=r"timed out"):
        provider.create(pool_kind, "p", pool("annotated-timeout", timeoutSeconds="1"))


def test_skip_await_overrides_wait_for(provider: Any, pool_kind: str) -> None:
    assert (
        provider.create(pool_kind, "p", pool("skipped", skipAwait="true"), timeout_s=1).id
        == "skipped"
    )
    assert "Skipping await logic" in provider.engine.texts()
