from __future__ import annotations

import hashlib
import io
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from slicewright.rehearsal.host.toolchain.tools import Release, machine

PROGRAM = b"#!/bin/sh\necho tool v1.2.3\n" + b"#" * 300_000
FILE = "/owner/tool/releases/download/v1.2.3/tool-linux"
LIST = "/owner/tool/releases/download/v1.2.3/checksums.txt"
DIGEST = hashlib.sha256(PROGRAM).hexdigest()


class Publisher(ThreadingHTTPServer):
    """Serves `files`; those in `cut` end half way, those in `silent` stall half way."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.silent: set[str] = set()
        self.asked: list[str] = []
        self.done = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Publisher

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        body = self.server.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.path in self.server.cut or self.path in self.server.silent:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            if self.path in self.server.silent:
                self.server.done.wait(30)
            return
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    server = Publisher()
    server.files[FILE] = PROGRAM
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.done.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def bench(bench: Any, publisher: Publisher) -> Any:
    bench.settings = replace(bench.settings, download=True, mirror=publisher.url)
    return bench


def release(digest: str | None = DIGEST, **changes: Any) -> Release:
    base = "https://github.com/owner/tool/releases/download/v{version}/"
    pins = {machine(): digest} if digest else {}
    given: dict[str, Any] = {
        "files": {machine(): base + "tool-linux"},
        "sha256": pins,
        "checksums": base + "checksums.txt",
    }
    return Release(**{**given, **changes})


def test_a_release_with_the_pinned_digest_is_used_and_nothing_is_built(bench: Any) -> None:
    (found,) = bench.get(bench.tool(release=release()))
    assert (found.origin, found.fresh, bench.builds()) == ("downloaded", True, 0)
    assert found.paths["tool"].read_bytes() == PROGRAM
    assert found.paths["tool"].stat().st_mode & 0o111


def test_a_downloaded_release_is_not_fetched_again(bench: Any, publisher: Publisher) -> None:
    bench.get(bench.tool(release=release()))
    (again,) = bench.get(bench.tool(release=release()))
    assert (publisher.asked, again.origin, again.fresh) == ([FILE], "downloaded", False)


def test_a_download_with_a_wrong_digest_is_discarded_and_the_tool_is_built(bench: Any) -> None:
    (found,) = bench.get(bench.tool(release=release("0" * 64)))
    assert (found.origin, bench.builds()) == ("built", 1)
    assert (
        f"has SHA-256 {DIGEST}, but the digest pinned in this checkout has {'0' * 64}"
        in bench.said()
    )
    assert len(bench.entries()) == 1
    assert bench.staged() == []


def test_an_incomplete_download_is_not_used(bench: Any, publisher: Publisher) -> None:
    publisher.cut.add(FILE)
    (found,) = bench.get(bench.tool(release=release()))
    assert found.origin == "built"
    assert f"ended after {len(PROGRAM) // 2} of {len(PROGRAM)} bytes" in bench.said()
    assert bench.staged() == []


def test_a_stalled_download_is_given_up(bench: Any, publisher: Publisher) -> None:
    publisher.silent.add(FILE)
    (found,) = bench.get(
        bench.tool(release=release()), settings=replace(bench.settings, stall_s=0.3)
    )
    assert found.origin == "built"
    assert "ended after" in bench.said()


def test_a_tool_without_its_release_on_the_server_is_built(
    bench: Any, publisher: Publisher
) -> None:
    publisher.files.clear()
    (found,) = bench.get(bench.tool(release=release()))
    assert found.origin == "built"
    assert f"{publisher.url}{FILE} returned 404 Not Found" in bench.said()


def test_without_a_pinned_digest_the_publishers_list_is_used(
    bench: Any, publisher: Publisher
) -> None:
    publisher.files[LIST] = f"{'1' * 64}  other-file\n{DIGEST}  tool-linux\n".encode()
    (found,) = bench.get(bench.tool(release=release(None)))
    assert found.origin == "downloaded"


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        (f"{'1' * 64}  tool-linux\n".encode(), "checksums.txt has 1111"),
        (f"{DIGEST}  tool-linux-other\n".encode(), "checksums.txt does not list tool-linux"),
        (b"\xff\x00 not a list", "does not list tool-linux"),
        (None, "checksums.txt returned 404"),
    ],
)
def test_without_a_matching_digest_the_release_is_not_used(
    bench: Any, publisher: Publisher, listed: bytes | None, reason: str
) -> None:
    if listed is not None:
        publisher.files[LIST] = listed
    (found,) = bench.get(bench.tool(release=release(None)))
    assert found.origin == "built"
    assert reason in bench.said()


def test_without_any_digest_nothing_is_downloaded(bench: Any, publisher: Publisher) -> None:
    (found,) = bench.get(bench.tool(release=release(None, checksums=None)))
    assert (found.origin, publisher.asked) == ("built", [])


def archive(**members: bytes) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:gz") as tar:
        for name, body in members.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return raw.getvalue()


def test_only_the_named_program_of_an_archive_is_kept(bench: Any, publisher: Publisher) -> None:
    body = publisher.files[FILE] = archive(tool__tool=PROGRAM, tool__helper=b"other")
    (found,) = bench.get(
        bench.tool(release=release(hashlib.sha256(body).hexdigest(), member="tool/tool"))
    )
    assert found.origin == "downloaded"
    assert [found.paths["tool"]] == list(found.paths["tool"].parent.iterdir())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (archive(else_=b""), "does not contain tool/tool"),
        (b"no archive", "is not a readable archive"),
    ],
    ids=["other", "none"],
)
def test_an_archive_without_the_program_is_not_used(
    bench: Any, publisher: Publisher, body: bytes, reason: str
) -> None:
    publisher.files[FILE] = body
    (found,) = bench.get(
        bench.tool(release=release(hashlib.sha256(body).hexdigest(), member="tool/tool"))
    )
    assert found.origin == "built"
    assert reason in bench.said()


def test_a_release_that_reports_another_version_is_not_used(
    bench: Any, publisher: Publisher
) -> None:
    body = publisher.files[FILE] = b"#!/bin/sh\necho tool v9.9.9\n"
    (found,) = bench.get(bench.tool(release=release(hashlib.sha256(body).hexdigest())))
    assert found.origin == "built"
    assert "reports version 'tool v9.9.9'" in bench.said()


def test_a_machine_without_an_official_release_builds(bench: Any, publisher: Publisher) -> None:
    (found,) = bench.get(bench.tool(release=release(files={"plan9-mips": "https://github.com/x"})))
    assert (found.origin, publisher.asked) == ("built", [])


def test_being_offline_costs_one_short_attempt_for_all_tools(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[Any] = []

    def nobody(address: Any, timeout: float) -> socket.socket:
        attempts.append(address)
        time.sleep(0.01)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", nobody)
    for proxy in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    tools = [bench.tool(name, release=release()) for name in ("one", "two", "three")]
    found = bench.get(*tools, settings=replace(bench.settings, mirror=None))
    assert [f.origin for f in found] == ["built"] * 3
    assert attempts == [("github.com", 443)]
    assert "github.com: its name cannot be resolved" in bench.said()


def test_a_name_server_that_does_not_answer_delays_by_the_limit_at_most(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def answers_late(*_: Any, **__: Any) -> socket.socket:
        released.wait(30)
        released.set()
        return socket.socket()

    monkeypatch.setattr(socket, "create_connection", answers_late)
    (found,) = bench.get(
        bench.tool(release=release()), settings=replace(bench.settings, connect_s=0.2)
    )
    assert not released.is_set(), "it waited for the name server"
    released.set()
    assert found.origin == "built"
    assert "no answer within 0.2 s" in bench.said()


def test_downloads_can_be_disabled(bench: Any, publisher: Publisher) -> None:
    (found,) = bench.get(
        bench.tool(release=release()), settings=replace(bench.settings, download=False)
    )
    assert (found.origin, publisher.asked) == ("built", [])
    assert "downloads are disabled" in bench.said()
