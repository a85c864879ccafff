"""Entity tags, which let Google's APIs refuse a write that is based on an old read."""

from __future__ import annotations

import base64
import secrets


def etag() -> str:
    return base64.b64encode(secrets.token_bytes(8)).decode()
