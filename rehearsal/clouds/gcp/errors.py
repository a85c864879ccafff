"""Refusals as Google returns them."""

from __future__ import annotations

from collections.abc import Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fault_file import ApiError, BackgroundUpdate, Throttling

# google.rpc.Code for each HTTP code in use (googleapis/googleapis, google/rpc/code.proto).
_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
}


class GoogleError(CloudError):
    """A refusal with `details`: messages of google/rpc/error_details.proto, each with its @type."""

    def __init__(
        self, code: int, status: str, message: str, details: Sequence[JsonObject] = ()
    ) -> None:
        super().__init__(code, status, message)
        self.details = tuple(details)


def status_of(code: int) -> str:
    """The name of the google.rpc.Code that belongs to an HTTP code."""
    return _STATUS.get(code, "UNKNOWN")


def google_error(
    code: int, message: str, *, status: str | None = None, details: Sequence[JsonObject] = ()
) -> CloudError:
    return GoogleError(code, status or status_of(code), message, details)


def injected_error(service: str, fault: ApiError | BackgroundUpdate | Throttling) -> CloudError:
    match fault:
        case ApiError():
            message = fault.message or f"injected by faults.json: {fault.method}"
            return google_error(fault.code, message, status=fault.status)
        case Throttling():
            return google_error(
                429,
                f"Quota exceeded for quota metric 'Requests' and limit 'Requests per minute' of "
                f"service '{service}.googleapis.com' for consumer 'project_number:1'.",
            )
        case BackgroundUpdate():
            return running_operation("operation-1645457290541-fe4c1eec")


def running_operation(name: str) -> CloudError:
    """As GKE refuses a change while another one runs (hashicorp/terraform-provider-google #11065).

    The HTTP code is 400, the status FAILED_PRECONDITION; Google's providers retry it.
    """
    return google_error(
        400, f"Cluster is running incompatible operation {name}.", status="FAILED_PRECONDITION"
    )
