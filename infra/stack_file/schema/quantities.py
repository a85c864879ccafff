"""Quantities of processor and memory, by Kubernetes' own grammar."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final

from pydantic import Discriminator, GetJsonSchemaHandler, Tag

from slicewright.infra.stack_file.schema.constraints import (
    OWN_LIMIT,
    Constraint,
    ConstraintError,
    IntRange,
    Pattern,
)

_SOURCE: Final = "Kubernetes docs, quantities"
_SUFFIXES: Final[Mapping[str, int]] = {
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: 1000**power for power, letter in enumerate("kMGTPE", 1)},
}
_LEAST_BYTES: Final = 2**20
_MOST_BYTES: Final = 10**7 * 2**30
_MOST_CPUS: Final = 1024


class MemoryQuantity(Pattern):
    """An amount of memory of at least 1Mi. A plain number is one of bytes."""

    def check(self, value: str) -> str:
        super().check(value)
        if not _LEAST_BYTES <= _bytes_of(value) < _MOST_BYTES:
            raise ConstraintError(
                f"{{value}} is not {self.is_not}: as bytes it is less than 1Mi, or more than any "
                "machine has",
                self.instead,
                self.source,
            )
        return value


@dataclass(frozen=True)
class _CpuDecimal(Constraint):
    """A number of CPUs with at most three decimals."""

    example: float = 0.5

    def check(self, value: float) -> float:
        if not 0.001 <= value <= _MOST_CPUS or round(value, 3) != value:
            raise ConstraintError(
                "{value} is not a number of CPUs: 0.001 to 1024, with at most three decimals",
                "write it like 0.5 or 500m",
                _SOURCE,
            )
        return value


class _CpuQuantity(Pattern):
    def check(self, value: str) -> str:
        super().check(value)
        if not 1 <= millicpus(value) <= _MOST_CPUS * 1000:
            raise ConstraintError(
                "{value} is not a number of CPUs: 1m to 1024", self.instead, _SOURCE
            )
        return value


class _Overlapping:
    """A union whose JSON Schema is `anyOf`: an integer is also a number."""

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        return {"anyOf": handler(core)["oneOf"]}


def _cpu_tag(value: Any) -> str:
    if isinstance(value, str):
        return "quantity"
    return "decimal" if isinstance(value, float) else "whole"


Cpu = Annotated[
    Annotated[
        int,
        IntRange(
            minimum=1,
            maximum=_MOST_CPUS,
            unit="CPU",
            why_maximum="no machine in the catalog has more",
            source=OWN_LIMIT,
            alternative="a quantity like 500m",
        ),
        Tag("whole"),
    ]
    | Annotated[float, _CpuDecimal(), Tag("decimal")]
    | Annotated[
        str,
        _CpuQuantity(
            pattern=r"[0-9]{1,7}m|[0-9]{1,4}(?:\.[0-9]{1,3})?",
            is_not="a number of CPUs: an integer, or a quantity in thousandths with the unit m",
            examples=("500m", "2"),
            source=_SOURCE,
        ),
        Tag("quantity"),
    ],
    Discriminator(_cpu_tag),
    _Overlapping(),
]


def mebibytes(memory: str) -> int:
    """The memory in MiB, rounded up: `18Gi` -> 18432."""
    return math.ceil(_bytes_of(memory) / 2**20)


def millicpus(cpu: float | str) -> int:
    """The CPUs in thousandths, rounded up: `1.5` -> 1500."""
    text = str(cpu)
    number = Decimal(text[:-1]) if text.endswith("m") else Decimal(text) * 1000
    return math.ceil(number)


def _bytes_of(memory: str) -> Decimal:
    for suffix, factor in _SUFFIXES.items():
        if memory.endswith(suffix) and not memory[: -len(suffix)].endswith(("e", "E")):
            return Decimal(memory[: -len(suffix)]) * factor
    try:
        return Decimal(memory)
    except InvalidOperation:
        return Decimal(0)
