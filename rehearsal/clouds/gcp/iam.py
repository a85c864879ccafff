"""The simulated Google IAM: service accounts, and the IAM policies of projects."""

from __future__ import annotations

import re
import secrets
import time

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.core.context import Context, Methods
from slicewright.rehearsal.clouds.core.store import Kind
from slicewright.rehearsal.clouds.gcp.account import account_of
from slicewright.rehearsal.clouds.gcp.errors import google_error
from slicewright.rehearsal.clouds.gcp.etag import etag
from slicewright.rehearsal.clouds.gcp.org_policies import account_violation
from slicewright.rehearsal.clouds.gcp.state import POLICIES, SERVICE_ACCOUNTS

_ACCOUNT_ID = re.compile(r"[a-z][-a-z0-9]{4,28}[a-z0-9]")
_ROLE = re.compile(r"(projects/[^/]+/|organizations/[^/]+/)?roles/[A-Za-z0-9_.]+")
_MEMBER = re.compile(
    r"(user|serviceAccount|group|domain|principal|principalSet|deleted):.+"
    r"|allUsers|allAuthenticatedUsers"
)

_PERMISSION = re.compile(r"[a-z]+\.[A-Za-z]+\.[A-Za-z]+")
_MOST_PERMISSIONS = 100

_AGENTS = tuple(
    f"@{name}.iam.gserviceaccount.com" for name in ("container-engine-robot", "compute-system")
)
"""Of Google's service agents, which are in each project. Source: IAM docs, service agents."""

_SINCE = Kind[JsonObject]("iam/since")
"""By e-mail address: when the account was created, in seconds since the epoch."""


def known_account(context: Context, email: str) -> JsonObject | None:
    """The account, as soon as reads and the other services know of it.

    IAM is eventually consistent: hashicorp/terraform-provider-google waits after the creation of an
    account until it can be read (resource_google_service_account.go).
    """
    account = context.store.get(SERVICE_ACCOUNTS, email)
    since = (context.store.get(_SINCE, email) or {}).get("at", 0.0)
    return None if time.time() < since + context.faults.iam_delay_s() else account


