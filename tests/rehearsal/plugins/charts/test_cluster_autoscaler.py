"""The stand-in for the chart of cluster-autoscaler."""

from __future__ import annotations

from typing import Any

import pytest

from slicewright.rehearsal.plugins.charts import NoSuchChart, find

REPOSITORY = "https://kubernetes.github.io/autoscaler"
CHART = find("cluster-autoscaler", repository=REPOSITORY, version="9.59.0")
VALUES: dict[str, Any] = {
    "autoDiscovery": {"clusterName": "p4d"},
    "awsRegion": "eu-west-1",
    "rbac": {"serviceAccount": {"name": "scaler"}},
    "extraArgs": {"expander": "least-waste", "scale-down-enabled": False, "v": 4.0},
}


def rendered(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    assert CHART.check(values) == []
    return {one["kind"]: one for one in CHART.render(values, "ca", "kube-system")}


def test_the_command_finds_the_groups_of_the_cluster_by_their_tags() -> None:
    deployment = rendered(VALUES)["Deployment"]
    assert deployment["metadata"]["name"] == "ca-aws-cluster-autoscaler"
    pod = deployment["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "scaler"
    (container,) = pod["containers"]
    assert container["image"] == "registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0"
    assert container["command"] == [
        "./cluster-autoscaler",
        "--cloud-provider=aws",
        "--namespace=kube-system",
        "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,"
        "k8s.io/cluster-autoscaler/p4d",
        "--expander=least-waste",
        "--logtostderr=true",
        "--scale-down-enabled=false",
        "--stderrthreshold=info",
        "--v=4",
    ]


def test_without_groups_to_discover_nothing_runs() -> None:
    assert "Deployment" not in rendered({"autoDiscovery": {"clusterName": ""}})


@pytest.mark.parametrize(
    ("values", "path", "words"),
    [
        ({"autoDiscovery": {"clustername": "c"}}, "autoDiscovery.clustername", "'clusterName'"),
        ({"extraArgs": {"expnder": "random"}}, "extraArgs.expnder", "not a flag"),
        ({"cloudProvider": "gce"}, "cloudProvider", "aws only"),
        ({"replicaCount": [1]}, "replicaCount", "a list"),
    ],
)
def test_values_without_effect_are_refused(values: dict[str, Any], path: str, words: str) -> None:
    ((found, reason),) = CHART.check(values)
    assert found == path
    assert words in reason


def test_other_version_is_refused_with_the_available_one() -> None:
    with pytest.raises(NoSuchChart, match=r"9\.59\.0"):
        find("cluster-autoscaler", repository=REPOSITORY, version="9.50.1")
