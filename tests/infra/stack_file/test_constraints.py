"""Every constraint on values: what it refuses, with which reason, remedy and source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from slicewright.infra.stack_file.reading.annotations import (
    constraints_of,
    example,
    is_model,
    type_at,
)
from slicewright.infra.stack_file.schema.access import AdminGroup
from slicewright.infra.stack_file.schema.constraints import (
    Cidr,
    ConstraintError,
    DnsLabel,
    IntRange,
    Pattern,
    QualifiedName,
)
from slicewright.infra.stack_file.schema.fleet import ByoFleet, EksFleet, GkeFleet
from slicewright.infra.stack_file.schema.node_shares import ShareOfNodes

Checked = IntRange | Pattern | DnsLabel | QualifiedName


def _models(at: Any, seen: set[Any]) -> Iterator[type[BaseModel]]:
    if is_model(at) and at not in seen:
        seen.add(at)
        yield at
        for name in at.model_fields:
            yield from _models(type_at(at, name), seen)
    else:
        for inner in get_args(at):
            yield from _models(inner, seen)


MODELS = [model for fleet in (GkeFleet, EksFleet, ByoFleet) for model in _models(fleet, set())]
FIELDS = {
    f"{model.__name__}.{name}": type_at(model, name)
    for model in MODELS
    for name in model.model_fields
}


def _constraints(annotation: Any) -> Iterator[Checked]:
    """The constraints of a field, of its items, keys and values."""
    yield from constraints_of(annotation, IntRange, Pattern, DnsLabel, QualifiedName)
    for inner in get_args(annotation):
        if not is_model(inner) and not isinstance(inner, Checked):
            yield from _constraints(inner)


CONSTRAINTS: dict[str, list[Checked]] = {
    name: list(_constraints(annotation)) for name, annotation in FIELDS.items()
}
NUMBERS = [
    (name, constraint)
    for name, found in CONSTRAINTS.items()
    for constraint in found
    if isinstance(constraint, IntRange)
]
PATTERNS = [
    (name, constraint)
    for name, found in CONSTRAINTS.items()
    for constraint in found
    if isinstance(constraint, Pattern)
]


@pytest.mark.parametrize("value", ["10.0.0.0/16", "0.0.0.0/0", "10.1.2.3/32", "fd00::/8", "::/0"])
def test_valid_ranges_of_addresses_are_accepted(value: str) -> None:
    assert Cidr().check(value) == value


@pytest.mark.parametrize(
    ("value", "instead"),
    [
        ("10.0.0.0", "10.0.0.0/32"),
        ("10.0.0.5/16", "10.0.0.0/16"),
        ("fd00::1/8", "fd00::/8"),
        ("10.0.0.0/255.255.0.0", "10.0.0.0/16"),
        ("10.0.0.0/33", "10.0.0.0/16"),
        ("monitoring", "10.0.0.0/16"),
        ("", "10.0.0.0/16"),
    ],
)
def test_an_invalid_range_of_addresses_is_refused_with_the_closest_valid_one(
    value: str, instead: str
) -> None:
    with pytest.raises(ConstraintError, match="is not a range of addresses") as refused:
        Cidr().check(value)
    assert refused.value.instead == f"write it like {instead}"


@pytest.mark.parametrize(
    "group", ["system:authenticated", "system:nodes", "system:serviceaccounts", "", " admins"]
)
def test_a_group_that_exempts_everybody_is_refused(group: str) -> None:
    with pytest.raises(ValidationError, match="is not a group of administrators"):
        TypeAdapter(AdminGroup).validate_python(group)


def test_pack_has_constraints_to_test() -> None:
    assert len(NUMBERS) > 15
    assert len(PATTERNS) > 15


@pytest.mark.parametrize(
    ("field", "constraint"), NUMBERS, ids=lambda p: p if isinstance(p, str) else ""
)
def test_a_number_out_of_range_is_refused_with_the_bound_and_its_source(
    field: str, constraint: IntRange
) -> None:
    too_low = f"at least {constraint.minimum}" if constraint.minimum else "must not be negative"
    outside = [(constraint.minimum - 1, too_low, constraint.why_minimum)]
    if constraint.maximum is not None:
        for number in (constraint.maximum + 1, 10**30):
            outside.append((number, f"at most {constraint.maximum}", constraint.why_maximum))
        assert constraint.check(constraint.maximum) == constraint.maximum
    assert constraint.check(constraint.minimum) == constraint.minimum
    for number, bound, why in outside:
        with pytest.raises(ConstraintError) as refused:
            constraint.check(number)
        reason, _, because = str(refused.value).partition(": ")
        assert bound in reason
        assert reason.endswith(", but is {value}")
        assert because == why
        assert refused.value.instead.startswith(f"write {constraint.minimum} ")
        assert constraint.maximum is None or str(constraint.maximum) in refused.value.instead
        assert refused.value.source


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (0, "must be at least 1 minute, but is {value}"),
        (3, "must be at most 2 minutes, but is {value}: it is late"),
    ],
)
def test_a_bound_is_shown_with_its_unit(number: int, reason: str) -> None:
    constraint = IntRange(
        minimum=1, maximum=2, unit="minute", why_maximum="it is late", source="a clock"
    )
    with pytest.raises(ConstraintError) as refused:
        constraint.check(number)
    assert str(refused.value) == reason


# `slicewright.infra.plan` checks these against the GPU, the pool or the workload.
WITHOUT_MAXIMUM = {
    "GpuGroup.index",
    "GpuGroup.layout",
    "Boot.layout",
    "Operator.layout",
    "HostGpu.index",
    "Instance.start",
    "FractionalRequest.compute_percent",
    "Mps.replicas",
}


def test_every_other_number_has_a_maximum() -> None:
    assert {name for name, constraint in NUMBERS if constraint.maximum is None} == WITHOUT_MAXIMUM
    plain = {name for name, annotation in FIELDS.items() if int in _leaves(annotation)}
    shares = {
        n for n, annotation in FIELDS.items() if any(constraints_of(annotation, ShareOfNodes))
    }
    assert plain == {name for name, _ in NUMBERS} | shares


def _leaves(annotation: Any) -> Iterator[Any]:
    inner = get_args(annotation)
    if not inner:
        yield annotation
    for each in inner:
        if not is_model(each) and not isinstance(each, Checked):
            yield from _leaves(each)


@pytest.mark.parametrize(
    ("field", "constraint"), PATTERNS, ids=lambda p: p if isinstance(p, str) else ""
)
def test_text_that_does_not_match_is_refused_with_examples(field: str, constraint: Pattern) -> None:
    for good in constraint.examples:
        # Examples of versions are shown in quotes, because YAML reads 1.34 as a number.
        assert constraint.check(good.strip('"')) == good.strip('"')
    with pytest.raises(ConstraintError) as refused:
        constraint.check(" \n")
    assert str(refused.value).startswith("{value} is not ")
    assert all(good in refused.value.instead for good in constraint.examples)
    assert refused.value.source


@pytest.mark.parametrize("name", ["My_Pool", "a" * 60, "größe", "-x-", "9lives", "_"])
def test_the_proposed_name_is_valid(name: str) -> None:
    constraint = DnsLabel(40, "x", "h100")
    with pytest.raises(ConstraintError) as refused:
        constraint.check(name)
    proposed = refused.value.instead.removeprefix("for example ")
    assert constraint.check(proposed) == proposed


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_the_example_of_a_part_is_valid(model: type[BaseModel]) -> None:
    """Messages show it, and error recovery puts it in the place of an unreadable value."""
    made = example(model)
    assert (
        model.model_validate_json(TypeAdapter(Any).dump_json(made))
        .model_dump(exclude_unset=True, mode="json")
        .keys()
        == made.keys()
    )
