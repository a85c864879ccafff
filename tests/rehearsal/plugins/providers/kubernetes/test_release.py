"""`helm.v3.Release` of the GPU operator's chart, against a real API server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slicewright.kubeapi import ApiError, JsonObject
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.plugins.charts import gpu_operator
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN, Secret, unwrap

RELEASE = "kubernetes:helm.sh/v3:Release"
POLICY = "/apis/nvidia.com/v1/clusterpolicies/cluster-policy"


WITHOUT_HOOKS: JsonObject = {"driver": {"enabled": False}, "nfd": {"enabled": False}}
"""Nothing ends the pods of Jobs outside the namespace of `hooks`."""


def release(
    namespace: str, name: str = "gpu-operator", values: JsonObject | None = None, **more: Any
) -> JsonObject:
    return {
        "chart": "gpu-operator",
        "version": "v26.7.0",
        "repositoryOpts": {"repo": "https://helm.ngc.nvidia.com/nvidia"},
        "namespace": namespace,
        "name": name,
        "values": values or {"driver": {"enabled": False}, "mig": {"strategy": "mixed"}},
        "compat": "true",
        "skipAwait": True,
        **more,
    }


@pytest.fixture
def clean(cluster: Any, until: Any) -> Any:
    """Without a ClusterPolicy before and after: there is one per cluster."""

    def gone() -> bool:
        for path in (
            POLICY,
            *(
                f"/apis/rbac.authorization.k8s.io/v1/{kind}/gpu-operator"
                for kind in ("clusterroles", "clusterrolebindings")
            ),
        ):
            try:
                cluster.admin.delete(path)
                return False
            except ApiError as e:
                if e.status != 404:
                    raise
        return True

    until(gone)
    yield
    until(gone)


def _exists(cluster: Any, path: str) -> bool:
    try:
        cluster.admin.get(path)
        return True
    except ApiError as e:
        if e.status != 404:
            raise
        return False


def _can_be_listed(cluster: Any, crd: JsonObject) -> bool:
    spec = crd["spec"]
    try:
        cluster.admin.get(
            path_of(f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["plural"])
        )
        return True
    except ApiError as e:
        if e.status not in (404, 429):
            raise
        return False


def test_check_fills_in_the_official_defaults(provider: Any) -> None:
    given = release("gpu")
    del given["namespace"], given["name"]
    inputs, failures = provider.check(RELEASE, "op", given)
    assert failures == []
    assert inputs["name"].startswith("op-")
    assert (inputs["namespace"], inputs["timeout"], inputs["atomic"], inputs["description"]) == (
        "default",
        300,
        False,
        "",
    )
    assert "compat" not in inputs
    assert provider.check(RELEASE, "op", given, inputs)[0]["name"] == inputs["name"]


def test_a_misspelt_value_and_an_unknown_chart_fail_the_check(provider: Any) -> None:
    _, failures = provider.check(RELEASE, "op", release("gpu", values={"migManger": {}}))
    assert [path for path, _ in failures] == ["values.migManger"]
    assert "did you mean 'migManager'?" in failures[0][1]
    _, failures = provider.check(RELEASE, "op", release("gpu", chart="prometheus"))
    assert [path for path, _ in failures] == ["chart"]


def test_values_not_known_yet_do_not_fail_the_check(provider: Any) -> None:
    inputs, failures = provider.check(
        RELEASE, "op", release("gpu", values={"migManager": {"config": {"name": UNKNOWN}}})
    )
    assert failures == []
    assert inputs["values"]["migManager"]["config"]["name"] is UNKNOWN


def test_the_charts_crds_are_known_to_later_checks(provider: Any) -> None:
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "x"}}
    provider.check(RELEASE, "op", release("gpu"))
    assert (
        "namespace"
        not in provider.check("kubernetes:nvidia.com/v1:ClusterPolicy", "x", policy)[0]["metadata"]
    )


def test_a_preview_shows_inputs_and_unknown_outputs(
    provider: Any, namespace: str, cluster: Any
) -> None:
    previewed = provider.create(RELEASE, "op", release(namespace), preview=True)
    assert (previewed.id, previewed.outputs["status"], previewed.outputs["resourceNames"]) == (
        "",
        UNKNOWN,
        UNKNOWN,
    )
    assert not _exists(cluster, POLICY)


@pytest.fixture
def hooks(cluster: Any, namespace: str) -> Iterator[list[str]]:
    """Ends the pods of Jobs, as nodes would, which this cluster lacks; the Jobs' names."""
    ended: list[str] = []
    over = threading.Event()

    def run() -> None:
        pods = f"/api/v1/namespaces/{namespace}/pods"
        seen: set[str] = set()
        while not over.wait(0.1):
            for pod in cluster.admin.get(pods, labelSelector="job-name")["items"]:
                name = pod["metadata"]["name"]
                if (pod.get("status") or {}).get("phase") == "Pending" and name not in seen:
                    seen.add(name)
                    # Before it ends: the release goes on at once.
                    ended.append(pod["metadata"]["labels"]["job-name"])
                    cluster.admin.patch(f"{pods}/{name}/status", {"status": {"phase": "Succeeded"}})

    thread = threading.Thread(target=run)
    thread.start()
    yield ended
    over.set()
    thread.join()


