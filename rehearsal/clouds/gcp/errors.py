"""Refusals as Google returns them."""

from __future__ import annotations

from rehearsal.clouds.core.errors import CloudError
from rehearsal.clouds.core.fault_file import ApiError, BackgroundUpdate, Throttling

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
