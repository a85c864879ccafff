"""A Deployment of servers with Triton's metrics of a queue: a test sets how long requests wait."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from typing import Any

from tests.rehearsal.cluster.kubelet.simulated_cluster import PYTHON
from tests.rehearsal.cluster.monitoring.installed import apply

# A request a second. What each of them waits is set by POST, and is nothing at first.
_SERVED = """
import http.server, os, time
began = since = time.monotonic()
wait, waited, ready = 0, 0.0, True
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        now = time.monotonic()
        labels = '{model="densenet_onnx",version="1"}'
        text = (
            f"nv_inference_request_success{labels} {now - began}\\n"
            f"nv_inference_queue_duration_us{labels} {waited + (now - since) * wait}\\n"
        ).encode()
        self.send_response(503 if self.path == "/ready" and not ready else 200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def do_POST(self):
        global wait, waited, since, ready
        if self.path in ("/ready", "/unready"):
            ready = self.path == "/ready"
        else:
            now = time.monotonic()
            wait, waited, since = int(self.path.strip("/")), waited + (now - since) * wait, now
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer((os.environ["POD_IP"], 8002), Handler).serve_forever()
"""


def serve(cluster: Any, name: str, labels: Mapping[str, str], *, replicas: int = 1) -> None:
    """Makes the Deployment, in the namespace default. labels: those that its monitor selects."""
    code = f"{name}-code"
    apply(
        cluster,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": code, "namespace": "default"},
            "data": {"main.py": _SERVED},
        },
    )
    container = {
        "name": "main",
        "image": PYTHON,
        "command": ["python", "/code/main.py"],
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "volumeMounts": [{"name": "code", "mountPath": "/code"}],
        "ports": [{"name": "metrics", "containerPort": 8002}],
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": "metrics"},
            "periodSeconds": 1,
            "failureThreshold": 1,
        },
    }
    pod = {
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": "n1"},
        "containers": [container],
        "volumes": [{"name": "code", "configMap": {"name": code}}],
    }
    apply(
        cluster,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": dict(labels)},
                "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
            },
        },
    )


def waits(cluster: Any, name: str, microseconds: int) -> None:
    """All requests that wait are the oldest server's, so the mean falls as replicas come."""
    post(oldest(cluster, name), str(microseconds))


def oldest(cluster: Any, name: str) -> dict[str, Any]:
    return min(servers(cluster, name), key=lambda one: one["metadata"]["creationTimestamp"])


def servers(cluster: Any, name: str) -> list[dict[str, Any]]:
    found = cluster.client.get("/api/v1/namespaces/default/pods")["items"]
    return [
        one
        for one in found
        if one["metadata"]["name"].startswith(f"{name}-")
        and "deletionTimestamp" not in one["metadata"]
    ]


def post(pod: dict[str, Any], what: str) -> None:
    connection = http.client.HTTPConnection(pod["status"]["podIP"], 8002, timeout=30)
    connection.request("POST", f"/{what}")
    assert connection.getresponse().status == 204


def replicas(count: int) -> Any:
    """Whether a Deployment has so many, and all are ready."""

    def holds(found: dict[str, Any] | None) -> bool:
        status = (found or {}).get("status") or {}
        has = (status.get("readyReplicas", 0), status.get("replicas", 0))
        return has == (count, count)

    return holds
