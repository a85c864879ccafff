"""json: the operation in the header X-Amz-Target, parameters in a JSON body.

Answers and refusals are those of rest-json.
"""

from __future__ import annotations

from typing import Any

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.protocols import rest_json
from slicewright.rehearsal.clouds.aws.protocols.rest_json import answer, refusal
from slicewright.rehearsal.clouds.core.http_messages import Request

__all__ = ["answer", "parse", "refusal"]


def parse(model: Any, request: Request) -> tuple[str, JsonObject]:
    """The operation and its parameters. Raises CloudError."""
    target = request.headers.get("x-amz-target", "")
    prefix, _, operation = target.rpartition(".")
    if prefix != model.metadata["targetPrefix"] or operation not in model.operation_names:
        raise aws_error("UnknownOperationException", f"X-Amz-Target is {target!r}")
    shape = model.operation_model(operation).input_shape
    body = rest_json.body_of(request)
    return operation, {} if shape is None else rest_json.members_of(shape, body)
