"""rest-json: the operation in method and path, parameters in path, query string and JSON body."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.protocols.values import from_json, from_text, to_json
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.http_messages import Request, Response


def parse(model: Any, request: Request) -> tuple[str, JsonObject]:
    """The operation and its parameters. Raises CloudError."""
    operation, labels = _route(model, request)
    shape = model.operation_model(operation).input_shape
    if shape is None:
        return operation, {}
    query = parse_qs(request.query, keep_blank_values=True)
    parameters: JsonObject = {}
    in_body = False
    for name, member in shape.members.items():
        wire_name = member.serialization.get("name", name)
        match member.serialization.get("location"):
            case "uri":
                parameters[name] = from_text(member, labels[wire_name])
            case "querystring" if wire_name in query:
                texts = query[wire_name]
                parameters[name] = (
                    [from_text(member.member, t) for t in texts]
                    if member.type_name == "list"
                    else from_text(member, texts[0])
                )
            case None:
                in_body = True
            case _:
                pass
    if in_body:
        parameters |= members_of(shape, body_of(request))
    return operation, parameters


def answer(operation: Any, answered: JsonObject, request_id: str) -> Response:
    shape = operation.output_shape
    content = {} if shape is None else _to_json(shape, answered)
    return _response(operation.http.get("responseCode", 200), content, request_id)


def refusal(error: CloudError, request_id: str) -> Response:
    content = {"__type": error.reason, "message": error.message}
    return _response(error.code, content, request_id, {"x-amzn-ErrorType": error.reason})


def _response(
    status: int, content: JsonObject, request_id: str, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(
        status=status,
        body=json.dumps(content).encode(),
        headers={
            "Content-Type": "application/json",
            "x-amzn-RequestId": request_id,
            **(headers or {}),
        },
    )


def _route(model: Any, request: Request) -> tuple[str, dict[str, str]]:
    """The operation, and the parts of the path that are parameters."""
    for method, pattern, operation in _routes(model):
        match = pattern.fullmatch(request.path)
        if method == request.method and match:
            return operation, {k: unquote(v) for k, v in match.groupdict().items()}
    raise aws_error(
        "UnknownOperationException",
        f"{model.service_name} has no operation {request.method} {request.path}",
        code=404,
    )


@cache
def _routes(model: Any) -> list[tuple[str, re.Pattern[str], str]]:
    """Method, pattern of the path, operation. Paths without a parameter first."""
    routes = []
    for operation in model.operation_names:
        http = model.operation_model(operation).http
        # A parameter is one part of the path: a slash inside of it is sent as %2F.
        parts = re.split(r"{(\w+)}", http["requestUri"])
        pattern = "".join(
            f"(?P<{part}>[^/]+)" if index % 2 else re.escape(part)
            for index, part in enumerate(parts)
        )
        routes.append((len(parts), (http["method"], re.compile(pattern), operation)))
    return [route for _, route in sorted(routes, key=lambda f: f[0])]


def body_of(request: Request) -> JsonObject:
    if not request.body:
        return {}
    try:
        body = json.loads(request.body)
    except ValueError as e:
        raise aws_error("SerializationException", f"the body is not JSON: {e}") from None
    if not isinstance(body, dict):
        raise aws_error("SerializationException", "the body is not a JSON object")
    return body


def members_of(shape: Any, body: JsonObject) -> JsonObject:
    """Of a structure. Members that the model lacks stay, for the check against it to refuse."""
    names = {
        m.serialization.get("name", name): name
        for name, m in shape.members.items()
        if "location" not in m.serialization
    }
    return {
        names.get(k, k): _from_json(shape.members[names[k]], v) if k in names else v
        for k, v in body.items()
        if v is not None
    }


def _from_json(shape: Any, value: Any) -> Any:
    match shape.type_name, value:
        case "structure", dict():
            return members_of(shape, value)
        case "list", list():
            return [_from_json(shape.member, item) for item in value]
        case "map", dict():
            return {k: _from_json(shape.value, item) for k, item in value.items()}
        case _:
            return from_json(shape, value)


def _to_json(shape: Any, value: Any) -> Any:
    match shape.type_name:
        case "structure":
            return {
                shape.members[name].serialization.get("name", name): _to_json(
                    shape.members[name], item
                )
                for name, item in value.items()
                if item is not None
            }
        case "list":
            return [_to_json(shape.member, item) for item in value]
        case "map":
            return {k: _to_json(shape.value, item) for k, item in value.items()}
        case _:
            return to_json(shape, value)
