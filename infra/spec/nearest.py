"""Which known names a wrong one resembles."""

from __future__ import annotations

import difflib
from functools import lru_cache

_LONGEST = 200
"""Characters; a longer text resembles no name."""


@lru_cache(maxsize=4096)  # a file that is wrong in one way in 5,000 pools asks 5,000 times
def nearest_names(
    found: str, known: tuple[str, ...], *, count: int, similarity: float
) -> tuple[str, ...]:
    """At most `count` of the known names, the most similar first.

    similarity: from 0 to 1, as difflib's ratio, that a name must have.
    """
    if len(found) > _LONGEST:
        return ()
    return tuple(difflib.get_close_matches(found, known, n=count, cutoff=similarity))
