"""Installing, upgrading and uninstalling a release, with Helm's order, labels and records."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slicewright.kubeapi import ApiError, JsonObject, Unreachable
from slicewright.kubeapi.client import path_of
from slicewright.rehearsal.plugins.charts import Chart
from slicewright.rehearsal.plugins.engine.plugin import Severity
from slicewright.rehearsal.plugins.providers.kubernetes import helm_storage
from slicewright.rehearsal.plugins.providers.kubernetes.cluster import Cluster, NoSuchKind
from slicewright.rehearsal.plugins.providers.kubernetes.helm_storage import Record
from slicewright.rehearsal.plugins.providers.kubernetes.readiness import rule_for
from slicewright.rehearsal.plugins.providers.kubernetes.waiting import (
    NotReady,
    Rule,
    ShowStatus,
    await_gone,
    await_ready,
)

_ORDER: Final = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "Job",
    "CronJob",
    "Ingress",
]
_MANAGER: Final = "helm"
_KEEP: Final = "helm.sh/resource-policy"
_WAITED_FOR: Final = ("Deployment", "DaemonSet", "Service", "Job")


class ReleaseFailed(Exception):
    """The release failed; `record` is its stored state."""

    def __init__(self, message: str, record: Record) -> None:
        super().__init__(message)
        self.record = record


class NoRelease(Exception):
    """The release does not exist in the cluster."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The inputs of a Release that are options of Helm."""

    timeout_s: float
    skip_await: bool
    wait_for_jobs: bool
    skip_crds: bool
    skip_hooks: bool
    create_namespace: bool
    take_ownership: bool
    cleanup_on_fail: bool

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> Options:
        return cls(
            timeout_s=float(inputs.get("timeout") or 300),
            skip_await=bool(inputs.get("skipAwait")),
            wait_for_jobs=bool(inputs.get("waitForJobs")),
            skip_crds=bool(inputs.get("skipCrds")),
            skip_hooks=bool(inputs.get("disableWebhooks")),
            create_namespace=bool(inputs.get("createNamespace")),
            take_ownership=bool(inputs.get("takeOwnership")),
            cleanup_on_fail=bool(inputs.get("cleanupOnFail")),
        )


