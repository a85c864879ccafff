"""HTTP client of one API server: parsed JSON, typed errors, one connection pool."""

from __future__ import annotations

import base64
import copy
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlencode

# Imported by the functions that create or use a client: together they are half of the modules that
# the agent loads, and on a host without a cluster it creates no client.
if TYPE_CHECKING:
    import ssl

    import urllib3

JsonObject = dict[str, Any]
PatchKind = Literal["merge", "strategic", "json", "apply"]

_PATCH_TYPES: Mapping[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_TOKEN = re.compile(r"[-A-Za-z0-9._~+/]+=*")
"""Source: RFC 6750, 2.1, b64token."""
_SECONDS = re.compile("[0-9]{1,9}")
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class ApiError(Exception):
    """An error answer: `status` is the HTTP code, `reason` the API's reason (`Conflict`, …)."""

    def __init__(
        self, status: int, body: JsonObject, *, retry_after_s: float | None = None
    ) -> None:
        self.status = status
        self.retry_after_s = retry_after_s
        """The value of the Retry-After header (429, 503), None without that header."""
        self.body = body
        self.reason = str(body.get("reason", ""))
        self.message = str(body.get("message", "")) or f"HTTP {status}"
        super().__init__(self.message)


class Unreachable(Exception):
    """The API server did not answer: the connection was refused, reset or timed out, its
    certificate is not trusted, credentials cannot be read, or another server answered.
    """


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Address and credentials of an API server. A file takes precedence over data.

    Files are read for every request, because the kubelet rotates them.
    """

    server: str
    ca_data: bytes | None = None
    ca_file: Path | None = None
    token_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    client_cert: tuple[bytes, bytes] | None = field(default=None, repr=False)
    """Certificate and key, PEM."""


class Client:
    """Thread-safe. Paths are API paths such as `/api/v1/nodes/x`.

    Every method raises ApiError or Unreachable.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        timeout_s: float = 30.0,
        user_agent: str = "slicewright",
        waiting: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """waiting: entered for each request until its answer begins."""
        self.server = credentials.server.rstrip("/")
        self._credentials = credentials
        self._timeout_s = timeout_s
        self._user_agent = user_agent
        self._waiting = waiting
        self._impersonated: Mapping[str, str] = {}
        self._lock = threading.Lock()
        self._trusted: bytes | None = credentials.ca_data
        """The CA of `_pool`."""
        self._pool = None if credentials.ca_file else _pool(credentials, credentials.ca_data)

    @classmethod
    def in_cluster(cls, *, timeout_s: float = 30.0, user_agent: str = "slicewright") -> Client:
        """Returns a client with the pod's service account. Raises Unreachable outside a pod."""
        host, port = (
            os.environ.get("KUBERNETES_SERVICE_HOST"),
            os.environ.get("KUBERNETES_SERVICE_PORT", "443"),
        )
        if not host or not (SERVICE_ACCOUNT / "token").exists():
            raise Unreachable(
                f"not in a pod: no KUBERNETES_SERVICE_HOST, or no token under {SERVICE_ACCOUNT}"
            )
        host = f"[{host}]" if ":" in host else host
        credentials = Credentials(
            server=f"https://{host}:{port}",
            ca_file=SERVICE_ACCOUNT / "ca.crt",
            token_file=SERVICE_ACCOUNT / "token",
        )
        return cls(credentials, timeout_s=timeout_s, user_agent=user_agent)

    @classmethod
    def from_kubeconfig(
        cls, path: Path, *, timeout_s: float = 30.0, user_agent: str = "slicewright"
    ) -> Client:
        """Uses the current context of a kubeconfig in JSON, with inline credentials only."""
        return cls(
            credentials_of(json.loads(path.read_text())), timeout_s=timeout_s, user_agent=user_agent
        )

    def acting_as(self, user: str, *, group: str | None = None) -> Client:
        """A client with the same connections that impersonates `user`: this client's user needs the
        right to impersonate it. Without a group the API server gives a service account the groups
        that it has. Source: kubernetes.io, "User Impersonation".
        """
        client = copy.copy(self)
        client._impersonated = {
            "Impersonate-User": user,
            **({"Impersonate-Group": group} if group else {}),
        }
        return client

    def get(self, path: str, **query: str) -> JsonObject:
        return self._request("GET", path, query)

    def create(self, path: str, body: JsonObject, **query: str) -> JsonObject:
        return self._request("POST", path, query, body)

    def replace(self, path: str, body: JsonObject, **query: str) -> JsonObject:
        return self._request("PUT", path, query, body)

    def patch(self, path: str, body: Any, *, kind: PatchKind = "merge", **query: str) -> JsonObject:
        return self._request("PATCH", path, query, body, content_type=_PATCH_TYPES[kind])

    def delete(self, path: str, body: JsonObject | None = None, **query: str) -> JsonObject:
        return self._request("DELETE", path, query, body)

    def stream(self, path: str, *, timeout_s: float, **query: str) -> Iterator[bytes]:
        """The lines of a streamed answer (watch, log), until it ends or is silent for timeout_s.

        The request is sent, and an error raised, by the call itself, not by the first line.
        """
        response = self._send(
            "GET", path, query, None, "application/json", read_timeout_s=timeout_s, preload=False
        )
        if response.status >= 400:
            # The whole text of the error, which may have several lines.
            raise _api_error(response, b"\n".join(self._lines(response)))
        return self._lines(response)

    def _lines(self, response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        from urllib3.exceptions import HTTPError

        try:
            pending = b""
            for chunk in response.stream(65536, decode_content=True):
                *lines, pending = (pending + chunk).split(b"\n")
                yield from lines
            if pending:
                yield pending
        except (HTTPError, OSError) as e:
            raise Unreachable(f"{self.server}: {e}") from e
        finally:
            response.close()

    def text(self, path: str, **query: str) -> str:
        """The text of an answer that is not JSON: a pod's log, /readyz."""
        response = self._send("GET", path, query, None, "application/json")
        if response.status >= 400:
            raise _api_error(response, response.data)
        return response.data.decode(errors="replace")

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        content_type: str = "application/json",
    ) -> JsonObject:
        response = self._send(method, path, query, body, content_type)
        if response.status >= 400:
            raise _api_error(response, response.data)
        try:
            parsed: JsonObject = json.loads(response.data)
        except ValueError as e:
            raise Unreachable(f"{self.server}: the answer is not JSON: {e}") from e
        except RecursionError:
            raise Unreachable(f"{self.server}: the answer is JSON nested too deeply") from None
        if not isinstance(parsed, dict):
            raise Unreachable(f"{self.server}: the answer is JSON but not an object")
        return parsed

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any,
        content_type: str,
        *,
        read_timeout_s: float | None = None,
        preload: bool = True,
    ) -> urllib3.BaseHTTPResponse:
        from urllib3 import Timeout
        from urllib3.exceptions import HTTPError

        headers = {
            "Accept": "application/json",
            "User-Agent": self._user_agent,
            **self._impersonated,
        }
        if token := self._current_token():
            headers["Authorization"] = self._bearer(token)
        data = None
        if body is not None:
            headers["Content-Type"] = content_type
            data = json.dumps(body).encode()
        url = f"{self.server}{path}" + (f"?{urlencode(query)}" if query else "")
        timeout = Timeout(connect=min(5.0, self._timeout_s), read=read_timeout_s or self._timeout_s)
        pool = self._current_pool()
        try:
            with self._waiting():
                return pool.request(
                    method,
                    url,
                    body=data,
                    headers=headers,
                    timeout=timeout,
                    preload_content=preload,
                    redirect=False,
                )
        except (HTTPError, OSError) as e:
            raise Unreachable(f"{self.server}: {e}") from e

    def _current_token(self) -> str | None:
        file = self._credentials.token_file
        if file is None:
            return self._credentials.token
        try:
            # As bytes: a reader of text takes twice as long, and this is done for every request.
            token = file.read_bytes().decode("ascii").strip()
        except OSError as e:
            raise Unreachable(f"{file}: {e.strerror or e}") from e
        except ValueError as e:
            raise Unreachable(f"{file}: is not a token: {type(e).__name__}") from e
        if not token:
            raise Unreachable(f"{file}: is empty")
        return token

    def _current_pool(self) -> urllib3.PoolManager:
        """Connections that trust the current CA. A changed CA file replaces the pool."""
        import ssl

        file = self._credentials.ca_file
        try:
            ca_data = file.read_bytes() if file else self._credentials.ca_data
        except OSError as e:
            raise Unreachable(f"{file}: {e.strerror or e}") from e
        with self._lock:
            if self._pool is None or ca_data != self._trusted:
                try:
                    # Without a certificate, the machine's authorities would be trusted.
                    if file and b"-----BEGIN CERTIFICATE-----" not in (ca_data or b""):
                        raise ValueError("no PEM block")
                    self._pool, self._trusted = _pool(self._credentials, ca_data), ca_data
                except (ValueError, ssl.SSLError) as e:
                    raise Unreachable(f"{file}: contains no certificate: {e}") from e
            return self._pool

    def _bearer(self, token: str) -> str:
        """The Authorization header. An http.client error about other characters would quote it."""
        if not _TOKEN.fullmatch(token):
            raise Unreachable(f"{self.server}: not contacted: the credential is not a token")
        return f"Bearer {token}"


