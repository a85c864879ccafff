"""Refused calls. Each cloud's own error names are in `aws.errors` and `gcp.errors`."""

from __future__ import annotations


class CloudError(Exception):
    """A refused call: HTTP code, the cloud's name for the error, and the message.

    The name is Google's status (`NOT_FOUND`) or AWS's exception (`ResourceInUseException`).
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message


class ConnectionLost(Exception):
    """The server closes the connection without an answer."""


def not_simulated(message: str) -> CloudError:
    """For calls that the real cloud has and the simulated one does not."""
    return CloudError(501, "NOT_SIMULATED", message)
