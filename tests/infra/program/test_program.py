"""The program under Pulumi's mocks: the resources that it requests for each stack file."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pulumi
import pytest
import yaml
from hypothesis import given

from slicewright.apis import names, rights
from slicewright.apis.desired_state import digest
from slicewright.infra import cluster_resources, plan, program, stack_file
from slicewright.infra.components.fleet.gpu_pool_object import pool_metadata, pool_spec
from slicewright.infra.components.fleet.pool_verification import (
    Live,
    Unverified,
    check_verified,
    unverified,
)
from slicewright.infra.stack_file.schema.eks.pools import EksPool
from slicewright.infra.stack_file.schema.gke.pools import GkePool
from slicewright.node_agent.cluster import restart_memory
from tests.nasty import obeyed, texts
from tests.repository_stacks import NAMES

ROOT = Path(__file__).resolve().parents[3]
ALL_STACKS = sorted(NAMES)
BUILT = [
    s
    for s in ALL_STACKS
    if not plan.unbuildable(plan.read_file(ROOT / "stacks" / f"Pulumi.{s}.yaml"))
]
STACKS = [
    s
    for s in BUILT
    if s
    not in (
        "existing-a100-t4",
        "fractional",
        "gke-h100-serving",
        "existing-a100-t4-serving",
        "existing-a100-t4-autoscaling",
    )
]
"""Of a cloud, with one pool each and nothing of the user's on it; for existing-a100-t4 there is
test_existing_cluster.py, for fractional test_fractional_engine.py, for workloads
test_workload_objects.py.
"""
Record = Callable[..., list[Any]]


def one(made: list[Any], kind: str, name: str = "", *, read: bool = False) -> Mapping[str, Any]:
    """Inputs of the only resource of this type with `name` in its name."""
    (found,) = (
        m for m in made if m.type.endswith(kind) and name in m.name and bool(m.read) == read
    )
    inputs: Mapping[str, Any] = found.inputs
    return inputs


def pod_of(made: list[Any], kind: str, name: str) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = one(made, kind, name)["spec"]["template"]["spec"]
    return spec


def test_fast_socket_is_always_stated(record: Record) -> None:
    assert one(record("gke-h100"), ":NodePool", "h100")["nodeConfig"]["fastSocket"] == {
        "enabled": False
    }


def test_temporary_default_pool_uses_no_ssd_and_the_nodes_account(
    record: Record,
) -> None:
    """3 x 100 GB of SSD are more than a new project has."""
    node = one(record("gke-h100"), ":Cluster", "gke")["nodeConfig"]
    assert (node["diskType"], node["diskSizeGb"]) == ("pd-standard", 20)
    assert node["serviceAccount"]


def test_s0_pool_has_the_inputs_of_the_published_system(record: Record) -> None:
    pool = one(record("gke-h100"), ":NodePool", "h100")
    node = pool["nodeConfig"]
    (gpu,) = node["guestAccelerators"]
    assert pool["name"] == "h100-partition-3g"  # S0-09
    assert node["machineType"] == "a3-highgpu-8g"  # S0-10
    assert gpu == {  # S0-11 to S0-14
        "type": "nvidia-h100-80gb",
        "count": 8,
        "gpuPartitionSize": "3g.40gb",
        "gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"},
    }
    assert pool["nodeLocations"] == ["us-central1-c"]  # S0-15
    assert pool["maxPodsPerNode"] == 64  # S0-16
    assert "autoscaling" not in pool  # S0-17
    assert pool["nodeCount"] == 1  # S0-18
    assert "localNvmeSsdBlockConfig" not in node  # S0-19
    assert node["ephemeralStorageLocalSsdConfig"] == {"localSsdCount": 16}  # S0-20
    assert (node["diskSizeGb"], node["diskType"], node["imageType"]) == (
        2000,
        "pd-ssd",
        "COS_CONTAINERD",
    )  # S0-21 to S0-23
    assert (node["spot"], node["preemptible"]) == (True, False)  # S0-24, S0-25
    assert node["gcfsConfig"] == {"enabled": False}  # S0-26
    assert node["gvnic"] == {"enabled": True}  # S0-27, corrected: A3 needs it
    assert node["loggingVariant"] == "DEFAULT"  # S0-28
    assert pool["management"] == {"autoRepair": True, "autoUpgrade": True}  # S0-29, S0-30
    assert node["labels"] == {
        "role": "h100-standard",
        "slicewright.io/pool": "h100-partition-3g",
    }  # S0-31
    assert node["taints"] == [  # S0-32, and ours; S0-33 is GKE's own
        {"key": "nvidia/share", "value": "nvidia-mig", "effect": "NO_SCHEDULE"},
        {"key": names.STARTUP_TAINT_KEY, "value": "unverified", "effect": "NO_SCHEDULE"},
    ]


def test_s1_group_has_the_inputs_of_the_published_system(record: Record) -> None:
    made = record("eks-a100")
    assert one(made, ":Cluster")["name"] == "p4d-cluster"  # S1-05
    assert one(made, "providers:aws")["region"] == "eu-west-1"
    group = one(made, ":NodeGroup", "demo")
    assert group["nodeGroupName"] == "demo-gpu-workers"  # S1-06
    assert group["instanceTypes"] == ["p4d.24xlarge"]
    assert group["scalingConfig"] == {"minSize": 1, "desiredSize": 1, "maxSize": 1}  # S1-07
    assert group["diskSize"] == 200  # S1-08
    assert group["amiType"] == "AL2023_x86_64_NVIDIA"
    assert group["capacityType"] == "ON_DEMAND"
    assert group["updateConfig"] == {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}
    assert group["subnetIds"] == ["eks-eu-west-1a-id"]
    assert group["labels"] == {"slicewright.io/pool": "demo-gpu-workers"}
    assert [t["key"] for t in group["taints"]] == ["nvidia.com/gpu", names.STARTUP_TAINT_KEY]


def test_s1_operator_is_pinned_and_reads_our_layouts(record: Record) -> None:
    made = record("eks-a100")
    release = one(made, ":Release")
    assert release["repositoryOpts"] == {"repo": "https://helm.ngc.nvidia.com/nvidia"}  # S1-09
    assert (release["chart"], release["name"], release["namespace"]) == (
        "gpu-operator",
        "gpu-operator",
        "gpu-operator",
    )  # S1-10
    assert release["version"] == "v26.7.0"
    namespace = one(made, ":Namespace", "gpu-operator")["metadata"]
    assert namespace["name"] == "gpu-operator"
    assert namespace["labels"] == {"pod-security.kubernetes.io/enforce": "privileged"}
    layouts = one(made, ":ConfigMap", "mig-layouts")
    assert release["values"]["migManager"]["config"]["name"] == layouts["metadata"]["name"]
    assert layouts["immutable"] is True
    assert one(made, ":GPUPool")["spec"]["migConfig"] in layouts["data"]["config.yaml"]


def test_s1_has_subnets_in_two_zones_and_the_rights_that_nodes_need(record: Record) -> None:
    made = record("eks-a100")
    subnets = {
        m.inputs["availabilityZone"]: m.inputs["cidrBlock"]
        for m in made
        if m.type.endswith(":Subnet")
    }
    assert subnets == {"eu-west-1a": "10.0.0.0/20", "eu-west-1b": "10.0.16.0/20"}
    policies = {
        m.inputs["policyArn"].rpartition("/")[2]
        for m in made
        if m.type.endswith(":RolePolicyAttachment")
    }
    assert policies == {
        "AmazonEKSClusterPolicy",
        "AmazonEKSWorkerNodePolicy",
        "AmazonEC2ContainerRegistryPullOnly",
        "AmazonEKS_CNI_Policy",
    }
    assert {m.inputs["addonName"] for m in made if m.type.endswith(":Addon")} == {
        "vpc-cni",
        "kube-proxy",
        "coredns",
    }


def test_new_clusters_enforce_network_policies(record: Record) -> None:
    assert one(record("gke-h100"), ":Cluster")["datapathProvider"] == "ADVANCED_DATAPATH"
    addons = {
        m.inputs["addonName"]: m.inputs for m in record("eks-a100") if m.type.endswith(":Addon")
    }
    assert json.loads(addons["vpc-cni"]["configurationValues"]) == {"enableNetworkPolicy": "true"}
    assert "configurationValues" not in addons["coredns"]


def test_gke_cluster_is_unprotected_and_has_no_default_pool(record: Record) -> None:
    cluster = one(record("gke-h100"), ":Cluster")
    assert cluster["deletionProtection"] is False
    assert cluster["removeDefaultNodePool"] is True
    assert cluster["location"] == "us-central1"


@pytest.mark.parametrize("stack", STACKS)
def test_no_pool_carries_a_layout_label(
    record: Record, as_json: Callable[[Any], str], stack: str
) -> None:
    pools = [m for m in record(stack) if m.type.endswith((":NodePool", ":NodeGroup"))]
    assert len(pools) == 2
    assert "mig.config" not in as_json([m.inputs for m in pools])


@pytest.mark.parametrize("stack", BUILT)
def test_every_resource_names_its_provider(record: Record, stack: str) -> None:
    unnamed = [
        m.name
        for m in record(stack)
        if not m.provider and not m.type.startswith(("pulumi:providers:", "slicewright:"))
    ]
    assert unnamed == []


@pytest.mark.parametrize("stack", BUILT)
@pytest.mark.parametrize("preview", [True, False], ids=["preview", "up"])
def test_every_committed_stack_deploys_under_mocks(
    record: Record, stack: str, preview: bool
) -> None:
    kinds = {m.type for m in record(stack, preview=preview)}
    assert "kubernetes:slicewright.io/v1alpha1:GPUPool" in kinds


@pytest.mark.parametrize("stack", STACKS)
def test_the_kubeconfig_has_no_secret(record: Record, stack: str) -> None:
    provider = one(record(stack), "providers:kubernetes")
    config = json.loads(provider["kubeconfig"])
    (user,) = config["users"]
    assert set(user["user"]) == {"exec"}
    (cluster,) = config["clusters"]
    assert cluster["cluster"] == {
        "server": "https://127.0.0.1:6443",
        "certificate-authority-data": "Q0E=",
    }
    assert provider["clusterIdentifier"]


def test_kubeconfig_of_gke_takes_the_credentials_that_pulumis_provider_takes(
    record: Record,
) -> None:
    """Not gcloud's account: it may be missing, or another person's."""
    (user,) = json.loads(one(record("gke-h100"), "providers:kubernetes")["kubeconfig"])["users"]
    assert user["user"]["exec"]["command"] == "gke-gcloud-auth-plugin"
    assert user["user"]["exec"]["args"] == ["--use_application_default_credentials"]


def test_profile_of_the_stack_reaches_provider_and_kubeconfig(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider of the program's own takes nothing from the stack's configuration by itself."""
    plain = one(record("eks-a100"), "providers:aws")
    assert "profile" not in plain
    config = pulumi.Config
    profile = {"profile": "prod"}

    class Configured(config):
        def get(self, key: str, default: str | None = None) -> str | None:
            return profile.get(key) if self.name == "aws" else super().get(key, default)

    monkeypatch.setattr(pulumi, "Config", Configured)
    text = (ROOT / "stacks" / "Pulumi.eks-a100.yaml").read_text()
    fleet = yaml.safe_dump(yaml.safe_load(text)["config"]["slicewright:fleet"])
    made = record("profile", fleet=fleet)
    assert one(made, "providers:aws")["profile"] == "prod"
    (user,) = json.loads(one(made, "providers:kubernetes")["kubeconfig"])["users"]
    assert user["user"]["exec"]["args"][-2:] == ["--profile", "prod"]


