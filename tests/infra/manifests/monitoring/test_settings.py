"""`monitoring` of a stack file: what it accepts, and the chart that is installed for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.plan.model.monitoring import chart_name
from slicewright.infra.stack_file import MetricsNamespace

STACK: dict[str, Any] = {"prometheus": "stack"}
EXISTING: dict[str, Any] = {"prometheus": "existing", "url": "http://p.metrics.svc:9090/"}
CLOUDS: dict[str, dict[str, Any]] = {
    "gke": {
        "cluster": {"name": "c", "location": "us-central1"},
        "node_pools": [
            {
                "name": "a",
                "machine_type": "a2-highgpu-1g",
                "zones": ["us-central1-a"],
                "nodes": {"count": 1},
                "partition": {"mode": "native", "profile": "1g.5gb"},
            }
        ],
    },
    "eks": {
        "cluster": {"name": "c", "region": "us-west-2"},
        "node_pools": [
            {
                "name": "a",
                "machine_type": "p4d.24xlarge",
                "nodes": {"count": 1},
                "partition": {"mode": "operator", "layout": {"1g.5gb": 7}},
            }
        ],
    },
    "byo": {
        "cluster": {"name": "c", "context": "c"},
        "node_pools": [
            {
                "name": "a",
                "gpu": {"model": "A100-40", "count": 1},
                "nodes": {"count": 1},
                "partition": {"mode": "operator", "layout": {"1g.5gb": 7}},
            }
        ],
    },
}


def written(monitoring: Any, cloud: str = "byo", **more: Any) -> dict[str, Any]:
    return {"cloud": cloud, **CLOUDS[cloud], "monitoring": monitoring, **more}


def planned(monitoring: Any, cloud: str = "byo", **more: Any) -> plan.FleetPlan:
    raw = written(monitoring, cloud, **more)
    return plan.read(json.dumps(raw), stack_file.Source("test", raw))


def refusal(monitoring: Any, cloud: str = "byo", **more: Any) -> str:
    with pytest.raises(stack_file.SpecError) as caught:
        planned(monitoring, cloud, **more)
    return str(caught.value)


def of(fleet: plan.FleetPlan) -> plan.MonitoringPlan:
    assert fleet.monitoring is not None
    return fleet.monitoring


@pytest.mark.parametrize(
    ("release", "name"),
    [
        # existing-a100-t4's: prometheus-kube-prom-stack-kube-prome-prometheus is its StatefulSet.
        ("kube-prom-stack", "kube-prom-stack-kube-prome"),
        ("p", "p-kube-prometheus-stack"),
        ("kube-prometheus-stack", "kube-prometheus-stack"),
        ("my-kube-prometheus-stack", "my-kube-prometheus-stack"),
        ("a-kube-prometheus-stack-of-many", "a-kube-prometheus-stack-of"),
        # Cut after a hyphen.
        ("kube-prometheus-stacks-01-02-x", "kube-prometheus-stacks-01"),
    ],
)
def test_the_charts_objects_are_named_by_its_rules(release: str, name: str) -> None:
    assert chart_name(release) == name
    url = of(planned(STACK | {"release": release, "namespace": "m"})).prometheus_url
    assert url == f"http://{name}-prometheus.m.svc:9090"


def test_an_existing_prometheus_is_queried_at_the_files_url() -> None:
    assert of(planned(EXISTING)).prometheus_url == "http://p.metrics.svc:9090"


def test_managed_prometheus_is_queried_only_through_a_frontend() -> None:
    managed: dict[str, Any] = {"prometheus": "managed"}
    assert of(planned(managed, "gke")).prometheus_url == ""
    frontend = managed | {"url": "http://frontend.default.svc:9090"}
    assert of(planned(frontend, "gke")).prometheus_url == "http://frontend.default.svc:9090"


def test_no_monitoring_is_planned_by_default() -> None:
    for cloud, keys in CLOUDS.items():
        raw = {"cloud": cloud, **keys}
        fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
        assert fleet.monitoring is None
        assert fleet.metrics_from == ()


@pytest.mark.parametrize(
    ("monitoring", "cloud", "reader"),
    [
        (
            STACK,
            "eks",
            MetricsNamespace(namespace="monitoring", pods={"app.kubernetes.io/name": "prometheus"}),
        ),
        (
            EXISTING | {"namespace": "metrics"},
            "byo",
            MetricsNamespace(namespace="metrics", pods={"app.kubernetes.io/name": "prometheus"}),
        ),
        (
            {"prometheus": "managed"},
            "gke",
            MetricsNamespace(namespace="gmp-system", pods={"app.kubernetes.io/name": "collector"}),
        ),
    ],
    ids=["stack", "existing", "managed"],
)
def test_the_stacks_prometheus_may_read_metrics_of_agents_and_controller(
    monitoring: dict[str, Any], cloud: str, reader: MetricsNamespace
) -> None:
    assert planned(monitoring, cloud).metrics_from == (reader,)
    others = [{"cidr": "10.0.0.0/16"}]
    assert planned(monitoring, cloud, metrics_from=others).metrics_from[1:] == (reader,)
    same = [{"namespace": reader.namespace, "pods": dict(reader.pods)}]
    assert planned(monitoring, cloud, metrics_from=same).metrics_from == (reader,)


@pytest.mark.parametrize(("cloud", "selected"), [("gke", True), ("eks", True), ("byo", False)])
def test_nothing_of_the_chart_runs_on_gpu_nodes(cloud: str, selected: bool) -> None:
    found = manifests.monitoring_values(
        planned(
            STACK
            | {
                "create_namespace": False,
                "alertmanager": {"config_secret": "a"},
            },
            cloud,
        )
    )
    pods = [
        found["prometheusOperator"],
        found["prometheus"]["prometheusSpec"],
        found["kube-state-metrics"],
        found["alertmanager"]["alertmanagerSpec"],
    ]
    assert not found["nodeExporter"]["enabled"], "a DaemonSet on all nodes"
    for pod in pods:
        assert "tolerations" not in pod
        if selected:
            assert pod["nodeSelector"] == {"slicewright.io/role": "system"}
            continue
        affinity = pod["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert {one["key"]: one["operator"] for one in term["matchExpressions"]} == {
            "slicewright.io/pool": "DoesNotExist",
            "nvidia.com/gpu.present": "NotIn",
        }


def test_without_a_system_pool_an_affinity_keeps_prometheus_off_gpu_nodes() -> None:
    cluster = {"name": "c", "location": "us-central1", "existing": True}
    found = manifests.monitoring_values(planned(STACK, "gke", cluster=cluster))
    assert "affinity" in found["prometheus"]["prometheusSpec"]
    assert "nodeSelector" not in found["prometheus"]["prometheusSpec"]


def test_no_password_is_in_the_values() -> None:
    asked = STACK | {
        "create_namespace": False,
        "alertmanager": {"config_secret": "routes"},
    }
    found = manifests.monitoring_values(planned(asked))
    assert found["alertmanager"]["alertmanagerSpec"]["configSecret"] == "routes"
    assert found["alertmanager"]["alertmanagerSpec"]["useExistingSecret"] is True


def test_retention_size_leaves_room_on_the_volume() -> None:
    asked = STACK | {"storage": {"size": "20Gi", "storage_class": "fast"}, "retention_days": 3}
    found = manifests.monitoring_values(planned(asked))["prometheus"]["prometheusSpec"]
    claim = found["storageSpec"]["volumeClaimTemplate"]["spec"]
    assert claim["resources"] == {"requests": {"storage": "20Gi"}}
    assert claim["storageClassName"] == "fast"
    assert found["retention"] == "3d"
    assert found["retentionSize"] == "17408MiB"


@pytest.mark.parametrize(
    ("interval", "timeout", "window"), [("1s", "1s", 60), ("10s", "10s", 60), ("1m", "10s", 240)]
)
def test_scrape_timeout_is_not_longer_than_the_interval(
    interval: str, timeout: str, window: int
) -> None:
    fleet = planned(STACK | {"scrape_interval": interval})
    found = manifests.monitoring_values(fleet)["prometheus"]["prometheusSpec"]
    assert found["scrapeTimeout"] == timeout
    assert of(fleet).window_s == window
    assert of(fleet).window_s >= 4 * of(fleet).interval_s
    assert of(fleet).dcgm_interval_s >= 30


@pytest.mark.parametrize(
    ("asked", "chart", "repository"),
    [
        ({}, "kube-prometheus-stack", "https://prometheus-community.github.io/helm-charts"),
        (
            {"repository": "oci://r.example/charts/"},
            "oci://r.example/charts/kube-prometheus-stack",
            None,
        ),
        ({"chart_path": "charts/k.tgz"}, "charts/k.tgz", None),
    ],
)
def test_the_chart_comes_from_a_repository_a_registry_or_a_file(
    asked: dict[str, Any], chart: str, repository: str | None
) -> None:
    found = of(planned(STACK | asked)).settings
    assert isinstance(found, stack_file.PrometheusStack)
    assert manifests.monitoring_chart(found) == (chart, repository)


def test_a_mirror_and_pull_secrets_apply_to_the_whole_chart() -> None:
    asked = STACK | {"registry": "r.example:5000", "image_pull_secrets": ["mirror"]}
    assert manifests.monitoring_values(planned(asked))["global"] == {
        "imageRegistry": "r.example:5000",
        "imagePullSecrets": [{"name": "mirror"}],
    }


@pytest.mark.parametrize(
    ("monitoring", "cloud", "more", "words"),
    [
        ({}, "byo", {}, "write prometheus: stack, existing, or managed (GKE)"),
        ({"prometheus": "managed"}, "eks", {}, "collects in GKE clusters"),
        (
            {"prometheus": "managed"},
            "gke",
            {
                "cluster": {
                    "name": "c",
                    "location": "us-central1",
                    "monitoring": {
                        "components": ["SYSTEM_COMPONENTS"],
                        "managed_prometheus": False,
                    },
                }
            },
            "whose collectors this turns off",
        ),
        (STACK | {"scrape_interval": "2m"}, "byo", {}, "of 1s to 60s"),
        (STACK | {"scrape_interval": 10}, "byo", {}, "10"),
        (STACK | {"chart_version": "^88"}, "byo", {}, "one exact version"),
        (STACK | {"namespace": "kube-system"}, "byo", {}, "is already in use"),
        (STACK | {"namespace": "slicewright-system"}, "byo", {}, "is already in use"),
        (STACK | {"namespace": "gpu-operator"}, "byo", {}, "whose pods are privileged"),
        (
            STACK | {"alertmanager": {"config_secret": "a"}},
            "byo",
            {},
            "make namespace monitoring with the Secret, and write false",
        ),
        (STACK | {"alertmanager": {"config": "x"}}, "byo", {}, "unknown key"),
        ({"prometheus": "existing"}, "byo", {}, "url"),
        (EXISTING | {"url": "p.metrics.svc:9090"}, "byo", {}, "is not the URL of a server"),
        (
            STACK,
            "byo",
            {"gpu_operator": {"dcgm_exporter": {"service_monitor": {"enabled": True}}}},
            "every sample would be stored twice",
        ),
        (
            STACK,
            "byo",
            {
                "cluster": None,
                "node_pools": [],
                "hosts": [
                    {
                        "name": "h",
                        "gpu": {"model": "A100-40", "count": 1},
                        "gpus": [{"index": 0, "instances": [{"profile": "3g.20gb", "start": 0}]}],
                    }
                ],
            },
            "needs a cluster",
        ),
    ],
)
def test_invalid_monitoring_settings_are_refused(
    monitoring: dict[str, Any], cloud: str, more: dict[str, Any], words: str
) -> None:
    assert words in refusal(monitoring, cloud, **more)


@pytest.mark.parametrize(
    ("monitoring", "cloud", "words"),
    [
        (STACK, "byo", "loses its data with its pod; write storage"),
        (STACK, "byo", "notify no one; write alertmanager"),
        (STACK, "byo", "without one write dashboards: false"),
        (STACK, "gke", "of pools that GKE partitions, a, is GKE's own"),
        ({"prometheus": "managed"}, "gke", "each series sends one every 10 seconds"),
        (EXISTING, "eks", "a new cluster has no Prometheus"),
        (EXISTING, "byo", ""),
    ],
)
def test_monitoring_notes_are_shown(monitoring: dict[str, Any], cloud: str, words: str) -> None:
    found = [one for one in plan.notes(planned(monitoring, cloud)) if one.startswith("monitoring:")]
    assert any(words in one for one in found) if words else not found


def test_a_complete_monitoring_stack_has_no_notes() -> None:
    asked = STACK | {
        "create_namespace": False,
        "storage": {"size": "20Gi"},
        "dashboards": False,
        "alertmanager": {"config_secret": "a"},
    }
    assert not [one for one in plan.notes(planned(asked)) if one.startswith("monitoring:")]


def test_a_wrong_alertmanager_key_is_the_only_problem_reported() -> None:
    for wrong in (True, {"config_secret": "No Name"}, {"config": "x"}):
        said = refusal(STACK | {"alertmanager": wrong}, "byo")
        assert "monitoring.alertmanager" in said
        assert "create_namespace" not in said


@pytest.mark.parametrize("value", [True, None, {}, {"admin_secret": "grafana-admin"}], ids=str)
def test_grafana_key_is_refused_with_reason_and_remedy(value: object) -> None:
    said = refusal(STACK | {"grafana": value}, "byo")
    assert said.count("grafana:") == 1, "one message"
    assert "unknown key; remove it: Grafana is under the AGPL" in said
    assert "your own loads the dashboards from ConfigMaps, see docs/how-to/monitoring.md" in said


def test_the_chart_installs_no_grafana() -> None:
    """The chart's own default is to install it, under the AGPL."""
    for dashboards in (True, False):
        found = manifests.monitoring_values(planned(STACK | {"dashboards": dashboards}))
        assert found["grafana"] == {"enabled": False}
