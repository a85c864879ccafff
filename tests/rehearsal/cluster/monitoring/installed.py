"""Charts installed without an engine, and what they then answer."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.cluster.kubelet.services.proxy import ADDRESS
from slicewright.rehearsal.plugins.charts import find

_LONG_S = 240
_LOOK_S = 10
"""How long a change may take that Prometheus sees by itself: twice the time of the operator, the
kubelet and a scrape.
"""


def apply(cluster: Any, obj: dict[str, Any]) -> None:
    metadata = obj["metadata"]
    path = path_of(
        obj["apiVersion"], plural(obj["kind"]), metadata["name"], metadata.get("namespace")
    )
    cluster.client.patch(path, obj, kind="apply", fieldManager="test", force="true")


def plural(kind: str) -> str:
    lower = kind.lower()
    return f"{lower}es" if lower.endswith("s") else f"{lower}s"


def install(
    cluster: Any, chart: str, repository: str, release: str, namespace: str, values: dict[str, Any]
) -> None:
    """As Helm does: the CRDs first, then all else."""
    found = find(chart, repository=repository, version=None)
    assert found.check(values) == []
    apply(
        cluster,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
    )
    rendered = found.render(values, release, namespace)
    kinds = [*found.crds(), *(o for o in rendered if o["kind"] == "CustomResourceDefinition")]
    for kind in kinds:
        apply(cluster, kind)
    for kind in kinds:
        cluster.until(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + kind["metadata"]["name"],
            _established,
        )
    for obj in rendered:
        if obj["kind"] != "CustomResourceDefinition":
            apply(cluster, obj)


def _established(found: dict[str, Any] | None) -> bool:
    conditions = ((found or {}).get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


@dataclass(frozen=True)
class Prometheus:
    """One that runs in the cluster, asked through its Service."""

    cluster: Any
    namespace: str
    name: str

    @property
    def url(self) -> str:
        """As pods name it."""
        return f"http://{self.name}.{self.namespace}.svc:9090"

    def query(self, text: str) -> dict[str, float]:
        """The value of each series, by its pod; empty while Prometheus does not answer."""
        path = f"/api/v1/namespaces/{self.namespace}/services/{self.name}"
        annotations = self.cluster.client.get(path)["metadata"].get("annotations") or {}
        try:
            connection = http.client.HTTPConnection(annotations[ADDRESS], 9090, timeout=30)
            connection.request("GET", f"/api/v1/query?{urlencode({'query': text})}")
            answer = json.loads(connection.getresponse().read())
        except (OSError, KeyError, ValueError, http.client.HTTPException):
            return {}
        return {
            one["metric"].get("pod", ""): float(one["value"][1]) for one in answer["data"]["result"]
        }

    def until(self, text: str, wanted: dict[str, float]) -> None:
        began = time.monotonic()
        looks = 1
        while (found := self.query(text)) != wanted:
            waited = time.monotonic() - began
            assert waited < _LONG_S, f"{text} is {found}, not {wanted}"
            if waited > looks * _LOOK_S:
                self._look_again()
                looks += 1
            time.sleep(0.2)

    def _look_again(self) -> None:
        """Its config reloader would look for a changed monitor every three minutes. It looks at
        once when something changes in the directory of rules, which it watches as such.
        See docs/reference/simulated-monitoring.md.
        """
        rule = {"record": "looked", "expr": f"vector({time.time():.0f})"}
        apply(
            self.cluster,
            {
                "apiVersion": "monitoring.coreos.com/v1",
                "kind": "PrometheusRule",
                "metadata": {
                    "name": "look-again",
                    "namespace": "default",
                    "labels": {"release": "kube-prom-stack"},
                },
                "spec": {"groups": [{"name": "look-again", "rules": [rule]}]},
            },
        )


_SERVED = """
import http.server, os, urllib.parse
demand = {"demand": "DEMAND"}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = f"demand {demand['demand']}\\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def do_POST(self):
        demand["demand"] = self.path.strip("/")
        self.send_response(204)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer((os.environ["POD_IP"], 8000), Handler).serve_forever()
"""


def served_demand(demand: int) -> str:
    """A program that serves a metric `demand`, and takes another value by POST /NUMBER."""
    return _SERVED.replace("DEMAND", str(demand))


class Source:
    """A pod with a metric `demand`, and the PodMonitor of it."""

    def __init__(self, cluster: Any, name: str, demand: int) -> None:
        self._cluster = cluster
        self.name = name
        ports = [{"name": "metrics", "containerPort": 8000}]
        probe = {"tcpSocket": {"port": "metrics"}, "periodSeconds": 1}
        path = cluster.run_python(
            name,
            served_demand(demand),
            container={"ports": ports, "readinessProbe": probe},
        )
        self._address = cluster.ready(path)["status"]["podIP"]
        apply(
            cluster,
            {
                "apiVersion": "monitoring.coreos.com/v1",
                "kind": "PodMonitor",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "labels": {"release": "kube-prom-stack"},
                },
                "spec": {
                    "selector": {"matchLabels": {"app": name}},
                    "podMetricsEndpoints": [{"port": "metrics"}],
                },
            },
        )

    def set(self, demand: int) -> None:
        connection = http.client.HTTPConnection(self._address, 8000, timeout=30)
        connection.request("POST", f"/{demand}")
        assert connection.getresponse().status == 204
