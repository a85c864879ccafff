"""What one value may be, why, and by whose word: refusal, JSON Schema and example come from the
same row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

from infra.spec.problem import REFERENCE

OWN = "slicewright's own limit"


class Wrong(ValueError):
    """A value that may not be. The message is what is wrong with it and why, to be read after the
    value.
    """

    def __init__(self, reason: str, instead: str, source: str = "") -> None:
        super().__init__(reason)
        self.instead = instead
        self.source = source


class _Checked:
    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def check(self, value: Any) -> Any:
        """The value. Raises Wrong."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Whole(_Checked):
    """A whole number between two bounds, or from one on."""

    least: int
    below: str
    """Why not less."""
    most: int | None = None
    """None where the bound depends on something else, which `infra.plan` knows."""
    above: str = ""
    """Why not more."""
    source: str
    """Where the bounds come from."""
    otherwise: str = ""
    """What to write where a number outside is meant after all."""

    @property
    def instead(self) -> str:
        allowed = (
            f"write {self.least} or more"
            if self.most is None
            else f"write {self.least} to {self.most}"
        )
        return f"{allowed}, or {self.otherwise}" if self.otherwise else allowed

    @property
    def example(self) -> int:
        return self.least

    def check(self, value: int) -> int:
        if value < self.least:
            raise Wrong(f"is less than {self.least}: {self.below}", self.instead, self.source)
        if self.most is not None and value > self.most:
            raise Wrong(f"is more than {self.most}: {self.above}", self.instead, self.source)
        return value

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        return {**handler(core), "minimum": self.least} | (
            {} if self.most is None else {"maximum": self.most}
        )


@dataclass(frozen=True, kw_only=True)
class Form(_Checked):
    """Text of one form."""

    pattern: str
    """Of the whole text; also what editors check."""
    wrong: str
    """What other text is: `is no MIG profile`."""
    examples: tuple[str, ...]
    source: str

    @property
    def instead(self) -> str:
        return f"write it like {' or '.join(self.examples)}"

    @property
    def example(self) -> str:
        return self.examples[0]

    def check(self, value: str) -> str:
        if not re.fullmatch(self.pattern, value):
            raise Wrong(self.wrong, self.instead, self.source)
        return value

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        return {**handler(core), "pattern": f"^(?:{self.pattern})$"}


@dataclass(frozen=True, kw_only=True)
class Filled(_Checked):
    """A list or mapping with something in it."""

    empty: str
    """What an empty one would do."""
    instead: str
    source: str = REFERENCE

    def check(self, value: Any) -> Any:
        if not value:
            raise Wrong(f"is empty: {self.empty}", self.instead, self.source)
        return value

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        said = handler(core)
        return {**said, "minItems" if said.get("type") == "array" else "minProperties": 1}


@dataclass(frozen=True)
class DnsName(_Checked):
    """A DNS label that starts with a letter, of at most `longest` characters."""

    longest: int
    source: str
    example: str = "main"

    def check(self, value: str) -> str:
        if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", value) or len(value) > self.longest:
            raise Wrong(
                "is no name: small letters, digits and '-', starting with a letter, at "
                f"most {self.longest} characters",
                f"for example {self._nearest(value)}",
                self.source,
            )
        return value

    def _nearest(self, value: str) -> str:
        letters = (
            re.sub(r"[^a-z0-9]+", "-", value.casefold())
            .lstrip("-0123456789")[: self.longest]
            .rstrip("-")
        )
        return letters or self.example

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        return {**handler(core), "pattern": rf"^[a-z]([-a-z0-9]{{0,{self.longest - 2}}}[a-z0-9])?$"}


class LabelKeyForm(_Checked):
    """A key of Kubernetes labels and taints. No pattern for editors: length and prefix together are
    no short one.
    """

    example = "team"
    _NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
    _PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

    def check(self, value: str) -> str:
        prefix, slash, name = value.rpartition("/")
        if not self._NAME.fullmatch(name) or (
            slash and (len(prefix) > 253 or not self._PREFIX.fullmatch(prefix))
        ):
            raise Wrong(
                "is no Kubernetes key: letters, digits, '-', '_', '.', at most 63, with an "
                "optional DNS prefix and '/' before",
                "write it like team or example.com/team",
                "Kubernetes docs, labels",
            )
        return value


class Named(Form):
    """Text that is a name of something, and says anything at all."""

    def __init__(self, what: str, source: str, *examples: str) -> None:
        super().__init__(
            pattern=r"\S(?:.*\S)?",
            wrong=f"is no name of {what}: empty, or with a space at an end",
            examples=examples,
            source=source,
        )
