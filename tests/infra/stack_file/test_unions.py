"""A union of models knows the tag of a value from the file, and of the model made from it.

pydantic calls a discriminator with both: with the file's value to validate it, and with the model
to serialize it. Under a wrong tag, it warns, and may serialize the model as another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import BaseModel, Discriminator, Tag, TypeAdapter

from slicewright.infra.stack_file.reading.annotations import example, is_model
from tests.infra.stack_file.test_constraints import FIELDS

Choice = tuple[str, type[BaseModel], Callable[[Any], Any]]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if is_model(annotation):
        yield annotation
        return
    for inner in get_args(annotation):
        yield from _models(inner)


def _choices(annotation: Any) -> Iterator[Choice]:
    """The tag, a model with this tag, and the discriminator, for each union in an annotation."""
    if get_origin(annotation) is Annotated:
        for metadata in annotation.__metadata__:
            if isinstance(metadata, Discriminator) and callable(metadata.discriminator):
                for choice in get_args(annotation.__origin__):
                    (tag,) = (m.tag for m in choice.__metadata__ if isinstance(m, Tag))
                    for model in _models(choice):
                        yield tag, model, metadata.discriminator
    if not is_model(annotation):
        for inner in get_args(annotation):
            yield from _choices(inner)


CHOICES = {
    f"{field}: {model.__name__}": (tag, model, discriminator)
    for field, annotation in FIELDS.items()
    for tag, model, discriminator in _choices(annotation)
}


def test_every_kind_of_union_is_tried() -> None:
    assert {model.__name__ for _, model, _ in CHOICES.values()} >= {
        *("Autoscaled", "ClaimedVolume", "ModelShare", "PrometheusAdapter", "TritonWorkload"),
        *("MetricsRange", "NewVolume"),
    }


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_value_and_model_have_the_same_tag(choice: Choice) -> None:
    tag, model, discriminator = choice
    value = example(model)
    validated = model.model_validate_json(TypeAdapter(Any).dump_json(value))
    assert (discriminator(value), discriminator(validated)) == (tag, tag)
