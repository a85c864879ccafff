"""Every bound and every form of a stack file: what it refuses, why, by whose word, and what would
be right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel, TypeAdapter

from infra.spec.reading.shape import example, inside, is_model, rules
from infra.spec.schema.fleet import ByoFleet, EksFleet, GkeFleet
from infra.spec.schema.limits import DnsName, Form, LabelKeyForm, Whole, Wrong

Rule = Whole | Form | DnsName | LabelKeyForm


def _models(at: Any, seen: set[Any]) -> Iterator[type[BaseModel]]:
    if is_model(at) and at not in seen:
        seen.add(at)
        yield at
        for name in at.model_fields:
            yield from _models(inside(at, name), seen)
    else:
        for inner in get_args(at):
            yield from _models(inner, seen)


MODELS = [model for fleet in (GkeFleet, EksFleet, ByoFleet) for model in _models(fleet, set())]
FIELDS = {
    f"{model.__name__}.{name}": inside(model, name)
    for model in MODELS
    for name in model.model_fields
}


def _said(annotation: Any) -> Iterator[Rule]:
    """The rules of a field, of its items, keys and values."""
    yield from rules(annotation, Whole, Form, DnsName, LabelKeyForm)
    for inner in get_args(annotation):
        if not is_model(inner) and not isinstance(inner, Rule):
            yield from _said(inner)


RULES: dict[str, list[Rule]] = {
    name: list(_said(annotation)) for name, annotation in FIELDS.items()
}
NUMBERS = [
    (name, rule) for name, found in RULES.items() for rule in found if isinstance(rule, Whole)
]
FORMS = [(name, rule) for name, found in RULES.items() for rule in found if isinstance(rule, Form)]


def test_there_are_bounds_to_test() -> None:
    assert len(NUMBERS) > 15
    assert len(FORMS) > 15


@pytest.mark.parametrize(("field", "rule"), NUMBERS, ids=lambda p: p if isinstance(p, str) else "")
def test_a_number_out_of_bounds_is_told_the_bounds_why_and_by_whose_word(
    field: str, rule: Whole
) -> None:
    beyond = [(rule.least - 1, f"is less than {rule.least}: {rule.below}")]
    if rule.most is not None:
        assert rule.above, field
        beyond += [(n, f"is more than {rule.most}: {rule.above}") for n in (rule.most + 1, 10**30)]
        assert rule.check(rule.most) == rule.most
    assert rule.check(rule.least) == rule.least
    for number, said in beyond:
        with pytest.raises(Wrong) as refused:
            rule.check(number)
        assert str(refused.value) == said
        assert refused.value.instead.startswith(f"write {rule.least} ")
        assert rule.most is None or str(rule.most) in refused.value.instead
        assert refused.value.source


# What a number may be at most depends on the GPU, the pool or the workload here: `infra.plan`
# refuses it.
OPEN = {
    "GpuGroup.index",
    "GpuGroup.layout",
    "Operator.layout",
    "HostGpu.index",
    "Instance.start",
    "GpuShare.compute_percent",
}


def test_no_other_number_is_without_an_upper_bound() -> None:
    assert {name for name, rule in NUMBERS if rule.most is None} == OPEN
    plain = {name for name, annotation in FIELDS.items() if int in _leaves(annotation)}
    assert plain == {name for name, _ in NUMBERS}


def _leaves(annotation: Any) -> Iterator[Any]:
    inner = get_args(annotation)
    if not inner:
        yield annotation
    for each in inner:
        if not is_model(each) and not isinstance(each, Rule):
            yield from _leaves(each)


@pytest.mark.parametrize(("field", "rule"), FORMS, ids=lambda p: p if isinstance(p, str) else "")
def test_text_of_no_such_form_is_told_what_it_is_not_and_is_shown_one(
    field: str, rule: Form
) -> None:
    for good in rule.examples:
        # A version in quotes is shown with them: without, YAML reads a number.
        assert rule.check(good.strip('"')) == good.strip('"')
    with pytest.raises(Wrong) as refused:
        rule.check(" \n")
    assert rule.wrong.startswith("is no ")
    assert all(good in refused.value.instead for good in rule.examples)
    assert refused.value.source


@pytest.mark.parametrize("name", ["My_Pool", "a" * 60, "größe", "-x-", "9lives", "_"])
def test_the_name_that_is_proposed_is_one(name: str) -> None:
    rule = DnsName(40, "x", "h100")
    with pytest.raises(Wrong) as refused:
        rule.check(name)
    proposed = refused.value.instead.removeprefix("for example ")
    assert rule.check(proposed) == proposed


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.__name__)
def test_the_example_of_a_part_is_valid(model: type[BaseModel]) -> None:
    """It stands in messages, and in the place of what is left out of a broken file."""
    made = example(model)
    assert (
        model.model_validate_json(TypeAdapter(Any).dump_json(made))
        .model_dump(exclude_unset=True, mode="json")
        .keys()
        == made.keys()
    )
