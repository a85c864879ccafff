"""Keys that all charts share: the source of a Helm chart and its images."""

from __future__ import annotations

from typing import Annotated

from slicewright.infra.stack_file.schema.constraints import FreeText, Pattern

Registry = Annotated[
    str,
    Pattern(
        pattern=r"[a-z0-9][-a-z0-9.]*(:[0-9]+)?(/[a-z0-9][-a-z0-9._]*)*",
        is_not="a registry: a host, and a path where needed",
        examples=("registry.example.com", "registry.example.com:5000/mirror"),
        source="distribution/reference",
    ),
]


def repository(publishers: str, oci: str = "oci://registry.example.com/charts") -> Pattern:
    """The URL of a chart repository. publishers, oci: examples in messages."""
    return Pattern(
        pattern=r"(https?|oci)://.+",
        is_not="the URL of a chart repository",
        examples=(publishers, oci),
        source="Helm docs, repositories",
    )


def path(example: str) -> FreeText:
    """The path of a chart as a file or directory."""
    return FreeText("a path", "Helm docs, charts", example)
