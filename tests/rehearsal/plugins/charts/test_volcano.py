"""The stand-in for Volcano's chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests, plan
from slicewright.rehearsal.cluster.control_plane import process_images
from slicewright.rehearsal.cluster.vgpu import volcano
from slicewright.rehearsal.cluster.vgpu.cards import Sharing
from slicewright.rehearsal.plugins.charts import find

PROJECT = Path(__file__).resolve().parents[4]

CHART = find("volcano", repository="https://volcano-sh.github.io/helm-charts", version="1.15.1")
VALUES: dict[str, Any] = {"custom": {"admission_enable": False}}


def rendered(**custom: Any) -> dict[tuple[str, str], dict[str, Any]]:
    values = {"custom": {**VALUES["custom"], **custom}}
    assert CHART.check(values) == []
    return {
        (made["kind"], made["metadata"]["name"]): made
        for made in CHART.render(values, "volcano", "volcano-system")
    }


def test_the_scheduler_reads_the_configuration_of_the_values() -> None:
    config = "actions: allocate\n"
    made = rendered(scheduler_config_override=config)
    pod = made["Deployment", "volcano-scheduler"]["spec"]["template"]["spec"]
    (volume,) = (v for v in pod["volumes"] if "configMap" in v)
    stored = made["ConfigMap", volume["configMap"]["name"]]["data"]
    assert stored == {"volcano-scheduler.conf": config}
    (container,) = pod["containers"]
    assert "--scheduler-conf=/volcano.scheduler/volcano-scheduler.conf" in container["args"]
    assert container["image"] == "docker.io/volcanosh/vc-scheduler:v1.15.1"
    own = rendered()["ConfigMap", volume["configMap"]["name"]]["data"]
    assert yaml.safe_load(own["volcano-scheduler.conf"])["actions"] == "enqueue, allocate, backfill"


def test_every_program_has_an_account_with_the_charts_rights() -> None:
    made = rendered()
    for name in ("volcano-scheduler", "volcano-controllers"):
        pod = made["Deployment", name]["spec"]["template"]["spec"]
        (subject,) = made["ClusterRoleBinding", f"{name}-role"]["subjects"]
        assert subject["name"] == pod["serviceAccount"] == name
        granted = {
            (group, resource, verb)
            for rule in made["ClusterRole", name]["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert ("scheduling.volcano.sh", "podgroups", "update") in granted
    assert ("", "pods/binding", "create") not in granted  # of the controllers


def test_every_kind_that_the_programs_read_is_defined() -> None:
    made = rendered()
    defined = {name for kind, name in made if kind == "CustomResourceDefinition"}
    roles = [made["ClusterRole", f"volcano-{name}"] for name in ("scheduler", "controllers")]
    rules = [rule for role in roles for rule in role["rules"]]
    read = {
        f"{resource}.{group}"
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        if group.endswith(".volcano.sh") and "/" not in resource and "list" in rule["verbs"]
    }
    assert read <= defined


def test_pods_get_the_placement_and_the_secret_of_the_values() -> None:
    values = {
        "basic": {"image_registry": "mirror.example", "image_pull_secret": "mirror"},
        "custom": {"admission_enable": False, "default_ns": {"pool": "system"}},
    }
    assert CHART.check(values) == []
    deployments = [m for m in CHART.render(values, "volcano", "v") if m["kind"] == "Deployment"]
    assert len(deployments) == 2
    for made in deployments:
        pod = made["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"pool": "system"}
        assert pod["imagePullSecrets"] == [{"name": "mirror"}]
        assert pod["containers"][0]["image"].startswith("mirror.example/volcanosh/vc-")


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({}, "custom.admission_enable"),
        ({"custom": {**VALUES["custom"], "vap_enable": True}}, "custom.vap_enable"),
        ({"custom": {"admision_enable": False}}, "custom.admision_enable"),
    ],
)
def test_values_without_a_program_are_refused(values: dict[str, Any], path: str) -> None:
    assert [at for at, _ in CHART.check(values)] == [path]


PLUGIN = find(
    "volcano-vgpu-device-plugin",
    repository="https://project-hami.github.io/volcano-vgpu-device-plugin",
    version="1.12.0",
)


def test_a_fleets_own_values_pass_both_charts() -> None:
    fleet = plan.read_file(PROJECT / "tests/infra/golden/fractional-volcano.yaml")
    charts = manifests.engine_charts(fleet)
    assert [chart.release for chart in charts] == ["volcano", "volcano-vgpu-device-plugin"]
    for chart, stand_in in zip(charts, (CHART, PLUGIN), strict=True):
        assert stand_in.check(chart.values) == []
        assert stand_in.version == chart.version
    (daemon_set,) = (
        made
        for made in PLUGIN.render(charts[1].values, charts[1].release, "kube-system")
        if made["kind"] == "DaemonSet"
    )
    pod = daemon_set["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"volcano.sh/vgpu": "on"}
    for container in pod["containers"]:
        assert process_images.runs_as_process(container["image"], container["name"])


def test_the_plugin_reads_the_settings_of_the_values() -> None:
    values = {
        "nodeConfig": {"enabled": False},
        "deviceConfig": {"nvidia": {"gpuMemoryFactor": 11, "deviceSplitCount": 4}},
    }
    assert PLUGIN.check(values) == []
    (config,) = (m for m in PLUGIN.render(values, "p", "n") if m["kind"] == "ConfigMap")
    assert volcano.VOLCANO.sharing(config) == Sharing(shares_per_card=4, memory_factor=11)


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({}, "nodeConfig.enabled"),
        ({"nodeConfig": {"enabled": False}, "cdi": {"enabled": True}}, "cdi.enabled"),
        (
            {
                "nodeConfig": {"enabled": False},
                "deviceConfig": {"nvidia": {"resourceCoreName": "example.com/cores"}},
            },
            "deviceConfig.nvidia.resourceCoreName",
        ),
    ],
)
def test_settings_that_the_plugin_here_lacks_are_refused(values: dict[str, Any], path: str) -> None:
    assert [at for at, _ in PLUGIN.check(values)] == [path]