@pytest.mark.usefixtures("clean")
def test_a_releases_lifecycle(
    provider: Any, namespace: str, cluster: Any, refused: type[Exception], hooks: list[str]
) -> None:
    made = provider.create(RELEASE, "op", release(namespace))
    assert made.id == f"{namespace}/gpu-operator"
    assert made.outputs["status"] == {
        "appVersion": "v26.7.0",
        "chart": "gpu-operator",
        "name": "gpu-operator",
        "namespace": namespace,
        "revision": 1,
        "status": "deployed",
        "version": "v26.7.0",
    }
    assert made.outputs["resourceNames"]["Deployment.apps/apps/v1"] == [
        f"{namespace}/gpu-operator",
        f"{namespace}/gpu-operator-node-feature-discovery-master",
    ]
    assert made.outputs["resourceNames"]["ClusterPolicy.nvidia.com/nvidia.com/v1"] == [
        "cluster-policy"
    ]
    assert isinstance(made.outputs["__inputs"], Secret)
    live = cluster.admin.get(POLICY)
    assert live["spec"]["mig"] == {"strategy": "mixed"}
    assert live["metadata"]["annotations"]["meta.helm.sh/release-name"] == "gpu-operator"
    record = cluster.admin.get(
        f"/api/v1/namespaces/{namespace}/secrets/sh.helm.release.v1.gpu-operator.v1"
    )
    assert (record["type"], record["metadata"]["labels"]["status"]) == (
        "helm.sh/release.v1",
        "deployed",
    )

    # Nothing changed: no difference; a refresh finds it in the cluster.
    assert provider.diff(RELEASE, "op", made, release(namespace)).changes == 1
    read = provider.read(RELEASE, "op", made)
    assert unwrap(read.inputs) == unwrap(made.inputs)
    assert provider.diff(RELEASE, "op", read, release(namespace)).changes == 1

    # A changed value is an update; a new name a replacement that is not deleted first.
    changed = release(
        namespace, values={"driver": {"enabled": False}, "mig": {"strategy": "single"}}
    )
    difference = provider.diff(RELEASE, "op", made, changed)
    assert (list(difference.detailedDiff), list(difference.diffs), list(difference.replaces)) == (
        ["values.mig.strategy"],
        ["values"],
        [],
    )
    renamed = provider.diff(RELEASE, "op", made, release(namespace, "other"))
    assert (list(renamed.replaces), renamed.deleteBeforeReplace) == (["name"], False)
    updated = provider.update(RELEASE, "op", made, changed)
    assert updated.outputs["status"]["revision"] == 2
    # The chart's hook upgraded the CRDs first, and left nothing.
    assert hooks == ["gpu-operator-upgrade-crd"]
    assert not _exists(
        cluster, f"/apis/batch/v1/namespaces/{namespace}/jobs/gpu-operator-upgrade-crd"
    )
    assert not _exists(
        cluster,
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/gpu-operator-upgrade-crd-hook-role",
    )
    assert cluster.admin.get(POLICY)["spec"]["mig"] == {"strategy": "single"}

    # What the chart's CRD refuses makes a failed revision, which the next update repairs.
    bogus = release(namespace, values={"mig": {"strategy": "bogus"}})
    with pytest.raises(refused) as caught:
        provider.update(RELEASE, "op", updated, bogus)
    assert caught.value.reasons[0].startswith(
        f'Helm release "{namespace}/gpu-operator" failed to initialize completely. Use Helm CLI'
    )
    assert 'supported values: "none", "single", "mixed"' in caught.value.reasons[0]
    assert caught.value.outputs["status"]["status"] == "failed"
    mended = provider.update(RELEASE, "op", updated, changed)
    assert mended.outputs["status"] == {**made.outputs["status"], "revision": 4}

    # Uninstalled: all gone but the CRDs; a second delete finds no release.
    provider.delete(RELEASE, "op", mended)
    assert hooks[-1] == "gpu-operator-node-feature-discovery-prune"
    left = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert not _exists(cluster, f"{left}/gpu-operator-node-feature-discovery-prune")
    assert not _exists(cluster, POLICY)
    assert not _exists(cluster, f"/apis/apps/v1/namespaces/{namespace}/deployments/gpu-operator")
    assert (
        cluster.admin.get(f"/api/v1/namespaces/{namespace}/secrets", labelSelector="owner=helm")[
            "items"
        ]
        == []
    )
    assert _exists(
        cluster,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterpolicies.nvidia.com",
    )
    assert provider.read(RELEASE, "op", mended) is None
    with pytest.raises(
        refused, match=r"^uninstall: Release not loaded: gpu-operator: release: not found$"
    ):
        provider.delete(RELEASE, "op", mended)


