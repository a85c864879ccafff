"""How many examples a property is tried with."""

from __future__ import annotations

from hypothesis import settings


def examples(number: int) -> int:
    """`number` in `make test`; a tenth of it under the profile `quick`, in `make unit`."""
    # Profiles are loaded before tests are imported. 100 is hypothesis's own default.
    return max(number * settings().max_examples // 100, 1)
