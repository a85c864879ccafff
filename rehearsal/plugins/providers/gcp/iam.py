"""gcp:serviceaccount Account and gcp:projects IAMMember."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.plugins.bridge.resources import (
    CreateResult,
    Resource,
    Session,
    State,
    is_known,
    prior_values,
)
from slicewright.rehearsal.plugins.bridge.waiting import wait_until
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure
from slicewright.rehearsal.plugins.engine.properties import Properties
from slicewright.rehearsal.plugins.providers.gcp.calls import last, or_none, project_of

_ACCOUNT_ID = re.compile(r"[a-z](?:[-a-z0-9]{4,28}[a-z0-9])")


class Account(Resource):
    kind = "gcp:serviceaccount/account:Account"
    force_new = ("accountId", "project")
    keeps = ("project",)

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        name = inputs.get("accountId")
        if name is None:
            return [CheckFailure("accountId", "missing required property 'accountId'")]
        if is_known(name) and not _ACCOUNT_ID.fullmatch(name):
            return [
                CheckFailure(
                    "accountId",
                    f"{name!r} must be 6 to 30 lower-case letters, digits and dashes, start with a "
                    "letter, and not end with a dash",
                )
            ]
        return []

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        project = project_of(session, inputs)
        described = {k: inputs[k] for k in ("displayName", "description") if k in inputs}
        body = {"accountId": inputs["accountId"], "serviceAccount": described}
        try:
            created = session.cloud.call(
                "iam", "projects.serviceAccounts.create", {"name": f"projects/{project}"}, body
            )
        except CloudError as e:
            if e.code != 409 or not inputs.get("createIgnoreAlreadyExists"):
                raise
            email = f"{inputs['accountId']}@{project}.iam.gserviceaccount.com"
            return CreateResult(f"projects/{project}/serviceAccounts/{email}")
        # IAM is eventually consistent: the provider waits until it can read what it made
        # (resource_google_service_account.go).
        wait_until(
            session,
            f"service account {inputs['accountId']}",
            lambda: or_none(
                session, "iam", "projects.serviceAccounts.get", {"name": created["name"]}
            ),
        )
        return CreateResult(str(created["name"]))

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        account = or_none(session, "iam", "projects.serviceAccounts.get", {"name": resource_id})
        if account is None:
            return None
        read_inputs = {
            "accountId": account["email"].partition("@")[0],
            **{k: account[k] for k in ("displayName", "description") if account.get(k)},
        }
        unread = prior_values(inputs, "project", "createIgnoreAlreadyExists", "disabled")
        outputs = {
            **read_inputs,
            "project": account["projectId"],
            "email": account["email"],
            "name": account["name"],
            "member": f"serviceAccount:{account['email']}",
            "uniqueId": account["uniqueId"],
            "disabled": False,
        }
        return State({**read_inputs, **unread}, outputs)

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> list[str]:
        changed = [k for k in ("displayName", "description") if old.get(k) != new.get(k)]
        if changed:
            body = {
                "serviceAccount": {k: new.get(k, "") for k in changed},
                "updateMask": ",".join(changed),
            }
            session.cloud.call("iam", "projects.serviceAccounts.patch", {"name": resource_id}, body)
        return []

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        if (
            or_none(session, "iam", "projects.serviceAccounts.get", {"name": resource_id})
            is not None
        ):
            session.cloud.call("iam", "projects.serviceAccounts.delete", {"name": resource_id})


class IamMember(Resource):
    """One member of one role: a read-modify-write of the project's policy, retried on conflict."""

    kind = "gcp:projects/iAMMember:IAMMember"
    force_new = ("project", "role", "member", "condition")

    def create(self, session: Session, inputs: Properties) -> CreateResult:
        project, role, member = (
            last(str(inputs["project"])),
            str(inputs["role"]),
            str(inputs["member"]),
        )

        def add(members: list[str]) -> list[str]:
            return sorted({*members, member})

        _rewrite(session, project, role, add)
        return CreateResult(f"{project}/{role}/{member}")

    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        project, _, rest = resource_id.partition("/")
        # The member is what follows the last "/": a role may be projects/P/roles/R.
        role, _, member = rest.rpartition("/")
        policy = _policy(session, project)
        if not any(b["role"] == role and member in b["members"] for b in policy["bindings"]):
            return None
        prior_project = inputs.get("project")
        read_inputs = {
            "project": prior_project if last(str(prior_project or "")) == project else project,
            "role": role,
            "member": member,
        }
        return State(read_inputs, {**read_inputs, "etag": policy["etag"]})

    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        project, _, rest = resource_id.partition("/")
        role, _, member = rest.rpartition("/")

        def drop(members: list[str]) -> list[str]:
            return [m for m in members if m != member]

        _rewrite(session, project, role, drop)


def _policy(session: Session, project: str) -> JsonObject:
    return session.cloud.call(
        "cloudresourcemanager", "projects.getIamPolicy", {"resource": project}, {}
    )


def _rewrite(
    session: Session, project: str, role: str, change: Callable[[list[str]], list[str]]
) -> None:
    for attempt in range(10):
        policy = _policy(session, project)
        bindings = {b["role"]: list(b["members"]) for b in policy["bindings"]}
        bindings[role] = change(bindings.get(role, []))
        new = [{"role": r, "members": m} for r, m in sorted(bindings.items()) if m]
        body = {"policy": {"etag": policy["etag"], "version": 1, "bindings": new}}
        try:
            session.cloud.call(
                "cloudresourcemanager", "projects.setIamPolicy", {"resource": project}, body
            )
            return
        except CloudError as e:
            if e.reason != "ABORTED" or attempt == 9:
                raise