@pytest.mark.usefixtures("clean", "hooks")
def test_cleanup_crd_deletes_the_crds(
    provider: Any, namespace: str, cluster: Any, until: Any
) -> None:
    values = {"operator": {"cleanupCRD": True}}
    made = provider.create(RELEASE, "op", release(namespace, values=values))
    # Of a kind that nobody has read yet the API server refuses to list the instances ("storage is
    # (re)initializing"), and where its second try meets its own first one, the CRD's deletion waits
    # for the next resync, five minutes later. Source: k8s.io/apiextensions-apiserver,
    # pkg/controller/finalizer/crd_finalizer.go (sync: a conflict is not tried again).
    for crd in gpu_operator.removed_crds(values):
        until(lambda crd=crd: _can_be_listed(cluster, crd))
    provider.delete(RELEASE, "op", made)
    assert not _exists(
        cluster,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterpolicies.nvidia.com",
    )


@pytest.mark.usefixtures("clean")
def test_a_hook_that_does_not_end_is_named_and_the_release_is_gone_all_the_same(
    provider: Any, namespace: str, refused: type[Exception]
) -> None:
    made = provider.create(RELEASE, "op", release(namespace))
    made.outputs["timeout"] = 2
    with pytest.raises(refused) as caught:
        provider.delete(RELEASE, "op", made)
    job = "gpu-operator-node-feature-discovery-prune"
    assert str(caught.value).startswith(
        "uninstallation of gpu-operator completed with 1 error(s): "
        f"post-delete hooks failed: Job {job}: timed out waiting; "
    )
    assert f"Job {job} is still there" in str(caught.value)
    assert provider.read(RELEASE, "op", made) is None


@pytest.mark.usefixtures("clean", "hooks")
def test_an_operator_that_does_not_start_fails_the_release_and_the_next_up_upgrades(
    provider: Any, namespace: str, refused: type[Exception], stored: Callable[..., Any]
) -> None:
    waiting = release(
        namespace,
        values={"operator": {"nodeSelector": {"never": "there"}}},
        skipAwait=False,
        timeout=1,
    )
    with pytest.raises(refused) as caught:
        provider.create(RELEASE, "op", waiting)
    id_ = f"{namespace}/gpu-operator"
    assert caught.value.reasons == [
        f'Helm release "{id_}" was created, but failed to initialize completely. Use Helm '
        "CLI to investigate: failed to become "
        f"available within allocated timeout. Error: Helm Release {id_}: context deadline exceeded"
    ]
    old = stored(id_, unwrap(caught.value.outputs["__inputs"]), caught.value.outputs)
    patient = release(namespace, values={"operator": {"nodeSelector": {"never": "there"}}})
    updated = provider.update(RELEASE, "op", old, patient)
    assert (updated.outputs["status"]["status"], updated.outputs["status"]["revision"]) == (
        "deployed",
        2,
    )
    provider.delete(RELEASE, "op", updated)


