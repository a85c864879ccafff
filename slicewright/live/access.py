"""Which cluster is asked, and with whose credentials: as kubectl decides it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubeapi import ApiError, Client, Unreachable
from kubeapi.client import Credentials
from kubeapi.exec_credentials import CredentialSource, NoCredentials
from kubeapi.kubeconfig import BadKubeconfig, Context, context_of
from telemetry.plain import shortened

_SECTIONS = ("contexts", "clusters", "users")
_FILES_OF: Mapping[str, tuple[str, ...]] = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
"""Keys of an entry that name files."""
_USER_AGENT = "slicewright"
_LONGEST = 1000
"""Of an API server's message, as it is shown."""


class NoCluster(Exception):
    """No cluster can be asked; the message says why, and what to do."""


class _Unreadable(Exception):
    """There is no such file, or it cannot be read."""


class NotAKubeconfig(NoCluster):
    """What was named as a kubeconfig is none, or has no such context: the user's to put right."""


@dataclass
class Access:
    """A cluster that can be asked for longer than a token lasts."""

    context: Context
    _source: CredentialSource = field(init=False)
    _client: tuple[Credentials, Client] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._source = CredentialSource(self.context)

    def client(self) -> Client:
        """With credentials that are valid now. Raises NoCluster."""
        try:
            credentials = self._source.current()
            if self._client is None or self._client[0] is not credentials:
                self._client = (credentials, Client(credentials, user_agent=_USER_AGENT))
        except (BadKubeconfig, NoCredentials, ValueError, OSError) as e:
            raise NoCluster(f"context {self.context.name}: {e}") from None
        return self._client[1]

    def refused(self) -> None:
        """After a 401: the next client has new credentials, where they can be had."""
        if self._client is not None and self._source.renewable:
            self._source.reject(self._client[0])


def access(kubeconfig: str | None, context: str | None) -> Access:
    """The context of that name, else the current one. Raises NoCluster, and NotAKubeconfig.

    kubeconfig: a file, or `-` for stdin; None for those of $KUBECONFIG, else ~/.kube/config.
    """
    other = "name one with --context, and its file with --kubeconfig or $KUBECONFIG"
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


def why(error: ApiError | Unreachable, access: Access) -> str:
    """What an error of the API server means for people."""
    where = f"context {access.context.name} ({access.context.server})"
    if isinstance(error, Unreachable):
        return f"{where} does not answer: {shortened(str(error), _LONGEST)}"
    if error.status == 401:
        return f"{where} does not accept the credentials; renew them, for example by logging in"
    return f"{where}: HTTP {error.status}: {shortened(error.message, _LONGEST)}"


def merged(configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """As kubectl merges the files of $KUBECONFIG: of entries with one name the first counts, and so
    does the first current context.
    """
    found: dict[str, Any] = {section: [] for section in _SECTIONS}
    for config in configs:
        if "current-context" not in found and config.get("current-context"):
            found["current-context"] = config["current-context"]
        for section in _SECTIONS:
            entries = config.get(section)
            names = {entry.get("name") for entry in found[section]}
            found[section] += [
                entry
                for entry in (entries if isinstance(entries, list) else ())
                if isinstance(entry, dict) and entry.get("name") not in names
            ]
    return found


def absolute(config: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """With every file name absolute. directory: that the relative ones are relative to."""
    found = dict(config)
    for section, keys in _FILES_OF.items():
        entries = config.get(section)
        found[section] = [
            {**entry, section[:-1]: _with_paths(entry.get(section[:-1]), keys, directory)}
            for entry in (entries if isinstance(entries, list) else ())
            if isinstance(entry, dict)
        ]
    return found


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
        return absolute(_parsed(sys.stdin.read(), "stdin"), Path.cwd())
    if kubeconfig is not None:
        return _file(Path(kubeconfig).expanduser())
    named = [
        Path(name).expanduser()
        for name in os.environ.get("KUBECONFIG", "").split(os.pathsep)
        if name
    ] or [Path.home() / ".kube" / "config"]
    # As with kubectl, files of the list need not exist; without any there is no cluster.
    there = [file for file in named if file.exists()]
    if not there:
        raise _Unreadable(f"there is no kubeconfig {', '.join(map(str, named))}")
    return merged([_file(file) for file in there])


def _file(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is not UTF-8"
        raise _Unreadable(f"{file}: {why}") from None
    return absolute(_parsed(text, str(file)), file.absolute().parent)


def _parsed(text: str, name: str) -> dict[str, Any]:
    import yaml

    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as e:
        at = getattr(e, "problem_mark", None)
        # Not the error's text: it quotes the file, which may hold credentials.
        where = f", line {at.line + 1}" if at is not None else ""
        raise BadKubeconfig(f"{name}{where}: it is neither YAML nor JSON") from None
    if not isinstance(parsed, dict):
        raise BadKubeconfig(f"{name}: it is not a kubeconfig")
    return parsed
