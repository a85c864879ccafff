"""Refusals as AWS returns them."""

from __future__ import annotations

from rehearsal.clouds.core.errors import CloudError
from rehearsal.clouds.core.faults import ApiFault


def aws_error(name: str, message: str, *, code: int = 400) -> CloudError:
    return CloudError(code, name, message)


def injected_error(fault: ApiFault) -> CloudError:
    default = "ThrottlingException" if fault.code == 429 else "InternalFailure"
    return aws_error(fault.status or default, fault.message, code=fault.code)
