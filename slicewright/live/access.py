"""Chooses the cluster and the credentials in the same way as kubectl."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slicewright.kubeapi import ApiError, Client, Unreachable
from slicewright.kubeapi.client import Credentials
from slicewright.kubeapi.exec_credentials import CredentialSource, NoCredentials
from slicewright.kubeapi.kubeconfig import BadKubeconfig, Context, context_of
from slicewright.processes.credential_plugins import run_plugin
from slicewright.processes.foreign_files import NotAFile, read_text
from slicewright.processes.waits import announced
from slicewright.telemetry.plain import shortened

_SECTIONS = ("contexts", "clusters", "users")
_FILES_OF: Mapping[str, tuple[str, ...]] = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
"""Keys of an entry that name files."""
_USER_AGENT = "slicewright"
_TIMEOUT_S = 30.0
_LARGEST = 16 * 2**20
"""The limit of a kubeconfig in bytes."""
_LONGEST = 1000
"""Longest message of an API server that is shown, in characters."""


class NoCluster(Exception):
    """No cluster can be reached; the message gives the reason and the remedy."""


class _Unreadable(Exception):
    """A kubeconfig file does not exist, or cannot be read."""


class NotAKubeconfig(NoCluster):
    """The named file is not a kubeconfig, or lacks the context; the user has to fix it."""


@dataclass
class Access:
    """A cluster that stays reachable after a token has expired."""

    context: Context
    _source: CredentialSource = field(init=False)
    _client: tuple[Credentials, Client] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._source = CredentialSource(self.context, run_plugin)

    def client(self) -> Client:
        """Returns a client with valid credentials. Raises NoCluster."""
        try:
            credentials = self._source.current()
            if self._client is None or self._client[0] is not credentials:
                self._client = (credentials, self._connect(credentials))
        except (BadKubeconfig, NoCredentials, ValueError, OSError) as e:
            raise NoCluster(f"context {self.context.name}: {e}") from None
        return self._client[1]

    def _connect(self, credentials: Credentials) -> Client:
        context = self.context
        wait = (
            f"waiting for context {context.name} ({context.server}), for up to {_TIMEOUT_S:.0f} s "
            "per request"
        )
        return Client(
            credentials,
            timeout_s=_TIMEOUT_S,
            user_agent=_USER_AGENT,
            waiting=lambda: announced(wait),
        )

    def refused(self) -> None:
        """Drops the credentials after a 401, if they are renewable; the next client renews them."""
        if self._client is not None and self._source.renewable:
            self._source.reject(self._client[0])


def access(kubeconfig: str | None, context: str | None) -> Access:
    """Returns the named context, else the current one. Raises NoCluster, and NotAKubeconfig.

    `kubeconfig` is a file, or `-` for stdin; None selects $KUBECONFIG, else ~/.kube/config.
    """
    other = "choose a context with --context, and its file with --kubeconfig or $KUBECONFIG"
    try:
        parsed = _read(kubeconfig)
    except _Unreadable as e:
        raise NoCluster(f"{e}; {other}") from None
    except BadKubeconfig as e:
        raise NotAKubeconfig(f"{e}; {other}") from None
    try:
        return Access(context_of(parsed, Path("/"), context=context))
    except BadKubeconfig as e:
        raise NotAKubeconfig(f"{e}; {other}") from None


def error_message(error: ApiError | Unreachable, access: Access) -> str:
    """Returns a message for an error of the API server."""
    where = f"context {access.context.name} ({access.context.server})"
    if isinstance(error, Unreachable):
        return f"{where} does not answer: {shortened(str(error), _LONGEST)}"
    if error.status == 401:
        return f"{where} does not accept the credentials; renew them, for example by logging in"
    return f"{where}: HTTP {error.status}: {shortened(error.message, _LONGEST)}"


def merged(configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merges the files of $KUBECONFIG as kubectl does: the first entry of a name wins, and so does
    the first current context.
    """
    result: dict[str, Any] = {section: [] for section in _SECTIONS}
    for config in configs:
        if "current-context" not in result and config.get("current-context"):
            result["current-context"] = config["current-context"]
        for section in _SECTIONS:
            entries = config.get(section)
            names = {entry.get("name") for entry in result[section]}
            result[section] += [
                entry
                for entry in (entries if isinstance(entries, list) else ())
                if isinstance(entry, dict) and entry.get("name") not in names
            ]
    return result


def absolute(config: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Returns the config with absolute file names; relative names are relative to `directory`."""
    result = dict(config)
    for section, keys in _FILES_OF.items():
        entries = config.get(section)
        result[section] = [
            {**entry, section[:-1]: _with_paths(entry.get(section[:-1]), keys, directory)}
            for entry in (entries if isinstance(entries, list) else ())
            if isinstance(entry, dict)
        ]
    return result


def _with_paths(body: Any, keys: Sequence[str], directory: Path) -> Any:
    if not isinstance(body, dict):
        return body
    named: dict[str, Any] = {
        key: str(directory / Path(str(body[key])).expanduser()) for key in keys if key in body
    }
    plugin = body.get("exec")
    if isinstance(plugin, dict) and "/" in str(plugin.get("command")):
        named["exec"] = {**plugin, "command": str(directory / str(plugin["command"]))}
    return {**body, **named}


def _read(kubeconfig: str | None) -> dict[str, Any]:
    if kubeconfig == "-":
        try:
            return absolute(_parsed(read_text("-", largest=_LARGEST), "stdin"), Path.cwd())
        except NotAFile as e:
            raise _Unreadable(f"stdin: {e}") from None
    if kubeconfig is not None:
        return _file(Path(kubeconfig).expanduser())
    named = [
        Path(name).expanduser()
        for name in os.environ.get("KUBECONFIG", "").split(os.pathsep)
        if name
    ] or [Path.home() / ".kube" / "config"]
    # As with kubectl, some files of the list may be missing.
    existing = [file for file in named if file.exists()]
    if not existing:
        raise _Unreadable(f"kubeconfig does not exist: {', '.join(map(str, named))}")
    return merged([_file(file) for file in existing])


def _file(file: Path) -> dict[str, Any]:
    try:
        text = read_text(str(file), largest=_LARGEST)
    except NotAFile as e:
        raise _Unreadable(f"{file}: {e}") from None
    return absolute(_parsed(text, str(file)), file.absolute().parent)


def _parsed(text: str, name: str) -> dict[str, Any]:
    import yaml

    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as e:
        at = getattr(e, "problem_mark", None)
        # The error's text quotes the file, which may hold credentials, so it is left out.
        where = f", line {at.line + 1}" if at is not None else ""
        raise BadKubeconfig(f"{name}{where}: neither YAML nor JSON") from None
    except RecursionError:
        raise BadKubeconfig(f"{name}: nested too deeply") from None
    except ValueError:
        # For example a date of month 13; the error's text would quote the file.
        raise BadKubeconfig(f"{name}: a value in it cannot be read") from None
    if not isinstance(parsed, dict):
        raise BadKubeconfig(f"{name}: not a kubeconfig")
    return parsed
