"""The base model of every part of a stack file, and unions that may be written as one word."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema


class SpecModel(BaseModel):
    # Strict: a count written as "2" or true is a mistake, not a number.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """With the docstrings of the fields as their descriptions.

        pydantic's `use_attribute_docstrings` reads them from the source when a class is made: a
        seventh of the time of each start, and only the JSON Schema shows them.
        """
        made = handler(core)
        properties = handler.resolve_ref_schema(made).get("properties", {})
        for name, text in _field_docstrings(cls).items():
            properties[name]["description"] = text
        return made


def _field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Of a model's fields and of those that it has from its bases."""
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if one is not SpecModel and issubclass(one, SpecModel):
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
            assert isinstance(tree, ast.ClassDef)
            for stated, after in pairwise(tree.body):
                if (
                    isinstance(stated, ast.AnnAssign)
                    and isinstance(stated.target, ast.Name)
                    and isinstance(after, ast.Expr)
                    and isinstance(after.value, ast.Constant)
                    and isinstance(after.value.value, str)
                ):
                    found[stated.target.id] = inspect.cleandoc(after.value.value)
    return found


WORD_TAG, MAPPING_TAG = "<word>", "<mapping>"
"""Steps that `Shorthand` adds to the location of a validation error; no file has them."""


class Shorthand:
    """A union that may be written as one word: `capacity: spot` is `capacity: {mode: spot}`.

    words: the modes that the JSON Schema offers as one word. Any other mode written so is refused
    for the keys that it lacks.
    """

    def __init__(self, *words: str) -> None:
        self.words = words

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        full = handler(source)
        # A function before the whole union would turn JSON into Python objects, and strict
        # validation of those refuses lists for tuples.
        return core_schema.tagged_union_schema(
            {
                WORD_TAG: core_schema.no_info_before_validator_function(_to_mapping, full),
                MAPPING_TAG: full,
            },
            _tag,
        )

    def __get_pydantic_json_schema__(
        self, core: Any, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "anyOf": [
                {"type": "string", "enum": list(self.words)},
                handler(core["choices"][MAPPING_TAG]),
            ]
        }


def _tag(value: Any) -> str:
    return WORD_TAG if isinstance(value, str) else MAPPING_TAG


def _to_mapping(value: Any) -> Any:
    return {"mode": value}
