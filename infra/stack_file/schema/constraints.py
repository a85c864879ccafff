"""Constraints on single values, each with its message, remedy, source, JSON Schema and example."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

from slicewright.infra.stack_file.problem import REFERENCE

OWN_LIMIT = "slicewright's own limit"


class ConstraintError(ValueError):
    """A value is not allowed. In the message, `{value}` stands for the value."""

    def __init__(self, reason: str, instead: str, source: str = "") -> None:
        super().__init__(reason)
        self.instead = instead
        self.source = source


class Constraint:
    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def check(self, value: Any) -> Any:
        """Returns the value. Raises ConstraintError."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class IntRange(Constraint):
    """An integer of at least `minimum` and at most `maximum`, if given."""

    minimum: int
    maximum: int | None = None
    """None if the bound depends on other keys. `slicewright.infra.plan` checks it then."""
    planned_maximum: int | None = None
    """The greatest value in messages, if `slicewright.infra.plan` refuses a greater one."""
    unit: str = ""
    """Singular, for messages: `minute`, `GB`."""
    why_minimum: str = ""
    why_maximum: str = ""
    source: str
    """The source of the bounds."""
    alternative: str = ""
    """Another value that a number out of range may have meant."""

    @property
    def instead(self) -> str:
        greatest = self.planned_maximum or self.maximum
        allowed = (
            f"write {self.minimum} or more"
            if greatest is None
            else f"write {self.minimum} to {greatest}"
        )
        return f"{allowed}, or {self.alternative}" if self.alternative else allowed

    @property
    def example(self) -> int:
        return self.minimum

    def check(self, value: int) -> int:
        if value < self.minimum:
            bound = (
                f"must be at least {self._format(self.minimum)}"
                if self.minimum
                else "must not be negative"
            )
            self._refuse(bound, self.why_minimum)
        if self.maximum is not None and value > self.maximum:
            self._refuse(f"must be at most {self._format(self.maximum)}", self.why_maximum)
        return value

    def _refuse(self, bound: str, why: str) -> None:
        reason = f"{bound}, but is {{value}}" + (f": {why}" if why else "")
        raise ConstraintError(reason, self.instead, self.source)

    def _format(self, number: int) -> str:
        plural = "" if number == 1 or self.unit in ("", "GB") else "s"
        return f"{number} {self.unit}{plural}".rstrip()

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        return {**handler(core), "minimum": self.minimum} | (
            {} if self.maximum is None else {"maximum": self.maximum}
        )


@dataclass(frozen=True, kw_only=True)
class Pattern(Constraint):
    """Text that matches a regular expression as a whole."""

    pattern: str
    """The regular expression, which the JSON Schema has, too."""
    is_not: str
    """The noun that follows `is not` in the message: `a MIG profile: …`."""
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
            raise ConstraintError(f"{{value}} is not {self.is_not}", self.instead, self.source)
        return value

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        return {**handler(core), "pattern": f"^(?:{self.pattern})$"}


class FreeText(Pattern):
    """Any name or path that is not empty and has no space at either end."""

    def __init__(self, noun: str, source: str, *examples: str) -> None:
        super().__init__(
            pattern=r"\S(?:.*\S)?",
            is_not=f"{noun}: it is empty, or starts or ends with a space",
            examples=examples,
            source=source,
        )


@dataclass(frozen=True, kw_only=True)
class NotEmpty(Constraint):
    """A list or mapping of at least one item."""

    why: str
    instead: str
    source: str = REFERENCE

    def check(self, value: Any) -> Any:
        if not value:
            raise ConstraintError(
                f"must not be empty: {self.why}" if self.why else "must not be empty",
                self.instead,
                self.source,
            )
        return value

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        schema = handler(core)
        return {**schema, "minItems" if schema.get("type") == "array" else "minProperties": 1}


@dataclass(frozen=True, kw_only=True)
class NotNull(Constraint):
    """An optional list that, if its key is present, has a value.

    A key whose items are all commented out has the value null. Its default must not replace it.
    """

    why: str
    instead: str
    source: str = REFERENCE

    def check(self, value: Any) -> Any:
        if value is None:
            raise ConstraintError(f"has no value: {self.why}", self.instead, self.source)
        return value

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        schema = handler(core)
        (alternative,) = (a for a in schema["anyOf"] if a.get("type") != "null")
        return alternative


@dataclass(frozen=True)
class DnsLabel(Constraint):
    """A DNS label (RFC 1035) of at most `longest` characters."""

    longest: int
    source: str
    example: str = "main"

    def check(self, value: str) -> str:
        if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", value) or len(value) > self.longest:
            raise ConstraintError(
                f"{{value}} is not a valid name: at most {self.longest} lowercase letters, digits "
                "and '-', starting with a letter, not ending with '-'",
                f"for example {self._closest(value)}",
                self.source,
            )
        return value

    def _closest(self, value: str) -> str:
        label = re.sub(r"[^a-z0-9]+", "-", value.casefold()).lstrip("-0123456789")
        return label[: self.longest].rstrip("-") or self.example

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        return {**handler(core), "pattern": rf"^[a-z]([-a-z0-9]{{0,{self.longest - 2}}}[a-z0-9])?$"}


@dataclass(frozen=True)
class Cidr(Constraint):
    """A range of IPv4 or IPv6 addresses. It has no pattern in the JSON Schema."""

    source: str = "Kubernetes API, NetworkPolicy IPBlock"
    example: str = "10.0.0.0/16"

    def check(self, value: str) -> str:
        try:
            network = ipaddress.ip_network(value, strict=False)
        except ValueError:
            network = None
        if network is None or "/" not in value or str(network) != value.casefold():
            raise ConstraintError(
                "{value} is not a range of addresses: the first address, '/' and the number of "
                "leading bits",
                f"write it like {self.example if network is None else network}",
                self.source,
            )
        return value


class QualifiedName(Constraint):
    """A key of Kubernetes labels and taints. It has no pattern in the JSON Schema."""

    example = "team"
    _NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
    _PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

    def check(self, value: str) -> str:
        prefix, slash, name = value.rpartition("/")
        if not self._NAME.fullmatch(name) or (
            slash and (len(prefix) > 253 or not self._PREFIX.fullmatch(prefix))
        ):
            raise ConstraintError(
                "{value} is not a valid Kubernetes key: at most 63 letters, digits, '-', '_' and "
                "'.', after an optional DNS prefix and '/'",
                "write it like team or example.com/team",
                "Kubernetes docs, labels",
            )
        return value
