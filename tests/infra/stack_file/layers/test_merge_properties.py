"""Properties of merged fleets, over random fleets and over the stacks of this repository."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from slicewright.infra import plan, stack_file
from slicewright.infra.stack_file import KEY
from slicewright.infra.stack_file.layers.layered_source import LayeredSource, layered
from slicewright.infra.stack_file.layers.merge import NAMED_LISTS
from slicewright.show.resolved_text import resolved_text
from tests.properties import examples
from tests.repository_stacks import STACKS

_NAMES = st.sampled_from(["a", "b", "c"])
_LEAVES = st.none() | st.integers(0, 9) | st.sampled_from(["1.30", "on", "x y", "1e3", "é", ""])
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=8,
)
_ITEMS = st.lists(
    st.dictionaries(_NAMES, _VALUES, max_size=2).flatmap(
        lambda item: _NAMES.map(lambda name: {"name": name, **item})
    )
    | _VALUES,
    max_size=3,
)
_PARTS = st.fixed_dictionaries({"exclusions": _ITEMS})
_FLEETS = st.fixed_dictionaries(
    {},
    optional={
        "node_pools": _ITEMS | _VALUES,
        "workloads": _ITEMS,
        "cluster": st.fixed_dictionaries({}, optional={"maintenance": _PARTS, "a": _VALUES}),
        "labels": _VALUES,
        "zones": st.lists(_LEAVES, max_size=2),
    },
)


def source(fleet: Any, name: str) -> stack_file.Source:
    return stack_file.Source(name, fleet)


def merged(fleets: Sequence[Any]) -> LayeredSource:
    return layered([source(fleet, str(i)) for i, fleet in enumerate(fleets)])


def reference(lower: Any, upper: Any, keys: tuple[str, ...] = ()) -> Any:
    """The merge as documented, over plain values. Null stays."""
    if isinstance(lower, dict) and isinstance(upper, dict):
        both = {
            k: reference(v, upper[k], (*keys, k)) if k in upper else v for k, v in lower.items()
        }
        return both | {k: v for k, v in upper.items() if k not in lower}
    if keys in NAMED_LISTS and isinstance(lower, list) and isinstance(upper, list):
        items = list(lower)
        merged_names: set[str] = set()
        for item in upper:
            name = name_of(item)
            names = [name_of(other) for other in lower]
            if name is not None and name in names and name not in merged_names:
                place = names.index(name)
                items[place] = reference(items[place], item, (*keys, "[]"))
                merged_names.add(name)
            else:
                items.append(item)
        return items
    return upper


def name_of(item: Any) -> str | None:
    name = item.get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else None


def without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_null(v) for k, v in value.items() if v is not None}
    return [without_null(v) for v in value] if isinstance(value, list) else value


@settings(max_examples=examples(300))
@given(st.lists(_FLEETS, min_size=1, max_size=4))
def test_the_merge_is_the_documented_one(fleets: list[Any]) -> None:
    expected = fleets[0]
    for fleet in fleets[1:]:
        expected = reference(expected, fleet)
    assert merged(fleets).raw == without_null(expected)


@settings(max_examples=examples(300))
@given(st.lists(_FLEETS, min_size=1, max_size=4))
def test_no_input_is_changed_and_one_fleet_alone_only_loses_null(fleets: list[Any]) -> None:
    before = copy.deepcopy(fleets)
    merged(fleets)
    assert fleets == before
    assert merged(fleets[:1]).raw == without_null(fleets[0])


def paths(value: Any, path: stack_file.Path = ()) -> Iterator[stack_file.Path]:
    yield path
    entries = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for step, inner in entries:
        yield from paths(inner, (*path, step))


@settings(max_examples=examples(300))
@given(st.lists(_FLEETS, min_size=1, max_size=4))
def test_every_value_is_in_the_layer_that_it_is_said_to_come_from(fleets: list[Any]) -> None:
    sources = merged(fleets)
    for path in paths(sources.raw):
        origin = sources.origin(path)
        value, written = sources.value(path), origin.source.value(origin.path)
        if isinstance(value, dict | list):
            assert type(written) is type(value)
        else:
            assert written == value
            assert sources.files_of(path) == (origin.source.name,)


def write(directory: Path, name: str, fleet: Any) -> Path:
    file = directory / name
    file.write_text(json.dumps({"config": {KEY: fleet}}))
    return file


@settings(max_examples=examples(100))
@given(_FLEETS, _FLEETS, _FLEETS, _FLEETS)
def test_bases_may_be_grouped_in_files_of_their_own(a: Any, b: Any, c: Any, stack: Any) -> None:
    """The merge is associative over a list of bases: [a, b, c], [a, (b, c)], [(a, b), c]."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        for base, fleet in (("a", a), ("b", b), ("c", c)):
            write(directory, base, fleet)
        write(directory, "ab", {"extends": ["a", "b"]})
        write(directory, "b-on-a", {"extends": "a", **b})
        write(directory, "bc", {"extends": ["b", "c"]})
        raws = [
            stack_file.read(write(directory, "stack", {"extends": extends, **stack})).raw
            for extends in (["a", "b", "c"], ["ab", "c"], ["a", "bc"], ["b-on-a", "c"])
        ]
    assert raws[1:] == raws[:1] * 3


