"""Credentials of a kubeconfig's context: a certificate, a token, or an exec plugin's answer."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from slicewright.kubeapi.client import Credentials, JsonObject
from slicewright.kubeapi.kubeconfig import BadKubeconfig, Context

_RENEW_BEFORE: Final = timedelta(seconds=10)


class NoCredentials(Exception):
    """The exec plugin failed. Its stderr is not shown: it may hold credentials."""


class NoPlugin(Exception):
    """The plugin's program is not installed."""


@dataclass(frozen=True, kw_only=True)
class PluginOutput:
    code: int
    """The exit code."""
    stdout: bytes


RunPlugin = Callable[[Sequence[str], Mapping[str, str]], PluginOutput]
"""Runs a plugin with its arguments and environment. Raises NoPlugin and NoCredentials."""


class CredentialSource:
    """The credentials of one context, renewed when they expire. Thread-safe."""

    def __init__(self, context: Context, run_plugin: RunPlugin) -> None:
        self._context = context
        self._run_plugin = run_plugin
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

    def _plugin_status(self, plugin: Mapping[str, Any]) -> JsonObject:
        command = plugin.get("command")
        argv, environment = _arguments(plugin, self._context), _environment(plugin, self._context)
        try:
            output = self._run_plugin(argv, environment)
        except NoPlugin as e:
            hint = f"\n\n{plugin['installHint']}" if plugin.get("installHint") else ""
            raise NoCredentials(
                f"getting credentials: exec: executable {command} not found{hint}"
            ) from e
        if output.code:
            raise NoCredentials(
                f"getting credentials: exec: executable {command} failed with exit code "
                f"{output.code}"
            )
        return _status(output.stdout, plugin)

    def _obtain(self) -> tuple[Credentials, datetime | None]:
        context, user = self._context, self._context.user
        if context.cluster.get("insecure-skip-tls-verify"):
            raise BadKubeconfig(
                "insecure-skip-tls-verify is not supported here; set certificate-authority-data in "
                "the kubeconfig"
            )
        if isinstance(plugin := user.get("exec"), dict):
            status = self._plugin_status(plugin)
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
        for key in ("token", "tokenFile"):
            if not isinstance(user.get(key), str | None):
                raise BadKubeconfig(f"{key} of the user must be text; put it in quotes")
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


def _environment(plugin: Mapping[str, Any], context: Context) -> Mapping[str, str]:
    info: JsonObject = {
        "apiVersion": str(plugin.get("apiVersion")),
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    if plugin.get("provideClusterInfo"):
        info["spec"]["cluster"] = _cluster_info(context, context.ca_pem())
    variables = {}
    for entry in plugin.get("env") or []:
        if not isinstance(entry, dict) or not {"name", "value"} <= entry.keys():
            raise BadKubeconfig("exec.env must be a list of objects with name and value")
        variables[str(entry["name"])] = str(entry["value"])
    return {**os.environ, "KUBERNETES_EXEC_INFO": json.dumps(info), **variables}


def _arguments(plugin: Mapping[str, Any], context: Context) -> Sequence[str]:
    command, arguments = plugin.get("command"), plugin.get("args") or []
    if not isinstance(command, str) or not command:
        raise BadKubeconfig("exec.command must be the name of a program")
    if not isinstance(arguments, list):
        raise BadKubeconfig("exec.args must be a list")
    # A command with a slash is relative to the kubeconfig's directory; others are found on PATH.
    program = str(context.directory / command) if "/" in command else command
    return [program, *map(str, arguments)]


def _status(output: bytes, plugin: Mapping[str, Any]) -> JsonObject:
    """The checked status of an ExecCredential. Raises NoCredentials, which quotes nothing."""
    try:
        answer = json.loads(output)
        status = answer["status"]
    except (ValueError, KeyError, TypeError, RecursionError):
        status = None
    if not isinstance(status, dict):
        raise NoCredentials(
            f"getting credentials: decoding stdout: {plugin.get('command')} did not answer with an "
            "ExecCredential"
        )
    if answer.get("apiVersion") != plugin.get("apiVersion"):
        raise NoCredentials(
            "getting credentials: exec plugin is configured to use API version "
            f"{plugin.get('apiVersion')}, plugin returned version {answer.get('apiVersion')}"
        )
    for key in ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp"):
        if not isinstance(status.get(key), str | None):
            raise NoCredentials(
                f"getting credentials: exec plugin returned a {key} that is no text"
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
    """Raises NoCredentials."""
    try:
        moment = datetime.fromisoformat(text) if text else None
    except ValueError:
        moment = None
    if text and (moment is None or moment.tzinfo is None):
        raise NoCredentials(
            "getting credentials: exec plugin returned an expirationTimestamp that is not a time "
            "with a time zone"
        )
    return moment
