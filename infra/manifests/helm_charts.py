"""A chart's address, as Helm takes it."""

from __future__ import annotations

ChartAddress = tuple[str, str | None]
"""The chart, and its repository if that is separate: a file or an OCI chart is one address."""


def chart_address(chart: str, repository: str, path: str | None = None) -> ChartAddress:
    """path: of the chart as a file or directory, in place of `repository`."""
    if path is not None:
        return path, None
    if repository.startswith("oci://"):
        return f"{repository.rstrip('/')}/{chart}", None
    return chart, repository