@pytest.mark.parametrize("stack", BUILT)
def test_no_resource_holds_a_secret(
    record: Record, as_json: Callable[[Any], str], stack: str
) -> None:
    """What the program asks for is in the state, in plain text."""
    made = record(stack)
    assert [m.name for m in made if m.type.endswith(":Secret")] == []
    private = re.compile(
        r"PRIVATE KEY|eyJ[\w-]{8,}\.eyJ|client-key-data|\bAKIA[A-Z0-9]{16}|(?i:password)"
    )
    assert [m.name for m in made if private.search(as_json(m.inputs))] == []


@pytest.mark.parametrize("stack", STACKS)
def test_the_agent_is_privileged_only_on_gke(record: Record, stack: str) -> None:
    pod = pod_of(record(stack), ":DaemonSet", "node-agent")
    (container,) = pod["containers"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert not {"runAsUser", "runAsNonRoot", "seccompProfile"} & set(
        container["securityContext"]
    ), "the pod's are in force"
    assert not pod.get("hostNetwork")
    assert not pod.get("hostPID")
    assert not pod.get("hostIPC")
    if stack == "gke-h100":
        assert container["securityContext"]["privileged"] is True
    else:
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


def _fleet_of_image(image: str) -> str:
    if image.startswith(("AL2023", "BOTTLEROCKET")):
        # No machine with ARM processors can be built yet.
        return f"""\
cloud: eks
cluster: {{name: c, region: us-east-1}}
node_pools: [{{name: a, machine_type: p4d.24xlarge, ami_type: {image}, nodes: {{count: 1}}}}]
"""
    return f"""\
cloud: gke
cluster: {{name: main, location: us-central1-a}}
node_pools: [{{name: a, machine_type: a2-highgpu-1g, image_type: {image}, nodes: {{count: 1}}}}]
"""


@pytest.mark.parametrize("image", ["COS_CONTAINERD", "UBUNTU_CONTAINERD"])
def test_on_gke_the_agent_mounts_the_driver_directory(record: Record, image: str) -> None:
    pod = pod_of(record(image, fleet=_fleet_of_image(image)), ":DaemonSet", "node-agent")
    (container,) = pod["containers"]
    assert container["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert not {e["name"] for e in container["env"]} & {"NVIDIA_VISIBLE_DEVICES"}
    assert {"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"} in container["env"]
    assert {"name": "driver", "mountPath": "/usr/local/nvidia", "readOnly": True} in container[
        "volumeMounts"
    ]
    assert [v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v] == [
        "/home/kubernetes/bin/nvidia"
    ]
    assert "runtimeClassName" not in pod


@pytest.mark.parametrize("image", ["AL2023_x86_64_NVIDIA"])
def test_on_eks_the_agent_gets_the_gpus_from_the_nodes_default_runtime(
    record: Record, image: str
) -> None:
    pod = pod_of(record(image, fleet=_fleet_of_image(image)), ":DaemonSet", "node-agent")
    (container,) = pod["containers"]
    assert "runtimeClassName" not in pod, "the class would have to be there before the pod"
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in container["env"]
    assert {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"} in container["env"]
    assert not [v for v in pod["volumes"] if "hostPath" in v]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_agent_on_bottlerocket_requests_all_gpus_by_a_mount(record: Record) -> None:
    """Bottlerocket ignores the variable of a container without privileges."""
    made = record("bottlerocket", fleet=_fleet_of_image("BOTTLEROCKET_x86_64_NVIDIA"))
    pod = pod_of(made, ":DaemonSet", "node-agent")
    (container,) = pod["containers"]
    directory = "/var/run/nvidia-container-devices"
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": directory} in container["env"]
    (mount,) = [m for m in container["volumeMounts"] if m["mountPath"] == f"{directory}/all"]
    (volume,) = [v for v in pod["volumes"] if v["name"] == mount["name"]]
    assert volume["hostPath"] == {"path": "/dev/null", "type": "CharDevice"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not [m for m in made if m.type.endswith(":Release")], "no operator for these nodes"


def test_agent_has_access_to_gpus_on_every_node_image() -> None:
    named = {
        *get_args(GkePool.model_fields["image_type"].annotation),
        *get_args(get_args(EksPool.model_fields["ami_type"].annotation)[0]),
    }
    assert named == {
        "COS_CONTAINERD",
        "UBUNTU_CONTAINERD",
        "AL2023_x86_64_NVIDIA",
        "AL2023_ARM_64_NVIDIA",
        "BOTTLEROCKET_x86_64_NVIDIA",
        "BOTTLEROCKET_ARM_64_NVIDIA",
    }, "a new image needs a row in docs/reference/agent.md and a test here"


@pytest.mark.parametrize("stack", STACKS)
def test_agent_pod_has_a_small_volume_for_restarts(record: Record, stack: str) -> None:
    pod = pod_of(record(stack), ":DaemonSet", "node-agent")
    (container,) = pod["containers"]
    assert {"name": "restarts", "mountPath": str(restart_memory.DIRECTORY)} in container[
        "volumeMounts"
    ]
    assert {"name": "restarts", "emptyDir": {"sizeLimit": "1Mi"}} in pod["volumes"]


@pytest.mark.parametrize("stack", STACKS)
def test_agent_runs_only_on_its_pool_and_tolerates_the_taints(record: Record, stack: str) -> None:
    made = record(stack)
    pod = pod_of(made, ":DaemonSet", "node-agent")
    (pool,) = (
        m.inputs["metadata"]["name"] for m in made if m.type.endswith(":GPUPool") and not m.read
    )
    assert pod["nodeSelector"] == {"slicewright.io/pool": pool}
    tolerated = {t["key"] for t in pod["tolerations"]}
    assert tolerated >= {names.STARTUP_TAINT_KEY, "nvidia.com/gpu"}
    assert "" not in tolerated


@pytest.mark.parametrize("stack", STACKS)
def test_code_and_desired_state_are_mounted_from_immutable_config_maps(
    record: Record, stack: str
) -> None:
    made = record(stack)
    maps = {
        m.inputs["metadata"]["name"]: m.inputs
        for m in made
        if m.type.endswith(":ConfigMap") and not m.read
    }
    assert all(m["immutable"] for m in maps.values())
    for kind, name, program_file in (
        (":DaemonSet", "node-agent", "node_agent.pyz"),
        (":Deployment", "controller", "fleet_controller.pyz"),
    ):
        pod = pod_of(made, kind, name)
        mounted = {v["name"]: v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v}
        archive = io.BytesIO(
            base64.b64decode(maps[mounted["code"]]["binaryData"][program_file], validate=True)
        )
        assert zipfile.ZipFile(archive).namelist() == ["__main__.py"]
        command = pod["containers"][0]["command"]
        assert command[:4] == ["python", "-I", "-S", "-c"]
        assert command[5:7] == [f"/opt/slicewright/{program_file}", "0123456789abcdef"]
        if "desired" in mounted:
            assert json.loads(maps[mounted["desired"]]["data"]["desired.json"])["version"] == "v1"


@pytest.mark.parametrize("stack", STACKS)
def test_up_waits_for_the_pool_and_not_for_the_agents(record: Record, stack: str) -> None:
    made = record(stack)
    pool = one(made, ":GPUPool")
    assert pool["metadata"]["annotations"]["pulumi.com/waitFor"] == "condition=Settled"
    assert len(pool["spec"]["layoutHash"]) == 64
    kept = pool["spec"].get("desiredState")
    assert (kept is None) == ("migConfig" not in pool["spec"]), "for an undo"
    assert kept is None or digest(kept) == pool["spec"]["layoutHash"]
    assert pool["spec"]["expectedNodes"] == {"min": 1, "max": 1}
    assert one(made, ":DaemonSet")["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}
    assert one(made, ":GPUPool", read=True)["kind"] == "GPUPool"


@pytest.mark.parametrize("stack", BUILT)
def test_agent_and_controller_get_exactly_their_listed_rights(record: Record, stack: str) -> None:
    made = record(stack)
    for name, rules in (
        ("fleet-controller", rights.CONTROLLER_RULES),
        ("node-agent", rights.AGENT_RULES),
    ):
        given = one(made, ":ClusterRole", f"{name}-role")["rules"]
        assert given == list(rules)
    roles = {
        m.inputs["metadata"]["namespace"]: m.inputs["rules"]
        for m in made
        if m.type.endswith(":Role") and m.name.startswith("fleet-controller")
    }
    assert roles == {
        namespace: list(rules) for namespace, rules in rights.CONTROLLER_NAMESPACE_RULES.items()
    }
    assert {
        m.inputs["metadata"]["name"] for m in made if m.type.endswith(":CustomResourceDefinition")
    } == {
        f"{names.REPORT_PLURAL}.{names.GROUP}",
        f"{names.POOL_PLURAL}.{names.GROUP}",
    }


@pytest.mark.parametrize("stack", BUILT)
def test_one_of_two_controllers_survives_a_drain_and_an_update(record: Record, stack: str) -> None:
    made = record(stack)
    spec = one(made, ":Deployment", "controller")["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["replicas"] == 2
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
    }
    budget = one(made, ":PodDisruptionBudget", "fleet-controller")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == {"matchLabels": labels}
    spread = spec["template"]["spec"]["topologySpreadConstraints"]
    assert [one["topologyKey"] for one in spread] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    assert all(one["labelSelector"] == {"matchLabels": labels} for one in spread)
    assert {one["whenUnsatisfiable"] for one in spread} == {"ScheduleAnyway"}


@pytest.mark.parametrize("stack", BUILT)
@pytest.mark.parametrize(
    "name",
    [
        "node-agent-policy",
        "node-guard-policy",
        "fleet-controller-policy",
        "fleet-controller-node-policy",
    ],
)
def test_every_admission_policy_denies(record: Record, stack: str, name: str) -> None:
    made = record(stack)
    policy = one(made, ":ValidatingAdmissionPolicy", name)
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert one(made, ":ValidatingAdmissionPolicyBinding", name)["spec"] == {
        "policyName": policy["metadata"]["name"],
        "validationActions": ["Deny"],
    }


def test_node_policy_admits_the_gpu_operator_only_if_it_exists(
    record: Record, as_json: Callable[[Any], str]
) -> None:
    operator = "system:serviceaccount:gpu-operator:gpu-operator"
    for stack, known in (("gke-h100", False), ("eks-a100", True)):
        policy = one(record(stack), ":ValidatingAdmissionPolicy", "node-guard")
        assert (operator in as_json(policy)) is known
    elsewhere = f"{plain('eks')}gpu_operator: {{namespace: nvidia}}\n"
    policy = one(record("elsewhere", fleet=elsewhere), ":ValidatingAdmissionPolicy", "node-guard")
    assert "system:serviceaccount:nvidia:gpu-operator" in as_json(policy)
    assert operator not in as_json(policy)


def test_node_policy_admits_the_admin_groups_of_the_stack_file(
    record: Record, as_json: Callable[[Any], str]
) -> None:
    assert 'group in [\\"system:masters\\"]' in as_json(
        one(record("eks-a100"), ":ValidatingAdmissionPolicy", "node-guard")
    )
    fleet = f"""{plain("gke")}admin_groups: [gpu-admins@example.com, 'a "quoted" one']\n"""
    policy = one(record("admins", fleet=fleet), ":ValidatingAdmissionPolicy", "node-guard")
    asked = policy["spec"]["matchConditions"][-1]["expression"]
    assert r'group in ["gpu-admins@example.com", "a \"quoted\" one"]' in asked


def test_pod_guard_exempts_the_namespaces_of_the_stack_file(record: Record) -> None:
    guards = ":ValidatingAdmissionPolicy"
    assert not [m for m in record("eks-a100") if m.name.startswith("pod-guard")]
    own = {"kube-system", "slicewright-system"}
    for cloud, more, exempt in (
        ("eks", "", {"gpu-operator"}),
        ("eks", "gpu_operator: {namespace: nvidia}\n", {"nvidia"}),
        ("gke", "", {"gke-managed-system", "gmp-system"}),
    ):
        fleet = f"{plain(cloud)}{more}pod_guard: {{exempt_namespaces: [storage]}}\n"
        policy = one(record("guarded", fleet=fleet), guards, "pod-guard")
        (condition,) = [
            c
            for c in policy["spec"]["matchConditions"]
            if c["name"] == "not-in-an-exempt-namespace"
        ]
        listed = ", ".join(f'"{name}"' for name in sorted({*own, *exempt, "storage"}))
        assert condition["expression"] == f"!(request.namespace in [{listed}])"


@pytest.mark.parametrize("stack", STACKS)
def test_node_policy_comes_before_programs_that_may_change_nodes(
    record: Record, stack: str
) -> None:
    # A mock registers a resource once everything that it depends on is registered.
    made = record(stack)
    guarded = next(i for i, m in enumerate(made) if m.name == "node-guard-policy-binding")
    runs = {
        m.name: i
        for i, m in enumerate(made)
        if m.type.endswith((":DaemonSet", ":Deployment", ":Release"))
    }
    assert len(runs) == {"gke-h100": 2, "eks-a100": 3}[stack]
    assert [name for name, i in runs.items() if i < guarded] == []


@pytest.mark.parametrize("stack", STACKS)
def test_critical_pods_have_the_quota_that_gke_requires(record: Record, stack: str) -> None:
    made = record(stack)
    classes = {
        pod_of(made, ":DaemonSet", "node-agent")["priorityClassName"],
        pod_of(made, ":Deployment", "controller")["priorityClassName"],
    }
    assert classes == {"system-node-critical", "system-cluster-critical"}
    quota = one(made, ":ResourceQuota")
    assert quota["metadata"]["namespace"] == "slicewright-system"
    (selector,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert set(selector["values"]) == classes


@pytest.mark.parametrize("stack", STACKS)
def test_ports_of_agents_and_controller_are_closed_by_default(record: Record, stack: str) -> None:
    made = record(stack)
    policy = one(made, ":NetworkPolicy")
    assert policy["metadata"]["namespace"] == "slicewright-system"
    assert policy["spec"] == {
        "podSelector": {"matchLabels": {"app.kubernetes.io/part-of": "slicewright"}},
        "policyTypes": ["Ingress"],
    }
    for kind in (":DaemonSet", ":Deployment"):
        labels = one(made, kind)["spec"]["template"]["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "slicewright"


def test_the_stack_file_opens_the_ports_to_pods_and_addresses(record: Record) -> None:
    fleet = f"""{plain("gke")}metrics_from:
- namespace: monitoring
- {{namespace: gmp-system, pods: {{app: collector}}}}
- {{cidr: 10.0.0.0/16}}
"""
    (rule,) = one(record("opened", fleet=fleet), ":NetworkPolicy")["spec"]["ingress"]
    name = "kubernetes.io/metadata.name"
    assert rule["from"] == [
        {"namespaceSelector": {"matchLabels": {name: "monitoring"}}},
        {
            "namespaceSelector": {"matchLabels": {name: "gmp-system"}},
            "podSelector": {"matchLabels": {"app": "collector"}},
        },
        {"ipBlock": {"cidr": "10.0.0.0/16"}},
    ]
    assert {(p["protocol"], p["port"]) for p in rule["ports"]} == {
        ("TCP", names.AGENT_PORT),
        ("TCP", names.CONTROLLER_PORT),
        ("TCP", names.ATTRIBUTION_PORT),
    }


ATTRIBUTED = {
    "gke": """\
cloud: gke
cluster: {name: main, location: us-central1-a}
node_agent: {attribution: true}
node_pools: [{name: a, machine_type: a2-highgpu-1g, nodes: {count: 1}, partition: {mode: native,
    profile: 1g.5gb}}]
""",
    "eks": """\
cloud: eks
cluster: {name: c, region: eu-west-1}
node_agent: {attribution: true}
node_pools: [{name: a, machine_type: p4d.24xlarge, nodes: {count: 1}, partition: {mode: operator,
    config: all-1g.5gb}}]
""",
}


def plain(cloud: str) -> str:
    """A small fleet of that cloud, in YAML."""
    return ATTRIBUTED[cloud].replace("node_agent: {attribution: true}\n", "")


def attributed(
    record: Record, cloud: str
) -> tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]:
    """The agents' pod, the agent's container and the one beside it."""
    pod = pod_of(record(f"attributed-{cloud}", fleet=ATTRIBUTED[cloud]), ":DaemonSet", "node-agent")
    agent, beside = pod["containers"]
    return pod, agent, beside


@pytest.mark.parametrize("cloud", ATTRIBUTED)
def test_only_the_attribution_container_is_root_and_without_other_rights(
    record: Record, cloud: str
) -> None:
    pod, _, beside = attributed(record, cloud)
    assert beside["securityContext"] == {
        "runAsNonRoot": False,
        "runAsUser": 0,
        "runAsGroup": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {m["name"]: m["mountPath"] for m in beside["volumeMounts"]} == {
        "code": "/opt/slicewright",
        "pod-resources": "/var/lib/kubelet/pod-resources",
    }
    assert all(m["readOnly"] for m in beside["volumeMounts"])
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in beside["env"]
    assert "LD_LIBRARY_PATH" not in {e["name"] for e in beside["env"]}


@pytest.mark.parametrize("cloud", ATTRIBUTED)
def test_only_the_agents_container_mounts_the_token(record: Record, cloud: str) -> None:
    pod, agent, beside = attributed(record, cloud)
    assert pod["automountServiceAccountToken"] is False
    token = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert [m["name"] for m in agent["volumeMounts"] if m["mountPath"] == token] == ["token"]
    assert "token" not in {m["name"] for m in beside["volumeMounts"]}
    (volume,) = (v["projected"] for v in pod["volumes"] if v["name"] == "token")
    assert sorted(key for source in volume["sources"] for key in source) == [
        "configMap",
        "downwardAPI",
        "serviceAccountToken",
    ]


@pytest.mark.parametrize(("cloud", "stack"), [("gke", "gke-h100"), ("eks", "eks-a100")])
def test_attribution_changes_only_the_token_mount_of_the_agents_container(
    record: Record, cloud: str, stack: str
) -> None:
    _, agent, _ = attributed(record, cloud)
    (plain,) = pod_of(record(stack), ":DaemonSet", "node-agent")["containers"]
    assert {
        **agent,
        "volumeMounts": [m for m in agent["volumeMounts"] if m["name"] != "token"],
    } == plain


@pytest.mark.parametrize("stack", STACKS)
def test_attribution_is_off_by_default(record: Record, stack: str) -> None:
    pod = pod_of(record(stack), ":DaemonSet", "node-agent")
    assert [c["name"] for c in pod["containers"]] == ["node-agent"]
    assert "automountServiceAccountToken" not in pod
    assert "pod-resources" not in {v["name"] for v in pod["volumes"]}


@pytest.mark.parametrize("asked", [True, False])
def test_utilization_adds_one_argument_to_the_agent(record: Record, asked: bool) -> None:
    fleet = ATTRIBUTED["eks"].replace("attribution: true", f"utilization: {str(asked).lower()}")
    (agent,) = pod_of(record(f"utilization-{asked}", fleet=fleet), ":DaemonSet", "node-agent")[
        "containers"
    ]
    (plain,) = pod_of(record("eks-a100"), ":DaemonSet", "node-agent")["containers"]
    *command, compute = plain["command"]
    assert agent["command"] == [*command, *(["--utilization"] if asked else []), compute]
    assert {**agent, "command": None} == {**plain, "command": None}


SHARED_BY_MPS = """\
cloud: eks
cluster: {name: c, region: us-east-1}
node_pools:
  - name: a
    machine_type: p4d.24xlarge
    nodes: {count: 1}
    sharing: {mode: mps, replicas: 2}
gpu_operator: {mig_strategy: none}
"""
NOT_COMPUTED = {
    "gke": _fleet_of_image("COS_CONTAINERD") + "verification: {compute: false}\n",
    "eks": _fleet_of_image("AL2023_x86_64_NVIDIA") + "verification: {compute: false}\n",
    "bottlerocket": _fleet_of_image("BOTTLEROCKET_x86_64_NVIDIA")
    + "verification: {compute: false}\n",
    "mps": SHARED_BY_MPS,
}
IMAGES = ["COS_CONTAINERD", "UBUNTU_CONTAINERD", "AL2023_x86_64_NVIDIA"]


@pytest.mark.parametrize("image", [*IMAGES, "BOTTLEROCKET_x86_64_NVIDIA"])
def test_by_default_the_agent_computes_before_a_release(record: Record, image: str) -> None:
    made = record(f"computes-{image}", fleet=_fleet_of_image(image))
    (container,) = pod_of(made, ":DaemonSet", "node-agent")["containers"]
    assert container["command"][-1] == "--compute"
    assert container["resources"]["limits"] == {"memory": "512Mi"}
    (pool,) = (m for m in made if m.type.endswith(":GPUPool") and m.inputs.get("spec"))
    assert pool.inputs["spec"]["verification"] == {"compute": True}


@pytest.mark.parametrize("fleet", NOT_COMPUTED)
def test_an_agent_that_does_not_compute_has_no_more_than_nvml_needs(
    record: Record, fleet: str
) -> None:
    made = record(f"listed-{fleet}", fleet=NOT_COMPUTED[fleet])
    (container,) = pod_of(made, ":DaemonSet", "node-agent")["containers"]
    assert "--compute" not in container["command"]
    assert container["resources"]["limits"] == {"memory": "192Mi"}
    capabilities = [e for e in container["env"] if e["name"] == "NVIDIA_DRIVER_CAPABILITIES"]
    assert all(e["value"] == "utility" for e in capabilities)
    (pool,) = (m for m in made if m.type.endswith(":GPUPool") and m.inputs.get("spec"))
    assert pool.inputs["spec"]["verification"] == {"compute": False}


@pytest.mark.parametrize("image", [*IMAGES, "BOTTLEROCKET_x86_64_NVIDIA"])
def test_with_verification_by_a_pod_the_pool_has_its_settings(record: Record, image: str) -> None:
    fleet = _fleet_of_image(image) + "verification: {pod: true}\n"
    made = record(f"pod-{image}", fleet=fleet)
    (pool,) = (m for m in made if m.type.endswith(":GPUPool") and m.inputs.get("spec"))
    pod = pool.inputs["spec"]["verification"]["pod"]
    (agent,) = pod_of(made, ":DaemonSet", "node-agent")["containers"]
    assert pod["image"] == agent["image"]
    assert pod["command"] == [*agent["command"][: agent["command"].index("watch")], "prove"]
    assert [device["device"] for device in pod["devices"]] == ["gpu"]
    keys = {toleration["key"] for toleration in pod["tolerations"]}
    assert {"nvidia.com/gpu", names.STARTUP_TAINT_KEY, "node.kubernetes.io/unschedulable"} <= keys
    of_gke = image in ("COS_CONTAINERD", "UBUNTU_CONTAINERD")
    assert pod["environment"] == (
        {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
        if of_gke
        else {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    )
    assert _proof_pod_roles(made)


@pytest.mark.parametrize("stack", STACKS)
def test_by_default_the_controller_may_create_no_pod(record: Record, stack: str) -> None:
    made = record(stack)
    assert not _proof_pod_roles(made)
    pools = [m for m in made if m.type.endswith(":GPUPool") and m.inputs.get("spec")]
    assert pools
    assert not any("pod" in pool.inputs["spec"]["verification"] for pool in pools)


def _proof_pod_roles(made: Sequence[Any]) -> list[Any]:
    return [m for m in made if m.type.endswith(":Role") and "proof-pods" in m.name]


MANY_GKE = """\
cloud: gke
cluster: {name: main, location: us-central1-a}
system_pool: {nodes: {min: 1, max: 3}}
node_pools:
- {name: whole, machine_type: n1-standard-4, gpu: {model: T4, count: 2}, nodes: {count: 2},
    disk: {size_gb: 50}}
- name: scaled
  machine_type: a2-ultragpu-1g
  nodes: {min: 0, max: 5}
  partition: {mode: native, profile: 1g.10gb}
  local_ssd: {raw: 1}
  features: {fast_socket: true, gcfs: true}
  resource_labels: {cost: ml}
  management: {auto_repair: false}
"""
MANY_EKS = """\
cloud: eks
cluster: {name: c, region: us-west-2, version: "1.34"}
node_pools:
- {name: whole, machine_type: g4dn.xlarge, nodes: {count: 1}, zones: [us-west-2c]}
- name: scaled
  machine_type: p4de.24xlarge
  nodes: {min: 1, max: 4}
  capacity: spot
  release_version: 1.34.0-20260714
  partition: {mode: operator, config: all-balanced}
  tags: {team: ml}
  taints: [{key: example.com/team, value: ml, effect: NO_EXECUTE}]
gpu_operator: {chart_version: v26.3.3, gfd: {version: v0.19.0}, device_plugin: {version: v0.19.0}}
"""


def test_gke_settings_beyond_the_published_system(record: Record) -> None:
    made = record("many-gke", fleet=MANY_GKE)
    whole = one(made, ":NodePool", "whole")
    assert whole["nodeCount"] == 2
    assert whole["nodeLocations"] == ["us-central1-a"]
    assert whole["nodeConfig"]["guestAccelerators"] == [
        {
            "type": "nvidia-tesla-t4",
            "count": 2,
            "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
        }
    ]
    scaled = one(made, ":NodePool", "scaled")
    assert "nodeCount" not in scaled
    assert scaled["initialNodeCount"] == 0
    assert scaled["autoscaling"] == {"totalMinNodeCount": 0, "totalMaxNodeCount": 5}
    assert scaled["management"] == {"autoRepair": False, "autoUpgrade": True}
    node = scaled["nodeConfig"]
    assert node["localNvmeSsdBlockConfig"] == {"localSsdCount": 1}
    assert "ephemeralStorageLocalSsdConfig" not in node
    assert (node["fastSocket"], node["gcfsConfig"]) == ({"enabled": True}, {"enabled": True})
    assert node["resourceLabels"] == {"cost": "ml"}
    assert one(made, ":GPUPool", "scaled")["spec"]["expectedNodes"] == {"min": 0, "max": 5}
    assert one(made, ":NodePool", "system")["autoscaling"] == {
        "totalMinNodeCount": 1,
        "totalMaxNodeCount": 3,
    }


def test_eks_settings_beyond_the_published_system(record: Record) -> None:
    made = record("many-eks", fleet=MANY_EKS)
    assert one(made, ":Cluster")["version"] == "1.34"
    assert {m.inputs["availabilityZone"] for m in made if m.type.endswith(":Subnet")} == {
        "us-west-2a",
        "us-west-2b",
        "us-west-2c",
    }
    assert one(made, ":NodeGroup", "whole")["subnetIds"] == ["eks-us-west-2c-id"]
    scaled = one(made, ":NodeGroup", "scaled")
    assert scaled["capacityType"] == "SPOT"
    assert scaled["releaseVersion"] == "1.34.0-20260714"
    assert scaled["scalingConfig"] == {"minSize": 1, "desiredSize": 1, "maxSize": 4}
    assert {"key": "example.com/team", "value": "ml", "effect": "NO_EXECUTE"} in scaled["taints"]
    assert scaled["tags"] == {
        "team": "ml",
        "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu": "0",
        "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/mig-1g.10gb": "16",
        "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/mig-2g.20gb": "8",
        "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/mig-3g.40gb": "8",
    }
    values = one(made, ":Release")["values"]
    assert (values["gfd"]["version"], values["devicePlugin"]["version"]) == ("v0.19.0", "v0.19.0")
    assert "example.com/team" in {t["key"] for t in values["daemonsets"]["tolerations"]}
    assert "migConfig" not in one(made, ":GPUPool", "whole")["spec"]


FAILING: Mapping[str, Any] = {
    "conditions": [
        {
            "type": "Verified",
            "status": "False",
            "observedGeneration": 3,
            "reason": "NodesFailing",
            "message": "1 of 1 nodes failing.",
        }
    ],
    "failingNodes": [
        {
            "name": "n1",
            "reason": "Mismatch",
            "message": "GPU 3: wanted 3g.40gb x2, found 1g.10gb x7",
        }
    ],
}


def test_up_fails_if_a_pool_is_not_verified(record: Record) -> None:
    with pytest.raises(Unverified) as failed:
        record("gke-h100", status=FAILING)
    assert isinstance(failed.value, pulumi.RunError)
    for part in (
        "pool h100-partition-3g",
        "NodesFailing",
        "node n1: Mismatch: GPU 3: wanted 3g.40gb x2, found 1g.10gb x7",
    ):
        assert part in str(failed.value)


def test_a_preview_only_warns_of_unverified_pools(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: warned.append(text))
    record("gke-h100", status=FAILING, preview=True)
    assert warned
    assert "node n1: Mismatch" in warned[0]
    # In the pool that is read here there is nothing of what the program declares.
    assert "`pulumi up` changes pool h100-partition-3g and waits for it." in warned[0]


class TestNextUpMessage:
    """The provider waits only for a pool that it creates or updates."""

    POOL = plan.read_file(ROOT / "stacks" / "Pulumi.eks-a100.yaml").pools[0]

    @pytest.fixture
    def live(self) -> dict[str, Any]:
        """As the API server has it: with defaults, and the engine's numbers are floats."""
        spec = pool_spec(self.POOL)
        counts = {name: float(count) for name, count in spec["expectedNodes"].items()}
        metadata = {**pool_metadata(self.POOL), "generation": 3.0, "uid": "u"}
        return {"spec": {**spec, "expectedNodes": counts, "paused": False}, "metadata": metadata}

    def warning(self, live: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
        warned: list[str] = []
        monkeypatch.setattr(pulumi.log, "warn", warned.append)
        monkeypatch.setattr(pulumi.runtime, "is_dry_run", lambda: True)
        pool = Live(spec=live["spec"], status=FAILING, metadata=live["metadata"])
        assert not check_verified({self.POOL.name: self.POOL}, {self.POOL.name: pool})
        (text,) = warned
        return text

    def test_preview_says_that_up_fails_for_an_unchanged_pool(
        self, live: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        message = self.warning(live, monkeypatch)
        assert f"does not change pool {self.POOL.name}, so it does not wait" in message
        assert "and waits for it" not in message

    @pytest.mark.parametrize("part", ["layoutHash", "expectedNodes", "annotations"])
    def test_preview_says_that_up_waits_for_a_changed_pool(
        self, part: str, live: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        where = live["metadata" if part == "annotations" else "spec"]
        where[part] = "another" if part == "layoutHash" else {}
        message = self.warning(live, monkeypatch)
        assert f"changes pool {self.POOL.name} and waits for it" in message
        assert "fails" not in message


def test_message_on_too_few_nodes_says_how_a_deleted_node_comes_back() -> None:
    condition = {"type": "Verified", "status": "False", "reason": "TooFewNodes", "message": "m"}
    said = unverified("p", {"conditions": [condition]}, 3) or ""
    assert "comes back only when its instance is replaced" in said


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (None, "has not written its status yet"),
        ({}, "has not written its status yet"),
        (
            {"conditions": [{"type": "Progressing", "status": "True"}]},
            "has not written its status yet",
        ),
        (
            {"conditions": [{"type": "Verified", "status": "True", "observedGeneration": 2}]},
            "earlier layout",
        ),
        (
            {
                "conditions": [
                    {
                        "type": "Verified",
                        "status": "Unknown",
                        "observedGeneration": 3,
                        "reason": "NoReport",
                    }
                ]
            },
            "NoReport",
        ),
        ({"conditions": [{"type": "Verified", "status": "True", "observedGeneration": 3.0}]}, None),
    ],
)
def test_pool_with_unknown_status_is_not_verified(
    status: Mapping[str, Any] | None, said: str | None
) -> None:
    answer = unverified("p", status, 3)
    assert (answer is None) if said is None else (said in (answer or ""))


@given(texts, texts, texts)
def test_text_from_nodes_is_printed_without_control_characters(
    reason: str, name: str, message: str
) -> None:
    condition = {"type": "Verified", "status": "False", "reason": reason, "message": message}
    one = [{"name": name, "reason": reason, "message": message}]
    for failing in ([], one, 7 * one):
        said = unverified("p", {"conditions": [condition], "failingNodes": failing}, 1) or ""
        assert obeyed(said) <= {"\n"}
        shown = min(len(failing), 5)
        assert said.count("\n") == shown + (len(failing) > shown), "no message forges a line"


def test_many_failing_nodes_are_counted_not_listed() -> None:
    failing = [{"name": f"n{i}", "reason": "Mismatch", "message": "m"} for i in range(20)]
    text = (
        unverified(
            "p",
            {
                "conditions": [{"type": "Verified", "status": "False", "reason": "R"}],
                "failingNodes": failing,
            },
            1,
        )
        or ""
    )
    assert text.count("node n") == 5
    assert "and 15 more" in text


@pytest.mark.parametrize(
    ("project", "name"),
    [
        ("name: fleet\n", "Pulumi.x.yaml"),
        ("name: fleet\nstackConfigDir: stacks\n", "stacks/Pulumi.x.yaml"),
        ("name: fleet\nstackConfigDir: ../environments/\n", "../environments/Pulumi.x.yaml"),
    ],
)
def test_line_numbers_come_from_the_stack_file_only_if_it_equals_the_config(
    project: str, name: str, tmp_path: Path
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "Pulumi.yaml").write_text(project)
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text("config:\n  slicewright:fleet:\n    cloud: gke\n")
    same = program.locate('{"cloud": "gke"}', root, "x")
    assert (same.name, same.position(("cloud",))) == (name, (3, 12))
    other = program.locate('{"cloud": "eks"}', root, "x")
    assert (other.name, other.position(("cloud",))) == ("stack x", None)


def test_program_merges_the_bases_beside_the_stack_file(tmp_path: Path) -> None:
    """The engine passes the stack's own part. The bases come from the disk."""
    (tmp_path / "Pulumi.yaml").write_text("stackConfigDir: stacks\n")
    (tmp_path / "stacks").mkdir()
    head = "config:\n  slicewright:fleet:\n"
    (tmp_path / "stacks" / "base.yaml").write_text(f"{head}    cloud: gke\n    image: a\n")
    (tmp_path / "stacks" / "Pulumi.x.yaml").write_text(
        f"{head}    extends: base.yaml\n    image: b\n"
    )
    same = program.locate('{"extends": "base.yaml", "image": "b"}', tmp_path, "x")
    assert same.raw == {"cloud": "gke", "image": "b"}
    assert same.origin(("cloud",)).source.position(("cloud",)) == (3, 12)
    assert same.origin(("image",)).source.name == "stacks/Pulumi.x.yaml"
    other = program.locate('{"extends": "base.yaml", "image": "c"}', tmp_path, "x")
    assert other.raw == {"cloud": "gke", "image": "c"}
    assert other.position(("image",)) is None
    assert other.position(("cloud",)) == (3, 12)


@pytest.mark.usefixtures("mocked")
def test_program_deploys_the_merged_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Pulumi.yaml").write_text("stackConfigDir: stacks\n")
    (tmp_path / "stacks").mkdir()
    whole = (ROOT / "stacks" / "Pulumi.eks-a100.yaml").read_text()
    (tmp_path / "stacks" / "base.yaml").write_text(whole)
    file = tmp_path / "stacks" / "Pulumi.x.yaml"
    part = {"extends": "base.yaml", "cluster": {"name": "from-the-stack"}}
    file.write_text(json.dumps({"config": {"slicewright:fleet": part}}))
    deployed: list[plan.FleetPlan] = []
    monkeypatch.setattr(program, "deploy", deployed.append)
    monkeypatch.setattr(pulumi, "get_root_directory", lambda: str(tmp_path))
    pulumi.runtime.set_all_config({"slicewright:fleet": json.dumps(part)})
    program.main()
    (fleet,) = deployed
    assert isinstance(fleet, plan.EksFleetPlan)
    assert fleet.cluster.name == "from-the-stack"
    assert fleet == plan.read_file(file)


def test_program_ends_with_one_message_if_a_base_is_missing(
    mocked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulumi, "get_root_directory", lambda: str(tmp_path))
    pulumi.runtime.set_all_config({"slicewright:fleet": '{"extends": "base.yaml"}'})
    with pytest.raises(pulumi.RunError, match=r"extends: .*base\.yaml: cannot be read"):
        program.main()
    assert mocked.made == []


def test_a_broken_stack_file_ends_the_program_before_any_resource_and_without_a_traceback(
    mocked: Any,
) -> None:
    pulumi.runtime.set_all_config({"slicewright:fleet": '{"cloud": "gke", "cluter": {}}'})
    with pytest.raises(pulumi.RunError, match="did you mean cluster"):
        program.main()
    assert mocked.made == []


SHARED_GKE = """\
cloud: gke
cluster: {name: main, location: us-central1-a}
node_pools:
- name: sliced
  machine_type: a2-highgpu-1g
  nodes: {count: 1}
  partition: {mode: native, profile: 3g.20gb}
  sharing: {mode: time-slicing, replicas: 4}
- {name: mps, machine_type: n1-standard-4, gpu: {model: T4, count: 1}, nodes: {count: 1},
    sharing: {mode: mps, replicas: 8}}
"""
SHARED_EKS = """\
cloud: eks
cluster: {name: c, region: eu-west-1}
node_pools:
- name: a100
  machine_type: p4d.24xlarge
  nodes: {count: 1}
  partition:
    mode: operator
    gpus: [{index: [0, 1, 2, 3], layout: {1g.5gb: 7}}, {index: [4, 5], layout: {3g.20gb: 2}},
        {index: [6, 7], layout: {}}]
  sharing: {mode: time-slicing, replicas: {mig-1g.5gb: 4}, rename_by_default: true}
- {name: t4, machine_type: g4dn.xlarge, nodes: {count: 1}, sharing: {mode: time-slicing,
    replicas: 14}}
- {name: whole, machine_type: g4dn.xlarge, nodes: {count: 1}}
"""


def test_gke_shares_by_its_own_settings(record: Record) -> None:
    made = record("shared-gke", fleet=SHARED_GKE)
    (sliced,) = one(made, ":NodePool", "sliced")["nodeConfig"]["guestAccelerators"]
    assert sliced["gpuPartitionSize"] == "3g.20gb"
    assert sliced["gpuSharingConfig"] == {
        "gpuSharingStrategy": "TIME_SHARING",
        "maxSharedClientsPerGpu": 4,
    }
    (mps,) = one(made, ":NodePool", "mps")["nodeConfig"]["guestAccelerators"]
    assert mps["gpuSharingConfig"] == {"gpuSharingStrategy": "MPS", "maxSharedClientsPerGpu": 8}


def test_eks_shares_by_one_config_map_with_a_key_per_pool(record: Record) -> None:
    made = record("shared-eks", fleet=SHARED_EKS)
    configs = one(made, ":ConfigMap", "plugin-configs")
    assert set(configs["data"]) == {"a100", "t4", "whole", "not.shared"}
    assert configs["immutable"] is True
    assert one(made, ":Release")["values"]["devicePlugin"]["config"] == {
        "name": configs["metadata"]["name"],
        "default": "not.shared",
    }
    assert one(made, ":NodeGroup", "a100")["labels"]["nvidia.com/device-plugin.config"] == "a100"
    assert "nvidia.com/device-plugin.config" not in one(made, ":NodeGroup", "whole")["labels"]


def test_gpu_pool_has_the_rollout_policy_of_the_stack_file(record: Record) -> None:
    rollout = "  rollout: {max_unavailable: 2, canary: 0, drain_timeout_minutes: 5}\n- {name: t4"
    made = record("shared-eks", fleet=SHARED_EKS.replace("- {name: t4", rollout))
    policy = one(made, ":GPUPool", "a100")["spec"]["rolloutPolicy"]
    assert policy == {
        "maxUnavailable": 2,
        "canary": 0,
        "oneZoneAtATime": False,
        "drain": {
            "timeoutSeconds": 300,
            "onTimeout": "Stop",
            "pods": "GPU",
            "deleteLocalData": False,
        },
        "maxFailures": 1,
        "maxUnverified": 0,
        "quarantine": "None",
    }
    assert "rolloutPolicy" not in one(made, ":GPUPool", "whole")["spec"], "nothing is rolled out"


def test_every_key_of_a_rollout_is_in_the_policy(record: Record) -> None:
    keys = (
        "max_unavailable: 25%, one_zone_at_a_time: true, on_drain_timeout: force, "
        "evict: all, delete_local_data: true, max_failures: 100%, "
        "max_unverified: 10%, quarantine: true"
    )
    rollout = f"  rollout: {{{keys}}}\n- {{name: t4"
    made = record("shared-eks", fleet=SHARED_EKS.replace("- {name: t4", rollout))
    policy = one(made, ":GPUPool", "a100")["spec"]["rolloutPolicy"]
    assert policy == {
        "maxUnavailable": "25%",
        "canary": 1,
        "oneZoneAtATime": True,
        "drain": {
            "timeoutSeconds": 3600,
            "onTimeout": "Force",
            "pods": "All",
            "deleteLocalData": True,
        },
        "maxFailures": "100%",
        "maxUnverified": "10%",
        "quarantine": "NoExecute",
    }


@pytest.mark.parametrize(
    ("keys", "limits"),
    [
        ("max_failures: 3", (3, None)),
        ("max_failures: 3, max_failures_in_a_row: 2", (3, 2)),
        ("max_failures: 10%, max_failures_in_a_row: 4", ("10%", 4)),
        ("max_failures: 100%, max_failures_in_a_row: 4", ("100%", 4)),
    ],
)
def test_rollout_policy_has_the_number_of_failures_that_stops_it(
    keys: str, limits: tuple[int | str, int | None], record: Record
) -> None:
    rollout = f"  rollout: {{{keys}}}\n- {{name: t4"
    made = record("shared-eks", fleet=SHARED_EKS.replace("- {name: t4", rollout))
    policy = one(made, ":GPUPool", "a100")["spec"]["rolloutPolicy"]
    assert (policy["maxFailures"], policy.get("maxFailuresInARow")) == limits


def test_a_policy_about_wrong_nodes_needs_no_rollout(record: Record) -> None:
    """GKE partitions these nodes."""
    fleet = yaml.safe_dump(
        yaml.safe_load((ROOT / "stacks" / "Pulumi.gke-h100.yaml").read_text())["config"][
            "slicewright:fleet"
        ]
    )
    assert "rolloutPolicy" not in one(record("gke-h100", fleet=fleet), ":GPUPool")["spec"]
    changed = yaml.safe_load(fleet)
    changed["node_pools"][0]["rollout"] = {"max_unverified": 1}
    made = record("gke-h100", fleet=yaml.safe_dump(changed))
    assert one(made, ":GPUPool")["spec"]["rolloutPolicy"]["maxUnverified"] == 1


def _within(tree: Any, wanted: Any) -> int:
    """How often it is anywhere in the tree."""
    parts = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, list) else ()
    return int(tree == wanted) + sum(_within(part, wanted) for part in parts)


def test_quarantine_keeps_the_operands_that_could_repair_the_node(record: Record) -> None:
    """The agent and NVIDIA's operands. Nothing tolerates more than before without quarantine."""
    toleration = {
        "key": names.STARTUP_TAINT_KEY,
        "operator": "Equal",
        "value": names.STARTUP_TAINT["value"],
        "effect": "NoExecute",
    }

    def tolerating(fleet: str) -> dict[str, int]:
        counts = {m.name: _within(m.inputs, toleration) for m in record("eks", fleet=fleet)}
        return {name: count for name, count in counts.items() if count}

    assert tolerating(SHARED_EKS) == {}
    rollout = "  rollout: {quarantine: true}\n- {name: t4"
    found = tolerating(SHARED_EKS.replace("- {name: t4", rollout))
    assert sorted(found.values()) == [1, 2], f"of the chart, Node Feature Discovery too: {found}"
    assert any(name.startswith("node-agent-a100") for name in found)


def test_gpus_of_one_node_may_have_different_layouts(record: Record) -> None:
    made = record("shared-eks", fleet=SHARED_EKS)
    layouts = yaml.safe_load(one(made, ":ConfigMap", "mig-layouts")["data"]["config.yaml"])[
        "mig-configs"
    ]
    entries = layouts[one(made, ":GPUPool", "a100")["spec"]["migConfig"]]
    assert [(e["devices"], e["mig-enabled"], e.get("mig-devices")) for e in entries] == [
        ([0, 1, 2, 3], True, {"1g.5gb": 7}),
        ([4, 5], True, {"3g.20gb": 2}),
        ([6, 7], False, None),
    ]
    desired = json.loads(one(made, ":ConfigMap", "desired-a100")["data"]["desired.json"])
    assert [g["instances"] for g in desired["gpus"]] == [{"1g.5gb": 7}] * 4 + [
        {"3g.20gb": 2}
    ] * 2 + [{}] * 2
    assert desired["resources"] == {
        "nvidia.com/mig-1g.5gb.shared": 112,
        "nvidia.com/mig-3g.20gb": 4,
        "nvidia.com/gpu": 2,
    }


def test_device_plugin_keeps_its_defaults_without_sharing(record: Record) -> None:
    made = record("eks-a100")
    assert "config" not in one(made, ":Release")["values"]["devicePlugin"]
    assert not [m for m in made if "plugin-configs" in m.name]


@pytest.mark.parametrize("stack", sorted(set(ALL_STACKS) - set(BUILT)))
def test_up_refuses_a_plan_only_stack_before_any_resource(mocked: Any, stack: str) -> None:
    config = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())["config"]
    pulumi.runtime.set_all_config({"slicewright:fleet": json.dumps(config["slicewright:fleet"])})
    with pytest.raises(pulumi.RunError, match=r"cannot build it yet|does not reach hosts"):
        program.main()
    assert mocked.made == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "a2-highgpu-1g, nodes: {count: 1}}",
            "a2-highgpu-1g, nodes: {count: 1}, sharing: fractional, "
            "image_type: UBUNTU_CONTAINERD}\nfractional: {provider: hami}",
            "a scheduler for fractional GPUs",
        ),
    ],
)
def test_refusal_of_a_plan_only_stack_names_each_unsupported_key(
    old: str, new: str, said: str
) -> None:
    fleet = """\
cloud: gke
cluster: {name: main, location: us-central1-a}
node_pools:
- {name: a, machine_type: a2-highgpu-1g, nodes: {count: 1}}
"""
    assert old in fleet
    raw = yaml.safe_load(fleet.replace(old, new))
    source = stack_file.Source("stack x", raw)
    planned = plan.read(json.dumps(raw), source)
    with pytest.raises(stack_file.SpecError) as refused:
        plan.deployable(planned, source)
    assert said in str(refused.value)
    assert "1 problem, nothing was created or changed" in str(refused.value)


@pytest.mark.parametrize(
    ("partition", "sharing", "partitions", "whole_gpus", "replicas"),
    [
        ("none", "none", 0, 16, {}),
        ("none", "{mode: time-slicing, replicas: 4}", 0, 16, {"nvidia.com/gpu": 4}),
        ("{mode: operator, config: all-3g.20gb}", "none", 32, 0, {}),
        (
            "{mode: operator, config: all-3g.20gb}",
            "{mode: time-slicing, replicas: 2}",
            32,
            0,
            {"nvidia.com/mig-3g.20gb": 2},
        ),
    ],
)
def test_pool_outputs_count_partitions_whole_gpus_and_replicas_separately(
    partition: str, sharing: str, partitions: int, whole_gpus: int, replicas: dict[str, int]
) -> None:
    raw = yaml.safe_load(f"""\
cloud: eks
cluster: {{name: main, region: eu-west-1}}
node_pools:
- name: a
  machine_type: p4d.24xlarge
  nodes: {{count: 2}}
  partition: {partition}
  sharing: {sharing}
""")
    fleet = plan.read(json.dumps(raw), stack_file.Source("stack x", raw))
    assert isinstance(fleet, plan.EksFleetPlan)
    (pool,) = cluster_resources.pool_outputs(fleet)
    assert (pool["partitions"], pool["whole_gpus"], pool["replicas"]) == (
        partitions,
        whole_gpus,
        replicas,
    )


_BY_MOUNTS = """\
cloud: byo
cluster: {name: lab, context: lab}
gpu_operator: {toolkit: {enabled: true}, device_list: volume-mounts}
node_pools:
- {name: a, gpu: {model: A100-40, count: 1}, nodes: {count: 1}}
"""
_GKE_BY_MOUNTS = """\
cloud: gke
cluster: {name: main, location: us-central1-a}
gpu_operator: {device_list: volume-mounts}
node_pools:
- {name: a, machine_type: a2-highgpu-1g, nodes: {count: 1},
   partition: {mode: operator, config: all-1g.5gb}}
- {name: native, machine_type: a2-highgpu-1g, nodes: {count: 1}}
"""


@pytest.mark.parametrize("fleet", [_BY_MOUNTS, _GKE_BY_MOUNTS], ids=["byo", "gke"])
def test_agent_requests_all_gpus_by_a_mount_if_device_lists_are_mounts(
    record: Record, fleet: str
) -> None:
    """And by the variable, which counts on a node whose toolkit is not changed yet."""
    made = record("by-mounts", fleet=fleet)
    pod = pod_of(made, ":DaemonSet", "node-agent-a")
    (container,) = pod["containers"]
    assert pod["runtimeClassName"] == "nvidia"
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in container["env"]
    target = "/var/run/nvidia-container-devices/all"
    (mount,) = [m for m in container["volumeMounts"] if m["mountPath"] == target]
    (volume,) = [v for v in pod["volumes"] if v["name"] == mount["name"]]
    assert volume["hostPath"] == {"path": "/dev/null", "type": "CharDevice"}
    without = record("by-variable", fleet=fleet.replace("volume-mounts", "envvar"))
    (container,) = pod_of(without, ":DaemonSet", "node-agent-a")["containers"]
    assert target not in [m["mountPath"] for m in container["volumeMounts"]]


def test_device_lists_by_mount_do_not_change_native_gke_pools(record: Record) -> None:
    """Its nodes have no runtime of NVIDIA's."""
    pods = [
        pod_of(record(device_list, fleet=fleet), ":DaemonSet", "node-agent-native")
        for device_list in ("envvar", "volume-mounts")
        for fleet in [_GKE_BY_MOUNTS.replace("volume-mounts", device_list)]
    ]
    for pod in pods:
        # Their names contain a hash of the content, which is the same.
        assert "all-gpus" not in [volume["name"] for volume in pod["volumes"]]
    assert pods[0] == pods[1]
