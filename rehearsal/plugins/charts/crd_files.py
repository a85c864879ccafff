"""CRDs that a chart ships, kept as JSON beside its stand-in: the publishers' own, but for their
descriptions, which are most of their size and which no API server reads.
"""

from __future__ import annotations

import json
from pathlib import Path

from slicewright.kubeapi import JsonObject


def read(directory: Path) -> list[JsonObject]:
    """In order of their names."""
    return [json.loads(file.read_text()) for file in sorted(directory.glob("*.json"))]
