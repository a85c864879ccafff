"""The stand-in for HAMi's chart."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from slicewright.infra import manifests, plan
from slicewright.rehearsal.cluster.control_plane import process_images
from slicewright.rehearsal.cluster.vgpu.cards import Sharing
from slicewright.rehearsal.cluster.vgpu.hami import HAMI
from slicewright.rehearsal.plugins.charts import find

PROJECT = Path(__file__).resolve().parents[4]
REPOSITORY = "https://project-hami.github.io/HAMi/"
CHART = find("hami", repository=REPOSITORY, version="2.10.0")


def rendered(values: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    assert CHART.check(values) == []
    return {
        (made["kind"], made["metadata"]["name"]): made
        for made in CHART.render(values, "hami", "hami-system")
    }


def test_a_fleets_own_values_pass_and_its_pods_run_as_processes() -> None:
    fleet = plan.read_file(PROJECT / "tests/infra/golden/fractional-hami.yaml")
    (chart,) = manifests.engine_charts(fleet)
    name, repository = chart.address
    assert find(name, repository=repository, version=chart.version) is CHART
    made = rendered(dict(chart.values))
    for key in (("Deployment", "hami-scheduler"), ("DaemonSet", "hami-device-plugin")):
        pod = made[key]["spec"]["template"]["spec"]
        first = pod["containers"][0]
        assert process_images.runs_as_process(first["image"], first["name"])
        assert pod["imagePullSecrets"] == [{"name": "mirror"}]
    assert pod["nodeSelector"] == {"gpu": "on"}


def test_the_plugin_and_the_extender_read_the_settings_of_the_values() -> None:
    values = {
        "scheduler": {"defaultSchedulerPolicy": {"nodeSchedulerPolicy": "spread"}},
        "devicePlugin": {"deviceSplitCount": 4, "deviceMemoryScaling": 1.5},
    }
    made = rendered(values)
    config = made["ConfigMap", "hami-scheduler-device"]
    assert HAMI.sharing(config) == Sharing(shares_per_card=4, memory_scaling=1.5)
    _, extender = made["Deployment", "hami-scheduler"]["spec"]["template"]["spec"]["containers"]
    assert "--node-scheduler-policy=spread" in extender["command"]
    assert "--gpu-scheduler-policy=spread" in extender["command"]


def test_kubernetes_scheduler_asks_the_extender_beside_it() -> None:
    made = rendered({})
    config = yaml.safe_load(made["ConfigMap", "hami-scheduler"]["data"]["config.yaml"])
    (extender,) = config["extenders"]
    assert extender["urlPrefix"] == "https://127.0.0.1:9443"
    assert all(one["ignoredByScheduler"] for one in extender["managedResources"])
    assert config["profiles"] == [{"schedulerName": "hami-scheduler"}]


def test_the_api_server_trusts_the_webhooks_certificate() -> None:
    made = rendered({})
    (hook,) = made["MutatingWebhookConfiguration", "hami-webhook"]["webhooks"]
    bundle = base64.b64decode(hook["clientConfig"]["caBundle"])
    secret = made["Secret", "hami-scheduler-tls"]
    assert base64.b64decode(secret["data"]["tls.crt"]) == bundle
    names = x509.load_pem_x509_certificate(bundle).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert "hami-scheduler.hami-system.svc" in names.value.get_values_for_type(x509.DNSName)


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"scheduler": {"certManager": {"enabled": True}}}, "scheduler.certManager.enabled"),
        ({"scheduler": {"nodeLabelSelector": {"gpu": "on"}}}, "scheduler.nodeLabelSelector"),
        ({"devicePlugin": {"deviceSplitCounts": 3}}, "devicePlugin.deviceSplitCounts"),
    ],
)
def test_values_that_are_not_simulated_are_refused(values: dict[str, Any], path: str) -> None:
    assert [at for at, _ in CHART.check(values)] == [path]
