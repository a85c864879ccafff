"""google-api-python-client against the simulated Google Cloud, without a server between them."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httplib2
from googleapiclient.discovery import build, fix_method_name
from googleapiclient.errors import HttpError

from slicewright.rehearsal.clouds.core.http_messages import Call, Request, Response
from slicewright.rehearsal.clouds.gcp.rest.endpoints import client_endpoint, version
from slicewright.rehearsal.clouds.gcp.rest.protocol import GoogleRest

ADDRESS = "http://127.0.0.1:1"
TOKEN = "ya29.rehearsal"


class InProcess:
    """What googleapiclient needs of an httplib2.Http."""

    def __init__(self, rest: GoogleRest, token: str | None) -> None:
        self._rest = rest
        self._token = token

    def request(
        self,
        uri: str,
        method: str = "GET",
        body: str | bytes | None = None,
        headers: dict[str, str] | None = None,
        **_: Any,
    ) -> tuple[httplib2.Response, bytes]:
        sent = {k.lower(): v for k, v in (headers or {}).items()}
        if self._token is not None:
            sent["authorization"] = f"Bearer {self._token}"
        answer = send(self._rest, method, uri.removeprefix(ADDRESS), body, sent)
        status = {k.lower(): v for k, v in answer.headers.items()} | {"status": str(answer.status)}
        return httplib2.Response(status), answer.body

    def close(self) -> None:
        pass


def send(
    rest: GoogleRest,
    method: str,
    url: str,
    body: str | bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """url: path and query."""
    parts = urlsplit(url)
    data = body.encode() if isinstance(body, str) else body or b""
    request = Request(
        method=method, path=parts.path, query=parts.query, headers=headers or {}, body=data
    )
    assert rest.accepts(request)
    return rest.answer(request)


class Client:
    """The client that googleapiclient builds of its own discovery documents, and its HTTP."""

    def __init__(self, rest: GoogleRest, service: str, token: str | None) -> None:
        self._http = InProcess(rest, token)
        self._service = service

    def request(self, method: str, **arguments: Any) -> Any:
        """The HttpRequest of a method such as projects.locations.clusters.create."""
        return _method(self._service, method)(**arguments)

    def call(self, method: str, **arguments: Any) -> Any:
        return self.request(method, **arguments).execute(http=self._http, num_retries=0)


def client(call: Call, service: str, *, token: str | None = TOKEN) -> Client:
    return Client(GoogleRest(call, token=TOKEN), service, token)


@cache
def _method(service: str, method: str) -> Any:
    """The client makes all methods of a collection anew each time that one is asked for it."""
    *collections, name = map(fix_method_name, method.split("."))
    node = _built(service)
    for collection in collections:
        node = getattr(node, collection)()
    return getattr(node, name)


@cache
def _built(service: str) -> Any:
    return build(
        service,
        version(service),
        http=httplib2.Http(),
        static_discovery=True,
        client_options={"api_endpoint": client_endpoint(service, ADDRESS)},
    )


__all__ = ["ADDRESS", "TOKEN", "Client", "HttpError", "InProcess", "client", "send"]
