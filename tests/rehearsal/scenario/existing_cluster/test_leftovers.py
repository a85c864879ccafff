"""Which differences are NVIDIA's own, and no others."""

from __future__ import annotations

import pytest

from rehearsal.scenario.existing_cluster.leftovers import is_of_operator

LABEL = "nodes/a-1: metadata.labels[{}] is new: '{}'"


@pytest.mark.parametrize(
    "difference",
    [
        LABEL.format("nvidia.com/gpu.deploy.mig-manager", "true"),
        LABEL.format("nvidia.com/gpu.present", "true"),
        LABEL.format("nvidia.com/mig.config", "all-balanced"),
        LABEL.format("nvidia.com/mig.config.state", "success"),
        "customresourcedefinitions.apiextensions.k8s.io/clusterpolicies.nvidia.com is new",
        "apiservices.apiregistration.k8s.io/v1alpha1.nfd.k8s-sigs.io is new",
        "configmaps/ours/prometheus-a-rulefiles-0: metadata.uid was 'u-1', is 'u-2'",
    ],
)
def test_what_the_operator_leaves(difference: str) -> None:
    assert is_of_operator(difference)


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
def test_what_only_the_stack_may_leave(difference: str) -> None:
    assert not is_of_operator(difference)
