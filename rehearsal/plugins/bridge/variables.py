"""The variables by which a rehearsal leads a provider's client to its clouds."""

from __future__ import annotations

import os
from collections.abc import Sequence

from slicewright.rehearsal.clouds.core.client import CloudUnreachable
from slicewright.rehearsal.clouds.core.exec_credential import VARIABLE


def values_of(names: Sequence[str], *, provider: str) -> list[str]:
    """Raises CloudUnreachable naming those that are not set, as outside of a rehearsal."""
    missing = [name for name in (VARIABLE, *names) if not os.environ.get(name)]
    if missing:
        raise CloudUnreachable(
            f"{', '.join(missing)} not set: this is the rehearsal's stand-in for the {provider} "
            "provider and works only inside a rehearsal environment (`make rehearse KEEP=1` prints "
            "the exports)"
        )
    return [os.environ[name] for name in names]
