"""Argo CD's Applications: held to the fields of its objects, to what they bring, and in which order
that comes; and the health of a Stack, judged in Lua 5.1.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from tests.gitops.argo_shapes import SHAPES
from tests.gitops.lua_health import health
from tests.gitops.pipelines import ROOT
from tests.gitops.shapes import wrong

ARGO = ROOT / "gitops" / "argocd"
DOCUMENTS = list(yaml.safe_load_all((ARGO / "applications.yaml").read_text()))
APPLICATIONS = [one for one in DOCUMENTS if one["kind"] == "Application"]
(PROJECT,) = (one for one in DOCUMENTS if one["kind"] == "AppProject")
WAVE = "argocd.argoproj.io/sync-wave"


def brought(application: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The objects that an Application of this repository brings."""
    directory = ROOT / application["spec"]["source"]["path"]
    names = application["spec"]["source"]["directory"]["include"].strip("{}").split(",")
    files = [directory / f"{name.removesuffix('}.yaml')}.yaml" for name in names]
    return [one for file in files for one in yaml.safe_load_all(file.read_text())]


def named(name: str) -> dict[str, Any]:
    (found,) = (one for one in APPLICATIONS if one["metadata"]["name"] == name)
    return dict(found)


def test_each_object_has_only_fields_that_argo_cd_has() -> None:
    assert {(one["apiVersion"], one["kind"]) for one in DOCUMENTS} == SHAPES.keys()
    for one in DOCUMENTS:
        shape = SHAPES[one["apiVersion"], one["kind"]]
        assert list(wrong(one, shape, one["metadata"]["name"])) == []


def test_a_wrong_field_is_found() -> None:
    one = named("fleet-production")
    changed = {**one, "spec": {**one["spec"], "syncPolicy": {"automated": {"prune": "no"}}}}
    (found,) = wrong(changed, SHAPES[one["apiVersion"], one["kind"]], "x")
    assert "x.spec.syncPolicy.automated.prune: is 'no'" in found


def test_an_environment_has_one_application_and_deletes_nothing_by_itself() -> None:
    assert {one["metadata"]["name"] for one in APPLICATIONS} == {
        "fleet-staging",
        "fleet-production",
    }
    for one in APPLICATIONS:
        assert "finalizers" not in one["metadata"]
        assert one["spec"]["syncPolicy"]["automated"]["prune"] is False
    revision = named("fleet-production")["spec"]["source"]["targetRevision"]
    assert revision.startswith("v"), "production is a tag"


def test_project_allows_exactly_the_kinds_of_the_applications() -> None:
    objects = brought(named("fleet-production"))
    found = {(one["apiVersion"].rpartition("/")[0], one["kind"]) for one in objects}
    assert found == {
        (one["group"], one["kind"])
        for key in ("clusterResourceWhitelist", "namespaceResourceWhitelist")
        for one in PROJECT["spec"][key]
    }
    assert {one["metadata"].get("namespace", "fleets") for one in objects} == {"fleets"}
    for one in APPLICATIONS:
        assert one["spec"]["project"] == PROJECT["metadata"]["name"]
        assert one["spec"]["source"]["repoURL"] in PROJECT["spec"]["sourceRepos"]
        assert one["spec"]["destination"] in PROJECT["spec"]["destinations"]


CLUSTER_SCOPED = frozenset(
    {"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace", "Node"}
)
RIGHTS = frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"})


def matches(pattern: str, value: str) -> bool:
    """As Argo CD compares: by shell patterns."""
    return fnmatch.fnmatchcase(value, pattern)


def allowed(manifest: Mapping[str, Any], namespace: str, project: Mapping[str, Any]) -> bool:
    """Whether the project lets an Application bring an object into a namespace.

    Without its list, no kind of the cluster is allowed, and every kind of a namespace. Source:
    argoproj/argo-cd, docs/user-guide/projects.md and pkg/apis/application/v1alpha1/types.go
    (IsGroupKindPermitted, IsDestinationPermitted).
    """
    spec = project["spec"]
    group, kind = manifest["apiVersion"].rpartition("/")[0], manifest["kind"]

    def listed(key: str) -> bool:
        return any(
            matches(entry["group"], group) and matches(entry["kind"], kind)
            for entry in spec.get(key, ())
        )

    if kind in CLUSTER_SCOPED:
        return listed("clusterResourceWhitelist")
    server = "https://kubernetes.default.svc"
    return any(
        matches(place.get("server", ""), server) and matches(place.get("namespace", ""), namespace)
        for place in spec["destinations"]
    ) and (not spec.get("namespaceResourceWhitelist") or listed("namespaceResourceWhitelist"))