@pytest.mark.usefixtures("clean")
def test_an_atomic_release_that_fails_leaves_nothing(
    provider: Any, namespace: str, cluster: Any, refused: type[Exception]
) -> None:
    values = {"operator": {"nodeSelector": {"never": "there"}}}
    atomic = release(namespace, values=values, skipAwait=False, timeout=1, atomic=True)
    with pytest.raises(refused, match=r"due to atomic being set") as caught:
        provider.create(RELEASE, "op", atomic)
    assert caught.value.reasons == []
    assert not _exists(cluster, POLICY)


@pytest.mark.usefixtures("clean")
def test_objects_without_the_releases_ownership_are_not_adopted(
    provider: Any, namespace: str, cluster: Any, refused: type[Exception]
) -> None:
    cluster.admin.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "gpu-operator"}}
    )
    with pytest.raises(refused) as caught:
        provider.create(RELEASE, "op", release(namespace))
    assert "exists and cannot be imported into the current release" in caught.value.reasons[0]


@pytest.mark.usefixtures("clean")
def test_create_namespace_creates_the_namespace(provider: Any, cluster: Any) -> None:
    made = provider.create(
        RELEASE, "op", release("made-by-helm", values=WITHOUT_HOOKS, createNamespace=True)
    )
    assert _exists(cluster, "/api/v1/namespaces/made-by-helm")
    provider.delete(RELEASE, "op", made)


def test_deleting_a_release_needs_the_cluster_even_with_the_flag(
    new_provider: Callable[..., Any], refused: type[Exception], stored: Callable[..., Any]
) -> None:
    provider = new_provider(kubeconfig="/no/such/kubeconfig", deleteUnreachable="true")
    old = stored("gpu/gpu-operator", release("gpu"), release("gpu"))
    assert provider.read(RELEASE, "op", old) is None
    with pytest.raises(refused, match=r"cluster is unreachable"):
        provider.delete(RELEASE, "op", old)


WAITS = """
    import pulumi
    import pulumi_kubernetes as k8s

    from slicewright.infra.components import helm_release

    helm_release._PROGRESS_INTERVAL_S = 1.0
    config = pulumi.Config()
    provider = k8s.Provider("cluster", kubeconfig=config.require("kubeconfig"))
    opts = pulumi.ResourceOptions(provider=provider)
    namespace = k8s.core.v1.Namespace("system", metadata={"name": config.require("namespace")},
        opts=opts)
    helm_release.helm_release(
        "operator",
        release="gpu-operator",
        namespace=namespace.metadata["name"],
        address=("gpu-operator", "https://helm.ngc.nvidia.com/nvidia"),
        version="v26.7.0",
        settings={"operator": {"nodeSelector": {"never": "there"}}},
        timeout_s=6,
        opts=pulumi.ResourceOptions(provider=provider, depends_on=[namespace]),
    )
"""


@pytest.mark.usefixtures("clean", "hooks")
def test_up_reports_a_waiting_release_with_a_command_that_shows_why(
    new_stack: Callable[..., Any], attached: dict[str, str]
) -> None:
    stack = new_stack(WAITS, **attached)
    namespace = stack.run("config", "get", "namespace")[1].strip()
    code, output = stack.act("preview")
    assert (code, "not ready after" in output) == (0, False), output
    code, output = stack.act("up")
    assert code != 0
    assert "Helm release gpu-operator: not ready after 2 s (timeout 6 s); " in output, output
    assert f"to see why, run `kubectl --namespace {namespace} get pods,events`" in output
    assert "Task was destroyed" not in output
