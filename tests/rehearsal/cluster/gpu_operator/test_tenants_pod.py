"""The pods of a tenant on a node with partitions, on a simulated EKS node whose default runtime is
NVIDIA's: what they see without the policy on pods, and that none of them is taken with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slicewright.apis import names
from slicewright.apis.admission import pod_policy
from slicewright.kubeapi import ApiError
from tests.rehearsal.cluster.gpu_operator.conftest import NAMESPACE

NODE = "tenants"
MACHINE = {"cloud": "eks", "gpu_model": "H100-80", "gpu_count": 2, "driver_version": "580.159.03"}
HALVES = "nvidia.com/mig-3g.40gb"
TAINTS = [
    {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
    dict(names.STARTUP_TAINT),
]
COUNTS = """
import os, re, time
gpus = [name for name in os.listdir("/dev") if re.fullmatch("nvidia[0-9]+", name)]
caps = os.listdir("/dev/nvidia-caps") if os.path.isdir("/dev/nvidia-caps") else []
print(f"{len(gpus)} GPUs, {len(caps)} capabilities", flush=True)
time.sleep(10000)
"""
EVERYTHING, PARTITION, NOTHING = (
    "2 GPUs, 8 capabilities",
    "1 GPUs, 2 capabilities",
    "0 GPUs, 0 capabilities",
)
"""Four partitions with two capabilities each; and one of them."""
VARIABLE = pod_policy.VARIABLE
ALL, VOID = ({"name": VARIABLE, "value": value} for value in ("all", "void"))
GPU = {"key": "nvidia.com/gpu", "operator": "Exists"}
STARTUP = {"key": names.STARTUP_TAINT_KEY, "operator": "Exists"}
BOTH = [GPU, STARTUP]
REQUEST = {"resources": {"limits": {HALVES: "1"}}}
ATTACKS: dict[str, tuple[dict[str, Any], list[dict[str, str]]]] = {
    "variable": ({"env": [ALL]}, BOTH),
    "everything": ({"env": [ALL]}, [{"operator": "Exists"}]),
    "configmap": ({"envFrom": [{"configMapRef": {"name": "settings"}}]}, BOTH),
    "old-image": ({"env": [{"name": "CUDA_VERSION", "value": "9.0"}]}, BOTH),
}
OVERRIDES: dict[str, tuple[dict[str, Any], list[dict[str, str]]]] = {
    "overrides": ({**REQUEST, "env": [ALL]}, BOTH),
    "overrides-from": ({**REQUEST, "envFrom": [{"configMapRef": {"name": "settings"}}]}, BOTH),
}
"""Here the operator allocates by CDI, whose edits come after the pod's variables."""


@pytest.fixture(scope="module")
def node(cluster: Any) -> Iterator[str]:
    """Partitioned, and held by the startup taint: nobody has verified it."""
    path = cluster.add_node(NODE, MACHINE, {"nvidia.com/mig.config": "all-3g.40gb"})
    cluster.until(path, lambda n: allocatable(n) == "4", 240)
    cluster.client.patch(path, {"spec": {"taints": TAINTS}})
    settings = {"name": "settings", "namespace": "default"}
    cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": settings, "data": {VARIABLE: "all"}}
    )
    yield path
    cluster.client.delete(path)


@pytest.fixture(scope="module")
def guarded(cluster: Any, node: str) -> Iterator[None]:
    group = "/apis/admissionregistration.k8s.io/v1"
    policy, binding = pod_policy.pod_policy(exempt_namespaces=[NAMESPACE])
    cluster.client.create(f"{group}/validatingadmissionpolicies", policy)
    cluster.client.create(f"{group}/validatingadmissionpolicybindings", binding)
    container, tolerations = ATTACKS["variable"]
    cluster.until(node, lambda _: _refusal(cluster, "probe", container, tolerations))
    yield
    name = policy["metadata"]["name"]
    cluster.client.delete(f"{group}/validatingadmissionpolicybindings/{name}")
    cluster.client.delete(f"{group}/validatingadmissionpolicies/{name}")


def allocatable(node: dict[str, Any] | None) -> str | None:
    amount = (((node or {}).get("status") or {}).get("allocatable") or {}).get(HALVES)
    return None if amount is None else str(amount)


def _run(
    cluster: Any, name: str, container: dict[str, Any], tolerations: list[dict[str, str]]
) -> str:
    return str(
        cluster.run_python(
            name,
            COUNTS,
            container=container,
            tolerations=tolerations,
            nodeSelector={"kubernetes.io/hostname": NODE},
        )
    )


def _sees(cluster: Any, path: str, wanted: str) -> None:
    cluster.says(path, lambda log: log.strip() == wanted)
    cluster.client.delete(path)


def _refusal(
    cluster: Any, name: str, container: dict[str, Any], tolerations: list[dict[str, str]]
) -> str | None:
    spec = {
        "containers": [{"name": "main", "image": "python:3.13-slim", **container}],
        "tolerations": tolerations,
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    try:
        cluster.client.create("/api/v1/namespaces/default/pods", body, dryRun="All")
    except ApiError as e:
        return str(e.message)
    return None


@pytest.mark.parametrize("attack", ATTACKS)
def test_without_the_policy_it_sees_all_partitions_of_a_node_that_nobody_has_verified(
    cluster: Any, node: str, attack: str
) -> None:
    _sees(cluster, _run(cluster, f"tenant-{attack}", *ATTACKS[attack]), EVERYTHING)


def test_who_requests_one_partition_sees_that_one_and_who_says_void_sees_none(
    cluster: Any, node: str
) -> None:
    """So it is the variable, and not the node, that brings the others."""
    _sees(cluster, _run(cluster, "tenant-requests", REQUEST, BOTH), PARTITION)
    _sees(cluster, _run(cluster, "tenant-void", {"env": [VOID]}, BOTH), NOTHING)
    _sees(cluster, _run(cluster, "tenant-overrides", *OVERRIDES["overrides"]), PARTITION)


@pytest.mark.parametrize("attack", [*ATTACKS, *OVERRIDES])
@pytest.mark.parametrize("tolerated", ["both", "gpu"])
def test_with_the_policy_it_is_refused_by_name(
    cluster: Any, guarded: None, attack: str, tolerated: str
) -> None:
    """Without the toleration of the startup taint it would wait for the node to be verified."""
    container, tolerations = (ATTACKS | OVERRIDES)[attack]
    message = _refusal(
        cluster, f"tenant-{attack}", container, tolerations if tolerated == "both" else [GPU]
    )
    assert message is not None
    assert "ValidatingAdmissionPolicy 'slicewright-pods'" in message
    expected = "the pod tolerates the startup taint" if tolerated == "both" else "containers main"
    assert expected in message
    assert "pod_guard.exempt_namespaces" in message


def test_with_the_policy_who_requests_a_partition_gets_it_once_the_node_is_released(
    cluster: Any, node: str, guarded: None
) -> None:
    path = _run(cluster, "tenant-served", REQUEST, [GPU])
    cluster.client.patch(node, {"spec": {"taints": TAINTS[:1]}})
    _sees(cluster, path, PARTITION)