def credentials_of(kubeconfig: JsonObject) -> Credentials:
    """The current context of a parsed kubeconfig. Raises KeyError or ValueError if incomplete."""
    contexts = {c["name"]: c["context"] for c in kubeconfig.get("contexts", [])}
    context = contexts.get(kubeconfig.get("current-context", ""))
    if context is None:
        raise ValueError(
            f"kubeconfig has no context {kubeconfig.get('current-context')!r}; it has "
            f"{sorted(contexts)}"
        )
    cluster = next(c["cluster"] for c in kubeconfig["clusters"] if c["name"] == context["cluster"])
    user = next(u["user"] for u in kubeconfig["users"] if u["name"] == context["user"])
    cert = user.get("client-certificate-data")
    return Credentials(
        server=cluster["server"],
        ca_data=base64.b64decode(cluster["certificate-authority-data"])
        if "certificate-authority-data" in cluster
        else None,
        token=user.get("token"),
        client_cert=(base64.b64decode(cert), base64.b64decode(user["client-key-data"]))
        if cert
        else None,
    )


def path_of(
    api_version: str, plural: str, name: str | None = None, namespace: str | None = None
) -> str:
    """The API path of a collection, or of one object in it, without a subresource."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    scope = f"/namespaces/{quote(namespace)}" if namespace else ""
    return f"{root}{scope}/{plural}" + (f"/{quote(name)}" if name else "")


def _pool(credentials: Credentials, ca_data: bytes | None) -> urllib3.PoolManager:
    import urllib3

    context = _ssl_context(credentials, ca_data)
    return urllib3.PoolManager(
        maxsize=16,
        block=False,
        retries=False,
        ssl_context=context,
        socket_options=_socket_options(),
    )


def _socket_options() -> list[tuple[int, int, int]]:
    """urllib3's options and TCP keep-alive probes after half a minute of silence. Without probes, a
    watch whose connection was dropped silently would seem open until its window ends. client-go
    probes as often. Source: k8s.io/client-go, transport/cache.go (net.Dialer, KeepAlive).
    """
    import socket

    from urllib3.connection import HTTPConnection

    options = [*HTTPConnection.default_socket_options, (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    # These are Linux's names. Systems without them use their default times.
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if (option := getattr(socket, name, None)) is not None:
            options.append((socket.IPPROTO_TCP, option, value))
    return options


def _ssl_context(credentials: Credentials, ca_data: bytes | None) -> ssl.SSLContext | None:
    if not credentials.server.startswith("https:"):
        return None
    import ssl

    context = ssl.create_default_context(cadata=ca_data.decode() if ca_data else None)
    if credentials.client_cert:
        import tempfile

        # The ssl module loads certificates from files only.
        with tempfile.NamedTemporaryFile() as pem:
            pem.write(credentials.client_cert[0] + b"\n" + credentials.client_cert[1])
            pem.flush()
            context.load_cert_chain(pem.name)
    return context


def _api_error(response: urllib3.BaseHTTPResponse, raw: bytes) -> ApiError:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = {}
    if not isinstance(body, dict) or "message" not in body:
        body = {"message": raw.decode(errors="replace").strip()[:500]}
    retry_after = response.headers.get("Retry-After", "")
    seconds = _SECONDS.fullmatch(retry_after)
    return ApiError(response.status, body, retry_after_s=float(retry_after) if seconds else None)
