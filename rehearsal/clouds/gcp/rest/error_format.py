"""Refusals in the JSON form of each Google API.

Compute Engine: a code, a message and `errors` with a reason of its own, without a status. The
others: the name of the google.rpc.Code as well, and details. Source: cloud.google.com/apis/design,
"Errors"; the Compute Engine API reference, "Error messages"; recorded answers in
GoogleCloudPlatform/k8s-config-connector.
"""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.errors import GoogleError, status_of

# The names of google.rpc.Code.
_CODES = frozenset(
    {
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
    }
)
# Those whose reason is not the status in camelCase.
_REASONS = {
    "INVALID_ARGUMENT": "badRequest",
    "PERMISSION_DENIED": "forbidden",
    "RESOURCE_EXHAUSTED": "rateLimitExceeded",
    "UNAUTHENTICATED": "authError",
    "UNIMPLEMENTED": "notImplemented",
    "INTERNAL": "backendError",
    "UNAVAILABLE": "backendError",
    "NOT_SIMULATED": "notImplemented",
}
_COMPUTE_REASONS = {"INVALID_ARGUMENT": "invalid", "INTERNAL": "internalError"}
_USAGE_LIMITS = frozenset({"rateLimitExceeded", "quotaExceeded", "accessNotConfigured"})


def error_body(service: str, error: CloudError, *, error_format: str = "1") -> JsonObject:
    """error_format: of the standard parameter $.xgafv."""
    status = error.reason if error.reason in _CODES else status_of(error.code)
    details = list(error.details) if isinstance(error, GoogleError) else []
    body: JsonObject = {"code": error.code, "message": error.message}
    if error_format != "2":
        body["errors"] = [_item(service, error, details)]
    if service != "compute" or error_format == "2" or details:
        body["status"] = status
    if details:
        body["details"] = details
    return {"error": body}


def _item(service: str, error: CloudError, details: list[JsonObject]) -> JsonObject:
    reason = _reason(service, error, details)
    domain = "usageLimits" if reason in _USAGE_LIMITS else "global"
    item: JsonObject = {"message": error.message, "domain": domain, "reason": reason}
    if error.code == 401:
        item |= {"location": "Authorization", "locationType": "header"}
    if reason == "accessNotConfigured":
        item["extendedHelp"] = "https://console.developers.google.com"
    return item


def _reason(service: str, error: CloudError, details: list[JsonObject]) -> str:
    info = {d.get("reason") for d in details if str(d.get("@type", "")).endswith("ErrorInfo")}
    if "SERVICE_DISABLED" in info:
        return "accessNotConfigured"
    if "CREDENTIALS_MISSING" in info:
        return "required"
    service_reasons = _COMPUTE_REASONS if service == "compute" else {}
    return service_reasons.get(error.reason) or _REASONS.get(error.reason) or _camel(error.reason)


def _camel(name: str) -> str:
    first, *rest = name.lower().split("_")
    return first + "".join(w.capitalize() for w in rest)