@dataclass(frozen=True)
class Helm:
    """One release in one cluster."""

    cluster: Cluster
    namespace: str
    name: str
    show_status: ShowStatus
    cancelled: threading.Event

    def install(self, chart: Chart, values: JsonObject, options: Options) -> Record:
        """Installs, or upgrades a failed install. Raises Failed, ApiError, Unreachable."""
        deadline = time.monotonic() + options.timeout_s
        if options.create_namespace:
            self._create_namespace()
        before = helm_storage.latest(self.cluster, self.namespace, self.name)
        if before is not None and before.status == "deployed":
            raise ReleaseFailed("cannot re-use a name that is still in use", before)
        return self._apply_revision(
            chart, values, options, before, deadline, "pending-install", "Install complete"
        )

    def upgrade(self, chart: Chart, values: JsonObject, options: Options) -> Record:
        """Applies a new revision, and deletes what only the old one had.

        Raises Failed, NotLoaded, ApiError, Unreachable.
        """
        deadline = time.monotonic() + options.timeout_s
        before = helm_storage.latest(self.cluster, self.namespace, self.name)
        if before is None:
            raise NoRelease(f'"{self.name}" has no deployed releases')
        return self._apply_revision(
            chart, values, options, before, deadline, "pending-upgrade", "Upgrade complete"
        )

    def uninstall(self, options: Options, chart: Chart | None) -> None:
        """Deletes the release's objects, except those with resource-policy keep.

        Ignores interrupts, as Helm does. Raises NotLoaded, NotReady,
        ApiError, Unreachable.
        """
        record = helm_storage.latest(self.cluster, self.namespace, self.name)
        if record is None:
            raise NoRelease(f"uninstall: Release not loaded: {self.name}: release: not found")
        deadline = time.monotonic() + options.timeout_s
        helm_storage.save(
            self.cluster,
            record.with_status("uninstalling", "Deletion in progress (or silently failed)"),
        )
        # The chart's pre-delete hook deletes its CRDs, and so all their objects. Helm always waits
        # for hooks.
        crds = [self._delete(crd) for crd in chart.removed_crds(record.values)] if chart else []
        deleted = [
            self._delete(manifest)
            for manifest in reversed(_sorted(record.manifests))
            if (manifest["metadata"].get("annotations") or {}).get(_KEEP) != "keep"
        ]
        for gone in filter(None, crds if options.skip_await else crds + deleted):
            self._await_gone(gone, deadline)
        try:
            if chart is not None and not options.skip_hooks:
                hooks = chart.after_delete(record.values, self.name, self.namespace)
                self._run_hooks("post-delete", hooks, deadline)
        finally:
            # Also where a hook has failed: the release is gone all the same.
            helm_storage.delete(self.cluster, self.namespace, self.name)

    def _apply_revision(
        self,
        chart: Chart,
        values: JsonObject,
        options: Options,
        before: Record | None,
        deadline: float,
        pending: helm_storage.Status,
        done: str,
    ) -> Record:
        manifests = [
            self._with_ownership(manifest)
            for manifest in chart.render(values, self.name, self.namespace)
        ]
        at = helm_storage.now()
        record = Record(
            name=self.name,
            namespace=self.namespace,
            revision=before.revision + 1 if before else 1,
            status=pending,
            description="Initial install underway" if before is None else "Preparing upgrade",
            first_deployed=before.first_deployed if before else at,
            chart_name=chart.name,
            chart_version=chart.version,
            app_version=chart.app_version,
            values=values,
            manifests=tuple(_sorted(manifests)),
        )
        if before is None and not options.skip_crds:
            self._install_crds(chart, deadline)
        helm_storage.save(self.cluster, record)
        try:
            if before is not None and not options.skip_hooks:
                hooks = chart.before_upgrade(values, self.namespace)
                self._run_hooks("pre-upgrade", hooks, deadline)
            self._apply(record, before, options, deadline)
        except (ApiError, NoSuchKind, NotReady, Unreachable) as e:
            why = e.reasons[0] if isinstance(e, NotReady) else str(e)
            record = record.with_status("failed", why)
            helm_storage.save(self.cluster, record)
            raise ReleaseFailed(why, record) from e
        if before is not None and before.status in ("deployed", "failed"):
            helm_storage.save(self.cluster, before.with_status("superseded", before.description))
        record = record.with_status("deployed", done)
        helm_storage.save(self.cluster, record)
        return record

    def _apply(
        self, record: Record, before: Record | None, options: Options, deadline: float
    ) -> None:
        applied = []
        for manifest in record.manifests:
            self._check_ownership(manifest, options)
            path = self._path(manifest, deadline)
            applied.append(
                (
                    path,
                    self.cluster.patch(
                        path, manifest, kind="apply", fieldManager=_MANAGER, force="true"
                    ),
                )
            )
        identities = {_identity(manifest) for manifest in record.manifests}
        for manifest in before.manifests if before else ():
            if (
                _identity(manifest) not in identities
                and (manifest["metadata"].get("annotations") or {}).get(_KEEP) != "keep"
            ):
                self._delete(manifest)
        if options.skip_await:
            return
        for path, live in applied:
            rule = (
                rule_for(live)
                if live["kind"] in _WAITED_FOR and (live["kind"] != "Job" or options.wait_for_jobs)
                else None
            )
            if rule is None:
                continue
            try:
                self._await_ready(path, live, rule, deadline)
            except NotReady as e:
                if e.reasons[0] == "context canceled":
                    raise
                raise NotReady(("context deadline exceeded",), e.live) from e

    def _await_ready(self, path: str, live: JsonObject, rule: Rule, deadline: float) -> None:
        """Raises NotReady, ApiError, Unreachable."""
        await_ready(
            self.cluster,
            path,
            live,
            rule,
            timeout_s=max(deadline - time.monotonic(), 0.0),
            cancelled=self.cancelled,
            show_status=self.show_status,
        )

    def _run_hooks(self, when: str, hooks: Sequence[JsonObject], deadline: float) -> None:
        """Makes the objects one after the other, waits for Jobs, and deletes them all.

        Helm waits for hooks whatever skipAwait says. Raises NotReady, ApiError, Unreachable.
        """
        for hook in hooks:
            # Of an upgrade that was interrupted: the delete policy before-hook-creation.
            if remaining := self._delete(hook):
                self._await_gone(remaining, deadline)
        for hook in hooks:
            path = self.cluster.path(hook)
            live = self.cluster.create(self.cluster.collection(hook), hook, fieldManager=_MANAGER)
            if live["kind"] != "Job" or (rule := rule_for(live)) is None:
                continue
            try:
                self._await_ready(path, live, rule, deadline)
            except NotReady as e:
                why = e.reasons[0] if e.reasons[0] == "context canceled" else "timed out waiting"
                name = live["metadata"]["name"]
                raise NotReady(
                    (f"{when} hooks failed: Job {name}: {why}", *e.reasons), e.live
                ) from e
        for hook in reversed(hooks):
            self._delete(hook)

    def _check_ownership(self, manifest: JsonObject, options: Options) -> None:
        try:
            live = self.cluster.get(self.cluster.path(manifest))
        except NoSuchKind:
            return
        except ApiError as e:
            if e.status == 404:
                return
            raise
        annotations = live["metadata"].get("annotations") or {}
        owner = (
            annotations.get("meta.helm.sh/release-namespace"),
            annotations.get("meta.helm.sh/release-name"),
        )
        if owner == (self.namespace, self.name) or options.take_ownership:
            return
        raise ApiError(
            409,
            {
                "message": f"Unable to continue with install: {live['kind']} "
                f'"{live["metadata"]["name"]}" in namespace '
                f'"{live["metadata"].get("namespace", "")}" exists and cannot be imported '
                "into the current release: invalid "
                "ownership metadata; it must carry the annotations "
                f"meta.helm.sh/release-name={self.name} and "
                f"meta.helm.sh/release-namespace={self.namespace}, or be deleted first"
            },
        )

    def _install_crds(self, chart: Chart, deadline: float) -> None:
        for crd in chart.crds():
            path = self.cluster.path(crd)
            try:
                self.cluster.create(self.cluster.collection(crd), crd, fieldManager=_MANAGER)
            except ApiError as e:
                if e.status != 409:
                    raise
            while not _is_established(self.cluster.get(path)) and time.monotonic() < deadline:
                self.cancelled.wait(0.05)

    def _path(self, manifest: JsonObject, deadline: float) -> str:
        # A CRD that was just installed may not be served yet.
        while True:
            try:
                return self.cluster.path(manifest)
            except NoSuchKind:
                if time.monotonic() >= deadline or self.cancelled.wait(0.1):
                    raise

    def _create_namespace(self) -> None:
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": self.namespace, "labels": {"name": self.namespace}},
        }
        try:
            self.cluster.create(path_of("v1", "namespaces"), namespace, fieldManager=_MANAGER)
        except ApiError as e:
            if e.status != 409:
                raise

    def _delete(self, manifest: JsonObject) -> tuple[str, str] | None:
        """Starts the deletion. The object's path and uid; None if it does not exist."""
        try:
            path = self.cluster.path(manifest)
            live = self.cluster.get(path)
            self.cluster.delete(path, {"propagationPolicy": "Background"})
        except NoSuchKind:
            return None
        except ApiError as e:
            if e.status == 404:
                return None
            raise
        self.show_status(
            Severity.INFO, f"Deleting {manifest['kind']} {manifest['metadata']['name']}"
        )
        return path, live["metadata"]["uid"]

    def _await_gone(self, deleted: tuple[str, str], deadline: float) -> None:
        """deleted: path and uid."""
        path, uid = deleted
        await_gone(
            self.cluster,
            path,
            uid,
            timeout_s=max(deadline - time.monotonic(), 0.0),
            cancelled=threading.Event(),
            show_status=self.show_status,
        )

    def _with_ownership(self, manifest: JsonObject) -> JsonObject:
        """The manifest with Helm's ownership labels and annotations."""
        metadata = manifest["metadata"]
        labels = {**(metadata.get("labels") or {}), "app.kubernetes.io/managed-by": "Helm"}
        owner = {
            "meta.helm.sh/release-name": self.name,
            "meta.helm.sh/release-namespace": self.namespace,
        }
        annotations = {**(metadata.get("annotations") or {}), **owner}
        return {**manifest, "metadata": {**metadata, "labels": labels, "annotations": annotations}}


