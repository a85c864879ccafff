"""Refusals as Google returns them."""

from __future__ import annotations

from rehearsal.clouds.core.errors import CloudError
from rehearsal.clouds.core.faults import ApiFault

# google.rpc.Code for each HTTP code in use (googleapis/googleapis, google/rpc/code.proto).
_STATUS = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def google_error(code: int, message: str, *, status: str | None = None) -> CloudError:
    return CloudError(code, status or _STATUS.get(code, "UNKNOWN"), message)


def injected_error(fault: ApiFault) -> CloudError:
    return google_error(fault.code, fault.message, status=fault.status)
