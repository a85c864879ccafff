"""Which differences are NVIDIA's own, and no others."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.scenario.existing_cluster.leftovers import of_adopted, of_uninstalled

LABEL = "nodes/a-1: metadata.labels[{}] is new: '{}'"
POD = "pods/nvidia/nvidia-mig-manager-x is new"
OF_A = "nodes/a: metadata.labels[nvidia.com/"
LAYOUT = f"{OF_A}mig.config] was 'all-disabled', is 'all-balanced'"
STATE = f"{OF_A}mig.config.state] is new: 'success'"
FEATURE = f"{OF_A}gpu.product] was 'A100', is 'A100-MIG-1g.5gb'"
LOOKED = f"{OF_A}gfd.timestamp] was '1', is '2'"


@pytest.mark.parametrize(
    "difference",
    [
        LABEL.format("nvidia.com/gpu.deploy.mig-manager", "true"),
        LABEL.format("nvidia.com/gpu.present", "true"),
        LABEL.format("nvidia.com/mig.config", "all-balanced"),
        LABEL.format("nvidia.com/mig.config.state", "success"),
        "customresourcedefinitions.apiextensions.k8s.io/clusterpolicies.nvidia.com is new",
        "nodes/a-1: metadata.annotations[volcano.sh/node-vgpu-register] is new: 'GPU-1,10,1:'",
        "nodes/a-1: metadata.annotations[hami.io/node-nvidia-register] is new: '[]'",
        "apiservices.apiregistration.k8s.io/v1alpha1.nfd.k8s-sigs.io is new",
        "configmaps/ours/prometheus-a-rulefiles-0: metadata.uid was 'u-1', is 'u-2'",
    ],
)
def test_operators_leftovers_are_explained(difference: str) -> None:
    assert of_uninstalled((difference,)) == {difference}


@pytest.mark.parametrize(
    "difference",
    [
        LABEL.format("nvidia.com/gpu.product", "T4"),  # NFD's chart takes it back
        LABEL.format("nvidia.com/device-plugin.config", "a"),
        LABEL.format("slicewright.io/pool", "a"),
        LABEL.format("feature.node.kubernetes.io/pci-10de.present", "true"),
        "nodes/a-1: metadata.labels[nvidia.com/gpu.present] was 'false', is 'true'",
        "nodes/a-1: metadata.labels[nvidia.com/mig.config] is gone; it was 'all-balanced'",
        "customresourcedefinitions.apiextensions.k8s.io/gpupools.slicewright.io is new",
        "customresourcedefinitions.apiextensions.k8s.io/clusterpolicies.nvidia.com is gone",
        "clusterpolicies.nvidia.com/cluster-policy is new",
        "namespaces/gpu-operator is new",
        "configmaps/ours/prometheus-a-rulefiles-0: data.x was '1', is '2'",
        "configmaps/ours/other: metadata.uid was 'u-1', is 'u-2'",
        "runtimeclasses.node.k8s.io/nvidia is new",
    ],
)
def test_other_leftovers_are_not_explained(difference: str) -> None:
    assert of_uninstalled((difference,)) == set()


def test_an_operator_that_stays_has_other_pods_and_has_looked_at_its_nodes_again() -> None:
    known = {
        POD,
        LOOKED,
        "controllerrevisions.apps/nvidia/nvidia-mig-manager-7d8f: revision was 1, is 3",
        "daemonsets.apps/nvidia/nvidia-mig-manager: metadata.annotations"
        "[deprecated.daemonset.template.generation] was '1', is '3'",
        "nodefeatures.nfd.k8s-sigs.io/nvidia/nvidia-features-for-a: "
        "spec.labels[nvidia.com/gfd.timestamp] was '1', is '2'",
    }
    assert of_adopted(known, "nvidia") == known
    assert of_adopted(known, "elsewhere") == {one for one in known if "gfd.timestamp" in one}


def test_pods_in_other_namespaces_and_other_objects_in_its_own_are_not_its_doing() -> None:
    ours = (
        "pods/slicewright-system/node-agent-p-x is new",
        "configmaps/nvidia/mig-layouts-1 is new",
    )
    assert of_adopted(ours, "nvidia") == set()


def test_a_layout_that_stays_on_the_gpus_explains_the_labels_of_that_node_alone() -> None:
    elsewhere = FEATURE.replace("nodes/a", "nodes/b")
    handed = "nodefeatures.nfd.k8s-sigs.io/nvidia/nvidia-features-for-{}: spec.labels"
    handed += "[nvidia.com/gpu.count] was '1', is '0'"
    explained = {LAYOUT, STATE, FEATURE, handed.format("a")}
    assert of_adopted((*explained, elsewhere, handed.format("b")), "nvidia") == explained


def test_without_another_layout_other_labels_of_the_gpus_are_not_explained() -> None:
    assert of_adopted((FEATURE, STATE), "nvidia") == set()


def test_our_labels_are_never_the_operators_doing() -> None:
    ours = "nodes/a: metadata.labels[nvidia.com/device-plugin.config] is new: 'a100'"
    assert of_adopted((LAYOUT, ours), "nvidia") == {LAYOUT}
    assert of_uninstalled((ours,)) == set()