def resource_names(record: Record) -> dict[str, list[str]]:
    """The release's objects by kind, for the Release's output resourceNames."""
    named: dict[str, list[str]] = {}
    for manifest in record.manifests:
        group, _, _ = str(manifest["apiVersion"]).rpartition("/")
        kind = f"{manifest['kind']}.{group}" if group else str(manifest["kind"])
        metadata = manifest["metadata"]
        name = (
            f"{metadata['namespace']}/{metadata['name']}"
            if metadata.get("namespace")
            else str(metadata["name"])
        )
        named.setdefault(f"{kind}/{manifest['apiVersion']}", []).append(name)
    return {key: sorted(names) for key, names in sorted(named.items())}


def _sorted(manifests: Sequence[JsonObject]) -> list[JsonObject]:
    rank = {kind: index for index, kind in enumerate(_ORDER)}
    return sorted(
        manifests,
        key=lambda manifest: (
            rank.get(str(manifest["kind"]), len(_ORDER)),
            manifest["metadata"]["name"],
        ),
    )


def _identity(manifest: JsonObject) -> tuple[str, str, str | None, str]:
    metadata = manifest["metadata"]
    return (
        str(manifest["apiVersion"]),
        str(manifest["kind"]),
        metadata.get("namespace"),
        str(metadata["name"]),
    )


def _is_established(crd: JsonObject) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(
        condition.get("type") == "Established" and condition.get("status") == "True"
        for condition in conditions
    )
