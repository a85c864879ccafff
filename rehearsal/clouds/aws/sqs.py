"""The simulated SQS: which queues there are. Nothing is sent to them."""

from __future__ import annotations

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.account import account_of
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.iam import ACCOUNT
from slicewright.rehearsal.clouds.core.context import Context, Methods


class Sqs:
    def __init__(self, context: Context) -> None:
        self._context = context

    def methods(self) -> Methods:
        return {"GetQueueUrl": self._url}

    def _url(self, params: JsonObject, body: JsonObject) -> JsonObject:
        name, queues = body["QueueName"], account_of(self._context).queues
        if queues is not None and name not in queues:
            raise aws_error("QueueDoesNotExist", "The specified queue does not exist.")
        return {"QueueUrl": f"https://sqs.{params['region']}.amazonaws.com/{ACCOUNT}/{name}"}
