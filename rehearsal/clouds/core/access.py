"""Where an environment's clouds answer over HTTP, and the credentials that they accept.

Any user of the machine can connect to a loopback port, so every call needs them.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

ADDRESS = "127.0.0.1"
FILE = "cloud-access.json"
CREDENTIAL_FILE = "google-credentials.json"
"""Application default credentials of the environment's Google account. Only the rehearsal's
credential plugin reads it: other clients have the access token, which comes first.
"""
FILE_OF_GCLOUD = "google-access-token"
"""Of gcloud, which takes a token from a file only."""


@dataclass(frozen=True, kw_only=True)
class Credentials:
    aws_access_key_id: str
    aws_secret_access_key: str = field(repr=False)
    google_access_token: str = field(repr=False)
    """A bearer token."""


@dataclass(frozen=True, kw_only=True)
class Access:
    port: int
    credentials: Credentials

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.port}"


def new_credentials() -> Credentials:
    return Credentials(
        # Real ids begin with AKIA or ASIA: nothing may take this one for an account's.
        aws_access_key_id=f"REHEARSAL{secrets.token_hex(6).upper()[:11]}",
        aws_secret_access_key=secrets.token_urlsafe(30),
        google_access_token=f"rehearsal.{secrets.token_urlsafe(40)}",
    )


def load(environment: Path) -> Access | None:
    """None where the clouds have not been started yet."""
    try:
        access = json.loads((environment / FILE).read_text())
    except FileNotFoundError:
        return None
    return Access(port=int(access["port"]), credentials=Credentials(**access["credentials"]))


def save(environment: Path, access: Access) -> None:
    """Writes the files, which only this user can read."""
    _write(environment / FILE_OF_GCLOUD, access.credentials.google_access_token)
    _write(environment / CREDENTIAL_FILE, json.dumps(_APPLICATION_DEFAULT))
    _write(environment / FILE, json.dumps(asdict(access), indent=2))


_APPLICATION_DEFAULT = {
    "type": "authorized_user",
    "client_id": "rehearsal.example",
    "client_secret": "none",
    "refresh_token": "none: this is the account of a rehearsal",
}


def _write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    new.replace(path)
