"""`cluster.autoscaler` of an EKS fleet: what it accepts, and what is installed for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from slicewright.infra import catalog, manifests, plan, stack_file

GOLDEN = Path(__file__).parents[2] / "golden" / "eks-autoscaler"
POOL: Mapping[str, Any] = {
    "name": "a",
    "machine_type": "p4d.24xlarge",
    "nodes": {"min": 0, "max": 2},
    "partition": {"mode": "operator", "layout": {"1g.5gb": 7}},
}
NAME = "cluster-autoscaler"
Record = Callable[..., list[Any]]


def written(cloud: str = "eks", pool: Mapping[str, Any] = POOL, **cluster: Any) -> dict[str, Any]:
    asked = {"name": "c", "region": "us-west-2", "version": "1.35", "autoscaler": NAME, **cluster}
    return {"cloud": cloud, "cluster": asked, "node_pools": [dict(pool)]}


def planned(**cluster: Any) -> plan.EksFleetPlan:
    raw = written(**cluster)
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.EksFleetPlan)
    return found


def refusal(raw: dict[str, Any]) -> str:
    with pytest.raises(stack_file.SpecError) as caught:
        plan.read(json.dumps(raw), stack_file.Source("test", raw))
    return str(caught.value)


def test_the_image_is_the_release_for_the_clusters_kubernetes() -> None:
    for version, tag in catalog.autoscaler_releases().images.items():
        found = planned(version=version).cluster.autoscaler
        assert found is not None
        assert found.tag == tag
        assert tag.startswith(f"v{version}.")


def test_every_supported_kubernetes_version_has_a_release() -> None:
    aws = catalog.aws()
    versions = {v.minor for v in aws.versions.values() if v.is_supported(aws.day)}
    assert versions == set(catalog.autoscaler_releases().images)


def test_a_mirror_keeps_its_port_and_digest() -> None:
    digest = "sha256:" + "0" * 64
    image = f"registry.example.com:5000/mirror/cluster-autoscaler:v1.35.0@{digest}"
    found = planned(autoscaler={"mode": NAME, "image": image}).cluster.autoscaler
    assert found is not None
    assert f"{found.image}:{found.tag}" == image
    shown = manifests.autoscaler_values(found, cluster="c", region="us-west-2")["image"]
    assert shown == {"repository": found.image, "tag": f"v1.35.0@{digest}"}


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ({"version": None}, "does not say which one the cluster has"),
        ({"version": "1.31"}, "no release of cluster-autoscaler for Kubernetes 1.31"),
        (
            {"autoscaler": {"mode": NAME, "image": "r.example/ca:v1.34.4"}},
            "it is cluster-autoscaler 1.34",
        ),
        (
            {"autoscaler": {"mode": NAME, "image": "r.example/ca:latest"}},
            "is not an image of cluster-autoscaler",
        ),
        ({"autoscaler": {"mode": NAME, "chart_version": "^9"}}, "one exact version"),
        (
            {"version": "1.34", "autoscaler": {"mode": NAME, "chart_version": "9.50.1"}},
            "9.50.1 is older than those for Kubernetes 1.34; write 9.51.0 or later",
        ),
        (
            {"autoscaler": {"mode": NAME, "scale_down": {"unneeded_minutes": 0}}},
            "at least 1 minute",
        ),
        ({"autoscaler": {"mode": NAME, "scale_down": {"utilization_percent": 101}}}, "at most 100"),
        ({"autoscaler": {"mode": NAME, "expander": "price"}}, "least-waste"),
        ({"existing": True, "version": None}, "slicewright does not change it"),
    ],
    ids=lambda case: None if isinstance(case, str) else json.dumps(case),
)
def test_invalid_autoscaler_settings_are_refused(cluster: dict[str, Any], words: str) -> None:
    found = refusal(
        written(**{k: v for k, v in cluster.items() if v is not None or k == "version"})
    )
    assert words in found


def test_an_autoscaler_mapping_without_mode_is_refused() -> None:
    found = refusal(written(autoscaler={"expander": "random"}))
    assert "mode: is missing; write mode: cluster-autoscaler or karpenter" in found


def test_autoscaler_is_refused_on_gke() -> None:
    raw = {
        "cloud": "gke",
        "cluster": {"name": "c", "location": "us-central1", "autoscaler": NAME},
        "node_pools": [{"name": "a", "machine_type": "a2-highgpu-1g", "nodes": {"count": 1}}],
    }
    assert "GKE scales its pools itself" in refusal(raw)


def test_the_autoscaler_adds_the_pod_identity_agent() -> None:
    assert "eks-pod-identity-agent" in [addon.name for addon in planned().cluster.addons]
    without = planned(autoscaler=None).cluster
    assert without.autoscaler is None
    assert "eks-pod-identity-agent" not in [addon.name for addon in without.addons]


def test_cluster_autoscaler_recognizes_the_startup_taint() -> None:
    """It needs no argument for taints with this prefix (kubernetes/autoscaler, utils/taints)."""
    (pool,) = planned().pools
    (startup,) = [taint.key for taint in pool.taints if taint.value == "unverified"]
    assert startup.startswith("startup-taint.cluster-autoscaler.kubernetes.io/")


def test_no_pool_of_partitions_has_the_label_of_whole_gpus() -> None:
    """A node with it, and without nvidia.com/gpu, is unready (kubernetes/autoscaler #8095)."""
    (pool,) = planned().pools
    assert "k8s.amazonaws.com/accelerator" not in pool.labels


def test_a_node_may_hold_its_startup_taint_as_long_as_up_waits() -> None:
    raw = {**written(), "verify_timeout_minutes": 45}
    found = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    assert isinstance(found, plan.EksFleetPlan)
    assert found.cluster.autoscaler is not None
    assert found.cluster.autoscaler.unready_minutes == 45
    assert plan.read(
        json.dumps(raw | {"verify_timeout_minutes": 5}), stack_file.Source("test", raw)
    )


@pytest.mark.parametrize(
    ("region", "partition"), [("us-west-2", "aws"), ("us-gov-west-1", "aws-us-gov")]
)
def test_the_policy_names_the_partition_of_the_region(region: str, partition: str) -> None:
    policy = manifests.autoscaler_policy(cluster="c", region=region)
    arns = [s["Resource"] for s in policy["Statement"] if s["Resource"] != "*"]
    assert arns
    assert all(arn.startswith(f"arn:{partition}:") for arn in arns)


def test_the_autoscaler_may_change_only_groups_that_eks_tagged_for_the_cluster() -> None:
    policy = manifests.autoscaler_policy(cluster="c", region="us-west-2")
    changing = [s for s in policy["Statement"] if not _reads(s)]
    assert [s["Condition"] for s in changing] == [
        {
            "StringEquals": {
                "aws:ResourceTag/k8s.io/cluster-autoscaler/enabled": "true",
                "aws:ResourceTag/k8s.io/cluster-autoscaler/c": "owned",
            }
        }
    ]


def _reads(statement: dict[str, Any]) -> bool:
    return all(a.partition(":")[2].startswith("Describe") for a in statement["Action"])


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("default", NAME),
        (
            "all-keys",
            {
                "mode": NAME,
                "chart_version": "9.59.0",
                "repository": "oci://registry.example.com/charts",
                "image": "registry.example.com/cluster-autoscaler:v1.35.0",
                "expander": "most-pods",
                "scale_down": {
                    "enabled": False,
                    "unneeded_minutes": 30,
                    "after_scale_up_minutes": 20,
                    "utilization_percent": 5,
                },
            },
        ),
    ],
)
def test_the_renders_are_as_committed(
    name: str, asked: object, request: pytest.FixtureRequest
) -> None:
    found = planned(autoscaler=asked).cluster.autoscaler
    assert found is not None
    rendered = {
        f"{name}.yaml": manifests.as_flow_yaml(
            {
                "chart": list(manifests.autoscaler_chart(found)),
                "values": manifests.autoscaler_values(found, cluster="c", region="us-west-2"),
            }
        ),
        "policy.yaml": manifests.as_flow_yaml(
            manifests.autoscaler_policy(cluster="c", region="us-west-2")
        ),
    }
    for file, content in rendered.items():
        if request.config.getoption("--update-golden"):
            GOLDEN.mkdir(parents=True, exist_ok=True)
            (GOLDEN / file).write_text(content, encoding="utf-8")
        assert (GOLDEN / file).read_text(encoding="utf-8") == content


