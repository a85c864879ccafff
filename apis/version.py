"""The version of slicewright. A zipapp has no metadata, so agent and command line read it here."""

from typing import Final

VERSION: Final = "0.1.0"
