"""The known names that a misspelled name resembles."""

from __future__ import annotations

import difflib
from functools import lru_cache

_LONGEST = 200
"""In characters. A longer text resembles no name."""


@lru_cache(maxsize=4096)  # one mistake repeated in 5,000 pools causes 5,000 calls
def nearest_names(
    text: str, names: tuple[str, ...], *, count: int, similarity: float
) -> tuple[str, ...]:
    """At most `count` of `names`, the most similar first.

    similarity: the lowest accepted ratio of difflib, from 0 to 1.
    """
    if len(text) > _LONGEST:
        return ()
    return tuple(difflib.get_close_matches(text, names, n=count, cutoff=similarity))
