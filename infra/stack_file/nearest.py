"""The known names that a misspelled name resembles."""

from __future__ import annotations

import difflib
from functools import lru_cache

_LONGEST = 200
"""Characters. A longer text resembles no name."""


@lru_cache(maxsize=4096)  # one mistake repeated in 5,000 pools causes 5,000 calls
def nearest_names(
    text: str, names: tuple[str, ...], *, count: int, similarity: float
) -> tuple[str, ...]:
    """The `count` most similar of `names`, at most, in order of similarity.

    similarity: the lowest accepted ratio of difflib, from 0 to 1.
    """
    if len(text) > _LONGEST:
        return ()
    return tuple(difflib.get_close_matches(text, names, n=count, cutoff=similarity))
