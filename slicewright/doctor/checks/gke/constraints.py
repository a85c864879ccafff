"""Checks whether an organisation forbids resources that a GKE plan creates. Pure.

Sources: Organization Policy docs, list of constraints; GKE's messages about violated constraints:
GoogleCloudPlatform/compute-image-tools #1834 (external addresses), hashicorp-education/
learn-terraform-provision-gke-cluster #8 (Secure Boot, which GKE's nodes do not have by default).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from slicewright.doctor.findings import Answer, Finding, NotAnswered, checks, fails, not_asked, ok
from slicewright.infra.plan import GkeFleetPlan

_EXTERNAL: Final = "compute.vmExternalIpAccess"
_SHIELDED: Final = "compute.requireShieldedVm"
_ACCOUNTS: Final = "iam.disableServiceAccountCreation"
_WHY: Final[Mapping[str, str]] = {
    _EXTERNAL: "nodes get external addresses",
    _SHIELDED: "nodes have no Secure Boot, which the constraint requires",
    _ACCOUNTS: "the stack creates a service account for its nodes",
}


def constraints_needed(fleet: GkeFleetPlan) -> tuple[str, ...]:
    """The constraints that some resource of the plan could violate.

    An existing cluster's own setting decides whether its nodes are private.
    """
    public = not fleet.cluster.existing and not fleet.cluster.private_nodes
    return (*((_EXTERNAL,) if public else ()), _SHIELDED, _ACCOUNTS)


def enforced(policy: Mapping[str, Any]) -> bool:
    """True if the policy forbids the resource. policy: an effective one from the Organization
    Policy API.

    A list of allowed machines never contains a node: GKE invents a new name for each node.
    """
    for rule in policy.get("spec", {}).get("rules", ()):
        if rule.get("denyAll") or rule.get("enforce"):
            return True
        if (rule.get("values") or {}).get("allowedValues"):
            return True
    return False


@checks("gcp-constraint")
def constraint_findings(
    fleet: GkeFleetPlan, answers: Mapping[str, Answer[bool]], *, project: str
) -> Iterator[Finding]:
    """answers: constraint -> whether it is enforced in the project."""
    needed = constraints_needed(fleet)
    refusals = {answer for answer in answers.values() if isinstance(answer, NotAnswered)}
    if len(refusals) == 1 and not any(isinstance(answer, bool) for answer in answers.values()):
        # One line is enough if the same obstacle prevented all the questions.
        (refusal,) = refusals
        subject = f"constraints {', '.join(needed)} of the organisation, in project {project}"
        yield not_asked(subject, refusal)
        return
    for name in needed:
        subject = f"constraint {name} of the organisation, in project {project}"
        match answers[name]:
            case NotAnswered() as refusal:
                yield not_asked(subject, refusal)
            case False:
                yield ok(subject, "not enforced")
            case True:
                yield fails(subject, f"is enforced, and {_WHY[name]}", _remedy(name, project))


def _remedy(name: str, project: str) -> str:
    if name == _EXTERNAL:
        return "write private_nodes: true in cluster"
    return (
        "ask an administrator of the organisation to exempt the project: gcloud resource-manager "
        f"org-policies disable-enforce {name} --project {project}"
    )
