"""The workloads of the published walkthroughs, applied as a user would, and counted."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from slicewright.kubeapi import ApiError, Client

_LASTING_S = 5.0
"""A server that cannot start ends within this time."""
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
    program: str
    """What runs in place of the image's program, as the table names it."""
    is_run: bool = True
    """Whether anything does: kwok, which keeps the status of other pods, calls each of them Ready
    as soon as it is bound.
    """


WALKTHROUGHS: Mapping[str, Walkthrough] = {
    w.stack: w
    for w in (
        Walkthrough(
            stack="gke-h100",
            title="gke-h100 · GKE, one a3-highgpu-8g, 8 × H100-80GB partitioned into 2 × 3g.40gb",
            namespace="ai",
            deployment="llm-deployment",
            asked=16,
            fits=16,
            over=17,
            program="simulated vLLM",
        ),
        Walkthrough(
            stack="eks-a100",
            title="eks-a100 · EKS, one p4d.24xlarge, 8 × A100-40GB partitioned into 7 × 1g.5gb by "
            "the GPU operator",
            namespace="default",
            deployment="mig1.5",
            asked=100,
            fits=56,
            over=100,
            program="program not run",
            is_run=False,
        ),
        Walkthrough(
            stack="existing-a100-t4",
            title="existing-a100-t4 · an existing cluster, one A100-40GB partitioned into "
            "2 × 1g.5gb, 2g.10gb "
            "and 3g.20gb, time-sliced as 8, 3 and 4, and one T4 as 14",
            namespace="default",
            deployment="tritonserver-timeslicing-mig",
            asked=8,
            fits=8,
            over=9,
            program="stand-in that serves nothing",
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


@dataclass(frozen=True)
class Health:
    """How many of the bound replicas do their work."""

    running: int
    """Replicas that are Running and Ready, and of which no container has restarted."""
    trouble: str
    """What keeps one of the others from it; empty if there is none."""


def apply(client: Client, walkthrough: Walkthrough) -> None:
    """Applies the walkthrough's manifests, as `kubectl apply --server-side` does.

    Startup probes begin at once and are frequent: nothing is downloaded or loaded.
    """
    for manifest in _manifests(walkthrough):
        applied = _quickened(manifest) if manifest["kind"] == "Deployment" else manifest
        client.patch(
            _path(manifest), applied, kind="apply", fieldManager="walkthrough", force="true"
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


def wait_until_healthy(client: Client, walkthrough: Walkthrough) -> Health:
    """The health of the replicas that are bound, once it has lasted."""
    return healthy(lambda: _pods(client, walkthrough))


def healthy(
    pods: Callable[[], list[dict[str, Any]]],
    *,
    timeout_s: float = 180,
    lasting_s: float = _LASTING_S,
) -> Health:
    """Waits until every bound pod has been Running and Ready without a restart for `lasting_s`,
    which a crash loop's short runs are not; ends early when a container has restarted.
    """
    deadline, since = time.monotonic() + timeout_s, None
    while True:
        now, bound = time.monotonic(), [p for p in pods() if _is_bound(p)]
        troubles = [why for pod in bound if (why := trouble_of(pod))]
        health = Health(len(bound) - len(troubles), troubles[0] if troubles else "")
        since = None if troubles or not bound else since or now
        lasts = since is not None and now - since >= lasting_s
        if lasts or any(restarts_of(pod) for pod in bound) or now > deadline:
            return health
        time.sleep(0.2)


def trouble_of(pod: Mapping[str, Any]) -> str:
    """Why the pod is not Running and Ready without a restart, as `kubectl get pods` shows it; empty
    if it is.
    """
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    containers = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    waiting = [c["state"]["waiting"] for c in containers if "waiting" in (c.get("state") or {})]
    ready = any(
        c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ()
    )
    phase = str(status.get("phase"))
    shown = next((str(w["reason"]) for w in waiting if w.get("reason")), phase)
    if restarts := restarts_of(pod):
        return f"{name}: {shown}, {restarts} {'restart' if restarts == 1 else 'restarts'}"
    if phase != "Running" or waiting:
        return f"{name}: {shown}"
    return "" if ready else f"{name}: Running, not Ready"


def restarts_of(pod: Mapping[str, Any]) -> int:
    """The restarts of the pod's containers."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return sum(int(c.get("restartCount") or 0) for c in statuses)


def _is_bound(pod: Mapping[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName")) and "deletionTimestamp" not in pod["metadata"]


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


def _quickened(deployment: dict[str, Any]) -> dict[str, Any]:
    """The Deployment with startup probes for servers that are up within seconds."""
    quick = copy.deepcopy(deployment)
    for container in quick["spec"]["template"]["spec"]["containers"]:
        if probe := container.get("startupProbe"):
            probe.pop("initialDelaySeconds", None)
            probe["periodSeconds"] = 1
    return quick


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
