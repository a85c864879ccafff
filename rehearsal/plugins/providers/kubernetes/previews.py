"""Previews: the server's dry run, or the inputs alone where it cannot be asked."""

# ruff: noqa: A002 - `id` is the protocol's word

from __future__ import annotations

from kubeapi import ApiError, JsonObject, Unreachable
from rehearsal.plugins.engine.plugin import Properties, ProviderError, has_unknown
from rehearsal.plugins.providers.kubernetes import objects, state, texts
from rehearsal.plugins.providers.kubernetes.cluster import NoSuchKind
from rehearsal.plugins.providers.kubernetes.objects import Conflict, Gone, Operation, Refused


def create(
    op: Operation | None,
    urn: str,
    manifest: JsonObject,
    inputs: Properties,
    manager: str,
    *,
    upsert: bool,
) -> Properties:
    """What Create would give, without a status. Raises ProviderError for what the server refuses.
    op None: no cluster.
    """
    if op is None or has_unknown(manifest):
        return inputs
    try:
        if upsert:
            live = objects.upsert(op, manifest, manager=manager, force=True, dry_run=True)
        else:
            live = objects.create(op, manifest, dry_run=True)
    except (NoSuchKind, Unreachable):
        return inputs
    except ApiError as e:
        # A namespace that this run makes, an object that is there already, credentials that may
        # only read.
        if e.status in (403, 404) or (e.status == 409 and e.reason == "AlreadyExists"):
            return inputs
        raise ProviderError(texts.not_created(urn, e)) from e
    live.pop("status", None)
    return state.outputs_of(
        live, manifest, inputs, initial_api_version=str(manifest["apiVersion"]), manager=manager
    )


def update(
    op: Operation | None,
    urn: str,
    id: str,
    manifest: JsonObject,
    news: Properties,
    manager: str,
    initial_api_version: str,
    *,
    force: bool,
) -> Properties:
    """What Update would give. Raises ProviderError for what the server refuses. op None: no
    cluster.
    """
    if op is None or has_unknown(manifest):
        return news
    try:
        live = objects.update(op, manifest, manager=manager, force=force, dry_run=True)
    except Gone as e:
        raise ProviderError(texts.gone(urn, e)) from e
    except (NoSuchKind, Unreachable):
        return news
    except ApiError as e:
        if e.status in (403, 404):
            return news
        refused = Conflict(e.message, {}) if objects.is_conflict(e) else Refused(e.message, {})
        raise ProviderError(texts.not_live(id, texts.refusal(refused, manager))) from e
    initial = initial_api_version or str(manifest["apiVersion"])
    return state.outputs_of(live, manifest, news, initial_api_version=initial, manager=manager)
