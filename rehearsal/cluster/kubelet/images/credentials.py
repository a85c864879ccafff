"""The logins that a pod's pull Secrets hold for an image. Pure.

Source: k8s.io/kubernetes v1.36.2, pkg/credentialprovider (keyring.go, secrets/secrets.go).
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.cluster.kubelet.images.references import Reference

_KEYS: Final = {
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
    "kubernetes.io/dockercfg": ".dockercfg",
}
_HUB_NAMES: Final = ("index.docker.io", "docker.io")


def logins(secrets: Iterable[JsonObject], image: Reference) -> tuple[str, ...]:
    """`USER:PASSWORD` of every entry for the image, the most specific registry first."""
    entries = [entry for secret in secrets for entry in _entries(secret)]
    fitting = [(host, login) for host, login in entries if login and _matches(host, image)]
    fitting.sort(key=lambda entry: entry[0], reverse=True)
    return tuple(dict.fromkeys(login for _, login in fitting))


def _entries(secret: JsonObject) -> Iterator[tuple[str, str]]:
    """(registry without its scheme, login)."""
    key = _KEYS.get(str(secret.get("type")))
    text = (secret.get("data") or {}).get(key or "")
    if text is None:
        return
    try:
        held = json.loads(base64.b64decode(text))
        hosts = held["auths"] if key == ".dockerconfigjson" else held
        yield from [(_host(name), _login(entry)) for name, entry in hosts.items()]
    except (ValueError, KeyError, TypeError, AttributeError):
        return  # the kubelet logs it and goes on without


def _host(name: str) -> str:
    host = name.removeprefix("https://").removeprefix("http://")
    for version in ("/v1/", "/v2/", "/v1", "/v2"):
        host = host.removesuffix(version)
    return host


def _login(entry: Any) -> str:
    if entry.get("username"):
        return f"{entry['username']}:{entry.get('password', '')}"
    try:
        return base64.b64decode(entry.get("auth") or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _matches(host: str, image: Reference) -> bool:
    glob, _, path = host.partition("/")
    if not image.path.startswith(path):
        return False
    if image.registry in _HUB_NAMES:
        return glob in _HUB_NAMES
    named, asked = glob.split("."), image.registry.split(".")
    return len(named) == len(asked) and all(
        fnmatch.fnmatchcase(part, pattern) for part, pattern in zip(asked, named, strict=True)
    )
