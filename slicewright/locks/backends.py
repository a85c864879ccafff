"""The files of a Pulumi backend that is a directory or a bucket, below one prefix."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, quote, unquote, urlsplit

from slicewright.doctor.ask.aws.session import AwsSession, code_of, error_text
from slicewright.doctor.ask.google.session import GoogleSession
from slicewright.doctor.findings import CannotAsk, NotAnswered

_DEFAULT_REGION: Final = "us-east-1"
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
"""The true values of Go's strconv.ParseBool."""
_OTHER_IDENTITY: Final = ("role", "anonymous")
"""Options of an S3 URL that make Pulumi use another identity than its environment's."""


class Unsupported(Exception):
    """Locks of such a backend are not read. The message names the alternative."""


class Backend(Protocol):
    """Each method raises CannotAsk if the backend does not answer, or refuses."""

    def files(self, prefix: str) -> Mapping[str, bytes]:
        """Key -> content of the files below `prefix`."""

    def delete(self, key: str) -> None:
        """Deletes the file. A missing file is no error."""


def backend_of(url: str) -> Backend | None:
    """url: the output of `pulumi whoami --verbose`. Returns None for Pulumi Cloud: it has no such
    files.

    Raises Unsupported, CannotAsk.
    """
    parts = urlsplit(url)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    match parts.scheme:
        case "http" | "https":
            return None
        case "file":
            # `file://~` is the home directory, and `file://.` the current one.
            return Directory(Path(unquote(f"{parts.netloc}{parts.path}")).expanduser())
        case "s3":
            return S3Bucket(parts.netloc, parts.path.strip("/"), options)
        case "gs":
            return GoogleBucket(parts.netloc, parts.path.strip("/"))
        case scheme:
            raise Unsupported(
                f"the locks of a {scheme}:// backend cannot be read; check them yourself, and if "
                "no pulumi is working on the stack: pulumi cancel"
            )


class Directory:
    def __init__(self, root: Path) -> None:
        self.root = root

    def files(self, prefix: str) -> Mapping[str, bytes]:
        contents = {}
        try:
            for file in sorted((self.root / prefix).glob("*.json")):
                try:
                    contents[str(file.relative_to(self.root))] = file.read_bytes()
                except FileNotFoundError:
                    continue  # its pulumi has just ended
        except OSError as e:
            raise CannotAsk(f"{e.filename}: {e.strerror}") from None
        return contents

    def delete(self, key: str) -> None:
        file = self.root / key
        try:
            file.unlink(missing_ok=True)
            # Pulumi's storage library keeps this file next to each file.
            file.with_name(f"{file.name}.attrs").unlink(missing_ok=True)
        except OSError as e:
            raise CannotAsk(f"{e.filename}: {e.strerror}") from None


class S3Bucket:
    """Needs s3:ListBucket, s3:GetObject and s3:DeleteObject. Raises CannotAsk."""

    def __init__(self, bucket: str, prefix: str, options: Mapping[str, str]) -> None:
        """options: the options of the URL, by their present names and those of earlier engines.
        Sources: Pulumi docs, "State and backends", AWS S3; gocloud.dev, packages aws and
        blob/s3blob.

        Raises Unsupported, CannotAsk.
        """
        self._bucket, self._prefix = bucket, prefix
        for name in _OTHER_IDENTITY:
            if name in options:
                raise Unsupported(
                    f"the locks of an S3 backend with the option {name} cannot be read; check "
                    "them yourself, and if no pulumi is working on the stack: pulumi cancel"
                )
        session = AwsSession(options.get("region", _DEFAULT_REGION), options.get("profile"))
        self._errors = session.errors
        endpoint = options.get("endpoint")
        if endpoint and "://" not in endpoint:
            # The newer option, disable_https, does not apply to an endpoint.
            plain = _is_on(options, "disableSSL")
            endpoint = f"{'http' if plain else 'https'}://{endpoint}"
        self._client: Any = session.client(
            "s3",
            endpoint=endpoint,
            by_path=_is_on(options, "use_path_style", "s3ForcePathStyle"),
        )

    def files(self, prefix: str) -> Mapping[str, bytes]:
        contents = {}
        for key in self._call(lambda: self._keys(prefix)):
            content = self._call(lambda key=key: self._content(key))
            if content is not None:
                contents[key.removeprefix(self._below)] = content
        return contents

    def delete(self, key: str) -> None:
        self._call(
            lambda: self._client.delete_object(Bucket=self._bucket, Key=f"{self._below}{key}")
        )

    @property
    def _below(self) -> str:
        return f"{self._prefix}/" if self._prefix else ""

    def _keys(self, prefix: str) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{self._below}{prefix}"
        )
        return [o["Key"] for page in pages for o in page.get("Contents", ())]

    def _content(self, key: str) -> bytes | None:
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
        except self._errors.ClientError as e:
            if code_of(e) in ("NoSuchKey", "404"):
                return None
            raise
        content: bytes = answer["Body"].read()
        return content

    def _call(self, ask: Any) -> Any:
        try:
            return ask()
        except self._errors.ClientError as e:
            raise CannotAsk(f"s3://{self._bucket}: {error_text(e)}") from None
        except self._errors.BotoCoreError as e:
            raise CannotAsk(f"s3://{self._bucket}: {e}") from None


def _is_on(options: Mapping[str, str], *names: str) -> bool:
    return any(options.get(name) in _TRUE for name in names)


class GoogleBucket:
    """Needs storage.objects.list, .get and .delete. Raises CannotAsk."""

    def __init__(self, bucket: str, prefix: str) -> None:
        self._bucket, self._prefix = bucket, prefix
        self._session = GoogleSession("")

    def files(self, prefix: str) -> Mapping[str, bytes]:
        contents = {}
        for name in self._names(prefix):
            content = self._session.download(
                "storage", f"{self._object(name)}?alt=media", "storage.objects.get"
            )
            self._must(content)
            if content is not None:
                contents[name.removeprefix(self._below)] = content
        return contents

    def delete(self, key: str) -> None:
        path = self._object(f"{self._below}{key}")
        self._must(self._session.delete("storage", path, "storage.objects.delete"))

    @property
    def _below(self) -> str:
        return f"{self._prefix}/" if self._prefix else ""

    def _object(self, name: str) -> str:
        return f"b/{quote(self._bucket, safe='')}/o/{quote(name, safe='')}"

    def _names(self, prefix: str) -> list[str]:
        names: list[str] = []
        page = ""
        while True:
            key_prefix = quote(f"{self._below}{prefix}", safe="")
            path = f"b/{quote(self._bucket, safe='')}/o?prefix={key_prefix}{page}"
            listing = self._session.get("storage", path, "storage.objects.list")
            self._must(listing)
            if listing is None:
                raise CannotAsk(f"gs://{self._bucket}: there is no such bucket")
            names += [str(entry["name"]) for entry in listing.get("items") or ()]
            if not listing.get("nextPageToken"):
                return names
            page = f"&pageToken={quote(listing['nextPageToken'], safe='')}"

    def _must(self, answer: Any) -> None:
        if isinstance(answer, NotAnswered):
            raise CannotAsk(f"gs://{self._bucket}: {answer.why}")