class GoogleIam:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def methods(self) -> Methods:
        return {
            "projects.serviceAccounts.create": self._create,
            "projects.serviceAccounts.get": lambda params, _: self._account(params["name"]),
            "projects.serviceAccounts.patch": self._patch,
            "projects.serviceAccounts.delete": self._delete,
        }

    def policy_methods(self) -> Methods:
        return {
            "projects.getIamPolicy": lambda params, _: self._policy(params["resource"]),
            "projects.setIamPolicy": self._set_policy,
            "projects.testIamPermissions": self._test_permissions,
        }

    def inventory(self) -> list[JsonObject]:
        accounts = [
            {"kind": "iam.serviceAccount", "name": key}
            for key, _ in self._store.items(SERVICE_ACCOUNTS)
        ]
        bindings = [
            {"kind": "cloudresourcemanager.member", "name": f"{project} {binding['role']} {member}"}
            for project, policy in self._store.items(POLICIES)
            for binding in policy.get("bindings", [])
            for member in binding["members"]
        ]
        return accounts + bindings

    def _account(self, name: str) -> JsonObject:
        email = name.rpartition("/")[2]
        account = known_account(self._context, email)
        if account is None:
            raise google_error(404, f"Unknown service account: {email}")
        return account

    def _create(self, params: JsonObject, body: JsonObject) -> JsonObject:
        project, account_id = (
            params["name"].removeprefix("projects/"),
            str(body.get("accountId", "")),
        )
        if not _ACCOUNT_ID.fullmatch(account_id):
            raise google_error(
                400,
                f'Invalid account id "{account_id}": 6 to 30 lower case letters, digits '
                'and "-", starting with a letter.',
            )
        if (forbidden := account_violation(self._context, project)) is not None:
            raise forbidden
        email = f"{account_id}@{project}.iam.gserviceaccount.com"
        with self._store.lock:
            if self._store.get(SERVICE_ACCOUNTS, email):
                raise google_error(
                    409,
                    f"Service account {account_id} already exists within project "
                    f"projects/{project}.",
                )
            account = {
                **(body.get("serviceAccount") or {}),
                "name": f"projects/{project}/serviceAccounts/{email}",
                "projectId": project,
                "uniqueId": str(10**20 + secrets.randbits(64)),
                "email": email,
                "etag": etag(),
                "oauth2ClientId": str(10**20 + secrets.randbits(64)),
            }
            self._store.put(_SINCE, email, {"at": time.time()})
            return self._store.put(SERVICE_ACCOUNTS, email, account)

    def _patch(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            account = self._account(params["name"])
            fields = str(body.get("updateMask", "")).split(",")
            account |= {k: v for k, v in (body.get("serviceAccount") or {}).items() if k in fields}
            return self._store.put(SERVICE_ACCOUNTS, account["email"], account)

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        with self._store.lock:
            account = self._account(params["name"])
            self._store.delete(SERVICE_ACCOUNTS, account["email"])
            self._store.delete(_SINCE, account["email"])
            # Its bindings stay, under a name that no other account can get.
            for project, policy in self._store.items(POLICIES):
                member = f"serviceAccount:{account['email']}"
                for binding in policy.get("bindings", []):
                    binding["members"] = [
                        f"deleted:{member}?uid={account['uniqueId']}" if m == member else m
                        for m in binding["members"]
                    ]
                self._store.put(POLICIES, project, policy)
        return {}

    def _policy(self, project: str) -> JsonObject:
        return self._store.get(POLICIES, project) or {
            "version": 1,
            "etag": "BwAAAAAAAAA=",
            "bindings": [],
        }

    def _set_policy(self, params: JsonObject, body: JsonObject) -> JsonObject:
        policy = body.get("policy") or {}
        with self._store.lock:
            current = self._policy(params["resource"])
            if policy.get("etag") and policy["etag"] != current["etag"]:
                raise google_error(
                    409,
                    "There were concurrent policy changes. Please retry the whole "
                    "read-modify-write with exponential backoff.",
                    status="ABORTED",
                )
            for binding in policy.get("bindings", []):
                self._check_binding(binding)
            bindings = [b for b in policy.get("bindings", []) if b.get("members")]
            return self._store.put(
                POLICIES, params["resource"], {"version": 1, "etag": etag(), "bindings": bindings}
            )

    def _test_permissions(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """Which of these the caller has. Source: Resource Manager REST reference."""
        requested = body.get("permissions", [])
        if len(requested) > _MOST_PERMISSIONS:
            raise google_error(
                400,
                f"A request tests at most {_MOST_PERMISSIONS} permissions, not {len(requested)}.",
            )
        for permission in requested:
            if not _PERMISSION.fullmatch(permission):
                raise google_error(400, f"Permission {permission} is not valid for this resource.")
        lacks = account_of(self._context).lacks
        held = [permission for permission in requested if permission not in lacks]
        return {"permissions": held} if held else {}

    def _check_binding(self, binding: JsonObject) -> None:
        if not _ROLE.fullmatch(str(binding.get("role", ""))):
            raise google_error(
                400, f"Role {binding.get('role')} is not supported for this resource."
            )
        for member in binding.get("members", []):
            if not _MEMBER.fullmatch(member):
                raise google_error(
                    400,
                    f"Invalid member {member}: it must have a type, as in "
                    "serviceAccount:NAME@PROJECT.iam.gserviceaccount.com.",
                )
            kind, _, email = member.partition(":")
            simulated = (
                kind == "serviceAccount"
                and email.endswith(".iam.gserviceaccount.com")
                and not email.endswith(_AGENTS)
            )
            if simulated and known_account(self._context, email) is None:
                raise google_error(400, f"Service account {email} does not exist.")
