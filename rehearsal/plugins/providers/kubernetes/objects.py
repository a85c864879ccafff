"""Create, update, read and delete one object of a reachable cluster."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slicewright.kubeapi import ApiError, JsonObject, Unreachable
from slicewright.rehearsal.plugins.engine.plugin import Severity
from slicewright.rehearsal.plugins.providers.kubernetes import (
    field_managers,
    pulumi_annotations,
    readiness,
)
from slicewright.rehearsal.plugins.providers.kubernetes.cluster import Cluster, NoSuchKind
from slicewright.rehearsal.plugins.providers.kubernetes.related_objects import ListedObjects
from slicewright.rehearsal.plugins.providers.kubernetes.wait_for_annotation import (
    InvalidWaitFor,
    parse_annotation,
)
from slicewright.rehearsal.plugins.providers.kubernetes.waiting import (
    NotReady,
    Rule,
    ShowStatus,
    await_gone,
    await_ready,
)

RETRY_PAUSES_S: Sequence[float] = (1, 2, 4, 8, 16, 32)
"""Between attempts to create an object whose namespace or kind does not exist yet; 63 s in all."""
_CONFLICT_ATTEMPTS: Final = 5
_MANAGED_DELETE: Final = frozenset(
    {"Namespace", "Pod", "DaemonSet", "Deployment", "StatefulSet", "Job"}
)
"""Kinds whose deletion skipAwait applies to."""


class UpdateRefused(Exception):
    """The API server rejected an update; `live` is the unchanged object."""

    def __init__(self, message: str, live: JsonObject) -> None:
        super().__init__(message)
        self.live = live


class Conflict(UpdateRefused):
    """Another field manager owns a field that the update sets."""


class Gone(Exception):
    """The object to update does not exist."""


@dataclass(frozen=True)
class Operation:
    """What all requests of one operation share."""

    cluster: Cluster
    show_status: ShowStatus
    cancelled: threading.Event
    timeout_s: float
    await_all: bool = False


def create(op: Operation, manifest: JsonObject, *, dry_run: bool = False) -> JsonObject:
    """The stored object, not waited for. Raises ApiError, NoSuchKind, Unreachable."""
    query = {"fieldManager": field_managers.CREATOR} | ({"dryRun": "All"} if dry_run else {})
    pauses = iter(() if dry_run else RETRY_PAUSES_S)
    attempt = 0
    while True:
        try:
            return op.cluster.create(
                op.cluster.collection(manifest), _body(op.cluster, manifest), **query
            )
        except (ApiError, NoSuchKind) as e:
            if isinstance(e, ApiError) and e.status != 404:
                raise
            pause = next(pauses, None)
            if pause is None:
                raise
            op.show_status(Severity.INFO, f"Retry #{attempt}; creation failed: {e}")
            attempt += 1
            if op.cancelled.wait(pause):
                raise


def update(
    op: Operation,
    manifest: JsonObject,
    *,
    manager: str,
    force: bool,
    dry_run: bool = False,
    ignored: Sequence[str] = (),
) -> JsonObject:
    """The stored object, not waited for. ignored: paths of fields that are left as they are.

    Raises Gone, Refused (in dry runs ApiError), NoSuchKind, Unreachable.
    """
    path = op.cluster.path(manifest)
    for attempt in range(1, _CONFLICT_ATTEMPTS + 1):
        try:
            live = op.cluster.get(path)
        except ApiError as e:
            if e.status == 404:
                raise Gone(e.message) from e
            raise
        try:
            return _write(
                op.cluster,
                path,
                live,
                manifest,
                manager=manager,
                force=force,
                dry_run=dry_run,
                ignored=ignored,
            )
        except ApiError as e:
            owned_by_another = is_conflict(e)
            if e.status == 409 and not owned_by_another and attempt < _CONFLICT_ATTEMPTS:
                continue  # the object changed between the read and the write
            if dry_run:
                raise
            kind = Conflict if owned_by_another else UpdateRefused
            raise kind(e.message, live) from e
    raise AssertionError("the last attempt returns or raises")


def is_conflict(error: ApiError) -> bool:
    """Whether an apply was rejected because another manager owns a field."""
    return error.status == 409 and "Apply failed with" in error.message


def _write(
    cluster: Cluster,
    path: str,
    live: JsonObject,
    manifest: JsonObject,
    *,
    manager: str,
    force: bool,
    dry_run: bool,
    ignored: Sequence[str],
) -> JsonObject:
    query = {"fieldManager": manager} | ({"dryRun": "All"} if dry_run else {})
    if manifest["kind"] == "CustomResourceDefinition":
        version = {"resourceVersion": live["metadata"]["resourceVersion"]}
        return cluster.replace(
            path, {**manifest, "metadata": {**manifest["metadata"], **version}}, **query
        )
    if not dry_run and (patch := field_managers.adopt(live, manager)) is not None:
        live = cluster.patch(path, patch, kind="json", fieldManager=manager)
    if not field_managers.has_entries(live) or (
        dry_run and field_managers.is_fresh_from_create(live)
    ):
        force = True
    manifest = field_managers.without_ignored(manifest, live, manager, ignored)
    return cluster.patch(
        path, _body(cluster, manifest), kind="apply", force="true" if force else "false", **query
    )


def upsert(
    op: Operation, manifest: JsonObject, *, manager: str, force: bool, dry_run: bool = False
) -> JsonObject:
    """Creates, or applies to the existing object (setting upsert_existing_objects).

    Raises ApiError, NoSuchKind, Unreachable.
    """
    query = {"fieldManager": manager, "force": "true" if force else "false"} | (
        {"dryRun": "All"} if dry_run else {}
    )
    return op.cluster.patch(
        op.cluster.path(manifest), _body(op.cluster, manifest), kind="apply", **query
    )


def settle(op: Operation, manifest: JsonObject, live: JsonObject) -> JsonObject:
    """The live object once it is ready by its rule. Raises NotReady, InvalidWaitFor."""
    if pulumi_annotations.skips_await(manifest):
        op.show_status(Severity.INFO, "Skipping await logic")
        op.show_status(Severity.INFO, "")
        return live
    rule, limit_s = _rule(op, manifest, live)
    if rule is None:
        return live
    return await_ready(
        op.cluster,
        op.cluster.path(live),
        live,
        rule,
        timeout_s=limit_s,
        cancelled=op.cancelled,
        show_status=op.show_status,
    )


def _rule(op: Operation, manifest: JsonObject, live: JsonObject) -> tuple[Rule | None, float]:
    if text := pulumi_annotations.wait_for(manifest):
        return parse_annotation(text), op.timeout_s
    return readiness.rule_for(live, await_all=op.await_all), readiness.limit_s(live, op.timeout_s)


def read(op: Operation, manifest: JsonObject) -> JsonObject | None:
    """The live object; None if it or its kind does not exist. Raises ApiError, Unreachable."""
    try:
        return op.cluster.get(op.cluster.path(manifest))
    except NoSuchKind:
        return None
    except ApiError as e:
        if e.status == 404:
            return None
        raise


def unhealthy_reasons(op: Operation, manifest: JsonObject, live: JsonObject) -> tuple[str, ...]:
    """Why a refresh reports the object as unhealthy; empty if it does not."""
    rule = readiness.rule_for(live)
    if (
        rule is None
        or not readiness.is_checked_on_read(live)
        or pulumi_annotations.skips_await(manifest)
    ):
        return ()
    verdict = rule.judge(live, ListedObjects(op.cluster, rule.needs(live)))
    if verdict.done:
        return ()
    name = live["metadata"]["name"]
    return (
        f"Resource '{name}' was created but failed to initialize",
        *verdict.failed,
        *rule.on_timeout(live)[1:],
    )


def delete(op: Operation, manifest: JsonObject) -> None:
    """Returns when the object does not exist. Raises ApiError, NotReady, Unreachable."""
    live = read(op, manifest)
    if live is None:
        return
    path = op.cluster.path(live)
    try:
        op.cluster.delete(
            path, {"propagationPolicy": pulumi_annotations.propagation_policy(manifest)}
        )
    except ApiError as e:
        if e.status != 404:
            raise
        return
    if live["kind"] in _MANAGED_DELETE and pulumi_annotations.skips_await(manifest):
        return
    await_gone(
        op.cluster,
        path,
        live["metadata"]["uid"],
        timeout_s=op.timeout_s,
        cancelled=op.cancelled,
        show_status=op.show_status,
    )


def _body(cluster: Cluster, manifest: JsonObject) -> JsonObject:
    """The manifest, without a namespace that Check gave to a cluster-scoped object."""
    if cluster.served_kind(str(manifest["apiVersion"]), str(manifest["kind"])).namespaced:
        return manifest
    return {
        **manifest,
        "metadata": {
            key: value for key, value in manifest["metadata"].items() if key != "namespace"
        },
    }


__all__ = [
    "Conflict",
    "Gone",
    "InvalidWaitFor",
    "NotReady",
    "Operation",
    "Unreachable",
    "UpdateRefused",
]
