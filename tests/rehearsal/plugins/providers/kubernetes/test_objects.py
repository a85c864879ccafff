"""Check, Create, Update, Read and Delete of objects, against a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN, Secret
from slicewright.rehearsal.plugins.providers.kubernetes import objects

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
SECRET = "kubernetes:core/v1:Secret"
QUOTA = "kubernetes:core/v1:ResourceQuota"
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
CLASS = "kubernetes:scheduling.k8s.io/v1:PriorityClass"
CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"


def config_map(namespace: str | None, name: str | None = None, **data: str) -> JsonObject:
    metadata = {key: value for key, value in (("namespace", namespace), ("name", name)) if value}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": data or {"a": "1"},
    }


def pool(name: str, size: int = 1, **annotations: str) -> JsonObject:
    metadata: JsonObject = {"name": name}
    if annotations:
        metadata["annotations"] = {f"pulumi.com/{key}": value for key, value in annotations.items()}
    return {
        "apiVersion": "slicewright.io/v1alpha1",
        "kind": "GPUPool",
        "metadata": metadata,
        "spec": {"size": size},
    }


def daemonset(namespace: str, **pod: Any) -> JsonObject:
    template = {
        "metadata": {"labels": {"app": "d"}},
        "spec": {"containers": [{"name": "c", "image": "nginx"}], **pod},
    }
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"namespace": namespace, "name": "d"},
        "spec": spec,
    }


def path_of(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}"


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "RETRY_PAUSES_S", (0.1, 0.2, 0.4))


# Names and namespaces.


def test_an_automatic_name_is_annotated_and_kept(provider: Any, namespace: str) -> None:
    first, _ = provider.check(CONFIG_MAP, "settings", config_map(namespace))
    name = first["metadata"]["name"]
    assert name.startswith("settings-")
    assert len(name) == len("settings-") + 8
    assert first["metadata"]["annotations"] == {"pulumi.com/autonamed": "true"}

    again, _ = provider.check(CONFIG_MAP, "settings", config_map(namespace), first)
    assert again == first


def test_the_projects_autonaming_settings_apply(provider: Any, namespace: str) -> None:
    proposed, _ = provider.check(
        CONFIG_MAP,
        "c",
        config_map(namespace),
        autonaming={"proposed_name": "as-proposed", "mode": 0},
    )
    assert proposed["metadata"]["name"] == "as-proposed"
    _, failures = provider.check(CONFIG_MAP, "c", config_map(namespace), autonaming={"mode": 2})
    assert [path for path, _ in failures] == ["metadata.name"]


def test_generate_name_is_refused(provider: Any) -> None:
    _, failures = provider.check(
        CONFIG_MAP, "c", {**config_map("x"), "metadata": {"generateName": "c-"}}
    )
    assert [path for path, _ in failures] == ["metadata.generateName"]


def test_the_namespace_is_filled_by_scope(provider: Any, pool_kind: str) -> None:
    assert (
        provider.check(CONFIG_MAP, "c", config_map(None, "c"))[0]["metadata"]["namespace"]
        == "default"
    )
    cluster_role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "r"},
        "rules": [],
    }
    assert (
        "namespace"
        not in provider.check(
            "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", "r", cluster_role
        )[0]["metadata"]
    )
    assert "namespace" not in provider.check(pool_kind, "p", pool("p"))[0]["metadata"]


def test_a_kind_that_is_not_served_is_namespaced_until_its_crd_is_checked(
    provider: Any,
) -> None:
    later = {"apiVersion": "later.io/v1", "kind": "Later", "metadata": {"name": "l"}}
    assert (
        provider.check("kubernetes:later.io/v1:Later", "l", later)[0]["metadata"]["namespace"]
        == "default"
    )
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "laters.later.io"},
        "spec": {
            "group": "later.io",
            "scope": "Cluster",
            "names": {"kind": "Later", "plural": "laters"},
            "versions": [],
        },
    }
    provider.check(CRD, "crd", crd)
    assert (
        "namespace" not in provider.check("kubernetes:later.io/v1:Later", "l", later)[0]["metadata"]
    )


def test_the_providers_namespace_is_used(cluster: Any, new_provider: Callable[..., Any]) -> None:
    provider = new_provider(kubeconfig=cluster.kubeconfig, namespace="mine")
    assert (
        provider.check(CONFIG_MAP, "c", config_map(None, "c"))[0]["metadata"]["namespace"] == "mine"
    )


def test_a_removed_api_logs_a_warning(provider: Any) -> None:
    budget = {
        "apiVersion": "policy/v1beta1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
    }
    provider.check("kubernetes:policy/v1beta1:PodDisruptionBudget", "b", budget)
    assert provider.engine.texts() == [
        'apiVersion "policy/v1beta1/PodDisruptionBudget" was removed in Kubernetes 1.25. '
        'Use "policy/v1/PodDisruptionBudget" instead.'
    ]


# What is stored, and a second up.


def test_outputs_are_the_live_object_and_three_keys(provider: Any, namespace: str) -> None:
    made = provider.create(CONFIG_MAP, "c", config_map(namespace, "c"))
    assert made.id == f"{namespace}/c"
    assert made.outputs["metadata"]["uid"]
    assert made.outputs["__inputs"] == made.inputs
    assert made.outputs["__initialApiVersion"] == "v1"
    assert made.outputs["__fieldManager"].startswith("pulumi-kubernetes-")


def test_whole_floats_are_sent_as_integers(provider: Any, pool_kind: str, cluster: Any) -> None:
    # Every number is a float on the wire; the CRD's schema says integer, and would refuse 3.0
    # spelled so.
    made = provider.create(pool_kind, "p", pool("whole-floats", 3))
    assert made.outputs["spec"]["size"] == 3
    assert cluster.admin.get("/apis/slicewright.io/v1alpha1/gpupools/whole-floats")["spec"] == {
        "size": 3
    }


def test_secret_data_is_secret_everywhere(provider: Any, namespace: str) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": namespace, "name": "s"},
        "stringData": {"password": "pw"},
    }
    made = provider.create(SECRET, "s", secret)
    assert made.inputs["data"] == Secret({"password": "cHc="})
    assert made.outputs["data"] == Secret({"password": "cHc="})
    assert made.outputs["__inputs"]["data"] == Secret({"password": "cHc="})


def test_the_output_of_a_secret_input_is_secret(provider: Any, namespace: str) -> None:
    written = config_map(namespace, "c")
    written["data"] = {"plain": "1", "hidden": Secret("2")}
    made = provider.create(CONFIG_MAP, "c", written)
    assert made.outputs["data"] == {"plain": "1", "hidden": Secret("2")}
    assert made.outputs["__inputs"]["data"] == {"plain": "1", "hidden": Secret("2")}


_POD = {
    "containers": [
        {
            "name": "c",
            "image": "nginx",
            "args": [],
            "env": [
                {"name": "EMPTY", "value": ""},
                {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            ],
            "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5}},
            "ports": [{"containerPort": 80}],
            "securityContext": {},
            "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
        }
    ],
    "hostNetwork": False,
    "nodeSelector": {"never": "there"},
    "automountServiceAccountToken": False,
    "volumes": [
        {"name": "v", "emptyDir": {}},
        {"name": "w", "configMap": {"name": "c", "defaultMode": 420}},
    ],
    "tolerations": [{"operator": "Exists"}],
}
_RBAC = "rbac.authorization.k8s.io/v1"
_ALL_KINDS: list[JsonObject] = [
    {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"labels": {"a": "b"}},
        "automountServiceAccountToken": False,
    },
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"a": "1"},
        "binaryData": {"b": "eA=="},
        "immutable": True,
    },
    {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "1"}},
    {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "spec": {"hard": {"pods": "1000", "requests.cpu": "1000m"}},
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"annotations": {"pulumi.com/skipAwait": "true"}},
        "spec": {"selector": {"app": "x"}, "ports": [{"port": 80, "targetPort": "http"}]},
    },
    {
        "apiVersion": _RBAC,
        "kind": "Role",
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    },
    {
        "apiVersion": _RBAC,
        "kind": "RoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "default"}],
    },
    {
        "apiVersion": _RBAC,
        "kind": "ClusterRole",
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    },
    {
        "apiVersion": _RBAC,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    },
    {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "100%"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": _POD},
        },
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"annotations": {"pulumi.com/skipAwait": "true"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": _POD},
        },
    },
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"annotations": {"pulumi.com/skipAwait": "true"}},
        "spec": {"backoffLimit": 0, "template": {"spec": {**_POD, "restartPolicy": "Never"}}},
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "value": 7,
        "globalDefault": False,
        "description": "d",
    },
    {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "nvidia"},
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "spec": {"maxUnavailable": "10%", "selector": {"matchLabels": {"app": "x"}}},
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ]
            },
            "validations": [
                {"expression": "object.spec.hostPID != true", "message": "no host PIDs"}
            ],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": "not-there", "validationActions": ["Deny"]},
    },
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.io"},
        "spec": {
            "group": "example.io",
            "scope": "Namespaced",
            "names": {
                "kind": "Thing",
                "listKind": "ThingList",
                "plural": "things",
                "singular": "thing",
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "x_kubernetes_preserve_unknown_fields": True,
                                }
                            },
                        }
                    },
                }
            ],
        },
    },
    {
        "apiVersion": "slicewright.io/v1alpha1",
        "kind": "GPUPool",
        "spec": {"size": 3, "layoutHash": ""},
    },
]


@pytest.mark.parametrize("manifest", _ALL_KINDS, ids=lambda manifest: str(manifest["kind"]))
def test_a_second_up_and_a_refresh_show_no_change(
    provider: Any, namespace: str, pool_kind: str, manifest: JsonObject
) -> None:
    manifest = json.loads(json.dumps(manifest))
    metadata = manifest.setdefault("metadata", {})
    metadata.setdefault("namespace", namespace)
    if manifest["kind"] in (
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "GPUPool",
        "PriorityClass",
    ):
        del metadata["namespace"]
    api_version = manifest["apiVersion"]
    group = api_version if "/" in api_version else f"core/{api_version}"
    kind = f"kubernetes:{group}:{manifest['kind']}"

    made = provider.create(kind, "second-up", manifest, timeout_s=60)
    again = provider.diff(kind, "second-up", made, manifest)
    assert (again.changes, dict(again.detailedDiff)) == (again.DIFF_NONE, {})

    read = provider.read(kind, "second-up", made)
    refreshed = provider.diff_checked(kind, "second-up", read, made.inputs)
    assert (refreshed.changes, dict(refreshed.detailedDiff)) == (refreshed.DIFF_NONE, {})
    after = provider.diff(kind, "second-up", read, manifest)
    assert (after.changes, dict(after.detailedDiff)) == (after.DIFF_NONE, {})

    # An Update without a change (the engine makes one after a partial failure) changes nothing
    # either.
    updated = provider.update(kind, "second-up", read, manifest, timeout_s=60)
    assert provider.diff(kind, "second-up", updated, manifest).changes == again.DIFF_NONE
    assert updated.outputs["metadata"]["uid"] == made.outputs["metadata"]["uid"]


# POST, apply, field managers.


def test_create_fails_for_an_existing_object(
    provider: Any, namespace: str, refused: type[Exception]
) -> None:
    provider.create(CONFIG_MAP, "c", config_map(namespace, "c"))
    with pytest.raises(refused) as caught:
        provider.create(CONFIG_MAP, "c", config_map(namespace, "c"))
    assert caught.value.message.startswith(
        f'resource "urn:pulumi:dev::test::{CONFIG_MAP}::c" was not successfully created by '
        "the Kubernetes API server: "
        'configmaps "c" already exists'
    )
    assert caught.value.reasons == []


def test_upsert_applies_to_an_existing_object(
    cluster: Any, new_provider: Callable[..., Any], namespace: str
) -> None:
    cluster.admin.create(
        f"/api/v1/namespaces/{namespace}/configmaps",
        {"metadata": {"name": "c"}, "data": {"a": "0"}},
    )
    provider = new_provider(
        kubeconfig=cluster.kubeconfig, upsertExistingObjects="true", enablePatchForce="true"
    )
    assert provider.create(CONFIG_MAP, "c", config_map(namespace, "c")).outputs["data"] == {
        "a": "1"
    }


def test_update_applies_with_the_resources_field_manager(
    provider: Any, namespace: str, cluster: Any, pool_kind: str
) -> None:
    made = provider.create(pool_kind, "p", pool("managers"))
    assert _managers(cluster.admin.get("/apis/slicewright.io/v1alpha1/gpupools/managers")) == {
        ("pulumi-kubernetes", "Update")
    }
    updated = provider.update(pool_kind, "p", made, pool("managers", 2))
    manager = made.outputs["__fieldManager"]
    assert updated.outputs["__fieldManager"] == manager
    assert _managers(updated.outputs) == {(manager, "Apply")}


def test_an_update_removes_kubectls_fields_and_keeps_other_managers_fields(
    provider: Any, cluster: Any, pool_kind: str
) -> None:
    made = provider.create(pool_kind, "p", pool("adopted"))
    path = "/apis/slicewright.io/v1alpha1/gpupools/adopted"
    cluster.admin.patch(
        path, {"metadata": {"labels": {"kubectl": "was-here"}}}, fieldManager="kubectl-label"
    )
    cluster.admin.patch(path, {"metadata": {"labels": {"other": "stays"}}}, fieldManager="someone")
    updated = provider.update(pool_kind, "p", made, pool("adopted", 2))
    assert updated.outputs["metadata"]["labels"] == {"other": "stays"}


def _managers(live: JsonObject) -> set[tuple[str, str]]:
    return {(entry["manager"], entry["operation"]) for entry in live["metadata"]["managedFields"]}


@pytest.fixture
def contested(provider: Any, cluster: Any, pool_kind: str, request: pytest.FixtureRequest) -> Any:
    """A pool whose size belongs to another manager."""
    name = f"contested-{request.node.name.replace('_', '-')[-30:]}"
    made = provider.create(pool_kind, "p", pool(name))
    updated = provider.update(pool_kind, "p", made, pool(name, 2))
    body = {
        "apiVersion": "slicewright.io/v1alpha1",
        "kind": "GPUPool",
        "metadata": {"name": name},
        "spec": {"size": 9},
    }
    path = f"/apis/slicewright.io/v1alpha1/gpupools/{name}"
    cluster.admin.patch(path, body, kind="apply", fieldManager="other", force="true")
    return name, updated


def test_a_conflict_is_a_partial_failure_that_names_manager_and_field(
    provider: Any, contested: Any, pool_kind: str, refused: type[Exception]
) -> None:
    name, old = contested
    with pytest.raises(refused) as caught:
        provider.update(pool_kind, "p", old, pool(name, 3))
    (reason,) = caught.value.reasons
    assert reason.startswith(
        f'the Kubernetes API server reported that "{name}" failed to fully initialize or '
        "become live: "
        "server-side apply field conflict detected, see https://"
    )
    manager = old.outputs["__fieldManager"]
    assert reason.endswith(
        f'\nThe resource managed by field manager "{manager}" had an apply conflict: '
        'Apply failed with 1 conflict: conflict with "other": .spec.size'
    )
    assert caught.value.id == name
    assert caught.value.outputs["spec"]["size"] == 9
    assert caught.value.outputs["__inputs"]["spec"]["size"] == 3


def test_a_conflict_shows_in_the_preview(
    provider: Any, contested: Any, pool_kind: str, refused: type[Exception]
) -> None:
    name, old = contested
    with pytest.raises(refused, match=r"field conflict detected"):
        provider.update(pool_kind, "p", old, pool(name, 3), preview=True)


def test_patch_force_wins_a_conflict(provider: Any, contested: Any, pool_kind: str) -> None:
    name, old = contested
    assert (
        provider.update(pool_kind, "p", old, pool(name, 3, patchForce="true")).outputs["spec"][
            "size"
        ]
        == 3
    )


def test_a_refused_update_is_a_partial_failure(
    provider: Any, namespace: str, refused: type[Exception]
) -> None:
    made = provider.create(
        CLASS,
        "k",
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {}, "value": 1},
    )
    new = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {},
        "value": 2,
    }
    with pytest.raises(refused, match=r"may not be changed in an update"):
        provider.update(CLASS, "k", made, new, preview=True)
    with pytest.raises(refused) as caught:
        provider.update(CLASS, "k", made, new)
    assert "failed to fully initialize or become live" in caught.value.reasons[0]
    assert (caught.value.outputs["value"], caught.value.outputs["__inputs"]["value"]) == (1, 2)


def test_an_unknown_field_of_a_custom_resource_passes_create_and_fails_update(
    provider: Any, pool_kind: str, refused: type[Exception]
) -> None:
    written = pool("bogus")
    written["spec"]["bogus"] = 1
    made = provider.create(pool_kind, "p", written)
    assert made.outputs["spec"] == {"size": 1}
    with pytest.raises(refused, match=r"\.spec\.bogus: field not declared in schema"):
        provider.update(pool_kind, "p", made, written)


def test_an_update_of_a_deleted_object_says_so(
    provider: Any, cluster: Any, pool_kind: str, refused: type[Exception]
) -> None:
    made = provider.create(pool_kind, "p", pool("gone"))
    cluster.admin.delete("/apis/slicewright.io/v1alpha1/gpupools/gone")
    with pytest.raises(
        refused,
        match=r'update of resource "urn.*" failed: gpupools.slicewright.io "gone" not found',
    ):
        provider.update(pool_kind, "p", made, pool("gone", 2))


def test_a_refused_create_stores_nothing(
    provider: Any, namespace: str, refused: type[Exception]
) -> None:
    with pytest.raises(
        refused, match=r"was not successfully created by the Kubernetes API server: .*Invalid value"
    ) as caught:
        provider.create(CONFIG_MAP, "c", config_map(namespace, "Not_A_Name"))
    assert caught.value.reasons == []


# Previews.


def test_a_preview_is_the_servers_dry_run(provider: Any, namespace: str, cluster: Any) -> None:
    previewed = provider.create(DAEMON_SET, "d", daemonset(namespace), preview=True)
    assert previewed.id == ""
    assert previewed.outputs["spec"]["updateStrategy"]["type"] == "RollingUpdate"
    assert "status" not in previewed.outputs
    assert cluster.admin.get(f"/apis/apps/v1/namespaces/{namespace}/daemonsets")["items"] == []


def test_an_api_error_fails_the_preview(
    provider: Any, namespace: str, refused: type[Exception]
) -> None:
    with pytest.raises(refused, match=r"Invalid value"):
        provider.create(CONFIG_MAP, "c", config_map(namespace, "Not_A_Name"), preview=True)


def test_a_preview_shows_only_the_inputs_where_a_dry_run_is_impossible(
    provider: Any,
    namespace: str,
    cluster: Any,
    new_provider: Callable[..., Any],
    as_user: Callable[[str], str],
) -> None:
    def is_inputs_only(manifest: JsonObject, by: Any = provider, kind: str = CONFIG_MAP) -> bool:
        previewed = by.create(kind, "c", manifest, preview=True)
        return bool(previewed.outputs == previewed.inputs)

    assert not is_inputs_only(config_map(namespace, "fresh"))
    unknown = config_map(namespace, "fresh")
    unknown["data"]["a"] = UNKNOWN
    assert is_inputs_only(unknown)
    assert is_inputs_only(config_map("not-there-yet", "c"))
    provider.create(CONFIG_MAP, "c", config_map(namespace, "exists"))
    assert is_inputs_only(config_map(namespace, "exists"))
    later = {"apiVersion": "later.io/v1", "kind": "Unserved", "metadata": {"name": "l"}}
    assert is_inputs_only(later, kind="kubernetes:later.io/v1:Unserved")
    cluster.admin.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "reader"}}
    )
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = cluster.admin.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/reader/token", request
    )
    reader = new_provider(kubeconfig=as_user(answer["status"]["token"]))
    assert is_inputs_only(config_map(namespace, "fresh"), by=reader)


def test_a_preview_of_an_update_does_not_fail_over_the_creators_entry(
    provider: Any, pool_kind: str
) -> None:
    made = provider.create(pool_kind, "p", pool("previewed"))
    assert (
        provider.update(pool_kind, "p", made, pool("previewed", 5), preview=True).outputs["spec"][
            "size"
        ]
        == 5
    )


# Retries.


@pytest.mark.usefixtures("quick_retries")
def test_create_waits_for_its_namespace(
    provider: Any, cluster: Any, in_background: Callable[..., Any], until: Any
) -> None:
    making = in_background(lambda: provider.create(CONFIG_MAP, "c", config_map("comes-late", "c")))
    until(
        lambda: any(
            text.startswith("Retry #0; creation failed: namespaces")
            for text in provider.engine.texts()
        )
    )
    cluster.admin.create("/api/v1/namespaces", {"metadata": {"name": "comes-late"}})
    assert making.result(60).id == "comes-late/c"


@pytest.mark.usefixtures("quick_retries")
def test_create_gives_up_on_a_crd_that_is_never_installed(
    provider: Any, refused: type[Exception]
) -> None:
    with pytest.raises(refused) as caught:
        provider.create(
            "kubernetes:nope.io/v1:Nope",
            "n",
            {"apiVersion": "nope.io/v1", "kind": "Nope", "metadata": {"name": "n"}},
        )
    assert caught.value.message == (
        'creation of resource "urn:pulumi:dev::test::kubernetes:nope.io/v1:Nope::n" with '
        "kind nope.io/v1/Nope failed because the "
        "Kubernetes API server reported that the apiVersion for this resource does not "
        "exist. Verify that any required CRDs have "
        'been created: no matches for kind "Nope" in version "nope.io/v1"'
    )
    assert (
        'Retry #2; creation failed: no matches for kind "Nope" in version "nope.io/v1"'
        in provider.engine.texts()
    )


def test_the_retries_last_63_seconds() -> None:
    assert sum(objects.RETRY_PAUSES_S) == 63


# Refresh.


def test_drift_shows_in_the_inputs_but_fields_outside_them_do_not(
    provider: Any, cluster: Any, namespace: str
) -> None:
    made = provider.create(CONFIG_MAP, "c", config_map(namespace, "c", a="1", b="2"))
    patch = {"metadata": {"labels": {"foreign": "label"}}, "data": {"a": "changed", "z": "added"}}
    cluster.admin.patch(path_of(namespace, "c"), patch)
    read = provider.read(CONFIG_MAP, "c", made)
    assert read.inputs["data"] == {"a": "changed", "b": "2"}
    assert "labels" not in read.inputs["metadata"]
    assert read.outputs["__inputs"] == read.inputs
    found = provider.diff_checked(CONFIG_MAP, "c", read, made.inputs)
    assert list(found.detailedDiff) == ["data.a"]


def test_a_deleted_object_and_a_deleted_kind_read_as_gone(
    provider: Any, cluster: Any, namespace: str, stored: Callable[..., Any]
) -> None:
    made = provider.create(CONFIG_MAP, "c", config_map(namespace, "c"))
    cluster.admin.delete(path_of(namespace, "c"))
    assert provider.read(CONFIG_MAP, "c", made) is None
    old = {"apiVersion": "unserved.io/v1", "kind": "X", "metadata": {"name": "x"}}
    assert provider.read("kubernetes:unserved.io/v1:X", "x", stored("default/x", old, old)) is None


def test_an_import_reads_everything_but_what_only_the_server_sets(
    provider: Any, cluster: Any, namespace: str, stored: Callable[..., Any]
) -> None:
    cluster.admin.create(
        f"/api/v1/namespaces/{namespace}/configmaps",
        {"metadata": {"name": "old"}, "data": {"a": "1"}},
    )
    read = provider.read(CONFIG_MAP, "old", stored(f"{namespace}/old", {}, {}))
    assert read.inputs == config_map(namespace, "old")


# Delete.


def test_delete_waits_until_finalizers_are_done(
    provider: Any, cluster: Any, namespace: str, in_background: Callable[..., Any], until: Any
) -> None:
    made = provider.create(CONFIG_MAP, "c", config_map(namespace, "c"))
    cluster.admin.patch(path_of(namespace, "c"), {"metadata": {"finalizers": ["slicewright.io/x"]}})
    deleting = in_background(lambda: provider.delete(CONFIG_MAP, "c", made))
    until(lambda: "Resource scheduled for deletion" in provider.engine.texts())
    assert not deleting.done()
    live = cluster.admin.get(path_of(namespace, "c"))
    assert (
        "foregroundDeletion" in live["metadata"]["finalizers"]
        or live["metadata"]["deletionTimestamp"]
    )
    cluster.admin.patch(path_of(namespace, "c"), {"metadata": {"finalizers": None}})
    deleting.result(60)
    provider.delete(CONFIG_MAP, "c", made)  # gone already: fine


def test_a_delete_that_times_out_names_the_finalizer(
    provider: Any, cluster: Any, namespace: str, refused: type[Exception]
) -> None:
    made = provider.create(CONFIG_MAP, "c", config_map(namespace, "c"))
    cluster.admin.patch(path_of(namespace, "c"), {"metadata": {"finalizers": ["slicewright.io/x"]}})
    with pytest.raises(refused, match=r"^timed out waiting for the condition$"):
        provider.delete(CONFIG_MAP, "c", made, timeout_s=2)
    assert "finalizers might be preventing deletion (slicewright.io/x)" in provider.engine.texts()
    cluster.admin.patch(path_of(namespace, "c"), {"metadata": {"finalizers": None}})


def test_deletion_is_foreground_by_default(provider: Any, cluster: Any, namespace: str) -> None:
    made = provider.create(CONFIG_MAP, "c", config_map(namespace, "owner"))
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": made.outputs["metadata"]["uid"],
    }
    dependent = {
        "metadata": {
            "name": "dependent",
            "ownerReferences": [{**owner, "blockOwnerDeletion": True}],
        }
    }
    cluster.admin.create(f"/api/v1/namespaces/{namespace}/configmaps", dependent)
    provider.delete(CONFIG_MAP, "c", made)
    names = [
        item["metadata"]["name"]
        for item in cluster.admin.get(f"/api/v1/namespaces/{namespace}/configmaps")["items"]
    ]
    assert "dependent" not in names


def test_an_interrupt_ends_a_delete(
    provider: Any,
    cluster: Any,
    namespace: str,
    in_background: Callable[..., Any],
    until: Any,
    refused: type[Exception],
) -> None:
    made = provider.create(CONFIG_MAP, "c", config_map(namespace, "c"))
    cluster.admin.patch(path_of(namespace, "c"), {"metadata": {"finalizers": ["slicewright.io/x"]}})
    deleting = in_background(lambda: provider.delete(CONFIG_MAP, "c", made))
    until(lambda: "Resource scheduled for deletion" in provider.engine.texts())
    provider.cancel()
    with pytest.raises(refused, match=r"^context canceled$"):
        deleting.result(60)
    cluster.admin.patch(path_of(namespace, "c"), {"metadata": {"finalizers": None}})
