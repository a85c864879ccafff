"""Software that hands out, partitions or labels a plan's GPUs is known by its effect."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from slicewright.doctor.checks.gpu_operators import PlannedOperator, inside_findings
from slicewright.doctor.checks.gpu_owners import (
    DaemonSet,
    DeviceOwners,
    GpuOperator,
    OwnerAnswers,
    Pool,
)
from slicewright.doctor.findings import Finding
from slicewright.exit_codes import NOT_VERIFIED
from tests.rehearsal.clouds.conftest import Gcp
from tests.slicewright.doctor.conftest import Doctor
from tests.slicewright.doctor.test_aws import THERE, existing_cluster
from tests.slicewright.doctor.test_cluster_checks import CLUSTER_POLICY, SILENT, fleet, wrong
from tests.slicewright.doctor.test_google import EXISTING, PROJECT

PLUGINS = "other device plugins of NVIDIA"
DRA = "DRA driver of NVIDIA"
DIRECTORY = "/var/lib/kubelet/device-plugins"
ADOPTED = {"existing": True}


def daemonset(image: str, name: str = "agent", **changed: Any) -> DaemonSet:
    plain = DaemonSet(namespace="gpus", name=name, images=(image,), pods=2, of_operator=False)
    return dataclasses.replace(plain, **changed)


def of_daemonset(image: str, name: str = "agent", **changed: Any) -> list[Finding]:
    return wrong(daemonsets=(daemonset(image, name, **changed),))


@pytest.mark.parametrize(
    ("image", "changed", "subject"),
    [
        ("registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.5.0", {}, DRA),
        ("nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0", {}, DRA),
        ("mirror.example/a/b@sha256:1", {"words": ("gpu-kubelet-plugin",)}, DRA),
        ("docker.io/projecthami/hami:v2.10.0", {"host_paths": (DIRECTORY,)}, PLUGINS),
        ("docker.io/volcanosh/volcano-vgpu-device-plugin:v1.12.0", {}, PLUGINS),
        (
            "mirror.example/accelerators:1",
            {"host_paths": (f"{DIRECTORY}/",), "runtime_class": "nvidia"},
            PLUGINS,
        ),
        (
            "mirror.example/accelerators:1",
            {"host_paths": (DIRECTORY,), "words": ("NVIDIA_VISIBLE_DEVICES=all",)},
            PLUGINS,
        ),
        (
            "mirror.example/accelerators:1",
            {"host_paths": (DIRECTORY,), "node_selector": {"nvidia.com/gpu.present": "true"}},
            PLUGINS,
        ),
        ("nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.0", {}, "other MIG managers"),
        ("mirror.example/m:1", {"words": ("nvidia-mig-parted", "apply")}, "other MIG managers"),
        (
            "mirror.example/m:1",
            {"words": ("--label", "nvidia.com/mig.config=all-1g.5gb")},
            "other MIG managers",
        ),
        (
            "nvcr.io/nvidia/gpu-feature-discovery:v0.17.0",
            {},
            "other GPU feature discoveries",
        ),
        (
            "nvcr.io/nvidia/k8s-device-plugin:v0.19.3",
            {"words": ("gpu-feature-discovery",)},
            "other GPU feature discoveries",
        ),
    ],
)
def test_foreign_software_is_named(image: str, changed: dict[str, Any], subject: str) -> None:
    (finding,) = of_daemonset(image, **changed)
    assert (finding.verdict, finding.subject) == ("fails", subject)
    assert "DaemonSet agent in namespace gpus runs on 2 nodes" in finding.detail
    assert finding.remedy


@pytest.mark.parametrize(
    ("image", "changed"),
    [
        ("602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5", {}),
        ("public.ecr.aws/neuron/neuron-device-plugin:2", {}),
        ("ghcr.io/k8snetworkplumbingwg/sriov-network-device-plugin:v3", {}),
        ("nvcr.io/nvidia/k8s-rdma-shared-dev-plugin:1", {}),
        ("mirror.example/accelerators:1", {}),
    ],
)
def test_device_plugin_of_other_hardware_may_run_beside(
    image: str, changed: dict[str, Any]
) -> None:
    assert of_daemonset(image, host_paths=(DIRECTORY,), **changed) == []


def test_driver_for_compute_domains_alone_shares_no_gpu() -> None:
    image = "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0"
    assert of_daemonset(image, words=("compute-domain-kubelet-plugin",)) == []
    (finding,) = of_daemonset(image, words=("compute-domain-kubelet-plugin", "gpu-kubelet-plugin"))
    assert finding.subject == DRA


def test_gate_that_partitions_for_claims_is_named() -> None:
    image = "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0"
    (finding,) = of_daemonset(image, words=("FEATURE_GATES=DynamicMIG=true",))
    assert "and partitions them for claims" in finding.detail


@pytest.mark.parametrize(
    ("owners", "subject", "detail"),
    [
        (DeviceOwners(device_classes=("gpu.nvidia.com",)), DRA, "DeviceClass gpu.nvidia.com"),
        (DeviceOwners(slice_nodes=("gpu-1",)), DRA, "publish the GPUs of gpu-1"),
        (
            DeviceOwners(annotated_nodes={"hami.io/node-nvidia-register": ("gpu-1",)}),
            "fractional GPUs of HAMi",
            "gpu-1",
        ),
        (
            DeviceOwners(annotated_nodes={"volcano.sh/node-vgpu-register": ("gpu-1",)}),
            "fractional GPUs of Volcano's vGPU plugin",
            "gpu-1",
        ),
    ],
)
def test_objects_of_foreign_software_are_named(
    owners: DeviceOwners, subject: str, detail: str
) -> None:
    (finding,) = wrong(owners=owners)
    assert (finding.verdict, finding.subject) == ("fails", subject)
    assert detail in finding.detail


@pytest.mark.parametrize("adopted", [{}, {"gpu_operator": ADOPTED}])
def test_operator_with_a_gpucluster_is_never_given_a_second_one(adopted: dict[str, Any]) -> None:
    owners = DeviceOwners(gpu_clusters=("gpu-cluster",), operator_namespaces=("gpu-operator",))
    findings = wrong(
        fleet(**adopted), owners=owners, namespaces=frozenset({"gpu-operator"}), operators=()
    )
    operator = next(f for f in findings if f.subject == "GPU operator")
    assert "has a GPUCluster (gpu-cluster): it hands out the GPUs by DRA" in operator.detail
    advice = " ".join(f.remedy for f in findings)
    assert "installs one" not in advice
    assert "write another gpu_operator.namespace" not in advice


def test_namespace_of_an_operator_is_no_reason_for_a_second_one() -> None:
    findings = wrong(operators=(CLUSTER_POLICY,), namespaces=frozenset({"gpu-operator"}))
    assert {f.subject for f in findings} == {"GPU operator", "namespace gpu-operator"}
    assert all("write another" not in f.remedy for f in findings)


def test_operator_without_a_policy_is_named() -> None:
    owners = DeviceOwners(operator_namespaces=("nvidia",))
    for of in (fleet(), fleet(gpu_operator=ADOPTED)):
        (finding,) = wrong(of, owners=owners, operators=())
        assert "one runs in namespace nvidia, but has no ClusterPolicy" in finding.detail


def test_engine_that_the_stack_installed_is_no_finding() -> None:
    own = daemonset("docker.io/projecthami/hami:v2", namespace="hami", host_paths=(DIRECTORY,))
    owners = DeviceOwners(annotated_nodes={"hami.io/node-nvidia-register": ("gpu-1",)})
    assert wrong(owned={"hami": "yes"}, daemonsets=(own,), owners=owners) == []
    assert len(wrong(daemonsets=(own,), owners=owners)) == 2


def test_plugin_that_waits_for_nodes_of_the_pools_is_named() -> None:
    """It tolerates the GPU taint, and comes once the startup taint is gone."""
    image = "nvcr.io/nvidia/k8s-device-plugin:v0.14.1"
    tolerated = ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},)
    (finding,) = of_daemonset(image, pods=0, tolerations=tolerated)
    assert "would run on the pools' nodes" in finding.detail
    assert of_daemonset(image, pods=0, tolerations=tolerated, node_selector={"kind": "cpu"}) == []


def of_required(*expressions: dict[str, Any]) -> Any:
    return (tuple(expressions),)


KEPT_OFF = of_required({"key": "kind", "operator": "NotIn", "values": ["gpu-large"]})


@pytest.mark.parametrize("pods", [0, 2])
@pytest.mark.parametrize(
    ("affinity", "reaches"),
    [
        (KEPT_OFF, False),
        (of_required({"key": "kind", "operator": "DoesNotExist"}), False),
        (of_required({"key": "kind", "operator": "In", "values": ["cpu"]}), False),
        (of_required({"key": "kind", "operator": "In", "values": ["gpu-large"]}), True),
        (of_required({"key": "kind", "operator": "Exists"}), True),
        # Labels that others add to the nodes are unknown.
        (of_required({"key": "nvidia.com/gpu.present", "operator": "Exists"}), True),
        (of_required({"key": "team", "operator": "NotIn", "values": ["a"]}), True),
        ((*KEPT_OFF, *of_required({"key": "zone", "operator": "Exists"})), True),
        ((), True),
    ],
)
def test_plugin_that_is_kept_off_the_pools_is_no_finding(
    affinity: Any, *, reaches: bool, pods: int
) -> None:
    """It is the remedy that the finding gives."""
    findings = of_daemonset(
        "nvcr.io/nvidia/k8s-device-plugin:v0.14.1",
        pods=pods,
        tolerations=({"operator": "Exists"},),
        required_affinity=affinity,
    )
    assert bool(findings) is reaches


def test_plugin_of_other_nodes_alone_is_no_finding() -> None:
    image = "nvcr.io/nvidia/k8s-device-plugin:v0.14.1"
    assert of_daemonset(image, pods=2, node_selector={"kind": "cpu"}) == []
    assert len(of_daemonset(image, pods=2, node_selector={"kind": "gpu-large"})) == 1


def test_unknown_owners_never_pass() -> None:
    subjects = {f.subject for f in wrong(owners=SILENT)}
    assert subjects == {"GPU operator", "owners of GPUs by DRA"}


def test_policy_is_the_first_sign_of_an_operator() -> None:
    policy = GpuOperator(name="cluster-policy", release_namespace="nvidia")
    owners = DeviceOwners(operator_namespaces=("nvidia",))
    (finding,) = wrong(operators=(policy,), owners=owners)
    assert "write gpu_operator: {existing: true} to use it" in finding.remedy


TOLERATED = ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},)
EKSCTLS = DaemonSet(
    namespace="kube-system",
    name="nvidia-device-plugin-daemonset",
    images=("nvcr.io/nvidia/k8s-device-plugin:v0.14.5",),
    pods=0,
    of_operator=False,
    host_paths=(DIRECTORY,),
    tolerations=TOLERATED,
)
"""There are no GPU nodes yet. Source: eksctl-io/eksctl #8224."""
GKES = dataclasses.replace(
    EKSCTLS,
    name="nvidia-gpu-device-plugin-small-cos",
    images=("gke.gcr.io/nvidia-gpu-device-plugin@sha256:1",),
    tolerations=({"operator": "Exists"},),
)
POOL = Pool(
    name="a100",
    labels={"slicewright.io/pool": "a100"},
    taints=(
        ("nvidia.com/gpu", "present", "NoSchedule"),
        ("startup-taint.cluster-autoscaler.kubernetes.io/slicewright", "unverified", "NoSchedule"),
    ),
)


