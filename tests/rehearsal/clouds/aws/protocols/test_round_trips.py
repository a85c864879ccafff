"""Random values of the models' shapes, through botocore's writers and readers and through ours."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore import parsers, serialize
from botocore.awsrequest import create_request_object, prepare_request_dict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slicewright.rehearsal.clouds.aws.models import SERVICES
from slicewright.rehearsal.clouds.aws.protocols import json_rpc, rest_json
from slicewright.rehearsal.clouds.aws.protocols.query import EC2, QUERY
from slicewright.rehearsal.clouds.core.http_messages import Request
from tests.properties import examples
from tests.rehearsal.clouds.aws.protocols.over_http import session

OURS: dict[str, Any] = {"rest-json": rest_json, "json": json_rpc, "query": QUERY, "ec2": EC2}
SUPPORTED_TRAITS = {"name", "queryName", "location", "resultWrapper"}
FEW = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Cn"), include_characters="\r\n\t"),
    min_size=1,
    max_size=8,
)
MOMENTS = st.integers(0, 2**32).map(lambda s: datetime.fromtimestamp(s, UTC))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "character": TEXT,
    "boolean": st.booleans(),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": NUMBERS,
    "double": NUMBERS,
    "timestamp": MOMENTS,
    "blob": st.binary(max_size=8),
}


@st.composite
def values(draw: st.DrawFn, shape: Any, depth: int = 0) -> Any:
    """A value of a shape. What a form cannot carry is left out: empty lists and structures."""
    match shape.type_name:
        case "structure":
            known = list(shape.members)
            most = 1 if shape.is_tagged_union or depth > 3 else 4
            least = 1 if known and (depth or shape.is_tagged_union) else 0
            chosen = draw(
                st.lists(st.sampled_from(known), unique=True, min_size=least, max_size=most)
                if known
                else st.just([])
            )
            # A part of the path cannot be left out.
            chosen += [
                name
                for name, member in shape.members.items()
                if member.serialization.get("location") == "uri" and name not in chosen
            ]
            return {name: draw(values(shape.members[name], depth + 1)) for name in chosen}
        case "list":
            return draw(st.lists(values(shape.member, depth + 1), min_size=1, max_size=3))
        case "map":
            return draw(
                st.dictionaries(TEXT, values(shape.value, depth + 1), min_size=1, max_size=2)
            )
        case kind:
            return draw(SCALARS[kind])


def plain(shape: Any, value: Any) -> Any:
    """As handlers have it: timestamps as text."""
    match shape.type_name:
        case "structure":
            return {k: plain(shape.members[k], v) for k, v in value.items()}
        case "list":
            return [plain(shape.member, v) for v in value]
        case "map":
            return {k: plain(shape.value, v) for k, v in value.items()}
        case "timestamp":
            return value.isoformat().replace("+00:00", "Z")
        case _:
            return value


def empty(shape: Any, value: Any) -> bool:
    """Whether a form carries nothing of it: a structure without members, however deep."""
    match shape.type_name:
        case "structure":
            return all(empty(shape.members[k], v) for k, v in value.items())
        case "list":
            return any(empty(shape.member, v) for v in value)
        case _:
            return False


def carried(shape: Any, value: Any) -> Any:
    """The value without what a form does not carry."""
    if shape.type_name == "structure":
        return {
            k: carried(shape.members[k], v)
            for k, v in value.items()
            if not empty(shape.members[k], v)
        }
    if shape.type_name == "list":
        return [carried(shape.member, v) for v in value]
    return value


@pytest.mark.parametrize("service", SERVICES.values())
@FEW
@given(data=st.data())
def test_request_of_botocore_is_read_correctly(service: str, data: st.DataObject) -> None:
    model = model_of(service)
    protocol = model.metadata["protocol"]
    operation = model.operation_model(data.draw(st.sampled_from(single_answers(model))))
    shape = operation.input_shape
    asked = {} if shape is None else data.draw(values(shape))
    if protocol in ("query", "ec2") and shape is not None:
        asked = carried(shape, asked)
    written = serialize.create_serializer(protocol, include_validation=False).serialize_to_request(
        asked, operation
    )
    prepare_request_dict(written, "http://127.0.0.1:1", {})
    sent = create_request_object(written).prepare()
    url = urlsplit(sent.url)
    body = sent.body.encode() if isinstance(sent.body, str) else sent.body or b""
    headers = {
        name.lower(): value.decode() if isinstance(value, bytes) else value
        for name, value in sent.headers.items()
    }
    request = Request(
        method=sent.method, path=url.path, query=url.query, headers=headers, body=body
    )
    name, found = OURS[protocol].parse(model, request)
    assert name == operation.name
    assert found == ({} if shape is None else plain(shape, asked))


@pytest.mark.parametrize("service", SERVICES.values())
@FEW
@given(data=st.data())
def test_botocore_reads_the_answer_correctly(service: str, data: st.DataObject) -> None:
    model = model_of(service)
    protocol = model.metadata["protocol"]
    operation = model.operation_model(data.draw(st.sampled_from(single_answers(model))))
    shape = operation.output_shape
    meant = {} if shape is None else data.draw(values(shape))
    response = OURS[protocol].answer(
        operation, {} if shape is None else plain(shape, meant), "the-id"
    )
    read = parsers.create_parser(protocol).parse(
        {
            "status_code": response.status,
            "headers": {k.lower(): v for k, v in response.headers.items()},
            "body": response.body,
        },
        shape,
    )
    metadata = read.pop("ResponseMetadata")
    assert (metadata["RequestId"], metadata["HTTPStatusCode"]) == ("the-id", response.status)
    assert read == meant


@pytest.mark.parametrize("service", SERVICES.values())
def test_the_models_use_nothing_of_the_protocols_that_is_not_read_or_written(service: str) -> None:
    """Fails when a later botocore brings what this part of the protocols lacks."""
    model = model_of(service)
    assert model.metadata["protocol"] in OURS
    # Traits of the query protocol that SQS had before: in JSON, lists and maps are themselves.
    is_json = model.metadata["protocol"] == "json"
    known = SUPPORTED_TRAITS | {"flattened"} if is_json else SUPPORTED_TRAITS
    for name in single_answers(model):
        operation = model.operation_model(name)
        for shape, at_top in shapes(operation.input_shape):
            assert set(shape.serialization) <= known, (name, shape)
            if "location" in shape.serialization:
                assert at_top
                assert shape.serialization["location"] in ("uri", "querystring"), (name, shape)
            if shape.type_name == "map" and not is_json:
                assert not shape.key.serialization
                assert not shape.value.serialization
        for shape, _ in shapes(operation.output_shape):
            assert set(shape.serialization) <= known - {"location"}, (name, shape)
            if shape.type_name == "map" and not is_json:
                assert not shape.key.serialization
                assert not shape.value.serialization


@cache
def model_of(service: str) -> Any:
    return session().get_service_model(service)


@cache
def single_answers(model: Any) -> list[str]:
    """Its operations but those that answer with a stream of events, which nothing here simulates:
    of CloudWatch Logs, those that read log lines.
    """
    found = ((name, model.operation_model(name)) for name in model.operation_names)
    return [n for n, o in found if not (o.has_event_stream_output or o.has_event_stream_input)]


def shapes(top: Any) -> Iterator[tuple[Any, bool]]:
    """Every shape at or below the top one, and whether it is a member of that."""
    seen = set()
    waiting = [] if top is None else [(top, 0)]
    while waiting:
        shape, depth = waiting.pop()
        yield shape, depth == 1
        if shape.name in seen:
            continue
        seen.add(shape.name)
        match shape.type_name:
            case "structure":
                below = list(shape.members.values())
            case "list":
                below = [shape.member]
            case "map":
                below = [shape.key, shape.value]
            case _:
                below = []
        waiting += [(each, depth + 1) for each in below]