def test_the_project_lets_nobody_give_rights_or_reach_another_namespace() -> None:
    def brings(api: str, kind: str, namespace: str = "fleets") -> bool:
        return allowed({"apiVersion": api, "kind": kind}, namespace, PROJECT)

    assert brings("pulumi.com/v1", "Stack")
    for kind in RIGHTS:
        assert not brings("rbac.authorization.k8s.io/v1", kind), kind
    for kind in ("Secret", "Pod", "ConfigMap", "Namespace", "Node"):
        assert not brings("v1", kind), kind
    assert not brings("auto.pulumi.com/v1alpha1", "Workspace"), "a person applies it"
    assert not brings("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    for namespace in ("kube-system", "argocd", "fleets-other"):
        assert not brings("pulumi.com/v1", "Stack", namespace), namespace
    for application in APPLICATIONS:
        for manifest in brought(named("fleet-production")):
            namespace = application["spec"]["destination"]["namespace"]
            assert allowed(manifest, manifest["metadata"].get("namespace", namespace), PROJECT)


def test_a_project_that_lets_rights_be_given_is_seen() -> None:
    """The fault that was, and a wildcard."""
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
    for kind in ("ClusterRoleBinding", "*"):
        entry = {"group": "rbac.authorization.k8s.io", "kind": kind}
        spec = {**PROJECT["spec"], "clusterResourceWhitelist": [entry]}
        assert allowed(binding, "fleets", {"spec": spec})
    open_to_all = {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}
    assert allowed({"apiVersion": "v1", "kind": "Pod"}, "kube-system", {"spec": open_to_all})


def test_nothing_of_a_project_is_a_pattern() -> None:
    """Neither repositories, clusters, namespaces nor kinds."""
    assert "sourceNamespaces" not in PROJECT["spec"]
    assert not re.search(r"[*?!\[]", "".join(leaves(PROJECT["spec"])))
    for application in APPLICATIONS:
        assert not re.search(r"[*?!\[]", "".join(leaves(application["spec"]["destination"])))


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from leaves(part)
    else:
        yield str(value)


def test_applications_do_not_contain_the_administrators_files() -> None:
    kinds = {manifest["kind"] for manifest in brought(named("fleet-production"))}
    assert not kinds & RIGHTS
    assert (ROOT / "gitops" / "pulumi-operator" / "rights.yaml").is_file()


def test_sync_waves_order_rights_then_fleet_then_models() -> None:
    waves = {
        (one["kind"], one["metadata"]["name"]): int(one["metadata"]["annotations"][WAVE])
        for one in brought(named("fleet-production"))
    }
    fleet = waves["Stack", "fleet-production"]
    for (kind, name), wave in waves.items():
        if kind == "ServiceAccount":
            assert wave < fleet, name
        elif name != "fleet-production":
            assert wave > fleet, name


def stack(*conditions: tuple[str, str, str], seen: int = 2) -> dict[str, Any]:
    """Of generation 2. conditions: as the operator writes them, without an observedGeneration."""
    found = [{"type": t, "status": s, "reason": r, "message": "said"} for t, s, r in conditions]
    return {
        "metadata": {"name": "fleet", "generation": 2},
        "status": {"observedGeneration": seen, "conditions": found},
    }


READY = ("Ready", "True", "ProcessingCompleted")


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (stack(READY), "Healthy"),
        (stack(READY, seen=1), "Progressing"),
        (stack(), "Progressing"),
        ({"metadata": {"name": "fleet", "generation": 1}}, "Progressing"),
        (
            stack(
                ("Ready", "False", "NotReadyInProgress"), ("Reconciling", "True", "StackProcessing")
            ),
            "Progressing",
        ),
        # `up` failed, for example because a node did not prove its partitions.
        (
            stack(
                ("Ready", "False", "NotReadyInProgress"),
                ("Reconciling", "True", "RetryingAfterFailure"),
            ),
            "Degraded",
        ),
        (
            stack(("Ready", "False", "NotReadyStalled"), ("Stalled", "True", "UpdateConflict")),
            "Degraded",
        ),
        (
            {
                **stack(READY),
                "metadata": {"generation": 2, "deletionTimestamp": "2026-11-25T00:00:00Z"},
            },
            "Progressing",
        ),
    ],
)
def test_a_stack_is_healthy_when_its_last_update_succeeded(
    found: dict[str, Any], status: str
) -> None:
    assert health("pulumi.com_Stack", found) == status
