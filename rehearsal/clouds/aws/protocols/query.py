"""query, and EC2's form of it: parameters as a form with dotted names, answers as XML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.clouds.aws.errors import aws_error
from slicewright.rehearsal.clouds.aws.protocols.values import from_text, to_text
from slicewright.rehearsal.clouds.core.errors import CloudError
from slicewright.rehearsal.clouds.core.http_messages import Request, Response

Node = dict[str, Any]
"""The parameters below one name: part of a name -> text or Node."""


@dataclass(frozen=True)
class Query:
    """What differs between the two forms."""

    name_of: Callable[[Any, str], str]
    """shape of a member, its name in the model -> its name in a request."""
    items_of: Callable[[Any, Node], Node]
    """shape of a list, what is below its name -> number -> item."""
    envelope: Callable[[Any, str, str], str]
    """operation, its answer as XML, request id -> the body."""
    refusal_body: Callable[[CloudError, str], str]

    def parse(self, model: Any, request: Request) -> tuple[str, JsonObject]:
        """The operation and its parameters. Raises CloudError."""
        texts = _texts(request)
        texts.pop("Version", None)
        operation = texts.pop("Action", None)
        if operation is None:
            raise aws_error("MissingAction", "The request must contain the parameter Action")
        if operation not in model.operation_names:
            return operation, {}
        shape = model.operation_model(operation).input_shape
        tree = _tree(texts)
        return operation, tree if shape is None else self._value(shape, tree)

    def _value(self, shape: Any, node: Any) -> Any:
        match shape.type_name, node:
            case "structure", dict():
                return self._members(shape, node)
            case "list", dict():
                items = self.items_of(shape, node)
                numbered = all(k.isdecimal() for k in items)
                in_order = sorted(items, key=int) if numbered else ()
                return [self._value(shape.member, items[k]) for k in in_order] or node
            case "list", "":
                return []
            case "map", {"entry": dict() as entries}:
                pairs = [e for e in entries.values() if isinstance(e, dict)]
                return {
                    e["key"]: self._value(shape.value, e["value"]) for e in pairs if len(e) == 2
                }
            case _, str():
                return from_text(shape, node)
            case _:
                return node

    def _members(self, shape: Any, node: Node) -> JsonObject:
        """Members that the model lacks stay, for the check against it to refuse."""
        names = {self.name_of(member, name): name for name, member in shape.members.items()}
        return {
            names.get(k, k): self._value(shape.members[names[k]], v) if k in names else v
            for k, v in node.items()
        }

    def answer(self, operation: Any, answered: JsonObject, request_id: str) -> Response:
        shape = operation.output_shape
        content = "" if shape is None else "".join(_members_xml(shape, answered))
        return _response(200, self.envelope(operation, content, request_id), request_id)

    def refusal(self, error: CloudError, request_id: str) -> Response:
        return _response(error.code, self.refusal_body(error, request_id), request_id)


def version(request: Request) -> str:
    """Of the API, as the request names it."""
    return _texts(request).get("Version", "")


def _texts(request: Request) -> dict[str, str]:
    text = request.body.decode() or request.query
    return dict(parse_qsl(text, keep_blank_values=True))


def _tree(texts: dict[str, str]) -> Node:
    """{"A.1.B": "x"} -> {"A": {"1": {"B": "x"}}}. Raises CloudError."""
    tree: Node = {}
    for name, text in texts.items():
        node = tree
        *parents, last = name.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                raise _contradiction(name)
        if last in node:
            raise _contradiction(name)
        node[last] = text
    return tree


def _contradiction(name: str) -> CloudError:
    return aws_error("MalformedQueryString", f"{name} and a part of that name are both given")


def _query_items(shape: Any, node: Node) -> Node:
    name = shape.member.serialization.get("name", "member")
    items = node.get(name)
    return items if len(node) == 1 and isinstance(items, dict) else node


def _ec2_name(member: Any, name: str) -> str:
    name_on_wire: str = (
        member.serialization.get("queryName") or member.serialization.get("name") or name
    )
    return (
        name_on_wire[0].upper() + name_on_wire[1:]
        if "queryName" not in member.serialization
        else name_on_wire
    )


def _query_envelope(operation: Any, content: str, request_id: str) -> str:
    name = operation.name
    shape = operation.output_shape
    wrapper = None if shape is None else shape.serialization.get("resultWrapper")
    result = f"<{wrapper}>{content}</{wrapper}>" if wrapper else content
    namespace = operation.service_model.metadata["xmlNamespace"]
    return (
        f'<{name}Response xmlns="{namespace}">{result}<ResponseMetadata>'
        f"<RequestId>{request_id}</RequestId></ResponseMetadata></{name}Response>"
    )


def _ec2_envelope(operation: Any, content: str, request_id: str) -> str:
    name = operation.name
    namespace = operation.service_model.metadata["xmlNamespace"]
    # What EC2 says where there is nothing to say.
    element = "<return>true</return>" if operation.output_shape is None else content
    return (
        f'<{name}Response xmlns="{namespace}/"><requestId>{request_id}</requestId>'
        f"{element}</{name}Response>"
    )


def _query_refusal(error: CloudError, request_id: str) -> str:
    kind = "Sender" if error.code < 500 else "Receiver"
    return (
        f"<ErrorResponse><Error><Type>{kind}</Type>{_code_and_message(error)}</Error>"
        f"<RequestId>{request_id}</RequestId></ErrorResponse>"
    )


def _ec2_refusal(error: CloudError, request_id: str) -> str:
    return (
        f"<Response><Errors><Error>{_code_and_message(error)}</Error></Errors>"
        f"<RequestID>{request_id}</RequestID></Response>"
    )


def _code_and_message(error: CloudError) -> str:
    return f"<Code>{_text(error.reason)}</Code><Message>{_text(error.message)}</Message>"


def _response(status: int, body: str, request_id: str) -> Response:
    return Response(
        status=status,
        body=f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode(),
        headers={"Content-Type": "text/xml;charset=UTF-8", "x-amzn-RequestId": request_id},
    )


def _members_xml(shape: Any, value: JsonObject) -> Iterator[str]:
    for name, item in value.items():
        if item is not None:
            member = shape.members[name]
            yield _element(member.serialization.get("name", name), member, item)


def _element(name: str, shape: Any, value: Any) -> str:
    match shape.type_name:
        case "structure":
            content = "".join(_members_xml(shape, value))
        case "list":
            item_name = shape.member.serialization.get("name", "member")
            content = "".join(_element(item_name, shape.member, item) for item in value)
        case "map":
            content = "".join(
                f"<entry>{_element('key', shape.key, key)}"
                f"{_element('value', shape.value, item)}</entry>"
                for key, item in value.items()
            )
        case _:
            content = _text(to_text(shape, value))
    return f"<{name}>{content}</{name}>"


def _text(text: str) -> str:
    # A parser of XML makes every line end a newline, unless it is written as a number.
    return escape(text, {"\r": "&#13;"})


QUERY = Query(
    name_of=lambda member, name: member.serialization.get("name", name),
    items_of=_query_items,
    envelope=_query_envelope,
    refusal_body=_query_refusal,
)
EC2 = Query(
    name_of=_ec2_name,
    items_of=lambda _, node: node,
    envelope=_ec2_envelope,
    refusal_body=_ec2_refusal,
)
