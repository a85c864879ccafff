"""Times as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp() -> str:
    """Now: RFC 3339, whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
