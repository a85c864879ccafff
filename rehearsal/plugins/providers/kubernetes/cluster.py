"""Requests to one cluster, with credentials renewed, and its kinds with their API paths."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from slicewright.kubeapi import ApiError, Client, JsonObject, Unreachable
from slicewright.kubeapi.client import Credentials, PatchKind, path_of
from slicewright.kubeapi.exec_credentials import CredentialSource, NoCredentials
from slicewright.kubeapi.kubeconfig import BadKubeconfig, Context
from slicewright.processes.credential_plugins import run_plugin

T = TypeVar("T")


class NoSuchKind(Exception):
    """The server does not serve the kind (yet)."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(f'no matches for kind "{kind}" in version "{api_version}"')


@dataclass(frozen=True)
class ServedKind:
    """A kind that the server serves."""

    api_version: str
    plural: str
    namespaced: bool


class Cluster:
    """Thread-safe. Methods raise ApiError, and Unreachable without an answer or credentials."""

    def __init__(self, context: Context) -> None:
        self._source = CredentialSource(context, run_plugin)
        self._lock = threading.Lock()
        self._client: tuple[Credentials, Client] | None = None
        self._kinds: dict[tuple[str, str], ServedKind] = {}

    def probe(self) -> None:
        """Makes one small request. Raises Unreachable, also if the credentials are rejected."""
        try:
            self.get("/openapi/v3")
        except ApiError as e:
            raise Unreachable(e.message) from e

    def get(self, path: str, **query: str) -> JsonObject:
        return self._call(lambda client: client.get(path, **query))

    def create(self, path: str, body: JsonObject, **query: str) -> JsonObject:
        return self._call(lambda client: client.create(path, body, **query))

    def replace(self, path: str, body: JsonObject, **query: str) -> JsonObject:
        return self._call(lambda client: client.replace(path, body, **query))

    def patch(self, path: str, body: Any, *, kind: PatchKind, **query: str) -> JsonObject:
        return self._call(lambda client: client.patch(path, body, kind=kind, **query))

    def delete(self, path: str, body: JsonObject) -> JsonObject:
        return self._call(lambda client: client.delete(path, body))

    def stream(self, path: str, *, timeout_s: float, **query: str) -> Iterator[bytes]:
        """Lines of a watch."""
        yield from self._current().stream(path, timeout_s=timeout_s, **query)

    def served_kind(self, api_version: str, kind: str) -> ServedKind:
        """Raises NoSuchKind. Only hits are cached, because a CRD may be installed later."""
        with self._lock:
            cached = self._kinds.get((api_version, kind))
        if cached is not None:
            return cached
        try:
            listed = self.get(path_of(api_version, "").rstrip("/"))
        except ApiError as e:
            if e.status == 404:
                raise NoSuchKind(api_version, kind) from e
            raise
        kinds = {
            (api_version, entry["kind"]): ServedKind(
                api_version, entry["name"], entry["namespaced"]
            )
            for entry in listed.get("resources") or []
            if "/" not in entry["name"]
        }
        with self._lock:
            self._kinds.update(kinds)
        if (api_version, kind) not in kinds:
            raise NoSuchKind(api_version, kind)
        return kinds[(api_version, kind)]

    def collection(self, manifest: JsonObject) -> str:
        """The path to POST the object to. Raises NoSuchKind."""
        served = self.served_kind(str(manifest["apiVersion"]), str(manifest["kind"]))
        return path_of(
            served.api_version, served.plural, namespace=self._namespace(served, manifest)
        )

    def path(self, manifest: JsonObject) -> str:
        """The object's own path. Raises NoSuchKind."""
        served = self.served_kind(str(manifest["apiVersion"]), str(manifest["kind"]))
        return path_of(
            served.api_version,
            served.plural,
            manifest["metadata"]["name"],
            self._namespace(served, manifest),
        )

    def _namespace(self, served: ServedKind, manifest: JsonObject) -> str | None:
        return manifest["metadata"].get("namespace") or "default" if served.namespaced else None

    def _current(self) -> Client:
        try:
            credentials = self._source.current()
        except (NoCredentials, BadKubeconfig) as e:
            raise Unreachable(str(e)) from e
        with self._lock:
            if self._client is None or self._client[0] is not credentials:
                try:
                    self._client = (
                        credentials,
                        Client(credentials, user_agent="pulumi-kubernetes (slicewright rehearsal)"),
                    )
                except (ValueError, OSError) as e:
                    raise Unreachable(f"the kubeconfig's certificates are invalid: {e}") from e
            return self._client[1]

    def _call(self, request: Callable[[Client], T]) -> T:
        client = self._current()
        try:
            return request(client)
        except ApiError as e:
            if e.status != 401 or not self._source.renewable:
                raise
        # A token may become invalid before it expires (clock skew, a rotated key): renew it once.
        with self._lock:
            if self._client is not None and self._client[1] is client:
                self._source.reject(self._client[0])
        return request(self._current())