def inside(namespace: str | None = "gpu-operator", **changed: Any) -> list[Finding]:
    plain: dict[str, Any] = {"policies": (), "owners": DeviceOwners(), "daemonsets": ()}
    answers = OwnerAnswers(**plain | changed)
    planned = namespace and PlannedOperator(namespace=namespace, adoptable=False, owned="no")
    findings = inside_findings(answers, planned or None, (POOL,))
    return [finding for finding in findings if finding.verdict != "ok"]


def test_the_plugin_of_eksctl_is_reported_before_it_reaches_a_verified_node() -> None:
    assert inside() == []
    (finding,) = inside(daemonsets=(EKSCTLS,))
    assert finding.subject == PLUGINS
    assert "would run on the pools' nodes" in finding.detail


def test_gkes_own_plugin_serves_gkes_pools() -> None:
    assert inside(None, daemonsets=(GKES,)) == []
    assert len(inside(None, daemonsets=(GKES, EKSCTLS))) == 1


def test_operands_of_an_operator_come_beside_gkes_own_plugin() -> None:
    operands = dataclasses.replace(EKSCTLS, of_operator=True)
    assert len(inside(None, daemonsets=(operands,))) == 1


def test_operator_in_a_clouds_cluster_is_used_only_as_an_existing_cluster() -> None:
    (finding,) = inside(policies=(CLUSTER_POLICY,))
    assert "manage the cluster as cloud: byo" in finding.remedy
    (finding,) = inside(owners=DeviceOwners(gpu_clusters=("gpus",)), policies=())
    assert "GPUCluster (gpus)" in finding.detail


@pytest.mark.parametrize("stack", ["eks-a100", "gke-h100"])
def test_doctor_asks_inside_an_existing_cluster(
    doctor: Doctor, stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def answer(kubeconfig: Any) -> OwnerAnswers:
        asked.append(kubeconfig["users"][0]["user"]["exec"]["command"])
        everywhere = dataclasses.replace(EKSCTLS, tolerations=({"operator": "Exists"},))
        return OwnerAnswers(policies=(), owners=DeviceOwners(), daemonsets=(everywhere,))

    for module in ("aws.existing", "google.project"):
        monkeypatch.setattr(f"slicewright.doctor.ask.{module}.ask_inside", answer)
    if stack == "eks-a100":
        existing_cluster(doctor)
        code, output = doctor(stack, THERE)
    else:
        gcp = Gcp(doctor.cloud, doctor.environment)
        gcp.make_cluster(workloadIdentityConfig={"workloadPool": "acme.svc.id.goog"})
        code, output = doctor(stack, PROJECT, EXISTING)
    assert code == NOT_VERIFIED
    assert "DaemonSet nvidia-device-plugin-daemonset in namespace kube-system" in output
    assert asked == ["aws" if stack == "eks-a100" else "gke-gcloud-auth-plugin"]
