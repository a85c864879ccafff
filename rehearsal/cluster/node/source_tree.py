"""The source tree, of which programs of a simulated node import modules."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import slicewright

SOURCE: Final = Path(slicewright.__file__).resolve().parents[1]
"""The source tree, from which this interpreter imports the modules."""
PACKAGES: Final = tuple(
    sorted({SOURCE / "slicewright", *(p.resolve() for p in SOURCE.glob("slicewright/*/"))})
)
"""What containers are given of it: not the whole tree, where the environments of users lie, too, in
directories that are closed to the users of containers.
"""
