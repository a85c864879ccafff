"""The stand-ins for Karpenter's charts."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.infra import catalog
from slicewright.rehearsal.clouds.aws.eks.installed_controllers import PodIdentity
from slicewright.rehearsal.clouds.aws.eks.karpenter_objects import Settings, settings_of
from slicewright.rehearsal.plugins.charts import find

VERSION = catalog.karpenter_release().chart
REPOSITORY = "oci://public.ecr.aws/karpenter"
CHART = find(f"{REPOSITORY}/karpenter", repository=None, version=VERSION)
VALUES: dict[str, Any] = {
    "replicas": 1.0,
    "nodeSelector": {"slicewright.io/role": "system"},
    "serviceAccount": {"name": "karpenter"},
    "settings": {"clusterName": "c", "featureGates": {"nodeOverlay": True}},
}


def rendered() -> dict[str, dict[str, Any]]:
    assert CHART.check(VALUES) == []
    made = CHART.render(VALUES, "karpenter", "kube-system")
    return {f"{one['kind']} {one['metadata']['name']}": one for one in made}


def test_the_simulated_cloud_finds_what_it_is_asked_for() -> None:
    deployment = rendered()["Deployment karpenter"] | {"status": {"availableReplicas": 1}}
    assert settings_of([deployment]) == Settings(
        identity=PodIdentity(namespace="kube-system", service_account="karpenter"),
        cluster="c",
        overlays=True,
    )
    assert settings_of([deployment | {"status": {}}]) is None


def test_it_stays_off_the_nodes_that_it_makes() -> None:
    pod = rendered()["Deployment karpenter"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"]["slicewright.io/role"] == "system"
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [
        {"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}
    ]


def test_its_kinds_are_a_chart_of_their_own() -> None:
    kinds = find(f"{REPOSITORY}/karpenter-crd", repository=None, version=VERSION)
    assert kinds.check({}) == []
    names = {one["spec"]["names"]["kind"] for one in kinds.render({}, "karpenter-crd", "default")}
    assert names == {"EC2NodeClass", "NodeClaim", "NodeOverlay", "NodePool"}


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"settings": {"clustername": "c"}}, "settings.clustername"),
        ({"settings": {"clusterName": ""}}, "settings.clusterName"),
        ({"settings": {"clusterName": "c", "featureGates": {"overlay": True}}}, "settings.feature"),
    ],
)
def test_values_that_do_nothing_are_refused(values: dict[str, Any], path: str) -> None:
    ((found, _),) = CHART.check(values)
    assert found.startswith(path)
