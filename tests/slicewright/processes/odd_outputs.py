"""Outputs of other programs that are not the expected ones, by what is odd about them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

RESOURCE: Final = {"urn": "urn:pulumi:dev::p::t::n", "type": "t", "custom": True}


def state(**fields: object) -> bytes:
    return json.dumps({"version": 3, "deployment": fields}).encode()


NOT_JSON: Final[Mapping[str, bytes]] = {
    "nothing": b"",
    "white space": b" \n\t\r\n",
    "words": b"warning: please log in\n",
    "an escape sequence": b"\x1b[31mred\x1b[0m" * 20,
    "a page of HTML": b"<html><body>" + b"sign in " * 1000,
    "not UTF-8": b'{"deployment": {"resources": [{"urn": "\xff\xfe"}]}}',
    "NUL bytes": bytes(1000),
    "an array of brackets": b"[" * 1_000_000,
    "a million objects": b'{"a":' * 1_000_000,
    "NaN": b'{"deployment": {"resources": []}, "x": NaN, "url": NaN}',
    "infinity": b'{"deployment": {"resources": []}, "x": -Infinity, "url": 1}',
    "a huge number": b'{"deployment": {"resources": []}, "url": ' + b"9" * 10_000 + b"}",
    "a key twice": b'{"deployment": {"resources": []}, "deployment": {}, "url": "a", "url": "b"}',
    "half": b'{"deployment": {"resou',
    "two values": b"{}\n{}\n",
    "UTF-16 without a mark": "{}".encode("utf-16-le"),
}
"""Outputs that no reader of JSON may accept."""
NOT_A_STATE: Final[Mapping[str, bytes]] = {
    "null": b"null",
    "a number": b"17",
    "text": b'"deployment"',
    "a list": b"[]",
    "an empty object": b"{}",
    "no deployment": b'{"version": 3}',
    "deployment null": b'{"version": 3, "deployment": null}',
    "deployment a list": b'{"version": 3, "deployment": []}',
    "resources an object": state(resources={"a": 1}),
    "resources a number": state(resources=1),
    "resources of text": state(resources=["urn"]),
    "resources of null": state(resources=[None]),
    "a resource without a type": state(resources=[{"urn": "urn:a"}]),
    "a resource without a URN": state(resources=[{"type": "t"}]),
    "a type that is a number": state(resources=[{**RESOURCE, "type": 1}]),
    "inputs that are text": state(resources=[{**RESOURCE, "inputs": "x"}]),
    "outputs that are a list": state(resources=[{**RESOURCE, "outputs": ["x"]}]),
    "pending text": state(resources=[], pending_operations=["x"]),
    "pending without a resource": state(pending_operations=[{"type": "creating"}]),
    "pending without a URN": state(pending_operations=[{"type": "creating", "resource": {}}]),
}
"""JSON that is not the state of a stack."""
GOOD_STATE: Final = state(resources=[RESOURCE])
