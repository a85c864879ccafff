"""Refusals as AWS returns them."""

from __future__ import annotations

from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.fault_file import ApiError, BackgroundUpdate, Throttling


def aws_error(name: str, message: str, *, code: int = 400) -> CloudError:
    return CloudError(code, name, message)


# How each service says that there were too many calls: the error retry rules of botocore's
# data/_retry.json, and EC2's "Error codes for the Amazon EC2 API".
_THROTTLED = {
    "eks": ("ThrottlingException", 429, "Rate exceeded"),
    "ec2": ("RequestLimitExceeded", 503, "Request limit exceeded."),
    **dict.fromkeys(("aws-iam", "sts", "elb", "elbv2"), ("Throttling", 400, "Rate exceeded")),
}


def throttled(service: str) -> CloudError:
    name, code, message = _THROTTLED.get(service, ("ThrottlingException", 400, "Rate exceeded"))
    return aws_error(name, message, code=code)


def injected_error(service: str, fault: ApiError | BackgroundUpdate | Throttling) -> CloudError:
    match fault:
        case ApiError():
            default = "ThrottlingException" if fault.code == 429 else "InternalFailure"
            message = fault.message or f"injected by faults.json: {fault.method}"
            return aws_error(fault.status or default, message, code=fault.code)
        case Throttling():
            return throttled(service)
        case BackgroundUpdate():
            return aws_error(
                "ResourceInUseException",
                "Cannot perform the operation: the cluster currently has an update in progress",
                code=409,
            )
