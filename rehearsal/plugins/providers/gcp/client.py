"""Calls of Google's APIs through google-api-python-client, at the endpoints that are configured.

Configured as the official provider is: by GOOGLE_CONTAINER_CUSTOM_ENDPOINT and the like, and by
GOOGLE_OAUTH_ACCESS_TOKEN. Source: terraform-provider-google, "Google Provider Configuration
Reference".
"""

from __future__ import annotations

import copy
import http.client
import json
import re
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.client import CloudUnreachable
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp import models
from slicewright.rehearsal.clouds.gcp.errors import status_of
from slicewright.rehearsal.clouds.gcp.rest.endpoints import (
    TERRAFORM_VARIABLES,
    service_path,
    version,
)
from slicewright.rehearsal.plugins.bridge.variables import values_of

TOKEN_VARIABLE = "GOOGLE_OAUTH_ACCESS_TOKEN"  # noqa: S105 - its name

# Reasons of Compute's errors, which have no status, that are not the status in camelCase.
_STATUS = {
    "invalid": "INVALID_ARGUMENT",
    "forbidden": "PERMISSION_DENIED",
    "rateLimitExceeded": "RESOURCE_EXHAUSTED",
    "backendError": "UNAVAILABLE",
    "internalError": "INTERNAL",
}
# These the official provider tells from others of their status, to try again
# (terraform-provider-google, transport/error_retry_predicates.go).
_MORE_EXACT = frozenset({"operationInProgress", "resourceNotReady"})


def connect() -> GoogleClient:
    """The client that this process's variables configure. Raises CloudUnreachable without them."""
    *urls, token = values_of((*TERRAFORM_VARIABLES.values(), TOKEN_VARIABLE), provider="gcp")
    return _client(tuple(zip(TERRAFORM_VARIABLES, urls, strict=True)), token)


# A process has one; one kept of each would fill the memory of a test run with models.
@lru_cache(maxsize=1)
def _client(endpoints: tuple[tuple[str, str], ...], token: str) -> GoogleClient:
    return GoogleClient(dict(endpoints), token)


class GoogleClient:
    """Threads may share it. A service's discovery document is read at its first call, and methods
    are made as they are called.
    """

    def __init__(
        self, endpoints: Mapping[str, str], token: str, *, timeout_s: float = 60.0
    ) -> None:
        """endpoints: service -> URL with the version, as the official provider requires it."""
        self._endpoints = endpoints
        self._http = _Http(token, timeout_s)
        self._methods: dict[tuple[str, str], Callable[..., Any]] = {}
        self._lock = threading.Lock()

    def call(
        self,
        service: str,
        method: str,
        params: JsonObject | None = None,
        body: JsonObject | None = None,
    ) -> JsonObject:
        """The answer of a method such as `projects.locations.clusters.get`.

        Raises CloudError when the API refuses or the connection breaks, CloudUnreachable when
        nothing answers.
        """
        from googleapiclient.errors import HttpError

        arguments = {**(params or {}), **({"body": body} if body else {})}
        try:
            request = self._method(service, method)(**arguments)
            answer: JsonObject = request.execute(num_retries=0)
        except HttpError as e:
            raise _refusal(e.status_code, e.content) from e
        except TypeError as e:
            # The client's own check of parameters, before anything is sent.
            raise CloudError(400, status_of(400), str(e)) from e
        return answer

    def _method(self, service: str, method: str) -> Callable[..., Any]:
        key = (service, method)
        with self._lock:
            if key not in self._methods:
                self._methods[key] = self._new(service, method)
            return self._methods[key]

    def _new(self, service: str, method: str) -> Callable[..., Any]:
        # Imported late: it takes 0.25 s of CPU, and most runs of a plugin call nothing.
        from googleapiclient.discovery import build_from_document

        base = self._endpoints[service]
        if not service_path(service):
            # google-api-python-client appends the version, the official provider does not.
            base = base.removesuffix(f"{version(service)}/")
        node: Any = build_from_document(
            _only(method, models.document(service)),
            http=self._http,
            client_options={"api_endpoint": base},
        )
        *collections, name = method.split(".")
        for collection in collections:
            node = getattr(node, collection)()
        resource: Callable[..., Any] = getattr(node, name)
        return resource


def _only(method: str, document: JsonObject) -> JsonObject:
    """The discovery document with no other method than one.

    google-api-python-client makes every method of a collection when it is asked for one, each with
    the text of its help: 20 ms of processor time for those of a cluster.
    """
    *collections, name = method.split(".")
    node = document
    for collection in collections:
        node = node["resources"][collection]
    # The client writes its own parameters into what it is given.
    inner: JsonObject = {"methods": {name: copy.deepcopy(node["methods"][name])}}
    for collection in reversed(collections):
        inner = {"resources": {collection: inner}}
    return {**document, "methods": {}, "resources": {}} | inner


class _Answer(dict[str, str]):
    """What googleapiclient reads of an httplib2.Response: a dictionary of headers with a status."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        super().__init__((name.lower(), value) for name, value in answer.getheaders())
        self.status = answer.status
        self.reason = answer.reason


class _Http:
    """What googleapiclient needs of an httplib2.Http, with a connection per request.

    httplib2 sends a request again, a POST as well, when the server closes the connection; the
    official provider decides that by the error.
    """

    def __init__(self, token: str, timeout_s: float) -> None:
        self._token = token
        self._timeout_s = timeout_s

    def request(
        self,
        uri: str,
        method: str = "GET",
        body: str | bytes | None = None,
        headers: Mapping[str, str] | None = None,
        **_: Any,
    ) -> tuple[_Answer, bytes]:
        """Raises CloudUnreachable; CloudError 503 when the connection breaks before the answer."""
        url = urlsplit(uri)
        connection = http.client.HTTPConnection(str(url.netloc), timeout=self._timeout_s)
        try:
            connection.connect()
        except OSError as e:
            raise CloudUnreachable(
                f"no simulated cloud answers on {url.netloc} ({e}); is the rehearsal running?"
            ) from e
        sent = {**(headers or {}), "Authorization": f"Bearer {self._token}", "Connection": "close"}
        try:
            connection.request(method, f"{url.path}?{url.query}", body, sent)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as e:
            raise CloudError(503, status_of(503), f"{method} {uri}: {e or type(e).__name__}") from e
        finally:
            connection.close()
        return _Answer(answer), content

    def close(self) -> None:
        """Nothing stays open."""


def _refusal(code: int, content: bytes) -> CloudError:
    try:
        error = json.loads(content)["error"]
        message = str(error["message"])
    except (ValueError, KeyError, TypeError):
        # Google answers a URL that it does not know with a page.
        return CloudError(code, status_of(code), content.decode(errors="replace").strip())
    reasons = [str(item.get("reason", "")) for item in error.get("errors", ())]
    status = error.get("status")
    if reasons and (status is None or reasons[0] in _MORE_EXACT):
        status = _status(reasons[0])
    return CloudError(code, str(status or status_of(code)), message)


def _status(reason: str) -> str:
    """alreadyExists -> ALREADY_EXISTS"""
    return _STATUS.get(reason) or re.sub(r"(?<!^)(?=[A-Z])", "_", reason).upper()
