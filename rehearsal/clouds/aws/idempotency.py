"""Client tokens: a request that a client sends again for want of an answer is carried out once.

botocore puts a token into every request whose model has a member for one, the same into each of its
own retries. Sources: EKS API reference, `clientRequestToken`; "Ensuring idempotency in Amazon EC2
API requests". EKS's reference does not say how it refuses a token that comes with another request;
its wording is ours.
"""

from __future__ import annotations

import hashlib
from functools import cache

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.models import service_model
from slicewright.rehearsal.clouds.core.context import Handler
from slicewright.rehearsal.clouds.core.store import Kind, Store

TOKENS = Kind[JsonObject]("aws-tokens")
"""By a hash of service, region, operation and token: `request` without the token, and `answer`."""
_ERRORS = {"eks": "InvalidParameterException"}


def answered_once(
    store: Store,
    service: str,
    operation: str,
    handler: Handler,
    params: JsonObject,
    body: JsonObject,
) -> JsonObject:
    """The handler's answer, or the one that the same request got before. Raises CloudError."""
    member = _token_member(service, operation)
    token = body.get(member) if member else None
    if not token:
        return handler(params, body)
    key = hashlib.sha256(f"{service}/{params['region']}/{operation}/{token}".encode()).hexdigest()
    request = {k: v for k, v in body.items() if k != member}
    before = store.get(TOKENS, key)
    if before is None:
        answer = handler(params, body)
        store.put(TOKENS, key, {"request": request, "answer": answer})
        return answer
    if before["request"] != request:
        raise aws_error(
            _ERRORS.get(service, "IdempotentParameterMismatch"),
            "Arguments on this idempotent request are inconsistent with arguments used in previous "
            f"request(s): {member} {token}",
        )
    first_answer: JsonObject = before["answer"]
    return first_answer


@cache
def _token_member(service: str, operation: str) -> str | None:
    shape = service_model(service).operation_model(operation).input_shape
    members = shape.members.items() if shape is not None else ()
    return next((n for n, m in members if m.metadata.get("idempotencyToken")), None)
