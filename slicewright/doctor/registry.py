"""Asks a registry for the tags of an image, as anybody may.

Sources: OCI distribution specification, listing tags; Docker's registry docs, token authentication.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

import urllib3

from slicewright.doctor.findings import Answer, NotAnswered
from slicewright.doctor.http_pool import pool

_TIMEOUT: Final = urllib3.Timeout(connect=5, read=15)
_MOST_PAGES: Final = 50
_FIELD: Final = re.compile(r'(\w+)="([^"]*)"')
_NEXT: Final = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')
_LOOPBACK: Final = ("127.0.0.1", "localhost")


class _NoAnswer(Exception):
    """Why the registry says nothing."""


def tags(registry: str, repository: str) -> Answer[frozenset[str]]:
    """All tags. registry: HOST[:PORT], by HTTPS; on loopback without, as container runtimes do."""
    scheme = "http" if registry.partition(":")[0] in _LOOPBACK else "https"
    url = f"{scheme}://{registry}/v2/{repository}/tags/list"
    found: set[str] = set()
    headers: Mapping[str, str] = {}
    try:
        for _ in range(_MOST_PAGES):
            answer = _get(url, headers)
            if answer.status == 401 and not headers:
                headers = {"authorization": f"Bearer {_token(answer)}"}
                answer = _get(url, headers)
            if answer.status != 200:
                raise _NoAnswer(f"{registry} answers with HTTP {answer.status}")
            found |= {str(tag) for tag in _parsed(answer).get("tags") or ()}
            following = _NEXT.search(answer.headers.get("link", ""))
            if following is None:
                return frozenset(found)
            url = _of_same_server(urljoin(url, following[1]), registry)
        raise _NoAnswer(f"{registry} has too many tags")
    except _NoAnswer as e:
        return NotAnswered(why=f"not seen: {e}")


def _get(url: str, headers: Mapping[str, str]) -> urllib3.BaseHTTPResponse:
    try:
        return pool(url).request("GET", url, headers=dict(headers), timeout=_TIMEOUT, retries=False)
    except urllib3.exceptions.HTTPError as e:
        raise _NoAnswer(f"{urlsplit(url).netloc} cannot be reached from here ({e})") from None


def _token(refusal: urllib3.BaseHTTPResponse) -> str:
    """One that anybody gets, where the refusal says who gives it."""
    challenge = refusal.headers.get("www-authenticate", "")
    fields = dict(_FIELD.findall(challenge))
    realm = fields.pop("realm", "")
    server = urlsplit(realm)
    safe = server.scheme == "https" or (server.hostname or "") in _LOOPBACK
    if not challenge.lower().startswith("bearer ") or not safe:
        raise _NoAnswer("the registry wants credentials")
    asked = {name: value for name, value in fields.items() if name in ("scope", "service")}
    joined = "&" if server.query else "?"
    answer = _get(f"{realm}{joined}{urlencode(asked)}" if asked else realm, {})
    given = _parsed(answer) if answer.status == 200 else {}
    token = given.get("token") or given.get("access_token")
    if not isinstance(token, str):
        raise _NoAnswer("the registry wants credentials")
    return token


def _of_same_server(url: str, registry: str) -> str:
    """The token is the registry's."""
    if urlsplit(url).netloc != registry:
        raise _NoAnswer(f"{registry} leads to another server")
    return url


def _parsed(answer: urllib3.BaseHTTPResponse) -> dict[str, Any]:
    try:
        found = json.loads(answer.data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise _NoAnswer(
            "the registry answers with something else than JSON; is a proxy in the way?"
        )
    return found
