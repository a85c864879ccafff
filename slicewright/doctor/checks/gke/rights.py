"""Checks whether the caller has the rights in a Google project that `pulumi up` needs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from slicewright.doctor.findings import Answer, Finding, NotAnswered, checks, fails, not_asked, ok
from slicewright.infra import manifests
from slicewright.infra.plan import GkeFleetPlan

_MOST_AT_ONCE: Final = 100
"""Source: Resource Manager REST reference, projects.testIamPermissions."""


def needed(fleet: GkeFleetPlan) -> tuple[str, ...]:
    """The permissions of `slicewright rights`, sorted."""
    return tuple(manifests.google_role(fleet)["includedPermissions"])


def batches(rights: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields batches that are small enough for one question."""
    return (
        tuple(rights[first : first + _MOST_AT_ONCE])
        for first in range(0, len(rights), _MOST_AT_ONCE)
    )


@checks("gcp-rights")
def findings(
    lacking: Answer[tuple[str, ...]] | None, *, project: str, rights: str
) -> Iterator[Finding]:
    """rights: the command that prints this stack's custom role."""
    subject = f"rights in project {project}"
    match lacking:
        case None:
            return
        case NotAnswered() as refusal:
            yield not_asked(subject, refusal)
        case ():
            yield ok(subject, "all that the stack needs")
        case _:
            yield fails(
                subject,
                f"missing: {', '.join(lacking)}",
                f"{rights} > role.json; gcloud iam roles create slicewright --project {project} "
                "--file role.json; then ask an administrator to grant you "
                "projects/{project}/roles/slicewright (docs/how-to/least-privilege.md)",
            )
