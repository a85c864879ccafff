"""The codes of findings, and what each check requires of the account or the cluster.

`python -m slicewright.doctor.finding_codes > docs/reference/doctor-codes.md`
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path


@cache
def requirements() -> Mapping[str, str]:
    """Returns all codes with the requirement that each stands for."""
    text = Path(__file__).with_name("finding_codes.toml").read_text(encoding="utf-8")
    codes: Mapping[str, str] = tomllib.loads(text)
    return codes


def page() -> str:
    """Returns docs/reference/doctor-codes.md."""
    rows = "".join(f"| `{code}` | {text} |\n" for code, text in requirements().items())
    return f"{_HEAD}\n| code | requirement |\n|---|---|\n{rows}"


_HEAD = """\
# Codes of `slicewright doctor`

Each finding has a code, in `doctor --json` ([doctor-json.md](doctor-json.md)). A code belongs to a
check, whatever its verdict: it stays when the text of the finding changes, and a published code
does not vanish. This page is generated from `slicewright/doctor/finding_codes.toml`.
"""


if __name__ == "__main__":
    print(page(), end="")
