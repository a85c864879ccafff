"""The objects that a ClusterPolicy becomes."""

from __future__ import annotations

from typing import Any

import pytest

from rehearsal.cluster.control_plane.process_images import runs_as_process
from rehearsal.cluster.gpu_operator.operands import objects
from rehearsal.cluster.gpu_operator.policy import NO_IMAGE, PolicyError, image_of, parse

IMAGE = {"repository": "nvcr.io/nvidia", "image": "k8s-device-plugin", "version": "v0.20.0"}


def made(**spec: Any) -> dict[tuple[str, str], dict[str, Any]]:
    operands = {
        k: dict(IMAGE) for k in ("devicePlugin", "gfd", "validator", "dcgmExporter", "migManager")
    }
    off: dict[str, Any] = {"driver": {"enabled": False}, "toolkit": {"enabled": False}}
    policy = parse({"metadata": {"name": "p", "uid": "u"}, "spec": {**operands, **off, **spec}})
    return {(o["kind"], o["metadata"]["name"]): o for o in objects(policy, "ns")}


def container(found: dict[tuple[str, str], dict[str, Any]], name: str) -> dict[str, Any]:
    return dict(found[("DaemonSet", name)]["spec"]["template"]["spec"]["containers"][0])


def env(found: dict[tuple[str, str], dict[str, Any]], name: str) -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in container(found, name)["env"]}


def test_enabled_operands_become_daemonsets_and_disabled_ones_do_not() -> None:
    everything = {name for kind, name in made() if kind == "DaemonSet"}
    assert everything == {
        "nvidia-operator-validator",
        "nvidia-device-plugin-daemonset",
        "gpu-feature-discovery",
        "nvidia-dcgm-exporter",
        "nvidia-mig-manager",
    }
    less = {
        name
        for kind, name in made(migManager={"enabled": False}, dcgmExporter={"enabled": False})
        if kind == "DaemonSet"
    }
    assert less == everything - {"nvidia-mig-manager", "nvidia-dcgm-exporter"}


def test_the_strategy_and_the_layouts_reach_nvidias_programs() -> None:
    found = made(
        mig={"strategy": "mixed"},
        migManager={
            **IMAGE,
            "config": {"name": "layouts"},
            "env": [{"name": "WITH_REBOOT", "value": "true"}],
        },
    )
    assert env(found, "nvidia-device-plugin-daemonset")["MIG_STRATEGY"] == "mixed"
    assert env(found, "gpu-feature-discovery")["MIG_STRATEGY"] == "mixed"
    manager = env(found, "nvidia-mig-manager")
    assert manager["CONFIG_FILE"] == "/mig-parted-config/config.yaml"
    assert manager["WITH_REBOOT"] == "true"
    assert manager["DEFAULT_GPU_CLIENTS_NAMESPACE"] == "ns"
    volumes = found[("DaemonSet", "nvidia-mig-manager")]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "mig-parted-config", "configMap": {"name": "layouts"}} in volumes
    assert ("ConfigMap", "default-mig-parted-config") not in found


def test_without_a_layout_config_a_default_is_created() -> None:
    assert (
        "all-disabled" in made()[("ConfigMap", "default-mig-parted-config")]["data"]["config.yaml"]
    )


def test_tolerations_are_replaced_not_merged() -> None:
    default = made()[("DaemonSet", "gpu-feature-discovery")]["spec"]["template"]["spec"][
        "tolerations"
    ]
    assert default == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    own = [{"key": "x", "operator": "Exists"}]
    changed = made(daemonsets={"tolerations": own})
    assert (
        changed[("DaemonSet", "gpu-feature-discovery")]["spec"]["template"]["spec"]["tolerations"]
        == own
    )


def test_every_operand_is_selected_by_its_label_and_owned_by_the_policy() -> None:
    for (kind, _), found in made().items():
        assert found["metadata"]["ownerReferences"][0]["uid"] == "u"
        if kind == "DaemonSet":
            (selector,) = found["spec"]["template"]["spec"]["nodeSelector"].items()
            assert selector[0].startswith("nvidia.com/gpu.deploy.")
            assert selector[1] == "true"
            assert runs_as_process(found["spec"]["template"]["spec"]["containers"][0]["image"])


@pytest.mark.parametrize(
    ("section", "image"),
    [
        ({"repository": "r", "image": "i", "version": "v1"}, "r/i:v1"),
        ({"repository": "r", "image": "i", "version": "sha256:ab"}, "r/i@sha256:ab"),
        ({"image": "r/i:v1"}, "r/i:v1"),
    ],
)
def test_image_references_are_composed(section: dict[str, str], image: str) -> None:
    assert image_of(section) == image


@pytest.mark.parametrize(
    "section", [{}, {"repository": "r", "image": "i"}, {"repository": "r", "version": "v"}]
)
def test_an_incomplete_image_is_refused_with_nvidias_message(section: dict[str, str]) -> None:
    with pytest.raises(PolicyError, match=NO_IMAGE):
        image_of(section)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"driver": {}}, "driver.enabled=false"),
        ({"toolkit": {"enabled": True}}, "toolkit.enabled=false"),
        (
            {"devicePlugin": {**IMAGE, "config": {"name": "sharing"}}},
            "does not support sharing configs",
        ),
    ],
)
def test_unsupported_settings_are_refused_by_name(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        made(**spec)
