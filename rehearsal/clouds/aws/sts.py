"""The simulated STS: who the caller is."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.core.context import Context, Methods


class Sts:
    def __init__(self, context: Context) -> None:
        self._context = context

    def methods(self) -> Methods:
        return {"GetCallerIdentity": self._caller}

    def _caller(self, params: JsonObject, body: JsonObject) -> JsonObject:
        return {
            "UserId": "AIDAREHEARSALREHEARSA",
            "Account": ACCOUNT,
            "Arn": account_of(self._context).caller.arn,
        }
