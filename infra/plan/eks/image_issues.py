"""Releases of EKS images that are known to be broken for the GPUs of a pool."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from slicewright.infra import catalog, stack_file
from slicewright.infra.catalog import Image, ImageIssue, Machine
from slicewright.infra.plan.findings import Checked, refuse, rule
from slicewright.infra.plan.model.pools import EksPoolPlan

_AMAZON = re.compile(r"[0-9.]+-([0-9]{8})")
_BOTTLEROCKET = re.compile(r"([0-9]+(?:\.[0-9]+)+)-.*")


@rule("eks-image-defect")
def check_image_issues(
    pool: stack_file.EksPool, image: Image, machines: Sequence[Machine], path: stack_file.Path
) -> Checked[None]:
    """Refuses a release that its makers call broken for one of the machine types."""
    release = _release(pool.release_version)
    if release is None:
        return
    for machine, issue in _issues(image.name, machines, release):
        if issue.certain:
            yield refuse(
                (*path, "release_version"),
                f"{image.name} {release} {issue.defect} ({machine.name})",
                _remedy(issue),
                issue.source,
            )


def image_issue_notes(pool: EksPoolPlan) -> list[str]:
    """Notes on defects that users report of the stated release, or else of the newest."""
    settings = pool.settings
    machines = (settings.machine, *settings.other_machines)
    if settings.release_version is None:
        return _notes_on_the_newest(pool.name, settings.ami_type, machines)
    release = _release(settings.release_version)
    if release is None:
        return []
    reported = {
        issue: machine
        for machine, issue in _issues(settings.ami_type, machines, release)
        if not issue.certain
    }
    return [
        f"pool {pool.name}: users report that {settings.ami_type} {release} {issue.defect} "
        f"({machine.name}); {_remedy(issue)} ({issue.source})"
        for issue, machine in reported.items()
    ]


def _notes_on_the_newest(pool: str, image: str, machines: Sequence[Machine]) -> list[str]:
    """EKS takes the newest release if none is stated. It has the defects that no release fixes."""
    unfixed = [
        (issue, machine)
        for issue in catalog.load().image_issues
        if issue.fixed is None and issue.first is not None
        for machine in machines
        if issue.affects(image, machine.name, issue.first)
    ]
    return [
        f"pool {pool}: without release_version EKS takes the newest {image}, and users report that "
        f"releases from {issue.first} on have a defect: it {issue.defect} ({machine.name}); "
        f"{_remedy(issue)} ({issue.source})"
        for issue, machine in dict(unfixed).items()
    ]


def _issues(
    image: str, machines: Sequence[Machine], release: str
) -> Iterator[tuple[Machine, ImageIssue]]:
    for issue in catalog.load().image_issues:
        affected = next((m for m in machines if issue.affects(image, m.name, release)), None)
        if affected is not None:
            yield affected, issue


def _release(stated: str | None) -> str | None:
    """`1.34.0-20260714` -> `20260714`, `1.54.0-5ed15786` -> `1.54.0`. None: not stated."""
    if stated is None:
        return None
    match = _AMAZON.fullmatch(stated) or _BOTTLEROCKET.fullmatch(stated)
    return match[1] if match else None


def _remedy(issue: ImageIssue) -> str:
    if issue.fixed is not None:
        return f"write a release_version of {issue.fixed} or later"
    return f"no fixed release is known: write a release_version of {issue.good} or older"
