"""Fields in both directions: requested values come back, what the cloud added does not."""

from __future__ import annotations

import pytest

from slicewright.rehearsal.plugins.bridge.fields import Field, from_api, same, to_api
from slicewright.rehearsal.plugins.engine.plugin import ProviderError

FIELDS = {
    **same("name", "labels", "flag"),
    "size": Field(api="sizeText", text=True),
    "disk": Field(api="diskType", computed=True),
    "mode": Field(api="deep.inner.mode", computed=True),
    "zones": Field(unordered=True),
    "box": Field(of=same("a", "b")),
    "items": Field(many=True, of={"kind": Field(api="type"), "extra": Field(computed=True)}),
    "setting": Field(default="NONE"),
}


@pytest.mark.parametrize(
    "asked",
    [
        {"name": "x", "labels": {"a": "b"}, "size": 3},
        {"disk": "ssd", "mode": "fast"},
        {"zones": ["b", "a"]},
        {"box": {"a": 1}},
        {"items": [{"kind": "x"}, {"kind": "y", "extra": 1}]},
        {"flag": False, "labels": {}, "box": {}, "items": [], "setting": "NONE"},
    ],
)
def test_requested_values_come_back(asked: dict) -> None:
    assert from_api(FIELDS, to_api(FIELDS, asked), asked) == asked


def test_values_that_the_server_fills_in_are_not_inputs() -> None:
    answer = {
        "diskType": "pd",
        "deep": {"inner": {"mode": "x"}},
        "setting": "NONE",
        "items": [{"type": "x", "extra": 1}],
        "labels": {},
    }
    assert from_api(FIELDS, answer, {"items": [{"kind": "x"}]}) == {"items": [{"kind": "x"}]}


def test_values_that_the_server_changed_show() -> None:
    assert from_api(FIELDS, {"diskType": "pd"}, {"disk": "ssd"}) == {"disk": "pd"}
    assert from_api(FIELDS, {"labels": {"x": "y"}}, {}) == {"labels": {"x": "y"}}
    assert from_api(FIELDS, {}, {"name": "x", "labels": {"a": "b"}}) == {}


def test_a_set_keeps_the_requested_order() -> None:
    assert from_api(FIELDS, {"zones": ["a", "b", "c"]}, {"zones": ["c", "a"]}) == {
        "zones": ["c", "a", "b"]
    }


def test_an_import_shows_everything() -> None:
    assert from_api(FIELDS, {"diskType": "pd", "sizeText": "3", "labels": {}}, None) == {
        "disk": "pd",
        "size": 3,
    }


def test_a_property_without_a_field_is_refused_with_its_path() -> None:
    with pytest.raises(
        ProviderError,
        match=r"items\[1\]\.colour: .* does not simulate .*; here it simulates extra, kind",
    ):
        to_api(FIELDS, {"items": [{"kind": "x"}, {"colour": "red"}]})


def test_a_list_may_be_a_map_in_the_api_and_comes_back_in_the_order_asked_for() -> None:
    fields = {"exclusions": Field(api="window.exclusions", keyed="name", of=same("start"))}
    asked = {"exclusions": [{"name": "b", "start": "2"}, {"name": "a", "start": "1"}]}
    sent = to_api(fields, asked)
    assert sent == {"window": {"exclusions": {"b": {"start": "2"}, "a": {"start": "1"}}}}
    answer = {"window": {"exclusions": {"a": {"start": "1"}, "b": {"start": "2"}, "c": {}}}}
    assert from_api(fields, answer, asked) == {"exclusions": [*asked["exclusions"], {"name": "c"}]}
    assert from_api(fields, sent, None) == asked
