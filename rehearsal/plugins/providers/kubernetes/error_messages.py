"""Error messages in the official provider's words, so that a web search finds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from slicewright.kubeapi import ApiError, JsonObject
from slicewright.rehearsal.plugins.providers.kubernetes.objects import Conflict, UpdateRefused

_CONFLICT_HELP: Final = (
    "https://www.pulumi.com/registry/packages/kubernetes/how-to-guides/managing-resources-with-server-side-apply/"
    "#handle-field-conflicts-on-existing-resources"
)


def created_but(urn: str) -> str:
    """The prefix of the reason why a new object is not ready."""
    return (
        f'resource "{urn}" was successfully created, but the Kubernetes API server '
        "reported that it failed to fully initialize "
        "or become live: "
    )


def not_live(object_id: str, why: str) -> str:
    """An existing object is not as requested."""
    return (
        f'the Kubernetes API server reported that "{object_id}" failed to fully initialize or '
        f"become live: {why}"
    )


def gone(urn: str, why: Exception) -> str:
    """The object to update does not exist."""
    return f'update of resource "{urn}" failed: {why}\nunable to get cluster state: {why}'


def reasons_with(prefix: str, reasons: Sequence[str]) -> list[str]:
    """The reasons of a partial failure; only the first carries the prefix."""
    return [prefix + reasons[0], *reasons[1:]]


def refusal(refused: UpdateRefused, manager: str) -> str:
    """The server's answer to an update, with help where another manager owns a field."""
    if not isinstance(refused, Conflict):
        return str(refused)
    return (
        f"server-side apply field conflict detected, see {_CONFLICT_HELP} for "
        "troubleshooting help\n"
        f'The resource managed by field manager "{manager}" had an apply conflict: {refused}'
    )


def no_such_kind(urn: str, manifest: JsonObject, error: Exception) -> str:
    """The server does not serve the new object's kind."""
    return (
        f'creation of resource "{urn}" with kind {manifest["apiVersion"]}/{manifest["kind"]} '
        "failed because the Kubernetes API server reported that the apiVersion for this resource "
        f"does not exist. Verify that any required CRDs have been created: {error}"
    )


def not_created(urn: str, error: Exception) -> str:
    """The server refused a new object."""
    text = f'resource "{urn}" was not successfully created by the Kubernetes API server: {error}'
    if isinstance(error, ApiError) and error.status == 409 and error.reason == "AlreadyExists":
        text += (
            "\nHints: adopt the object with `pulumi import` (or the resource option `import_`), "
            "delete it, give the resource another name, or set the provider's "
            "`upsert_existing_objects`"
        )
    return text