def test_the_plan_says_what_scales_and_what_counts_as_unused() -> None:
    def about(**cluster: Any) -> str:
        return "\n".join(plan.notes(planned(**cluster)))

    assert "write cluster.autoscaler: cluster-autoscaler" in about(autoscaler=None)
    assert "nothing adds or removes" not in about()
    assert "less than 50 % of a node's are evicted" in about()
    assert "safe-to-evict" not in about(autoscaler={"mode": NAME, "scale_down": {"enabled": False}})


def test_the_program_installs_the_autoscaler_on_the_system_pool_after_its_role(
    record: Record,
) -> None:
    made = {m.name: m for m in record("test", fleet=json.dumps(written()))}
    release = made["cluster-autoscaler"].inputs
    assert release["namespace"] == "kube-system"
    assert release["repositoryOpts"] == {"repo": "https://kubernetes.github.io/autoscaler"}
    account = release["values"]["rbac"]["serviceAccount"]["name"]
    association = made["eks-autoscaler-identity"].inputs
    assert (association["namespace"], association["serviceAccount"]) == ("kube-system", account)
    assert json.loads(
        made["eks-autoscaler-rights"].inputs["policy"]
    ) == manifests.autoscaler_policy(cluster="c", region="us-west-2")
    trust = json.loads(made["eks-autoscaler"].inputs["assumeRolePolicy"])
    assert trust["Statement"][0]["Principal"] == {"Service": "pods.eks.amazonaws.com"}


def test_no_autoscaler_resource_is_created_by_default(record: Record) -> None:
    made = record("test", fleet=json.dumps(written(autoscaler=None)))
    assert not [m.name for m in made if "autoscaler" in m.name]
