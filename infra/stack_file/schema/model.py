"""The base model of every part of a stack file, and unions with a one-word form."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema


class SpecModel(BaseModel):
    # Strict: a count written as "2" or true is a mistake, not a number.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    replaced_keys: ClassVar[Mapping[str, str]] = {}
    """Key of an earlier slicewright -> the text to write now. `{value}` stands for its value."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Adds the docstrings of the fields as their descriptions.

        pydantic's `use_attribute_docstrings` reads them from the source when a class is created,
        a seventh of the start time, but only the JSON Schema needs them.
        """
        schema = handler(core)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in _field_docstrings(cls).items():
            properties[name]["description"] = text
        return schema


def keys_of(value: Any) -> Collection[str]:
    """The keys of a mapping in the file, or the fields of the model made from it; else nothing.

    A union's discriminator gets the mapping for validation, and the model for serialization.
    """
    if isinstance(value, BaseModel):
        return type(value).model_fields
    return value.keys() if isinstance(value, Mapping) else ()


def _field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """The docstrings of a model's fields, including inherited fields."""
    docstrings: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if base is not SpecModel and issubclass(base, SpecModel):
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            assert isinstance(tree, ast.ClassDef)
            for assignment, statement in pairwise(tree.body):
                if (
                    isinstance(assignment, ast.AnnAssign)
                    and isinstance(assignment.target, ast.Name)
                    and isinstance(statement, ast.Expr)
                    and isinstance(statement.value, ast.Constant)
                    and isinstance(statement.value.value, str)
                ):
                    docstrings[assignment.target.id] = inspect.cleandoc(statement.value.value)
    return docstrings


WORD_TAG, MAPPING_TAG = "<word>", "<mapping>"
"""Steps that `Shorthand` adds to the location of a validation error. No file has them."""


class Shorthand:
    """A union with a one-word form: `capacity: spot` is `capacity: {mode: spot}`.

    words: the modes that the JSON Schema offers as a word. Another mode as a word is refused,
    because it lacks required keys.
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
                WORD_TAG: core_schema.no_info_before_validator_function(_expand_word, full),
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


def _expand_word(value: Any) -> Any:
    return {"mode": value}
