"""CloudWatch Logs: the log groups that EKS has made, which no deleted cluster takes with it."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.aws.state import LOG_GROUPS
from slicewright.rehearsal.clouds.core.context import Context, Methods


class Logs:
    def __init__(self, context: Context) -> None:
        self._store = context.store

    def methods(self) -> Methods:
        return {"DescribeLogGroups": self._describe, "DeleteLogGroup": self._delete}

    def inventory(self) -> list[JsonObject]:
        return [{"kind": "logs.logGroup", "name": key} for key, _ in self._store.items(LOG_GROUPS)]

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        region, prefix = params["region"], body.get("logGroupNamePrefix", "")
        return {
            "logGroups": [
                {**group, "arn": f"arn:aws:logs:{region}:{ACCOUNT}:log-group:{name}:*"}
                for group in self._store.values(LOG_GROUPS, prefix=f"{region}/")
                if (name := str(group["logGroupName"])).startswith(prefix)
            ]
        }

    def _delete(self, params: JsonObject, body: JsonObject) -> JsonObject:
        key = f"{params['region']}{body['logGroupName']}"
        with self._store.lock:
            if self._store.get(LOG_GROUPS, key) is None:
                raise aws_error(
                    "ResourceNotFoundException", "The specified log group does not exist."
                )
            self._store.delete(LOG_GROUPS, key)
        return {}
