"""The workloads of the published walkthroughs, applied as a user would, and counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubeapi import ApiError, Client

_MANIFESTS = Path(__file__).parent / "walkthroughs"


@dataclass(frozen=True, kw_only=True)
class Walkthrough:
    """How many pods one walkthrough asks for, and how many find a partition."""

    stack: str
    title: str
    namespace: str
    deployment: str
    asked: int
    """Replicas that the walkthrough asks for."""
    fits: int
    """Replicas for which there are partitions: one each."""
    over: int
    """Replicas that are more than fit; where `asked` fits, they are asked for after it."""


WALKTHROUGHS: Mapping[str, Walkthrough] = {
    w.stack: w
    for w in (
        Walkthrough(
            stack="s0",
            title="S0 · GKE, one a3-highgpu-8g, 8 × H100-80GB partitioned into 2 × 3g.40gb",
            namespace="ai",
            deployment="llm-deployment",
            asked=16,
            fits=16,
            over=17,
        ),
        Walkthrough(
            stack="s1",
            title="S1 · EKS, one p4d.24xlarge, 8 × A100-40GB partitioned into 7 × 1g.5gb by "
            "the GPU operator",
            namespace="default",
            deployment="mig1.5",
            asked=100,
            fits=56,
            over=100,
        ),
        Walkthrough(
            stack="s4",
            title="S4 · an existing cluster, one A100-40GB partitioned into 2 × 1g.5gb, 2g.10gb "
            "and 3g.20gb, time-sliced as 8, 3 and 4, and one T4 as 14",
            namespace="default",
            deployment="tritonserver-timeslicing-mig",
            asked=8,
            fits=8,
            over=9,
        ),
    )
}


@dataclass(frozen=True)
class Landing:
    """How many replicas are bound to a node."""

    asked: int
    bound: int
    pending: int
    why_pending: str
    """The scheduler's message for one of the pending ones."""


def apply(client: Client, walkthrough: Walkthrough) -> None:
    """Applies the walkthrough's manifests, as `kubectl apply --server-side` does."""
    for manifest in _manifests(walkthrough):
        client.patch(
            _path(manifest), manifest, kind="apply", fieldManager="walkthrough", force="true"
        )


def pod_spec(walkthrough: Walkthrough) -> dict[str, Any]:
    """The spec of the walkthrough's pods, as its Deployment has it."""
    (deployment,) = (m for m in _manifests(walkthrough) if m["kind"] == "Deployment")
    return dict(deployment["spec"]["template"]["spec"])


def scale(client: Client, walkthrough: Walkthrough, replicas: int) -> None:
    client.patch(_deployment(walkthrough), {"spec": {"replicas": replicas}})


def delete(client: Client, walkthrough: Walkthrough) -> None:
    """Deletes what `apply` made, and waits up to three minutes for the pods to be gone."""
    for manifest in reversed(_manifests(walkthrough)):
        try:
            client.delete(_path(manifest), propagationPolicy="Background")
        except ApiError as e:
            if e.status != 404:
                raise
    _wait_for(lambda: not _pods(client, walkthrough), 180)


def wait_until_landed(
    client: Client, walkthrough: Walkthrough, asked: int, *, timeout_s: float = 180
) -> Landing:
    """Waits until the scheduler has tried every replica: each is bound, or has a reason why not."""
    return landed(
        lambda: _pods(client, walkthrough), asked, fits=walkthrough.fits, timeout_s=timeout_s
    )


def landed(
    pods: Callable[[], list[dict[str, Any]]], asked: int, *, fits: int, timeout_s: float = 180
) -> Landing:
    """The same for any pods, of which at least `fits` find a place."""
    landing = Landing(asked, 0, 0, "")

    def settled() -> bool:
        nonlocal landing
        living = [p for p in pods() if "deletionTimestamp" not in p["metadata"]]
        why = [_why_unscheduled(p) for p in living if not p["spec"].get("nodeName")]
        landing = Landing(asked, len(living) - len(why), len(why), next((w for w in why if w), ""))
        return len(living) == asked and all(why) and landing.bound >= min(asked, fits)

    _wait_for(settled, timeout_s)
    return landing


def _why_unscheduled(pod: dict[str, Any]) -> str:
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return ""


def _pods(client: Client, walkthrough: Walkthrough) -> list[dict[str, Any]]:
    (deployment,) = (m for m in _manifests(walkthrough) if m["kind"] == "Deployment")
    labels = deployment["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{k}={v}" for k, v in labels.items())
    try:
        listed = client.get(
            f"/api/v1/namespaces/{walkthrough.namespace}/pods", labelSelector=selector
        )
    except ApiError as e:
        if e.status == 404:
            return []
        raise
    return list(listed["items"])


def _manifests(walkthrough: Walkthrough) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((_MANIFESTS / f"{walkthrough.stack}.yaml").read_text()))


def _deployment(walkthrough: Walkthrough) -> str:
    return f"/apis/apps/v1/namespaces/{walkthrough.namespace}/deployments/{walkthrough.deployment}"


def _path(manifest: dict[str, Any]) -> str:
    name, kind = manifest["metadata"]["name"], manifest["kind"]
    if kind == "Namespace":
        return f"/api/v1/namespaces/{name}"
    return f"/apis/apps/v1/namespaces/{manifest['metadata']['namespace']}/deployments/{name}"


def _wait_for(done: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not done() and time.monotonic() < deadline:
        time.sleep(0.2)
