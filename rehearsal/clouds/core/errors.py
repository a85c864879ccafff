"""How the clouds say no, in their own words and shapes."""

from __future__ import annotations

from typing import Any

_GOOGLE_STATUS = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


class CloudError(Exception):
    """A refused call: HTTP code, the cloud's name for the error (`NOT_FOUND`,
    `ResourceInUseException`), message for people.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message

    def body(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "status": self.reason, "message": self.message}}


def google_error(code: int, message: str, *, status: str | None = None) -> CloudError:
    return CloudError(code, status or _GOOGLE_STATUS.get(code, "UNKNOWN"), message)


def aws_error(name: str, message: str, *, code: int = 400) -> CloudError:
    return CloudError(code, name, message)
