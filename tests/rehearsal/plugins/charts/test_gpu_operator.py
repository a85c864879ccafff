"""The stand-in for NVIDIA's chart: the values it accepts, and what it installs for them."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.plugins.charts import NoSuchChart, find

REPOSITORY = "https://helm.ngc.nvidia.com/nvidia"
CHART = find("gpu-operator", repository=REPOSITORY, version="v26.7.0")
OFF = {"driver": {"enabled": False}, "toolkit": {"enabled": False}}


def _render(values: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    assert CHART.check(values) == []
    return {
        (made["kind"], made["metadata"]["name"]): made
        for made in CHART.render(values, "gpu-operator", "gpu")
    }


def _policy(values: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = _render(values)[("ClusterPolicy", "cluster-policy")]["spec"]
    return spec


@pytest.mark.parametrize("version", ["v26.7.0", "26.7.0", None])
def test_the_pinned_version_is_found(version: str | None) -> None:
    assert find("gpu-operator", repository=REPOSITORY + "/", version=version).version == "v26.7.0"


@pytest.mark.parametrize(
    ("name", "repository", "version"),
    [
        ("gpu-operator", REPOSITORY, "v26.3.3"),
        ("gpu-operator", None, None),
        ("kube-prometheus-stack", "https://x", None),
    ],
)
def test_any_other_chart_is_refused_with_the_available_ones(
    name: str, repository: str | None, version: str | None
) -> None:
    with pytest.raises(NoSuchChart, match=r"v26\.7\.0"):
        find(name, repository=repository, version=version)


def test_an_unknown_value_is_refused_with_its_path_and_the_nearest_key() -> None:
    assert CHART.check({"migManager": {"config": {"nmae": "x"}}}) == [
        (
            "migManager.config.nmae",
            "chart gpu-operator v26.7.0 has no such value; did you mean 'name'? (The real "
            "Helm would silently ignore it.)",
        )
    ]


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"driver": {"enabled": "false"}}, "driver.enabled"),
        ({"daemonsets": {"tolerations": {"key": "a"}}}, "daemonsets.tolerations"),
        ({"mig": "mixed"}, "mig"),
        ({"operator": None}, "operator"),
        ({"devicePlugin": {"config": {"create": True, "name": "n"}}}, "devicePlugin.config"),
        ({"migManager": {"config": {"create": True, "name": "n"}}}, "migManager.config.data"),
        ({"cdi": {"nriPluginEnabled": True}, **OFF}, "cdi.nriPluginEnabled"),
        ({"gpuCluster": {"deployCR": True}}, "gpuCluster.deployCR"),
        ({"driver": {"nvidiaDriverCRD": {"enabled": True}}}, "driver.nvidiaDriverCRD.enabled"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], path: str) -> None:
    assert [found for found, _ in CHART.check(values)] == [path]


@pytest.mark.parametrize(
    "values",
    [
        {"operator": {"nodeSelector": {"a": "b"}, "resources": {"limits": {"cpu": "1"}}}},
        {"daemonsets": {"labels": {"any": "key"}}},
        {"node-feature-discovery": {"worker": {"tolerations": [{"operator": "Exists"}]}}},
        {
            "hostPaths": {"kubeletRootDir": "/k"},
            "dcgmExporter": {"hpcJobMapping": {"enabled": True}},
        },
    ],
)
def test_known_values_pass(values: dict[str, Any]) -> None:
    assert CHART.check(values) == []


def test_values_are_copied_to_the_cluster_policy() -> None:
    tolerations = [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "mine", "operator": "Exists"},
    ]
    spec = _policy(
        {
            **OFF,
            "mig": {"strategy": "mixed"},
            "daemonsets": {"tolerations": tolerations},
            "migManager": {
                "config": {"name": "layouts", "default": ""},
                "env": [{"name": "WITH_REBOOT", "value": "true"}],
            },
        }
    )
    assert spec["mig"] == {"strategy": "mixed"}
    assert spec["daemonsets"]["tolerations"] == tolerations
    assert spec["driver"]["enabled"] is False
    assert spec["driver"]["useNvidiaDriverCRD"] is False
    assert spec["migManager"]["config"] == {"name": "layouts"}
    assert spec["migManager"]["env"] == [{"name": "WITH_REBOOT", "value": "true"}]
    assert "podDeletion" in spec["driver"]["upgradePolicy"]


@pytest.mark.parametrize(
    ("operand", "image"),
    [
        ("devicePlugin", ("nvcr.io/nvidia", "k8s-device-plugin", "v0.20.0")),
        ("gfd", ("nvcr.io/nvidia", "k8s-device-plugin", "v0.20.0")),
        ("migManager", ("nvcr.io/nvidia/cloud-native", "k8s-mig-manager", "v0.15.0")),
        ("validator", ("nvcr.io/nvidia", "gpu-operator", "v26.7.0")),
        ("dcgmExporter", ("nvcr.io/nvidia/k8s", "dcgm-exporter", "4.6.0-4.8.3-distroless")),
    ],
)
def test_operands_have_the_charts_images(operand: str, image: tuple[str, str, str]) -> None:
    section = _policy({})[operand]
    assert (section["repository"], section["image"], section["version"]) == image


def test_the_cluster_policy_contains_no_null() -> None:
    def nulls(value: Any) -> bool:
        if isinstance(value, dict):
            return any(map(nulls, value.values()))
        return any(map(nulls, value)) if isinstance(value, list) else value is None

    assert not nulls(_policy({}))


def test_the_operators_deployment_follows_the_values() -> None:
    values = {
        "operator": {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"pool": "system"}}
    }
    pod = _render(values)[("Deployment", "gpu-operator")]["spec"]["template"]["spec"]
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "system"}
    assert pod["serviceAccountName"] == "gpu-operator"
    (container,) = pod["containers"]
    assert container["image"] == "nvcr.io/nvidia/gpu-operator:v26.7.0"
    assert container["command"] == ["gpu-operator"]


def test_a_config_map_is_created_only_if_the_values_say_so() -> None:
    assert {name for kind, name in _render({}) if kind == "ConfigMap"} == {
        "gpu-operator-node-feature-discovery-worker-conf",
        "gpu-operator-node-feature-discovery-master-conf",
    }
    data = {"config.yaml": "version: v1"}
    made = _render({"migManager": {"config": {"create": True, "name": "layouts", "data": data}}})
    assert made[("ConfigMap", "layouts")]["data"] == data


def test_crds_are_kept_by_default() -> None:
    assert CHART.removed_crds({}) == []


def test_cleanup_crd_removes_nfds_crds_only_where_nfd_came_with_the_chart() -> None:
    def removed(**values: Any) -> list[str]:
        found = CHART.removed_crds({"operator": {"cleanupCRD": True}, **values})
        return [crd["metadata"]["name"] for crd in found]

    assert removed() == [
        "clusterpolicies.nvidia.com",
        "nodefeatures.nfd.k8s-sigs.io",
        "nodefeaturerules.nfd.k8s-sigs.io",
        "nodefeaturegroups.nfd.k8s-sigs.io",
    ]
    assert removed(nfd={"enabled": False}) == ["clusterpolicies.nvidia.com"]


def test_after_an_uninstall_a_job_of_nfd_takes_its_labels_back() -> None:
    account, role, binding, job = CHART.after_delete({}, "ours", "gpu")
    assert job["metadata"]["name"] == "ours-node-feature-discovery-prune"
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-delete"
    pod = job["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (container,) = pod["containers"]
    assert (container["command"], container["args"]) == (["nfd-master"], ["-prune"])
    assert CHART.after_delete({"nfd": {"enabled": False}}, "ours", "gpu") == []
    prior_values = {"node-feature-discovery": {"postDeleteCleanup": False}}
    assert CHART.after_delete(prior_values, "ours", "gpu") == []


def test_an_upgrade_first_runs_a_job_that_applies_the_crds() -> None:
    account, role, binding, job = CHART.before_upgrade({}, "gpu")
    assert job["spec"]["template"]["spec"]["serviceAccountName"] == account["metadata"]["name"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-upgrade"
    assert CHART.before_upgrade({"operator": {"upgradeCRD": False}}, "gpu") == []


def test_the_operator_creates_and_updates_runtime_classes_and_patches_none() -> None:
    rules = _render({})[("ClusterRole", "gpu-operator")]["rules"]
    (classes,) = (r for r in rules if "runtimeclasses" in r["resources"])
    assert "patch" not in classes["verbs"]


def test_the_operators_pod_gets_no_address_by_environment() -> None:
    pod = _render({})[("Deployment", "gpu-operator")]["spec"]["template"]["spec"]
    assert "POD_IP" not in {e["name"] for e in pod["containers"][0]["env"]}
