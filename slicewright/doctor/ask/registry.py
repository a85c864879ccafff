"""Asks a registry for the tags and the platforms of an image, anonymously.

Sources: OCI distribution specification, listing tags, pulling manifests; OCI image index; Docker's
registry docs, token authentication.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

import urllib3

from slicewright.apis.image_names import registry_of
from slicewright.doctor.ask.http_pool import pool
from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.processes.foreign_json import NotReadable, read_object
from slicewright.processes.waits import announced

_TIMEOUT: Final = urllib3.Timeout(connect=5, read=15)
_MOST_PAGES: Final = 50
_FIELD: Final = re.compile(r'(\w+)="([^"]*)"')
_NEXT: Final = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')
_LOOPBACK: Final = ("127.0.0.1", "localhost")


_MANIFESTS: Final = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_DOCKER_HUB: Final = {"docker.io": "registry-1.docker.io"}
"""Registry -> the host that answers for it."""


class _NoAnswer(Exception):
    """The registry gives no answer. The message says why."""


def tags(registry: str, repository: str) -> Answer[frozenset[str]]:
    """Returns all tags.

    registry: HOST[:PORT], by HTTPS. On loopback by HTTP, like container runtimes.
    """
    scheme = "http" if registry.partition(":")[0] in _LOOPBACK else "https"
    url = f"{scheme}://{registry}/v2/{repository}/tags/list"
    names: set[str] = set()
    headers: Mapping[str, str] = {}
    try:
        for _ in range(_MOST_PAGES):
            answer = _get(url, headers)
            if answer.status == 401 and not headers:
                headers = {"authorization": f"Bearer {_token(answer)}"}
                answer = _get(url, headers)
            if answer.status != 200:
                raise _NoAnswer(f"{registry} answers with HTTP {answer.status}")
            names |= {str(tag) for tag in _parsed(answer).get("tags") or ()}
            following = _NEXT.search(answer.headers.get("link", ""))
            if following is None:
                return frozenset(names)
            url = _of_same_server(urljoin(url, following[1]), registry)
        raise _NoAnswer(f"{registry} has too many tags")
    except _NoAnswer as e:
        return NotAnswered(why=f"not seen: {e}")
    except (TypeError, AttributeError, KeyError):
        return NotAnswered(why=f"not seen: the answer of {registry} has another form")


def architectures(image: str) -> Answer[frozenset[str] | None]:
    """The architectures that the image has Linux layers for, or None if there is no such image.

    image: the name in a pod. Docker Hub counts the question as one pull.
    """
    registry = registry_of(image)
    host = _DOCKER_HUB.get(registry, registry)
    name, _, digest = image.removeprefix(f"{registry}/").partition("@")
    path, _, tag = name.partition(":")
    if registry in _DOCKER_HUB and "/" not in path:
        path = f"library/{path}"
    scheme = "http" if host.partition(":")[0] in _LOOPBACK else "https"
    base = f"{scheme}://{host}/v2/{path}"
    try:
        answer, headers = _with_token(f"{base}/manifests/{digest or tag or 'latest'}")
        if answer.status == 404:
            return None
        if answer.status == 429:
            raise _NoAnswer(f"{registry} answers with HTTP 429: too many pulls from this address")
        if answer.status in (401, 403):
            raise _NoAnswer("the registry requires credentials, or has no such image")
        if answer.status != 200:
            raise _NoAnswer(f"{registry} answers with HTTP {answer.status}")
        return _processors(_parsed(answer), base, headers)
    except _NoAnswer as e:
        return NotAnswered(why=f"not seen: {e}")
    except (TypeError, AttributeError, KeyError):
        return NotAnswered(why=f"not seen: the answer of {registry} has another form")


def is_open(registry: str) -> Answer[bool]:
    """True if the registry gives anonymous clients a token; False if it requires credentials."""
    host = _DOCKER_HUB.get(registry, registry)
    scheme = "http" if host.partition(":")[0] in _LOOPBACK else "https"
    try:
        answer = _get(f"{scheme}://{host}/v2/", {})
        if answer.status in (401, 403):
            return _has_anonymous_tokens(answer)
        if answer.status != 200:
            raise _NoAnswer(f"{registry} answers with HTTP {answer.status}")
    except _NoAnswer as e:
        return NotAnswered(why=f"not seen: {e}")
    return True


def _has_anonymous_tokens(refusal: urllib3.BaseHTTPResponse) -> bool:
    try:
        _token(refusal)
    except _NoAnswer:
        return False
    return True


def _with_token(url: str) -> tuple[urllib3.BaseHTTPResponse, Mapping[str, str]]:
    headers = {"accept": _MANIFESTS}
    answer = _get(url, headers)
    if answer.status == 401:
        headers["authorization"] = f"Bearer {_token(answer)}"
        answer = _get(url, headers)
    return answer, headers


def _processors(
    manifest: Mapping[str, Any], base: str, headers: Mapping[str, str]
) -> frozenset[str]:
    """base: the URL of the repository."""
    if "manifests" in manifest:
        platforms = [platform.get("platform") or {} for platform in manifest["manifests"]]
    else:
        digest = (manifest.get("config") or {}).get("digest", "")
        # Registries redirect to the content's storage, which needs no token.
        answer = _get(f"{base}/blobs/{digest}", headers, redirect=True)
        if answer.status != 200:
            raise _NoAnswer("the registry does not return the image's configuration")
        platforms = [_parsed(answer)]
    return frozenset(
        str(platform["architecture"])
        for platform in platforms
        if platform.get("os") == "linux" and platform.get("architecture") not in (None, "unknown")
    )


def _get(
    url: str, headers: Mapping[str, str], *, redirect: bool = False
) -> urllib3.BaseHTTPResponse:
    retries = urllib3.Retry(3, connect=0, read=0, status=0) if redirect else False
    try:
        with announced(f"waiting for {urlsplit(url).netloc}"):
            return pool(url).request(
                "GET", url, headers=dict(headers), timeout=_TIMEOUT, retries=retries
            )
    except urllib3.exceptions.HTTPError as e:
        raise _NoAnswer(f"{urlsplit(url).netloc} cannot be reached from here ({e})") from None


def _token(refusal: urllib3.BaseHTTPResponse) -> str:
    """Returns an anonymous token, if the refusal names the server that issues tokens."""
    challenge = refusal.headers.get("www-authenticate", "")
    fields = dict(_FIELD.findall(challenge))
    realm = fields.pop("realm", "")
    server = urlsplit(realm)
    safe = server.scheme == "https" or (server.hostname or "") in _LOOPBACK
    if not challenge.lower().startswith("bearer ") or not safe:
        raise _NoAnswer("the registry requires credentials")
    query = {name: value for name, value in fields.items() if name in ("scope", "service")}
    joined = "&" if server.query else "?"
    answer = _get(f"{realm}{joined}{urlencode(query)}" if query else realm, {})
    reply = _parsed(answer) if answer.status == 200 else {}
    token = reply.get("token") or reply.get("access_token")
    if not isinstance(token, str):
        raise _NoAnswer("the registry requires credentials")
    return token


def _of_same_server(url: str, registry: str) -> str:
    """Raises _NoAnswer for another server: the token is only for the registry."""
    if urlsplit(url).netloc != registry:
        raise _NoAnswer(f"{registry} redirects to another server")
    return url


def _parsed(answer: urllib3.BaseHTTPResponse) -> dict[str, Any]:
    try:
        return read_object(answer.data, "an answer")
    except NotReadable:
        raise _NoAnswer(
            "the registry does not answer with JSON; is a proxy between here and the registry?"
        ) from None
