"""prometheus-adapter's objects against a real API server: its strict rules, and who may do what."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from slicewright.infra import manifests, plan, stack_file
from slicewright.kubeapi import ApiError

GOLDEN = Path(__file__).parents[4] / "infra" / "golden/prometheus-adapter.yaml"
PATHS = {
    "APIService": "/apis/apiregistration.k8s.io/v1/apiservices",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
    "Namespace": "/api/v1/namespaces",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "Service": "/api/v1/namespaces/{}/services",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
}
OWN = "system:serviceaccount:prometheus-adapter:prometheus-adapter"


def objects() -> list[dict[str, Any]]:
    raw = yaml.safe_load(GOLDEN.read_text())["config"]["slicewright:fleet"]
    fleet = plan.read(json.dumps(raw), stack_file.Source("test", raw))
    autoscalers = [manifests.pod_autoscaler(one) for one in fleet.deployments]
    return [dict(one) for one in (*manifests.adapter_objects(fleet), *autoscalers)]


@pytest.fixture(scope="module")
def made(cluster: Any) -> None:
    """Namespace, accounts and rights are there; all else is asked for as a dry run, strictly."""
    prior_values = (
        "Namespace",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "RoleBinding",
    )
    for manifest in objects():
        if manifest["apiVersion"].startswith("cert-manager.io/"):
            continue  # its CRDs are not here
        path = PATHS[manifest["kind"]].format(manifest["metadata"].get("namespace"))
        dry = {} if manifest["kind"] in prior_values else {"dryRun": "All"}
        cluster.admin.create(path, copy.deepcopy(manifest), fieldValidation="Strict", **dry)


def may(cluster: Any, user: str, verb: str, resource: str, **more: str) -> bool:
    name, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "resource": name, "subresource": subresource, **more}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    answer = cluster.admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def test_the_api_server_accepts_every_object_by_its_strict_rules(made: None) -> None:
    """The fixture has asked for each."""


def test_its_pod_passes_the_standard_for_restricted_pods(cluster: Any, made: None) -> None:
    (deployment,) = (one for one in objects() if one["kind"] == "Deployment")
    pod = copy.deepcopy(deployment["spec"]["template"])
    pod["metadata"]["name"] = "one"
    path = "/api/v1/namespaces/prometheus-adapter/pods"
    cluster.admin.create(path, pod, dryRun="All", fieldValidation="Strict")
    pod["spec"]["securityContext"]["runAsNonRoot"] = False
    with pytest.raises(ApiError, match="violates PodSecurity"):
        cluster.admin.create(path, pod, dryRun="All", fieldValidation="Strict")


def test_the_adapter_reads_pods_and_asks_who_asks_it(cluster: Any, made: None) -> None:  # S4-32
    assert may(cluster, OWN, "list", "pods", namespace="default")
    reviews = {"group": "authentication.k8s.io"}
    assert may(cluster, OWN, "create", "tokenreviews", **reviews)
    for verb, resource in (
        ("get", "secrets"),
        ("list", "secrets"),
        ("get", "configmaps"),
        ("delete", "pods"),
        ("create", "pods"),
        ("list", "nodes"),
    ):
        assert not may(cluster, OWN, verb, resource, namespace="default"), (verb, resource)
