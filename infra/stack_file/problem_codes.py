"""The codes of problems of stack files, by their subject, and the rule behind each.

`python -m slicewright.infra.stack_file.problem_codes > docs/reference/check-codes.md`
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

UNREADABLE = "unreadable"
"""The code of a file that cannot be read, is not YAML, or has no fleet."""


@cache
def problem_codes() -> Mapping[str, Mapping[str, str]]:
    """Returns the subjects of the rules, each with its codes and their rules."""
    return tomllib.loads(Path(__file__).with_name("problem_codes.toml").read_text(encoding="utf-8"))


def rules() -> Mapping[str, str]:
    """Returns all codes with their rules."""
    return {code: text for codes in problem_codes().values() for code, text in codes.items()}


def page() -> str:
    """Returns docs/reference/check-codes.md."""
    rows = "".join(
        f"| `{code}` | {_SUBJECTS[subject]} | {text} |\n"
        for subject, codes in problem_codes().items()
        for code, text in codes.items()
    )
    return f"{_HEAD}\n| code | subject | rule |\n|---|---|---|\n{rows}"


_SUBJECTS: Mapping[str, str] = {
    "reading": "the file's text and types",
    "pools": "pools",
    "machines": "machines, regions, versions",
    "partition": "partitions and sharing",
    "gpu_operator": "GPU operator",
    "gke": "GKE",
    "eks": "EKS",
    "existing": "existing clusters and hosts",
    "fractional": "fractions of GPUs",
    "workloads": "workloads",
    "monitoring": "monitoring",
    "demand": "demand",
}
_HEAD = """\
# Codes of `slicewright check`

Each problem of a stack file has a code, in `check --json` and as the rule in `check --sarif`
([check-json.md](check-json.md)). A code belongs to a rule: it stays when the text of the problem
changes, and a published code does not vanish. This page is generated from
`infra/stack_file/problem_codes.toml`.
"""


if __name__ == "__main__":
    print(page(), end="")
