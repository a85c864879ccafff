"""The simulated KMS: which keys there are, and in which state. Nothing is encrypted with them."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import Key, account_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.core.context import Context, Methods


class Kms:
    def __init__(self, context: Context) -> None:
        self._context = context

    def methods(self) -> Methods:
        return {"DescribeKey": self._describe}

    def _describe(self, params: JsonObject, body: JsonObject) -> JsonObject:
        """Keys are asked for by ARN: that of a key has its region and account."""
        arn = body["KeyId"]
        parts = arn.split(":", 5)
        if len(parts) < 6 or not parts[5].startswith("key/"):
            raise aws_error("NotFoundException", f"Invalid keyId '{arn}'")
        keys = account_of(self._context).keys
        key = Key() if keys is None else keys.get(arn)
        if key is None or parts[3] != params["region"]:
            raise aws_error("NotFoundException", f"Key '{arn}' does not exist")
        return {
            "KeyMetadata": {
                "AWSAccountId": parts[4],
                "KeyId": parts[5].removeprefix("key/"),
                "Arn": arn,
                "Enabled": key.state == "Enabled",
                "KeyUsage": key.usage,
                "KeyState": key.state,
                "KeyManager": "CUSTOMER",
                "KeySpec": key.spec,
            }
        }
