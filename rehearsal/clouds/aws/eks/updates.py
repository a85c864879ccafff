"""Updates: what EKS answers to a change, and how a caller follows it."""

from __future__ import annotations

import uuid

from kubeapi import JsonObject
from rehearsal.clouds.aws.eks.checks import HealthIssue
from rehearsal.clouds.aws.errors import aws_error
from rehearsal.clouds.aws.state import UPDATES
from rehearsal.clouds.core.context import Context, Methods, now


class Updates:
    def __init__(self, context: Context) -> None:
        self._store = context.store

    def methods(self) -> Methods:
        return {"DescribeUpdate": self._describe}

    def record(self, owner: str, kind: str, parameters: JsonObject, *, status: str) -> JsonObject:
        """A new update of what is stored under the key `owner`, in the API's form."""
        update = {
            "id": str(uuid.uuid4()),
            "status": status,
            "type": kind,
            "params": [{"type": k, "value": str(v)} for k, v in parameters.items()],
            "createdAt": now(),
            "errors": [],
        }
        return self._store.put(UPDATES, f"{owner}/{update['id']}", update)

    def close(self, owner: str, identity: str, issue: HealthIssue | None) -> None:
        """None = successful."""
        with self._store.lock:
            update = self._store.get(UPDATES, f"{owner}/{identity}")
            if update is None:
                return
            update["status"] = "Failed" if issue else "Successful"
            if issue:
                update["errors"] = [
                    {"errorCode": issue.code, "errorMessage": issue.message, "resourceIds": []}
                ]
            self._store.put(UPDATES, f"{owner}/{identity}", update)

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        part = body.get("nodegroupName") or body.get("addonName")
        owner = "/".join(filter(None, (params["region"], body["name"], part)))
        update = self._store.get(UPDATES, f"{owner}/{body['updateId']}")
        if update is None:
            raise aws_error(
                "ResourceNotFoundException", f"No update found for ID: {body['updateId']}", code=404
            )
        return {"update": update}
