"""Previews: the server's dry run, or the inputs alone if the server cannot be reached."""

from __future__ import annotations

from slicewright.kubeapi import ApiError, JsonObject, Unreachable
from slicewright.rehearsal.plugins.engine.plugin import ProviderError
from slicewright.rehearsal.plugins.engine.properties import Properties, has_unknown
from slicewright.rehearsal.plugins.engine.requests import CreateRequest, UpdateRequest
from slicewright.rehearsal.plugins.providers.kubernetes import error_messages, objects, state
from slicewright.rehearsal.plugins.providers.kubernetes.cluster import NoSuchKind
from slicewright.rehearsal.plugins.providers.kubernetes.objects import (
    Conflict,
    Gone,
    Operation,
    UpdateRefused,
)


def create(
    op: Operation | None,
    request: CreateRequest,
    manifest: JsonObject,
    manager: str,
    *,
    upsert: bool,
) -> Properties:
    """What Create would give, without a status. Raises ProviderError for what the server refuses.

    op: None without a cluster.
    """
    if op is None or has_unknown(manifest):
        return request.inputs
    try:
        if upsert:
            live = objects.upsert(op, manifest, manager=manager, force=True, dry_run=True)
        else:
            live = objects.create(op, manifest, dry_run=True)
    except (NoSuchKind, Unreachable):
        return request.inputs
    except ApiError as e:
        # A namespace that this run creates, an object that exists already, or credentials that may
        # only read.
        if e.status in (403, 404) or (e.status == 409 and e.reason == "AlreadyExists"):
            return request.inputs
        raise ProviderError(error_messages.not_created(request.urn, e)) from e
    live.pop("status", None)
    initial = str(manifest["apiVersion"])
    return state.outputs_of(
        live, manifest, request.inputs, initial_api_version=initial, manager=manager
    )


def update(
    op: Operation | None, request: UpdateRequest, manifest: JsonObject, manager: str, *, force: bool
) -> Properties:
    """What Update would give. Raises ProviderError for what the server refuses.

    op: None without a cluster.
    """
    if op is None or has_unknown(manifest):
        return request.new_inputs
    try:
        live = objects.update(
            op, manifest, manager=manager, force=force, dry_run=True, ignored=request.ignored
        )
    except Gone as e:
        raise ProviderError(error_messages.gone(request.urn, e)) from e
    except (NoSuchKind, Unreachable):
        return request.new_inputs
    except ApiError as e:
        if e.status in (403, 404):
            return request.new_inputs
        refused = (
            Conflict(e.message, {}) if objects.is_conflict(e) else UpdateRefused(e.message, {})
        )
        why = error_messages.refusal(refused, manager)
        raise ProviderError(error_messages.not_live(request.id, why)) from e
    initial = state.initial_api_version_of(request.old_outputs) or str(manifest["apiVersion"])
    return state.outputs_of(
        live, manifest, request.new_inputs, initial_api_version=initial, manager=manager
    )
