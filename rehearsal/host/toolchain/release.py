"""Official releases: downloaded, verified against a digest, unpacked; or DownloadFailed."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import shutil
import socket
import ssl
import tarfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slicewright.rehearsal.host.toolchain.reporting import Step
from slicewright.rehearsal.host.toolchain.settings import Settings
from slicewright.rehearsal.host.toolchain.tools import Release, Tool, machine

_PUBLISHER = "https://github.com"
_LIST_LIMIT = 1 << 20
_CHUNK = 1 << 18


class DownloadFailed(Exception):
    """The message says why, as the end of a sentence."""


class Network:
    """HTTP, with a record of unreachable servers: offline, one short attempt serves all tools."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._silent: dict[str, str] = {}

    def open(self, url: str) -> Any:
        """The response to a GET. Raises DownloadFailed."""
        host = urllib.parse.urlsplit(url).netloc
        if (reason := self._silent.get(host)) is None:
            reason = self._silent[host] = self._try(url)
        if reason:
            raise DownloadFailed(reason)
        try:
            # The URL is https, or the configured mirror's.
            request = urllib.request.Request(url, headers={"User-Agent": "slicewright"})  # noqa: S310
            response = urllib.request.urlopen(request, timeout=self._settings.stall_s)  # noqa: S310
        except urllib.error.HTTPError as e:
            e.close()
            raise DownloadFailed(f"{url} returned {e.code} {e.reason}") from None
        except (OSError, http.client.HTTPException) as e:
            self._silent[host] = f"{host}: {_reason(e)}"
            raise DownloadFailed(self._silent[host]) from None
        if url.startswith("https:") and not response.geturl().startswith("https:"):
            response.close()
            raise DownloadFailed(f"{url} redirects to {response.geturl()}, which is not HTTPS")
        return response

    def _try(self, url: str) -> str:
        """Empty if the server (or the proxy for it) accepts connections, else why not.

        In a thread, because name resolution has no time limit.
        """
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        proxy = urllib.request.getproxies().get(parts.scheme)
        if proxy and not urllib.request.proxy_bypass(host):
            via = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
            host, port = via.hostname or "", via.port or 80
        outcome: list[str] = []

        def connect() -> None:
            try:
                socket.create_connection((host, port), timeout=self._settings.connect_s).close()
                outcome.append("")
            except OSError as e:
                outcome.append(f"{host}: {_reason(e)}")

        attempt = threading.Thread(target=connect, daemon=True)
        attempt.start()
        attempt.join(self._settings.connect_s)
        return outcome[0] if outcome else f"{host}: no answer within {self._settings.connect_s:g} s"


def fetch(
    tool: Tool,
    release: Release,
    staging: Path,
    settings: Settings,
    network: Network,
    step: Step,
) -> None:
    """Downloads and verifies the program as `staging`/bin/NAME. Raises DownloadFailed."""
    url = _url(release.files[machine()], tool, settings)
    expected, source = _expected(tool, release, settings, network)
    part = staging / "download"
    found = _save(url, part, network, _progress(step, settings.progress_s))
    if found != expected:
        raise DownloadFailed(
            f"{url} has SHA-256 {found}, but {source} has {expected}; the download is discarded"
        )
    program = staging / "bin" / tool.binaries[0].name
    if release.member is None:
        part.rename(program)
    else:
        _unpack(part, release.member, program, url)
    program.chmod(0o755)


def _url(template: str, tool: Tool, settings: Settings) -> str:
    url = template.format(version=tool.version)
    return settings.mirror + url.removeprefix(_PUBLISHER) if settings.mirror else url


def _expected(
    tool: Tool, release: Release, settings: Settings, network: Network
) -> tuple[str, str]:
    if (pinned := release.sha256.get(machine())) is not None:
        return pinned, "the digest pinned in this checkout"
    if release.checksums is None:
        raise DownloadFailed("there is no digest to verify it with")
    url = _url(release.checksums, tool, settings)
    name = _url(release.files[machine()], tool, settings).rpartition("/")[2]
    with network.open(url) as response:
        try:
            text = response.read(_LIST_LIMIT).decode(errors="replace")
        except (OSError, http.client.HTTPException) as e:
            raise DownloadFailed(f"{url}: {_reason(e)}") from None
    for line in text.splitlines():
        match line.split():
            case [digest, file] if file.removeprefix("*") == name and len(digest) == 64:
                return digest.lower(), url
    raise DownloadFailed(f"{url} does not list {name}")


def _save(url: str, part: Path, network: Network, progress: Callable[[int, int], None]) -> str:
    digest = hashlib.sha256()
    size = 0
    with network.open(url) as response, part.open("wb") as file:
        announced = int(response.headers.get("Content-Length") or 0)
        try:
            while chunk := response.read(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
                size += len(chunk)
                progress(size, announced)
        except (TimeoutError, ConnectionError, http.client.HTTPException, ssl.SSLError) as e:
            raise DownloadFailed(f"{url} ended after {size} bytes: {_reason(e)}") from None
    if announced and size != announced:
        raise DownloadFailed(f"{url} ended after {size} of {announced} bytes")
    return digest.hexdigest()


def _unpack(archive: Path, member: str, program: Path, url: str) -> None:
    try:
        with tarfile.open(archive, "r:*") as tar:
            inside = tar.extractfile(member)
            if inside is None:
                raise DownloadFailed(f"{url} contains {member}, but not as a file")
            with inside, program.open("wb") as file:
                shutil.copyfileobj(inside, file, _CHUNK)
    except KeyError:
        raise DownloadFailed(f"{url} does not contain {member}") from None
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as e:
        raise DownloadFailed(f"{url} is not a readable archive: {e}") from None


def _progress(step: Step, every_s: float) -> Callable[[int, int], None]:
    updated = time.monotonic()

    def update(size: int, announced: int) -> None:
        nonlocal updated
        if time.monotonic() - updated >= every_s:
            updated = time.monotonic()
            of = f" of {announced / 1e6:.0f}" if announced else ""
            step.update(f"downloading, {size / 1e6:.0f}{of} MB so far")

    return update


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, socket.gaierror):
        return "its name cannot be resolved"
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({reason.verify_message})"
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return str(text)
