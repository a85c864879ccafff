"""Files of a backend, read and deleted: a directory, and buckets behind servers that speak as much
of S3's and Cloud Storage's protocols as is asked.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from slicewright.doctor.findings import CannotAsk
from slicewright.locks.backends import Backend, Unsupported, backend_of

PREFIX = ".pulumi/locks/organization/fleet/prod/"


@dataclass
class Bucket:
    objects: dict[str, bytes] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    refuses: bool = False


class _S3(BaseHTTPRequestHandler):
    """By path: /bucket/key. Pages of one object."""

    bucket: Bucket

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        _, _, key = unquote(parts.path).lstrip("/").partition("/")
        if self.bucket.refuses:
            self._answer(403, b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>")
        elif not key:
            query = {k: v[-1] for k, v in parse_qs(parts.query).items()}
            keys = sorted(k for k in self.bucket.objects if k.startswith(query["prefix"]))
            rest = [k for k in keys if k > query.get("continuation-token", "")]
            more = len(rest) > 1
            last = escape(rest[0]) if more else ""
            token = f"<NextContinuationToken>{last}</NextContinuationToken>" if more else ""
            content = "".join(f"<Contents><Key>{escape(k)}</Key></Contents>" for k in rest[:1])
            truncated = f"<IsTruncated>{str(more).lower()}</IsTruncated>"
            body = f"<ListBucketResult>{truncated}{token}{content}"
            self._answer(200, f"{body}</ListBucketResult>".encode())
        elif key in self.bucket.objects:
            self._answer(200, self.bucket.objects[key])
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def do_DELETE(self) -> None:
        _, _, key = unquote(urlsplit(self.path).path).lstrip("/").partition("/")
        self.bucket.objects.pop(key, None)
        self.bucket.deleted.append(key)
        self._answer(204, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


class _Storage(_S3):
    """/storage/v1/b/BUCKET/o[/OBJECT]."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {k: v[-1] for k, v in parse_qs(parts.query).items()}
        *_, name = parts.path.split("/o", 1)
        key = unquote(name.lstrip("/"))
        if self.bucket.refuses:
            self._answer(403, json.dumps({"error": {"message": "no"}}).encode())
        elif not key:
            keys = sorted(k for k in self.bucket.objects if k.startswith(query["prefix"]))
            rest = [k for k in keys if k > query.get("pageToken", "")]
            found: dict[str, Any] = {"items": [{"name": k} for k in rest[:1]]}
            if len(rest) > 1:
                found["nextPageToken"] = rest[0]
            self._answer(200, json.dumps(found).encode())
        elif key in self.bucket.objects:
            assert query["alt"] == "media"
            self._answer(200, self.bucket.objects[key])
        else:
            self._answer(404, b"{}")

    def do_DELETE(self) -> None:
        *_, name = urlsplit(self.path).path.split("/o/", 1)
        self.bucket.objects.pop(unquote(name), None)
        self.bucket.deleted.append(unquote(name))
        self._answer(204, b"")


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture(params=["file", "s3", "gs"])
def backend(
    request: pytest.FixtureRequest,
    bucket: Bucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Backend]:
    """One with two locks of the stack, one of another one, and the state."""
    files = {
        f"{PREFIX}a b.json": b'{"pid": 1}',
        f"{PREFIX}b.json": b"no JSON",
        ".pulumi/locks/organization/fleet/production/c.json": b"{}",
        ".pulumi/stacks/fleet/prod.json": b"{}",
    }
    if request.param == "file":
        for name, content in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
        found = backend_of(f"file://{tmp_path}")
        assert found is not None
        yield found
        return
    bucket.objects |= {f"team/state/{name}": content for name, content in files.items()}
    kind = _S3 if request.param == "s3" else _Storage
    with served(kind, bucket, monkeypatch) as address:
        options = f"?region=eu-west-1&endpoint={address}&disableSSL=true&s3ForcePathStyle=true"
        url = "gs://b/team/state" if request.param == "gs" else f"s3://b/team/state{options}"
        made = backend_of(url)
        assert made is not None
        yield made


@contextmanager
def served(protocol: type[_S3], bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The bucket's address, with credentials for it."""
    kind = type("Handler", (protocol,), {"bucket": bucket})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    address = f"127.0.0.1:{server.server_port}"
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "example")
    monkeypatch.setenv("GOOGLE_STORAGE_CUSTOM_ENDPOINT", f"http://{address}/storage/v1/")
    yield address
    server.shutdown()
    server.server_close()


def test_the_stacks_own_locks_are_read_and_no_other_file(backend: Backend) -> None:
    assert backend.files(PREFIX) == {
        f"{PREFIX}a b.json": b'{"pid": 1}',
        f"{PREFIX}b.json": b"no JSON",
    }


def test_one_lock_is_deleted_and_the_rest_stays(backend: Backend, bucket: Bucket) -> None:
    backend.delete(f"{PREFIX}a b.json")
    assert backend.files(PREFIX) == {f"{PREFIX}b.json": b"no JSON"}
    backend.delete(f"{PREFIX}a b.json")  # gone already
    if bucket.deleted:
        assert set(bucket.deleted) == {f"team/state/{PREFIX}a b.json"}
        assert len(bucket.objects) == 3


def test_a_stack_without_locks_has_none(backend: Backend) -> None:
    assert backend.files(".pulumi/locks/organization/fleet/dev/") == {}


@pytest.mark.parametrize("style", ["s3ForcePathStyle=true", "use_path_style=1"])
@pytest.mark.parametrize("plain", ["disableSSL=1&endpoint=", "endpoint=http://"])
def test_each_spelling_of_pulumis_options_reaches_the_bucket(
    style: str, plain: str, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(_S3, bucket, monkeypatch) as address:
        bucket.objects[f"team/{PREFIX}b.json"] = b"{}"
        # Of an address botocore would leave the path alone anyway.
        named = address.replace("127.0.0.1", "localhost")
        found = backend_of(f"s3://b/team?region=eu-west-1&{style}&{plain}{named}")
        assert found is not None
        assert found.files(PREFIX) == {f"{PREFIX}b.json": b"{}"}


@pytest.mark.parametrize("option", ["role=arn:aws:iam::1:role/ci", "anonymous=true"])
def test_a_bucket_that_pulumi_reads_with_another_identity_is_not_read(option: str) -> None:
    with pytest.raises(Unsupported, match="pulumi cancel"):
        backend_of(f"s3://b?region=eu-west-1&{option}")


@pytest.mark.parametrize("backend", ["s3", "gs"], indirect=True)
def test_a_bucket_that_refuses_is_reported(backend: Backend, bucket: Bucket) -> None:
    bucket.refuses = True
    with pytest.raises(CannotAsk, match="://b: "):
        backend.files(PREFIX)


def test_pulumi_cloud_has_no_such_files() -> None:
    assert backend_of("https://app.pulumi.com/acme") is None


@pytest.mark.parametrize("url", ["azblob://b", "postgres://h/db"])
def test_another_backend_is_not_guessed_at(url: str) -> None:
    with pytest.raises(Unsupported, match="pulumi cancel"):
        backend_of(url)
