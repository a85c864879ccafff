"""How many examples a property is tried with, and how many cases of an exhaustive test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from hypothesis import settings

Case = TypeVar("Case")


def examples(number: int) -> int:
    """`number` in `make test`; a tenth of it under the profile `quick`, in `make unit`."""
    # Profiles are loaded before tests are imported. 100 is hypothesis's own default.
    return max(number * settings().max_examples // 100, 1)


def cases(every: Iterable[Case]) -> Iterator[Case]:
    """Every case in `make test`; each tenth under the profile `quick`."""
    return islice(every, 0, None, max(100 // settings().max_examples, 1))
