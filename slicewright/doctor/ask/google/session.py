"""Sends requests to Google's REST APIs with the caller's credentials, and explains refusals."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

import urllib3

from slicewright.doctor.ask.http_pool import pool
from slicewright.doctor.findings import Answer, CannotAsk, NotAnswered
from slicewright.kubeapi import JsonObject
from slicewright.processes.foreign_json import NotReadable, read_json
from slicewright.processes.waits import announced

_ENDPOINTS: Final[Mapping[str, tuple[str, str]]] = {
    "cloudkms": ("GOOGLE_KMS_CUSTOM_ENDPOINT", "https://cloudkms.googleapis.com/v1/"),
    "cloudresourcemanager": (
        "GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT",
        "https://cloudresourcemanager.googleapis.com/v1/",
    ),
    "compute": ("GOOGLE_COMPUTE_CUSTOM_ENDPOINT", "https://compute.googleapis.com/compute/v1/"),
    "container": ("GOOGLE_CONTAINER_CUSTOM_ENDPOINT", "https://container.googleapis.com/v1/"),
    "iam": ("GOOGLE_IAM_CUSTOM_ENDPOINT", "https://iam.googleapis.com/v1/"),
    "orgpolicy": ("GOOGLE_ORG_POLICY_CUSTOM_ENDPOINT", "https://orgpolicy.googleapis.com/v2/"),
    "serviceusage": (
        "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT",
        "https://serviceusage.googleapis.com/v1/",
    ),
    "storage": ("GOOGLE_STORAGE_CUSTOM_ENDPOINT", "https://storage.googleapis.com/storage/v1/"),
}
"""API -> the environment variable of terraform-provider-google, which Pulumi's provider obeys, too,
and the default endpoint.
"""
_LOGIN = "run `gcloud auth application-default login`"
SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
"""Compute Engine, GKE and IAM accept no narrower scope for all their APIs, not even for reading.
The rights of the token's account limit its use.
"""
_TIMEOUT = urllib3.Timeout(connect=10, read=30)
_RETRIES = urllib3.Retry(
    3,
    # The POST requests sent here change nothing. A repeated DELETE is harmless.
    allowed_methods=["DELETE", "GET", "POST"],
    status_forcelist=[429, 502, 503, 504],
    backoff_factor=0.5,
    # A server may ask for a delay of hours.
    respect_retry_after_header=False,
)
_TOKENS = "https://oauth2.googleapis.com/token"


class GoogleSession:
    """A session in one project. Raises CannotAsk if there are no credentials."""

    def __init__(self, project: str) -> None:
        self.project = project
        self._token = access_token()
        self.apis: Answer[Mapping[str, bool]] = {}

    def get(
        self,
        service: str,
        path: str,
        right: str,
        *,
        project: str | None = None,
        body: JsonObject | None = None,
    ) -> Any:
        """Returns the answer, or None if the thing does not exist. Raises CannotAsk for a wrong
        token.

        right: the IAM permission that the question needs. project: another project than the
        stack's. body: the body, for questions that Google requires as a POST.
        """
        method = "GET" if body is None else "POST"
        return self._request(method, service, path, right, project=project, body=body)

    def download(self, service: str, path: str, right: str) -> Any:
        """Downloads bytes, otherwise like `get`."""
        return self._request("GET", service, path, right, as_bytes=True)

    def delete(self, service: str, path: str, right: str) -> Any:
        """Deletes, otherwise like `get`. The answer is an operation, which may end later."""
        return self._request("DELETE", service, path, right)

    def _request(
        self,
        method: str,
        service: str,
        path: str,
        right: str,
        *,
        project: str | None = None,
        body: JsonObject | None = None,
        as_bytes: bool = False,
    ) -> Any:
        if isinstance(self.apis, Mapping) and self.apis.get(service) is False:
            return NotAnswered(why=f"{service}.googleapis.com is off")
        variable, default = _ENDPOINTS[service]
        url = f"{(os.environ.get(variable) or default).rstrip('/')}/{path}"
        address = url.partition("?")[0]
        try:
            with announced(f"waiting for {address}"):
                answer = pool(url).request(
                    method,
                    url,
                    json=body,
                    headers={"authorization": f"Bearer {self._token}"},
                    timeout=_TIMEOUT,
                    retries=_RETRIES,
                )
        except urllib3.exceptions.HTTPError as e:
            raise CannotAsk(f"{address} cannot be reached: {e}") from None
        match answer.status:
            case 404:
                return None
            case 204:
                return {}
            case 200:
                return answer.data if as_bytes else _parsed(answer.data, address)
            case 401:
                message = _error_message(answer.data)
                raise CannotAsk(f"Google refuses the credentials ({message}); {_LOGIN}")
            case _:
                return self._refusal(answer, service, right, project or self.project)

    def _refusal(
        self, answer: urllib3.BaseHTTPResponse, service: str, right: str, project: str
    ) -> NotAnswered:
        message = _error_message(answer.data)
        if answer.status != 403:
            return NotAnswered(why=f"HTTP {answer.status}: {message}")
        if b"SERVICE_DISABLED" in answer.data:
            return NotAnswered(
                why=f"{service}.googleapis.com is off",
                remedy=f"gcloud services enable {service}.googleapis.com --project {self.project}",
            )
        return NotAnswered(
            why=f"the right {right} is missing ({message})",
            remedy=f"ask an administrator of project {project} to grant {right}",
        )


def _parsed(body: bytes, address: str) -> Any:
    try:
        return read_json(body, "an answer")
    except NotReadable:
        raise CannotAsk(
            f"{address} does not answer with JSON; is a proxy between here and Google?"
        ) from None


def access_token() -> str:
    """Returns an access token, searched for like terraform-provider-google and gcloud do.

    Raises CannotAsk.
    """
    if token := os.environ.get("GOOGLE_OAUTH_ACCESS_TOKEN"):
        return token
    try:
        import google.auth
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.urllib3 import Request
    except ImportError:
        raise CannotAsk(
            "checks in Google Cloud require google-auth; install it next to slicewright: pip "
            "install "
            "google-auth, or set GOOGLE_OAUTH_ACCESS_TOKEN=$(gcloud auth print-access-token)"
        ) from None
    try:
        credentials: Any = google.auth.default(scopes=[SCOPE])[0]
        # The transports of google-auth have no types.
        http = Request(pool(_TOKENS))  # type: ignore[no-untyped-call]
        credentials.refresh(http)
    except GoogleAuthError as e:
        raise CannotAsk(f"no Google credentials can be used: {e}; {_LOGIN}") from None
    return str(credentials.token)


def _error_message(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return body[:200].decode(errors="replace")
