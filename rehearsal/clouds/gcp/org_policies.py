"""The simulated Organization Policy service, and what a constraint that is enforced refuses.

Sources: Organization Policy API v2; the refusals of machines in Google's words as in
hashicorp-education/learn-terraform-provision-gke-cluster #8 and
GoogleCloudPlatform/compute-image-tools #1834; that of service accounts is the rehearsal's.
"""

from __future__ import annotations

from typing import get_args

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.gcp.account import Constraint, account_of
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.projects import project_number

_EXTERNAL = "compute.vmExternalIpAccess"
_SHIELDED = "compute.requireShieldedVm"
_ACCOUNTS = "iam.disableServiceAccountCreation"
_LISTS = frozenset({_EXTERNAL})
"""Constraints whose policy lists values; the others are enforced or not."""


class OrgPolicies:
    def __init__(self, context: Context) -> None:
        self._context = context

    def methods(self) -> Methods:
        return {"projects.policies.getEffectivePolicy": self._effective}

    def _effective(self, params: JsonObject, body: JsonObject) -> JsonObject:
        _, project, _, constraint = params["name"].split("/")
        if constraint not in get_args(Constraint):
            raise google_error(404, f"The rehearsal's cloud has no constraint {constraint}.")
        enforced = constraint in account_of(self._context).constraints
        if constraint in _LISTS:
            rule: JsonObject = {"denyAll": True} if enforced else {"allowAll": True}
        else:
            rule = {"enforce": enforced}
        return {
            "name": f"projects/{project_number(project)}/policies/{constraint}",
            "spec": {"rules": [rule]},
        }


def machine_violation(
    context: Context, pool: JsonObject, project: str, instance: str
) -> str | None:
    """Why the organisation forbids a node of this pool; None: it does not. instance: its path."""
    enforced = account_of(context).constraints
    network = pool.get("networkConfig") or {}
    if _EXTERNAL in enforced and not network.get("enablePrivateNodes"):
        return (
            f"Constraint constraints/{_EXTERNAL} violated for project {project_number(project)}. "
            f"Add instance {instance} to the constraint to use external IP with it."
        )
    shielded = (pool.get("config") or {}).get("shieldedInstanceConfig") or {}
    if _SHIELDED in enforced and not shielded.get("enableSecureBoot"):
        return (
            f"Constraint constraints/{_SHIELDED} violated for project projects/{project}. Secure "
            "Boot is not enabled in the 'shielded_instance_config' field. See "
            "https://cloud.google.com/resource-manager/docs/organization-policy/"
            "org-policy-constraints for more information."
        )
    return None


def account_violation(context: Context, project: str) -> CloudError | None:
    if _ACCOUNTS not in account_of(context).constraints:
        return None
    message = "Service account creation is not allowed on this project."
    violation = {"type": f"constraints/{_ACCOUNTS}", "subject": f"projects/{project}"}
    details = {
        "@type": "type.googleapis.com/google.rpc.PreconditionFailure",
        "violations": [{**violation, "description": message}],
    }
    return google_error(400, message, status="FAILED_PRECONDITION", details=[details])
