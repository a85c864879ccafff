"""GKE pools that NVIDIA's operator partitions, beside pools that GKE partitions."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.apis import names as api
from slicewright.infra import manifests, plan, stack_file
from slicewright.infra.plan import GkeFleetPlan
from slicewright.rehearsal.plugins.charts.gpu_operator import values as chart

FILE = Path(__file__).parents[2] / "golden" / "gke.yaml"
NATIVE_ONLY = """\
cloud: gke
cluster: {name: main, location: us-central1-a}
node_pools:
- {name: native, machine_type: a2-highgpu-1g, nodes: {count: 1}}
"""
BOTH = """\
cloud: gke
cluster: {name: main, location: us-central1-a}
node_pools:
- {name: native, machine_type: a2-highgpu-1g, nodes: {count: 1},
   partition: {mode: native, profile: 3g.20gb}}
- {name: cut, machine_type: a2-highgpu-1g, nodes: {count: 1},
   partition: {mode: operator, config: all-balanced}}
"""
Record = Callable[..., list[Any]]


@pytest.fixture
def fleet() -> GkeFleetPlan:
    made = plan.read_file(FILE)
    assert isinstance(made, GkeFleetPlan)
    return made


def planned(image: str = "COS_CONTAINERD", **operator: Any) -> GkeFleetPlan:
    raw = {
        "cloud": "gke",
        "cluster": {"name": "c", "location": "us-central1-a"},
        "node_pools": [
            {
                "name": "cut",
                "machine_type": "a2-highgpu-1g",
                "image_type": image,
                "nodes": {"count": 1},
                "partition": {"mode": "operator", "config": "all-1g.5gb"},
            }
        ],
        "gpu_operator": operator,
    }
    made = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(made, GkeFleetPlan)
    return made


def rendered(fleet: GkeFleetPlan) -> dict[str, Any]:
    return manifests.operator_values(fleet, manifests.operator_files(fleet))


def inputs(made: list[Any], kind: str, name: str = "") -> Mapping[str, Any]:
    (found,) = (m for m in made if m.type.endswith(kind) and name in m.name and not m.read)
    given: Mapping[str, Any] = found.inputs
    return given


def agent_of(made: list[Any], pool: str) -> Mapping[str, Any]:
    pod: Mapping[str, Any] = inputs(made, ":DaemonSet", f"node-agent-{pool}")["spec"]["template"][
        "spec"
    ]
    return pod


def test_gkes_plugin_and_the_operators_never_run_on_the_same_node(fleet: GkeFleetPlan) -> None:
    labels = {pool.name: pool.labels for pool in fleet.pools}
    no_gke, no_operands = (
        "gke-no-default-nvidia-gpu-device-plugin",
        "nvidia.com/gpu.deploy.operands",
    )
    assert {name for name, own in labels.items() if own.get(no_gke) == "true"} == {"cos", "ubuntu"}
    assert {name for name, own in labels.items() if own.get(no_operands) == "false"} == {"native"}


def test_native_pools_have_no_label_for_an_operator_that_is_not_installed(record: Record) -> None:
    made = record("native-only", fleet=NATIVE_ONLY)
    labels = inputs(made, ":NodePool", "native")["nodeConfig"]["labels"]
    assert labels == {"slicewright.io/pool": "native"}
    assert not [m for m in made if m.type.endswith(":Release")]


def test_the_operators_label_is_reserved(broken: Callable[[str], str]) -> None:
    said = broken(
        NATIVE_ONLY.replace(
            "nodes: {count: 1}", 'nodes: {count: 1}, labels: {nvidia.com/gpu.deploy.operands: "x"}'
        )
    )
    assert "leave alone" in said


def test_gke_installs_no_driver_beside_googles_installer(record: Record) -> None:
    made = record("both", fleet=BOTH)
    (gpu,) = inputs(made, ":NodePool", "cut")["nodeConfig"]["guestAccelerators"]
    assert gpu["gpuDriverInstallationConfig"] == {"gpuDriverVersion": "INSTALLATION_DISABLED"}
    assert "gpuPartitionSize" not in gpu
    (native,) = inputs(made, ":NodePool", "native")["nodeConfig"]["guestAccelerators"]
    assert native["gpuDriverInstallationConfig"] == {"gpuDriverVersion": "DEFAULT"}
    installer = inputs(made, ":DaemonSet", "nvidia-driver-installer-cos")
    assert installer["metadata"]["namespace"] == "gpu-operator"
    pod = installer["spec"]["template"]["spec"]
    (terms,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    keys = {term["key"]: term.get("values") for term in terms["matchExpressions"]}
    assert keys[api.POOL_LABEL] is None
    assert keys["gke-no-default-nvidia-gpu-device-plugin"] == ["true"], "native pools are left out"
    assert keys["cloud.google.com/gke-os-distribution"] == ["cos"]


def test_another_pool_does_not_start_the_installers_again(fleet: GkeFleetPlan) -> None:
    """It would run under the GPU pods of every node."""
    before = manifests.driver_installers(fleet)
    fewer = dataclasses.replace(fleet, pools=fleet.pools[1:])
    other_taints = dataclasses.replace(
        fleet, pools=tuple(dataclasses.replace(p, taints=()) for p in fleet.pools)
    )
    assert manifests.driver_installers(other_taints) == before
    names = {m["metadata"]["name"]: m for m in before}
    for manifest in manifests.driver_installers(fewer):
        assert manifest == names[manifest["metadata"]["name"]]


def test_installer_leaves_a_loaded_driver_alone() -> None:
    (installer,) = manifests.driver_installers(planned())
    (container,) = installer["spec"]["template"]["spec"]["initContainers"]
    shell, option, script = container["command"]
    assert (shell, option) == ("bash", "-c")
    assert script.index("lsmod") < script.index("/cos-gpu-installer install")


def test_googles_installer_does_not_partition(fleet: GkeFleetPlan) -> None:
    """Its own manifest does, with a second container; two partitioners would fight."""
    for manifest in manifests.driver_installers(fleet):
        (only,) = manifest["spec"]["template"]["spec"]["initContainers"]
        assert only["name"] == "nvidia-driver-installer"


def test_an_installer_runs_only_on_nodes_of_its_image(fleet: GkeFleetPlan) -> None:
    def names(fleet: GkeFleetPlan) -> list[str]:
        return [m["metadata"]["name"] for m in manifests.driver_installers(fleet)]

    cos, ubuntu = "nvidia-driver-installer-cos", "nvidia-driver-installer-ubuntu"
    assert names(fleet) == [cos, ubuntu]
    assert names(planned()) == [cos]
    assert names(planned("UBUNTU_CONTAINERD")) == [ubuntu]
    assert names(planned("UBUNTU_CONTAINERD", driver={"enabled": True})) == []


def test_the_operator_uses_the_directory_of_googles_driver(fleet: GkeFleetPlan) -> None:
    given = rendered(fleet)
    assert chart.check(given) == []
    assert given["driver"]["enabled"] is False
    assert given["hostPaths"] == {"driverInstallDir": "/home/kubernetes/bin/nvidia"}
    assert given["toolkit"]["installDir"] == "/home/kubernetes/bin/nvidia"
    assert given["cdi"] == {"enabled": True}


def test_the_operators_own_driver_stays_in_its_own_directory() -> None:
    """With another one, its validation would never end."""
    given = rendered(planned("UBUNTU_CONTAINERD", driver={"enabled": True}))
    assert given["driver"]["enabled"] is True
    assert "hostPaths" not in given
    assert "installDir" not in given["toolkit"]


@pytest.mark.parametrize("driver", [{}, {"driver": {"enabled": True}}], ids=["google", "operator"])
def test_the_toolkit_keeps_gkes_network_plugin(driver: dict[str, Any]) -> None:
    env = rendered(planned("UBUNTU_CONTAINERD", **driver))["toolkit"]["env"]
    assert env == [{"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}]


def test_the_operator_beside_googles_installer_requires_cdi() -> None:
    with pytest.raises(stack_file.SpecError, match="CDI only"):
        planned(cdi=False)
    assert planned("UBUNTU_CONTAINERD", cdi=False, driver={"enabled": True}).operator


def test_operands_get_layouts_configs_and_tolerations_of_their_own_pools_only(
    fleet: GkeFleetPlan,
) -> None:
    files = manifests.operator_files(fleet)
    assert files.plugin_configs is not None
    assert set(files.plugin_configs.data) == {"cos", "ubuntu", "not.shared"}
    tolerated = {(t["key"], t.get("value")) for t in rendered(fleet)["daemonsets"]["tolerations"]}
    assert ("team", "ml") in tolerated
    assert ("team", "web") not in tolerated


def test_a_quota_admits_critical_pods_to_the_operators_namespace(record: Record) -> None:
    made = record("both", fleet=BOTH)
    quota = inputs(made, ":ResourceQuota", "gpu-operator")
    assert quota["metadata"]["namespace"] == "gpu-operator"
    (terms,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert set(terms["values"]) == {"system-node-critical", "system-cluster-critical"}


def test_the_agent_is_privileged_on_native_pools_only(record: Record) -> None:
    made = record("both", fleet=BOTH)
    native, cut = agent_of(made, "native"), agent_of(made, "cut")
    assert native["containers"][0]["securityContext"]["privileged"] is True
    assert "runtimeClassName" not in native
    (container,) = cut["containers"]
    assert cut["runtimeClassName"] == "nvidia"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in container["env"]
    assert not [v for v in cut["volumes"] if "hostPath" in v]


def test_the_node_policy_knows_the_operator(record: Record, as_json: Callable[[Any], str]) -> None:
    """It gives a node without the label nvidia.com/mig.config the operator's default."""
    account = "system:serviceaccount:gpu-operator:gpu-operator"
    policy = inputs(record("both", fleet=BOTH), ":ValidatingAdmissionPolicy", "node-guard")
    assert account in as_json(policy)
    without = inputs(
        record("native-only", fleet=NATIVE_ONLY), ":ValidatingAdmissionPolicy", "node-guard"
    )
    assert account not in as_json(without)


def test_nothing_about_the_operator_follows_from_a_mode_that_gke_lacks() -> None:
    """The only remedy is another mode; the pool's driver is right for it."""
    mode = "driver: LATEST, partition: {mode: boot, layout: {1g.5gb: 7}}"
    text = NATIVE_ONLY.replace("nodes: {count: 1}", f"nodes: {{count: 1}}, {mode}")
    raw = yaml.safe_load(text)
    with pytest.raises(stack_file.SpecError) as refused:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert [problem.path[-1] for problem in refused.value.problems] == ["mode"]