@settings(max_examples=examples(200))
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_content_of_a_base_is_read_or_refused(content: bytes) -> None:
    with TemporaryDirectory() as name:
        directory = Path(name)
        for head in (b"", b"config:\n  slicewright:fleet:\n    "):
            (directory / "base").write_bytes(head + content)
            file = write(directory, "stack", {"extends": "base", "cloud": "gke"})
            with pytest.raises(stack_file.SpecError):
                plan.read_file(file)


@settings(max_examples=examples(200))
@given(_VALUES | st.text(max_size=20))
def test_any_value_of_extends_is_read_or_refused(extends: Any) -> None:
    with TemporaryDirectory() as name:
        file = write(Path(name), "stack", {"extends": extends, "cloud": "gke"})
        with pytest.raises(stack_file.SpecError):
            plan.read_file(file)


def split(fleet: Any, choose: Any, path: tuple[str, ...] = ()) -> tuple[Any, Any]:
    """Splits a mapping in two layers whose merge it is. Lists of names stay in order."""
    base: dict[str, Any] = {}
    stack: dict[str, Any] = {}
    for key, value in fleet.items():
        at = (*path, key)
        match choose(st.sampled_from(["base", "stack", "both", "overridden"])):
            case "stack":
                stack[key] = value
            case "both" if isinstance(value, dict) and value:
                base[key], stack[key] = split(value, choose, at)
            case "both" if at in NAMED_LISTS and value:
                parts = [split_item(item, choose, at) for item in value]
                base[key], stack[key] = [b for b, _ in parts], [s for _, s in parts]
            case "overridden" if not isinstance(value, dict | list):
                base[key], stack[key] = "other", value
            case _:
                base[key] = value
    return base, stack


def split_item(item: Any, choose: Any, path: tuple[str, ...]) -> tuple[Any, Any]:
    rest = {k: v for k, v in item.items() if k != "name"}
    base, stack = split(rest, choose, (*path, "[]"))
    return {"name": item["name"], **base}, {"name": item["name"], **stack}


FLEETS = {file.stem: yaml.safe_load(file.read_text())["config"][KEY] for file in STACKS}


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(sorted(FLEETS)), st.data())
def test_a_split_stack_has_the_plan_of_the_whole_and_of_its_resolved_text(
    stack: str, data: st.DataObject
) -> None:
    base, part = split(FLEETS[stack], data.draw)
    with TemporaryDirectory() as name:
        directory = Path(name)
        whole = plan.read_file(write(directory, "whole", FLEETS[stack]))
        write(directory, "base", base)
        file = write(directory, "stack", {"extends": "base", **part})
        assert plan.read_file(file) == whole
        resolved = directory / "resolved"
        resolved.write_text(resolved_text(stack_file.read(file)))
        assert "extends" not in resolved.read_text()
        assert plan.read_file(resolved) == whole


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(sorted(FLEETS)), st.data())
def test_a_mistake_is_reported_in_the_file_that_has_it(stack: str, data: st.DataObject) -> None:
    layers = split(FLEETS[stack], data.draw)
    number = data.draw(st.integers(0, 1))
    # Indented text, so that each key has a line of its own.
    layers[number]["no_such_key"] = 1
    with TemporaryDirectory() as name:
        directory = Path(name)
        for file, fleet in zip(("base", "stack"), layers, strict=True):
            fleet = {"extends": "base", **fleet} if file == "stack" else fleet
            text = json.dumps({"config": {KEY: fleet}}, indent=1)
            (directory / file).write_text(text)
        wrong = directory / ("base", "stack")[number]
        lines = wrong.read_text().splitlines()
        line = next(i for i, text in enumerate(lines, 1) if '"no_such_key"' in text)
        with pytest.raises(stack_file.SpecError) as error:
            plan.read_file(directory / "stack")
    assert f"  {wrong}:{line}:4: no_such_key: unknown key" in str(error.value)


@settings(max_examples=examples(200))
@given(_FLEETS)
def test_resolved_text_keeps_every_value(fleet: Any) -> None:
    with TemporaryDirectory() as name:
        file = Path(name) / "resolved"
        file.write_text(resolved_text(merged([{"x": 1, **fleet}])))
        source = stack_file.read(file)
    assert source.raw == without_null({"x": 1, **fleet})
    assert not source.problems
