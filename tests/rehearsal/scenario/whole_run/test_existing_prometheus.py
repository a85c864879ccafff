"""existing-a100-t4 in a cluster whose owner has Prometheus: the fleet is measured by that one,
which stays as it was.

Prometheus and its operator are real (docs/reference/simulated-monitoring.md).
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from slicewright.infra import plan
from slicewright.infra.plan import ExistingFleetPlan
from slicewright.kubeapi import Client
from slicewright.rehearsal.cluster.kubelet.services.proxy import ADDRESS
from slicewright.rehearsal.scenario import existing_cluster
from slicewright.rehearsal.scenario.engine_runs import Engine
from slicewright.rehearsal.scenario.environment import Environment
from tests.rehearsal.scenario.stack_edits import edited_fleet
from tests.rehearsal.scenario.whole_run.waiting import until

pytestmark = [
    pytest.mark.rehearsal,
    pytest.mark.timeout(1200),
    pytest.mark.long(
        "that the same Prometheus reads what a monitor selects: "
        "tests/rehearsal/cluster/monitoring/test_prometheus.py; its rules, by promtool: "
        "tests/infra/manifests/monitoring/test_rules.py; what a cluster that has one gets: "
        "tests/infra/manifests/monitoring/test_objects.py"
    ),
]
STACK = "existing-a100-t4"
NAMESPACE, NAME = "observability", "theirs-prometheus"
LABELS = {"team": "sre"}
OPERATED = f"/apis/monitoring.coreos.com/v1/namespaces/{NAMESPACE}"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LONG_S = 600


@pytest.fixture(scope="module")
def engine(make_environment_with_prometheus: Callable[[str], Environment]) -> Engine:
    environment = make_environment_with_prometheus(STACK)
    stack_file = environment.stack_file(STACK)
    with edited_fleet(stack_file) as fleet:
        fleet["monitoring"] = {
            "prometheus": "existing",
            "url": f"http://{NAME}.{NAMESPACE}.svc:9090",
            "namespace": NAMESPACE,
            "selector_labels": LABELS,
            "scrape_interval": "10s",
        }
    fleet = plan.read_file(stack_file)
    assert isinstance(fleet, ExistingFleetPlan)
    existing_cluster.make(environment, fleet)
    engine = Engine(environment, STACK, print)
    assert engine.init().code == 0
    return engine


@pytest.fixture(scope="module")
def client(engine: Engine) -> Client:
    return Client.from_kubeconfig(engine.environment.user_kubeconfig)


def measured(client: Client, query: str) -> list[dict[str, str]]:
    """The labels of each series; none while Prometheus does not answer."""
    service = client.get(f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}")
    try:
        address = service["metadata"]["annotations"][ADDRESS]
        connection = http.client.HTTPConnection(address, 9090, timeout=30)
        connection.request("GET", f"/api/v1/query?{urlencode({'query': query})}")
        found = json.loads(connection.getresponse().read())["data"]["result"]
    except (OSError, ValueError, KeyError, http.client.HTTPException):
        return []
    return [one["metric"] for one in found]


def made(client: Client, kind: str) -> list[dict[str, Any]]:
    return list(client.get(f"{OPERATED}/{kind}")["items"])


def test_existing_prometheus_scrapes_monitors_with_its_labels(
    engine: Engine, client: Client
) -> None:
    prometheus = client.get(f"{OPERATED}/prometheuses/{NAME}")
    (pod,) = client.get(
        f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector="app.kubernetes.io/name=prometheus"
    )["items"]
    assert made(client, "podmonitors") == made(client, "prometheusrules") == []
    up = engine.up()
    assert up.code == 0, up.output
    for kind in ("podmonitors", "prometheusrules"):
        assert made(client, kind)
        for one in made(client, kind):
            assert LABELS.items() <= one["metadata"]["labels"].items(), one["metadata"]["name"]
    until(
        lambda: (
            {labels["job"] for labels in measured(client, "up == 1")}
            >= {f"{NAMESPACE}/{one}" for one in ("node-agent", "fleet-controller", "dcgm-exporter")}
        ),
        "Prometheus reads agents, controller and DCGM's exporter",
        LONG_S,
    )
    until(
        lambda: (
            {labels["pool"] for labels in measured(client, "pool:slicewright_nodes_proven:ratio")}
            == {"a100-40gb", "tesla-t4"}
        ),
        "the stack's rules have values",
        LONG_S,
    )
    nodes = client.get("/api/v1/nodes", labelSelector="slicewright.io/pool")["items"]
    until(
        lambda: (
            {labels["node"] for labels in measured(client, "gpu:slicewright_engine_active:ratio")}
            == {one["metadata"]["name"] for one in nodes}
        ),
        "the partitioned GPU and the whole one have a value",
        LONG_S,
    )
    after = client.get(f"{OPERATED}/prometheuses/{NAME}")
    assert after["spec"] == prometheus["spec"]
    (same,) = client.get(
        f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector="app.kubernetes.io/name=prometheus"
    )["items"]
    assert same["metadata"]["uid"] == pod["metadata"]["uid"]


def test_destroy_leaves_it_and_the_cluster_as_they_were(engine: Engine, client: Client) -> None:
    down = engine.destroy()
    assert down.code == 0, down.output
    assert existing_cluster.differences(engine.environment).others == ()
    assert made(client, "podmonitors") == made(client, "prometheusrules") == []
    until(lambda: measured(client, "vector(1)"), "Prometheus still answers", LONG_S)


def test_a_preview_fails_with_the_kind_that_the_cluster_does_not_have(
    engine: Engine, client: Client
) -> None:
    client.delete(f"{CRDS}/podmonitors.monitoring.coreos.com")
    previewed = engine.preview()
    assert previewed.code != 0
    assert "the-prometheus-operator-must-be-installed-podmonitors" in previewed.output
