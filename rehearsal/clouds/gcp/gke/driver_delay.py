"""When GKE's installer has the driver on a new GPU node.

GKE installs it after the node has joined its cluster, with a DaemonSet. Source: Google Cloud, "Run
GPUs in GKE Standard node pools", automatic driver installation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

VARIABLE = "SLICEWRIGHT_REHEARSAL_GKE_DRIVER_S"
"""Sets the delay of all simulated GKE nodes."""
_DEFAULT_S = 1.0
_LONGEST_S = 3600.0


def seconds(environment: Mapping[str, str]) -> float:
    """From the node's first moment to its driver. Raises ValueError for a wrong value."""
    text = environment.get(VARIABLE, "")
    if not text:
        return _DEFAULT_S
    try:
        requested = float(text)
    except ValueError:
        requested = math.nan
    if not 0 <= requested <= _LONGEST_S:  # also where it is not a number
        raise ValueError(f"{VARIABLE}={text}: must be seconds from 0 to {_LONGEST_S:.0f}")
    return requested
