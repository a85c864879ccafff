"""Updates: what EKS answers to a change, and how a caller follows it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.eks.checks import HealthIssue
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.state import UPDATES
from slicewright.rehearsal.clouds.core.context import Context, Methods, now
from slicewright.rehearsal.clouds.core.errors import CloudError


class Updates:
    def __init__(self, context: Context) -> None:
        self._store = context.store

    def methods(self) -> Methods:
        return {"DescribeUpdate": self._describe}

    def begin(self, owner: str, kind: str, parameters: Mapping[str, object]) -> JsonObject:
        """A new update in progress of what is stored under the key `owner`, in the API's form.

        parameters: by their names in the API's UpdateParamType.
        """
        update: JsonObject = {
            "id": str(uuid.uuid4()),
            "status": "InProgress",
            "type": kind,
            "params": [{"type": k, "value": _text(v)} for k, v in parameters.items()],
            "createdAt": now(),
            "errors": [],
        }
        return self._store.put(UPDATES, f"{owner}/{update['id']}", update)

    def refuse_second(self, owner: str, kind: str) -> None:
        """EKS makes one update of a cluster at a time. Raises CloudError.

        Source: aws-controllers-k8s/community #1192, aws/aws-cdk #33452.
        """
        running = self.in_progress(owner)
        if running is not None:
            raise in_use(
                f"Cannot {kind} because cluster {owner.rpartition('/')[2]} currently has update "
                f"{running['id']} in progress"
            )

    def in_progress(self, owner: str) -> JsonObject | None:
        """Of the owner itself, not of its node groups and add-ons."""
        return next(
            (
                update
                for key, update in self._store.items(UPDATES, prefix=f"{owner}/")
                if key == f"{owner}/{update['id']}" and update["status"] == "InProgress"
            ),
            None,
        )

    def close(self, owner: str, identity: str, issue: HealthIssue | None) -> None:
        """None = successful."""
        with self._store.lock:
            update = self._store.get(UPDATES, f"{owner}/{identity}")
            if update is None:
                return
            update["status"] = "Failed" if issue else "Successful"
            if issue:
                update["errors"] = [
                    {
                        "errorCode": issue.error_code,
                        "errorMessage": issue.message,
                        "resourceIds": [],
                    }
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


def in_use(message: str) -> CloudError:
    return aws_error("ResourceInUseException", message, code=409)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
