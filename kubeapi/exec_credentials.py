"""Credentials of a kubeconfig's context: a certificate, a token, or an exec plugin's answer."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from slicewright.kubeapi.client import Credentials, JsonObject
from slicewright.kubeapi.kubeconfig import BadKubeconfig, Context

_EXEC_TIMEOUT_S: Final = 60.0
_RENEW_BEFORE: Final = timedelta(seconds=10)


class NoCredentials(Exception):
    """The exec plugin failed. Its stderr is not shown: it may hold credentials."""


class CredentialSource:
    """The credentials of one context, renewed when they expire. Thread-safe."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._credentials: Credentials | None = None
        self._expires: datetime | None = None

    @property
    def renewable(self) -> bool:
        """Whether new credentials can be obtained."""
        return "exec" in self._context.user

    def current(self) -> Credentials:
        """The same object until it expires. Raises BadKubeconfig, NoCredentials."""
        with self._lock:
            if self._credentials is None or (
                self._expires is not None and datetime.now(UTC) >= self._expires - _RENEW_BEFORE
            ):
                self._credentials, self._expires = self._obtain()
            return self._credentials

    def reject(self, refused: Credentials) -> None:
        """Discards credentials that got a 401: the next `current` obtains new ones."""
        with self._lock:
            if self._credentials is refused:
                self._credentials = None

    def _obtain(self) -> tuple[Credentials, datetime | None]:
        context, user = self._context, self._context.user
        if context.cluster.get("insecure-skip-tls-verify"):
            raise BadKubeconfig(
                "insecure-skip-tls-verify is not supported here; set certificate-authority-data in "
                "the kubeconfig"
            )
        if isinstance(plugin := user.get("exec"), dict):
            status = _run_plugin(plugin, context)
            certificate = status.get("clientCertificateData"), status.get("clientKeyData")
            return (
                Credentials(
                    server=context.server,
                    ca_data=context.ca_pem(),
                    token=status.get("token"),
                    client_cert=(certificate[0].encode(), certificate[1].encode())
                    if certificate[0] and certificate[1]
                    else None,
                ),
                _time(status.get("expirationTimestamp")),
            )
        certificate_pem, key_pem = (
            context.data(user, "client-certificate"),
            context.data(user, "client-key"),
        )
        return (
            Credentials(
                server=context.server,
                ca_data=context.ca_pem(),
                token=user.get("token"),
                token_file=Path(user["tokenFile"]).expanduser() if user.get("tokenFile") else None,
                client_cert=(certificate_pem, key_pem) if certificate_pem and key_pem else None,
            ),
            None,
        )


def _run_plugin(plugin: Mapping[str, Any], context: Context) -> JsonObject:
    command = str(plugin.get("command"))
    api_version = str(plugin.get("apiVersion"))
    info: JsonObject = {
        "apiVersion": api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    if plugin.get("provideClusterInfo"):
        ca_pem = context.ca_pem()
        info["spec"]["cluster"] = _cluster_info(context, ca_pem)
    environment = {**os.environ, "KUBERNETES_EXEC_INFO": json.dumps(info)}
    environment |= {str(entry["name"]): str(entry["value"]) for entry in plugin.get("env") or []}
    # A command with a slash is relative to the kubeconfig's directory; others are found on PATH.
    argv = [
        str(context.directory / command) if "/" in command else command,
        *map(str, plugin.get("args") or []),
    ]
    try:
        result = subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_EXEC_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as e:
        hint = f"\n\n{plugin['installHint']}" if plugin.get("installHint") else ""
        raise NoCredentials(
            f"getting credentials: exec: executable {command} not found{hint}"
        ) from e
    except (OSError, subprocess.TimeoutExpired) as e:
        raise NoCredentials(f"getting credentials: exec: {e}") from e
    if result.returncode != 0:
        raise NoCredentials(
            f"getting credentials: exec: executable {command} failed with exit code "
            f"{result.returncode}"
        )
    try:
        answer = json.loads(result.stdout)
        status: JsonObject = answer["status"]
    except (ValueError, KeyError, TypeError) as e:
        raise NoCredentials(
            f"getting credentials: decoding stdout: {command} did not answer with an ExecCredential"
        ) from e
    if answer.get("apiVersion") != api_version:
        raise NoCredentials(
            f"getting credentials: exec plugin is configured to use API version {api_version}, "
            f"plugin returned version {answer.get('apiVersion')}"
        )
    if not status.get("token") and not status.get("clientCertificateData"):
        raise NoCredentials(
            "getting credentials: exec plugin didn't return a token or cert/key pair"
        )
    return status


def _cluster_info(context: Context, ca_pem: bytes | None) -> JsonObject:
    cluster: JsonObject = {"server": context.server}
    if ca_pem is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    if name := context.cluster.get("tls-server-name"):
        cluster["tls-server-name"] = name
    for extension in context.cluster.get("extensions") or []:
        if extension.get("name") == "client.authentication.k8s.io/exec":
            cluster["config"] = extension.get("extension")
    return cluster


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
