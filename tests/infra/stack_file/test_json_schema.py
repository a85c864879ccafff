"""The committed JSON Schema is current, accepts every stack file and refuses broken ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from slicewright.infra import plan
from slicewright.infra.stack_file import json_schema as schema
from slicewright.infra.stack_file.reading.annotations import FLEET_TYPE
from tests.repository_stacks import STACKS

ROOT = Path(__file__).resolve().parents[3]
FILE = ROOT / "docs" / "reference" / "stack-file.schema.json"
SCHEMA: dict[str, Any] = json.loads(FILE.read_text())

_SILENT = {"then", "else", "$schema", "$defs", "title", "description", "default", "discriminator"}
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def errors(node: dict[str, Any], value: Any, at: str = "") -> list[str]:
    """Validates with the keywords of JSON Schema 2020-12 that pydantic uses; fails on any other."""
    found: list[str] = []
    for keyword, expected in node.items():
        match keyword:
            case "$ref":
                name = expected.removeprefix(FILE.name).removeprefix("#/$defs/")
                found += errors(SCHEMA["$defs"][name], value, at)
            case "if":
                branch = "else" if errors(expected, value, at) else "then"
                found += errors(node[branch], value, at)
            case "type":
                if not isinstance(value, _TYPES[expected]) or (
                    isinstance(value, bool) and expected in ("integer", "number")
                ):
                    return [f"{at}: is not a {expected}"]
            case "const":
                found += [] if value == expected else [f"{at}: is not {expected}"]
            case "enum":
                found += [] if value in expected else [f"{at}: is not one of {expected}"]
            case "oneOf" | "anyOf":
                fitting = [s for s in expected if not errors(s, value, at)]
                if not fitting or (keyword == "oneOf" and len(fitting) > 1):
                    found.append(f"{at}: fits {len(fitting)} of {keyword}")
            case "required":
                found += [
                    f"{at}.{key}: is missing"
                    for key in expected
                    if isinstance(value, dict) and key not in value
                ]
            case "properties":
                if isinstance(value, dict):
                    for key in set(expected) & set(value):
                        found += errors(expected[key], value[key], f"{at}.{key}")
            case "patternProperties":
                if isinstance(value, dict):
                    for pattern, inner in expected.items():
                        for key in value:
                            if re.search(pattern, key):
                                found += errors(inner, value[key], f"{at}.{key}")
            case "additionalProperties":
                if isinstance(value, dict):
                    patterns = node.get("patternProperties", {})
                    others = [
                        k
                        for k in value
                        if k not in node.get("properties", {})
                        and not any(re.search(p, k) for p in patterns)
                    ]
                    if expected is False:
                        found += [f"{at}.{key}: unknown" for key in others]
                    elif isinstance(expected, dict):
                        for key in others:
                            found += errors(expected, value[key], f"{at}.{key}")
            case "items":
                if isinstance(value, list):
                    for i, item in enumerate(value):
                        found += errors(expected, item, f"{at}[{i}]")
            case "minItems" | "minProperties":
                sized = list if keyword == "minItems" else dict
                found += (
                    [f"{at}: has less than {expected}"]
                    if isinstance(value, sized) and len(value) < expected
                    else []
                )
            case "minimum":
                found += (
                    [f"{at}: below {expected}"]
                    if isinstance(value, int) and value < expected
                    else []
                )
            case "maximum":
                found += (
                    [f"{at}: above {expected}"]
                    if isinstance(value, int) and value > expected
                    else []
                )
            case "minLength":
                found += (
                    [f"{at}: too short"] if isinstance(value, str) and len(value) < expected else []
                )
            case "pattern":
                found += (
                    [f"{at}: not like {expected}"]
                    if isinstance(value, str) and not re.search(expected, value)
                    else []
                )
            case _:
                assert keyword in _SILENT, f"this test does not know {keyword}"
    return found


def test_the_committed_schema_is_current() -> None:
    assert FILE.read_text() == schema.text(), (
        "run: python -m slicewright.infra.stack_file.json_schema "
        "> docs/reference/stack-file.schema.json"
    )


@pytest.mark.parametrize("stack", STACKS, ids=lambda s: s.name)
def test_every_stack_file_names_the_schema_and_is_valid(stack: Path) -> None:
    text = stack.read_text()
    first, target = text.splitlines()[0], "../docs/reference/stack-file.schema.json"
    assert first == f"# yaml-language-server: $schema={target}"
    assert (stack.parent / target).resolve() == FILE
    assert errors(SCHEMA, yaml.safe_load(text)) == []


@pytest.mark.parametrize("name", ["vllm", "triton", "container"])
def test_workloads_of_each_kind_are_valid_and_misspelled_ones_are_not(name: str) -> None:
    text = (ROOT / f"tests/infra/golden/{name}.yaml").read_text()
    assert errors(SCHEMA, yaml.safe_load(text)) == []
    for old, new in (("replicas:", "replica:"), (f"kind: {name}", "kind: other")):
        assert old in text
        assert errors(SCHEMA, yaml.safe_load(text.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("machine_type:", "machin_type:"),
        ("cloud: gke", "cloud: gcp"),
        ("count: 1", 'count: "1"'),
        ("count: 1", "count: 0"),
        ("profile: 3g.40gb", "profile: 3g40gb"),
        ("capacity: spot", "capacity: spott"),
        ("mode: native", "mode: natve"),
        ("name: h100-partition-3g", "name: H100"),
        ("effect: NoSchedule", "effect: NoSchedul"),
    ],
)
def test_the_schema_refuses_a_mistake(old: str, new: str) -> None:
    text = (ROOT / "stacks" / "Pulumi.gke-h100.yaml").read_text()
    assert old in text
    assert errors(SCHEMA, yaml.safe_load(text.replace(old, new, 1))) != []


def _with(stack: str, **pool: Any) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())
    config["config"]["slicewright:fleet"]["node_pools"][0] |= pool
    return config


def _operator(**keys: Any) -> dict[str, Any]:
    return {"partition": {"mode": "operator", **keys}}


@pytest.mark.parametrize(
    ("pool", "right"),
    [
        (_operator(layout={"1g.5gb": 7}), True),
        (_operator(layout={}), False),
        (_operator(gpus=[]), False),
        (_operator(gpus=[{"index": [], "layout": {}}]), False),
        (_operator(gpus=[{"index": [0], "layout": {}}]), True),
        (_operator(), False),
        (_operator(layout={"1g.5gb": 7}, config="all-balanced"), False),
        (_operator(layout=None, config="all-balanced"), True),
        ({"zones": []}, False),
        ({"sharing": {"mode": "time-slicing", "replicas": {}}}, False),
        ({"tags": {"aws:x": "y"}}, False),
        ({"tags": {"Team": "A B"}}, True),
    ],
)
def test_the_schema_refuses_empty_lists_and_alternatives_given_twice(
    pool: dict[str, Any], right: bool
) -> None:
    assert (errors(SCHEMA, _with("eks-a100", **pool)) == []) is right


def test_the_schema_refuses_a_fleet_without_pools() -> None:
    for stack in ("gke-h100", "eks-a100"):
        config = _with(stack)
        config["config"]["slicewright:fleet"]["node_pools"] = []
        assert errors(SCHEMA, config) != []


@pytest.mark.parametrize("stack", ["gke-h100", "eks-a100"])
@pytest.mark.parametrize(
    "mode", ["on-demand", "spot", "flex-start", "queued", "reservation", "capacity-block"]
)
def test_the_schema_offers_the_capacity_modes_of_the_cloud(stack: str, mode: str) -> None:
    block = {"reservation": "cr-0123456789abcdef0"} if mode == "capacity-block" else {}
    config = _with(stack, capacity={"mode": mode, **block})
    fleet = TypeAdapter(FLEET_TYPE).validate_json(json.dumps(config["config"]["slicewright:fleet"]))
    _, problems = plan.build(fleet)
    there = not any(
        " only" in p.reason for p in problems if p.path == ("node_pools", 0, "capacity")
    )
    assert (errors(SCHEMA, config) == []) is there
    if not block:
        assert (errors(SCHEMA, _with(stack, capacity=mode)) == []) is there


@pytest.mark.parametrize(
    ("part", "right"),
    [
        ({"extends": "base.yaml"}, True),
        ({"extends": ["a.yaml", "b.yaml"], "cluster": {"name": "prod"}}, True),
        ({"extends": "base.yaml", "node_pools": [{"name": "a", "nodes": {"count": 2}}]}, True),
        ({"extends": "base.yaml", "pod_guard": None, "hosts": []}, True),
        ({"extends": "base.yaml", "cluter": {}}, False),
        ({"extends": []}, False),
        ({"extends": 7}, False),
        ({"cluster": {"name": "prod"}}, False),
    ],
)
def test_a_fleet_with_bases_may_be_a_part(part: dict[str, Any], right: bool) -> None:
    assert (errors(SCHEMA, {"config": {"slicewright:fleet": part}}) == []) is right


def test_the_schema_of_base_files_accepts_any_part_of_a_fleet() -> None:
    base = json.loads((FILE.parent / "base-file.schema.json").read_text())
    for part, right in (
        ({"cluster": {"name": "prod"}}, True),
        (_with("gke-h100")["config"]["slicewright:fleet"], True),
        ({"extends": "other.yaml"}, True),
        ({"cluter": {"name": "prod"}}, False),
    ):
        assert (errors(base, {"config": {"slicewright:fleet": part}}) == []) is right


def test_keys_that_need_an_explanation_have_a_description() -> None:
    pool = SCHEMA["$defs"]["GkePool"]["properties"]
    for key in ("zones", "gpu", "driver", "resource_labels"):
        assert pool[key]["description"]
