"""The stand-in for the chart kube-prometheus-stack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests, plan, stack_file
from slicewright.rehearsal.plugins.charts import NoSuchChart, find

REPOSITORY = "https://prometheus-community.github.io/helm-charts"
CHART = find("kube-prometheus-stack", repository=REPOSITORY, version="88.5.3")
OFF = {"enabled": False}
VALUES: dict[str, Any] = {
    "defaultRules": {"create": False},
    **dict.fromkeys(
        (
            *("kubeApiServer", "kubelet", "kubeControllerManager", "coreDns", "kubeDns"),
            *("kubeEtcd", "kubeScheduler", "kubeProxy", "nodeExporter"),
        ),
        OFF,
    ),
    "prometheusOperator": {
        "admissionWebhooks": OFF,
        "tls": OFF,
        "prometheusInstanceNamespaces": ["monitoring"],
    },
    "prometheus": {
        "prometheusSpec": {
            "scrapeInterval": "10s",
            "nodeSelector": {"pool": "system"},
            "arbitraryFSAccessThroughSMs": {"deny": True},
        }
    },
    "grafana": OFF,
    "alertmanager": OFF,
}


def rendered(
    values: dict[str, Any], release: str = "kube-prom-stack"
) -> dict[tuple[str, str], dict[str, Any]]:
    assert CHART.check(values) == []
    made = CHART.render(values, release, "monitoring")
    return {(one["kind"], one["metadata"]["name"]): one for one in made}


@pytest.mark.parametrize(
    ("release", "service"),
    [
        # Cut to 26 characters, as the chart does.
        ("kube-prom-stack", "kube-prom-stack-kube-prome-prometheus"),
        ("kube-prometheus-stack", "kube-prometheus-stack-prometheus"),
        ("p", "p-kube-prometheus-stack-prometheus"),
    ],
)
def test_prometheus_has_the_name_that_the_chart_gives_it(release: str, service: str) -> None:
    made = rendered(VALUES, release)
    (port, _) = made["Service", service]["spec"]["ports"]
    assert (port["name"], port["port"]) == ("http-web", 9090)
    assert made["Service", service]["spec"]["selector"]["operator.prometheus.io/name"] == service
    assert made["Prometheus", service]["spec"]["serviceAccountName"] == service


def test_prometheus_selects_what_has_the_releases_label_in_all_namespaces() -> None:
    name = "kube-prom-stack-kube-prome-prometheus"
    spec = rendered(VALUES)["Prometheus", name]["spec"]
    for kind in ("podMonitor", "serviceMonitor", "rule"):
        assert spec[f"{kind}Selector"] == {"matchLabels": {"release": "kube-prom-stack"}}
        assert spec[f"{kind}NamespaceSelector"] == {}
    asked = {"prometheus": {"prometheusSpec": {"ruleSelectorNilUsesHelmValues": False}}}
    assert rendered({**VALUES, **asked})["Prometheus", name]["spec"]["ruleSelector"] == {}
    assert spec["scrapeInterval"] == "10s"
    assert "scrapeTimeout" not in spec
    assert spec["nodeSelector"] == {"pool": "system"}


def test_the_operator_minds_the_namespaces_that_it_is_given() -> None:
    deployment = rendered(VALUES)["Deployment", "kube-prom-stack-kube-prome-operator"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "quay.io/prometheus-operator/prometheus-operator:v0.85.0"
    assert "--prometheus-instance-namespaces=monitoring" in container["args"]


def test_a_mirror_takes_the_place_of_every_registry() -> None:
    made = rendered({**VALUES, "global": {"imageRegistry": "mirror.example/x"}})
    images = [
        container["image"]
        for one in made.values()
        if one["kind"] == "Deployment"
        for container in one["spec"]["template"]["spec"]["containers"]
    ]
    assert images
    assert all(image.startswith("mirror.example/x/") for image in images)


def test_the_operators_kinds_come_first() -> None:
    kinds = {one["spec"]["names"]["kind"] for one in CHART.crds()}
    assert {"Prometheus", "PodMonitor", "ServiceMonitor", "PrometheusRule"} <= kinds


@pytest.mark.parametrize(
    ("values", "path", "words"),
    [
        ({"prometheusOperator": {"tls": {"enabled": True}}}, "prometheusOperator.tls", "false"),
        (
            {"prometheus": {"prometheusSpec": {"scrapeInterva": "10s"}}},
            "prometheus.prometheusSpec.scrapeInterva",
            "'scrapeInterval'",
        ),
        ({"nodeExporter": {"enabled": True}}, "nodeExporter.enabled", "does not scrape"),
        ({"defaultRules": {"create": True}}, "defaultRules.create", "false"),
        ({"grafana": {"enabled": True}}, "grafana.enabled", "AGPL"),
    ],
)
def test_values_without_effect_are_refused(values: dict[str, Any], path: str, words: str) -> None:
    full = {**VALUES, **{k: {**VALUES.get(k, {}), **v} for k, v in values.items()}}
    ((found, reason),) = CHART.check(full)
    assert found.startswith(path)
    assert words in reason


def test_other_version_is_refused_with_the_available_one() -> None:
    with pytest.raises(NoSuchChart, match=r"88\.5\.3"):
        find("kube-prometheus-stack", repository=REPOSITORY, version="70.0.0")


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {
            "registry": "mirror.example",
            "image_pull_secrets": ["pull"],
            "storage": {"size": "20Gi", "storage_class": "ssd"},
            "alertmanager": {"config_secret": "alertmanager-config"},
            "create_namespace": False,
        },
    ],
    ids=["least", "most"],
)
def test_the_values_of_the_product_are_the_charts(asked: dict[str, Any]) -> None:
    stack = Path(__file__).parents[3] / "infra" / "golden" / "autoscaling.yaml"
    fleet = yaml.safe_load(stack.read_text())["config"]["slicewright:fleet"]
    raw = {**fleet, "monitoring": {"prometheus": "stack", **asked}}
    planned = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert rendered(manifests.monitoring_values(planned))
