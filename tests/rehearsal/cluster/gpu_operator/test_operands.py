"""The objects that a ClusterPolicy becomes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from slicewright.rehearsal.cluster.control_plane.process_images import runs_as_process
from slicewright.rehearsal.cluster.gpu_operator.operands import objects
from slicewright.rehearsal.cluster.gpu_operator.policy import NO_IMAGE, PolicyError, image_of, parse
from slicewright.rehearsal.plugins.charts.gpu_operator import render

IMAGE = {"repository": "nvcr.io/nvidia", "image": "k8s-device-plugin", "version": "v0.20.0"}


DRIVER = {
    "repository": "nvcr.io/nvidia",
    "image": "driver",
    "version": "580.159.03",
    "manager": {
        "repository": "nvcr.io/nvidia/cloud-native",
        "image": "k8s-driver-manager",
        "version": "v0.12.0",
    },
}


def made(
    *, system: str | None = "ubuntu22.04", **spec: Any
) -> dict[tuple[str, str], dict[str, Any]]:
    operands = {
        k: dict(IMAGE) for k in ("devicePlugin", "gfd", "validator", "dcgmExporter", "migManager")
    }
    off: dict[str, Any] = {"driver": {"enabled": False}, "toolkit": {"enabled": False}}
    policy = parse({"metadata": {"name": "p", "uid": "u"}, "spec": {**operands, **off, **spec}})
    return {
        (o["kind"], o["metadata"]["name"]): o
        for o in objects(policy, "ns", gpu_nodes_system=system)
    }


def container(found: dict[tuple[str, str], dict[str, Any]], name: str) -> dict[str, Any]:
    return dict(found[("DaemonSet", name)]["spec"]["template"]["spec"]["containers"][0])


def env(found: dict[tuple[str, str], dict[str, Any]], name: str) -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in container(found, name)["env"]}


def test_enabled_operands_become_daemonsets_and_disabled_ones_do_not() -> None:
    everything = {name for kind, name in made() if kind == "DaemonSet"}
    assert everything == {
        "nvidia-operator-validator",
        "nvidia-device-plugin-daemonset",
        "nvidia-device-plugin-mps-control-daemon",
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
    namespace = {"fieldRef": {"fieldPath": "metadata.namespace"}}
    assert manager["DEFAULT_GPU_CLIENTS_NAMESPACE"] == namespace
    volumes = found[("DaemonSet", "nvidia-mig-manager")]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "mig-parted-config", "configMap": {"name": "layouts"}} in volumes


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
            pod = found["spec"]["template"]["spec"]
            deploy = {k: v for k, v in pod["nodeSelector"].items() if ".deploy." in k}
            assert set(deploy.values()) == {"true"}
            for one in (*pod["initContainers"], *pod["containers"]):
                assert runs_as_process(one["image"])


def pod(found: dict[tuple[str, str], dict[str, Any]], name: str) -> dict[str, Any]:
    return dict(found[("DaemonSet", name)]["spec"]["template"]["spec"])


def test_without_a_gpu_node_there_is_everything_but_daemonsets() -> None:
    without = made(system=None)
    assert without == {key: o for key, o in made().items() if key[0] != "DaemonSet"}
    assert {name for kind, name in without if kind == "RuntimeClass"} == {
        "nvidia",
        "nvidia-cdi",
        "nvidia-legacy",
    }
    assert {name for kind, name in without if kind == "Service"} == {
        "gpu-operator",
        "nvidia-dcgm-exporter",
    }


def test_the_device_plugin_starts_by_its_entrypoint_and_lists_devices_by_cdi() -> None:
    found = made()
    plugin = container(found, "nvidia-device-plugin-daemonset")
    assert plugin["name"] == "nvidia-device-plugin"
    assert (plugin["command"], plugin["args"]) == (["/bin/sh", "-c"], ["/bin/entrypoint.sh"])
    variables = env(found, "nvidia-device-plugin-daemonset")
    assert variables["DEVICE_LIST_STRATEGY"] == "cdi-annotations,cdi-cri"
    assert variables["CDI_ENABLED"] == "true"
    assert variables["MPS_ROOT"] == "/run/nvidia/mps"
    script = found[("ConfigMap", "nvidia-device-plugin-entrypoint")]["data"]["entrypoint.sh"]
    assert script.rstrip().endswith("exec nvidia-device-plugin")


def test_without_cdi_the_device_plugin_lists_devices_by_environment_variable() -> None:
    found = made(cdi={"enabled": False})
    variables = env(found, "nvidia-device-plugin-daemonset")
    assert variables["DEVICE_LIST_STRATEGY"] == "envvar"
    assert "CDI_ENABLED" not in variables
    assert {name for kind, name in found if kind == "RuntimeClass"} == {"nvidia"}


def test_feature_discovery_has_a_service_account_and_a_selector_of_its_own() -> None:
    found = made()
    name = "gpu-feature-discovery"
    assert pod(found, name)["serviceAccountName"] == "nvidia-gpu-feature-discovery"
    assert ("ServiceAccount", "nvidia-gpu-feature-discovery") in found
    assert found[("DaemonSet", name)]["spec"]["selector"]["matchLabels"] == {
        "app": name,
        "app.kubernetes.io/part-of": "nvidia-gpu",
    }
    assert "GFD_USE_NODE_FEATURE_API" not in env(found, name)


def test_mig_manager_stops_host_services_where_the_driver_is_the_hosts() -> None:
    found = made()
    assert env(found, "nvidia-mig-manager")["GPU_CLIENTS_FILE"] == "/gpu-clients/clients.yaml"
    volumes = {v["name"]: v for v in pod(found, "nvidia-mig-manager")["volumes"]}
    assert volumes["gpu-clients"]["configMap"]["name"] == "default-gpu-clients"
    assert ("ConfigMap", "default-gpu-clients") in found
    script = found[("ConfigMap", "nvidia-mig-manager-entrypoint")]["data"]["entrypoint.sh"]
    assert "WITH_SHUTDOWN_HOST_GPU_CLIENTS=$IS_HOST_DRIVER" in script
    own = made(migManager={**IMAGE, "gpuClientsConfig": {"name": "mine"}})
    volumes = {v["name"]: v for v in pod(own, "nvidia-mig-manager")["volumes"]}
    assert volumes["gpu-clients"]["configMap"]["name"] == "mine"


def test_every_operand_waits_for_the_validators_toolkit_check() -> None:
    found = made()
    for kind, name in found:
        if kind != "DaemonSet":
            continue
        names = [c["name"] for c in pod(found, name)["initContainers"]]
        if name == "nvidia-operator-validator":
            assert names == [f"{c}-validation" for c in ("driver", "toolkit", "cuda", "plugin")]
        else:
            assert names[0] == "toolkit-validation"


def test_the_validators_files_go_with_its_pod() -> None:
    hook = container(made(), "nvidia-operator-validator")["lifecycle"]["preStop"]["exec"]
    assert hook["command"][-1] == "rm -f /run/nvidia/validations/*-ready"


def test_a_map_of_configs_puts_config_manager_before_and_beside_the_plugin() -> None:
    found = made(devicePlugin={**IMAGE, "config": {"name": "sharing", "default": "whole"}})
    for name, process in (
        ("nvidia-device-plugin-daemonset", "nvidia-device-plugin"),
        ("gpu-feature-discovery", "gpu-feature-discovery"),
    ):
        template = pod(found, name)
        assert template["shareProcessNamespace"] is True
        assert [c["name"] for c in template["initContainers"]] == [
            "toolkit-validation",
            "config-manager-init",
        ]
        main, side = template["containers"]
        assert {"name": "CONFIG_FILE", "value": "/config/config.yaml"} in main["env"]
        variables = {e["name"]: e.get("value") for e in side["env"]}
        assert variables["PROCESS_TO_SIGNAL"] == process
        assert variables["DEFAULT_CONFIG"] == "whole"
        assert variables["FALLBACK_STRATEGIES"] == "empty"
    assert "shareProcessNamespace" not in pod(found, "nvidia-device-plugin-mps-control-daemon")


def test_without_a_map_of_configs_there_is_no_config_manager() -> None:
    template = pod(made(), "nvidia-device-plugin-daemonset")
    assert len(template["containers"]) == len(template["initContainers"]) == 1
    assert "shareProcessNamespace" not in template


def test_the_drivers_pod_stays_until_it_is_deleted_and_uninstalls_the_one_before() -> None:
    found = made(driver=DRIVER)
    driver = found[("DaemonSet", "nvidia-driver-daemonset")]["spec"]
    assert driver["updateStrategy"] == {"type": "OnDelete"}
    pod = driver["template"]["spec"]
    assert "runtimeClassName" not in pod
    (manager,) = pod["initContainers"]
    assert manager["image"] == "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.12.0"
    assert [*manager["command"], *manager["args"]] == ["driver-manager", "uninstall_driver"]
    (driver_container,) = pod["containers"]
    assert driver_container["image"] == "nvcr.io/nvidia/driver:580.159.03-ubuntu22.04"
    assert all(runs_as_process(one["image"]) for one in (manager, driver_container))
    others = [
        o["spec"]["updateStrategy"]["type"] for (k, _), o in found.items() if k == "DaemonSet"
    ]
    assert others.count("OnDelete") == 1


def test_a_driver_image_by_digest_has_no_system() -> None:
    found = made(driver={**DRIVER, "version": "sha256:ab"})
    image = container(found, "nvidia-driver-daemonset")["image"]
    assert image == "nvcr.io/nvidia/driver@sha256:ab"


def test_only_the_drivers_pod_may_end_pods_of_other_namespaces() -> None:
    ending = {
        name
        for (kind, name), found in made(driver=DRIVER).items()
        if kind == "ClusterRole"
        for rule in found["rules"]
        if "pods" in rule["resources"] and {"delete", "*"} & set(rule["verbs"])
    }
    assert ending == {"nvidia-driver"}


def test_the_operator_has_every_right_that_it_grants() -> None:
    """RBAC lets nobody grant more."""
    made_by_chart = {(o["kind"], o["metadata"]["name"]): o for o in render({}, "r", "ns")}
    own = made_by_chart[("ClusterRole", "gpu-operator")]
    held = {right for rule in own["rules"] for right in rights(rule)}
    for (kind, name), found in made(driver=DRIVER).items():
        if kind == "ClusterRole":
            granted = {right for rule in found["rules"] for right in rights(rule)}
            assert granted <= held, name


def rights(rule: dict[str, Any]) -> set[tuple[str, str, str]]:
    return set(itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"]))


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
        ({"driver": {**DRIVER, "usePrecompiled": True}}, "driver.usePrecompiled=false"),
        ({"driver": DRIVER | {"useNvidiaDriverCRD": True}}, "driver.nvidiaDriverCRD.enabled=false"),
        ({"dcgm": {"enabled": True}}, "dcgm.enabled=false"),
    ],
)
def test_unsupported_settings_are_refused_by_name(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        made(**spec)
