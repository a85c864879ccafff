"""What every part of a stack file is made of: strict, frozen, no unknown keys; and the words that Kubernetes and NVIDIA allow."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PROFILE = re.compile(r"(?:[1-9]c\.)?[1-9]g\.\d{1,4}gb(?:[+-][a-z][a-z0-9.]*)?")
_MEMORY = re.compile(r"[1-9]\d{0,6}(?:Mi|Gi)")
_RESOURCE = re.compile(r"(?:nvidia\.com/)?(gpu|mig-[1-9]g\.\d{1,4}gb(?:[.-][a-z][a-z0-9.]*)?)")


class Spec(BaseModel):
    # Strict: a count written "2" or true is a slip, not a number.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)


def _label_key(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if not _LABEL_NAME.fullmatch(name) or (slash and (len(prefix) > 253 or not _LABEL_PREFIX.fullmatch(prefix))):
        raise ValueError(
            "is no Kubernetes key: letters, digits, '-', '_', '.', at most 63, with an optional DNS prefix and '/' before"
        )
    return key


def _label_value(value: str) -> str:
    if value and not _LABEL_NAME.fullmatch(value):
        raise ValueError(
            "is no Kubernetes label value: at most 63 letters, digits, '-', '_', '.', starting and ending with a letter or digit"
        )
    return value


def _profile(name: str) -> str:
    if not _PROFILE.fullmatch(name):
        raise ValueError("is no MIG profile; write it as NVIDIA does, for example 1g.5gb or 1g.10gb+me")
    return name


def _memory(written: str) -> str:
    if not _MEMORY.fullmatch(written):
        raise ValueError("is no amount of memory; write it like 18Gi or 6144Mi")
    return written


def _resource(name: str) -> str:
    if not _RESOURCE.fullmatch(name):
        raise ValueError("is no GPU resource; write gpu, or mig- and the profile with '.' for '+', for example mig-1g.5gb.me")
    return name


class _Pattern:
    """The same rule for editors, where it is one regular expression."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), "pattern": self.pattern}


WORD, SPELLED_OUT = "<word>", "<spelled out>"
"""Steps in the path of a validation error that are in nobody's file."""


class Short:
    """A union that may be written as one word: `capacity: spot` is `capacity: {mode: spot}`.

    words: the modes for which the word alone is enough, for editors; the others are refused for what they lack.
    """

    def __init__(self, *words: str) -> None:
        self.words = words

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        full = handler(source)
        # Not a function before the whole: that would turn JSON into Python objects, where strict refuses lists for tuples.
        return core_schema.tagged_union_schema(
            {WORD: core_schema.no_info_before_validator_function(_spelled_out, full), SPELLED_OUT: full}, _how_written
        )

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string", "enum": list(self.words)}, handler(core["choices"][SPELLED_OUT])]}


def _how_written(value: Any) -> str:
    return WORD if isinstance(value, str) else SPELLED_OUT


def _spelled_out(value: Any) -> Any:
    return {"mode": value}


class DnsName:
    """A DNS label that starts with a letter, of at most `longest` characters."""

    def __init__(self, longest: int) -> None:
        self.longest = longest

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), "pattern": rf"^[a-z]([-a-z0-9]{{0,{self.longest - 2}}}[a-z0-9])?$"}

    def _check(self, name: str) -> str:
        if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name) or len(name) > self.longest:
            raise ValueError(
                f"is no name: small letters, digits and '-', starting with a letter, at most {self.longest} characters"
            )
        return name


LabelKey = Annotated[str, AfterValidator(_label_key)]
LabelValue = Annotated[str, AfterValidator(_label_value), _Pattern(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")]
Labels = Mapping[LabelKey, LabelValue]
ProfileName = Annotated[str, AfterValidator(_profile), _Pattern(f"^{_PROFILE.pattern}$")]
ResourceName = Annotated[str, AfterValidator(_resource), _Pattern(f"^{_RESOURCE.pattern}$")]
Memory = Annotated[str, AfterValidator(_memory), _Pattern(f"^{_MEMORY.pattern}$")]
Positive = Annotated[int, Field(ge=1)]
NodeCount = Annotated[int, Field(ge=1, le=65_000)]
"""The largest cluster that a cloud offers is GKE's, 65,000 nodes (1.31 and newer). Source: GKE's published limits."""
NotNegative = Annotated[int, Field(ge=0)]
ZoneNames = tuple[Annotated[str, Field(min_length=3)], ...]


def mebibytes(memory: str) -> int:
    """`18Gi` -> 18432."""
    return int(memory[:-2]) * (1024 if memory.endswith("Gi") else 1)
