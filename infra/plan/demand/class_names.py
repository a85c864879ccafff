"""Names of demand classes, made from names in other files."""

from __future__ import annotations

import re
from typing import Final

_LONGEST: Final = 40


def class_name(text: str) -> str:
    """Returns a DNS label of at most 40 characters. Empty: the text has no letter or digit."""
    return re.sub("[^a-z0-9]+", "-", text.lower())[:_LONGEST].strip("-")
