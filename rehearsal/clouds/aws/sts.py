"""The simulated STS: who the caller is."""

from __future__ import annotations

from kubeapi import JsonObject
from rehearsal.clouds.aws.iam import ACCOUNT
from rehearsal.clouds.core.context import Methods


class Sts:
    def methods(self) -> Methods:
        return {"GetCallerIdentity": self._caller}

    def _caller(self, params: JsonObject, body: JsonObject) -> JsonObject:
        return {
            "UserId": "AIDAREHEARSALREHEARSA",
            "Account": ACCOUNT,
            "Arn": f"arn:aws:iam::{ACCOUNT}:user/rehearsal",
        }
