"""What every part of a stack file is made of: strict, frozen, no unknown keys; and the words that
Kubernetes and NVIDIA allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from infra.spec.schema.limits import Filled, Form, LabelKeyForm, Whole


class Spec(BaseModel):
    # Strict: a count written "2" or true is a slip, not a number.
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


WORD, SPELLED_OUT = "<word>", "<spelled out>"
"""Steps in the path of a validation error that are in nobody's file."""


class Short:
    """A union that may be written as one word: `capacity: spot` is `capacity: {mode: spot}`.

    words: the modes for which the word alone is enough, for editors; the others are refused for
    what they lack.
    """

    def __init__(self, *words: str) -> None:
        self.words = words

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        full = handler(source)
        # Not a function before the whole: that would turn JSON into Python objects, where strict
        # refuses lists for tuples.
        return core_schema.tagged_union_schema(
            {
                WORD: core_schema.no_info_before_validator_function(_spelled_out, full),
                SPELLED_OUT: full,
            },
            _how_written,
        )

    def __get_pydantic_json_schema__(
        self, core: Any, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "anyOf": [
                {"type": "string", "enum": list(self.words)},
                handler(core["choices"][SPELLED_OUT]),
            ]
        }


def _how_written(value: Any) -> str:
    return WORD if isinstance(value, str) else SPELLED_OUT


def _spelled_out(value: Any) -> Any:
    return {"mode": value}


LabelKey = Annotated[str, LabelKeyForm()]
LabelValue = Annotated[
    str,
    Form(
        pattern=r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?",
        wrong="is no Kubernetes label value: at most 63 letters, digits, '-', '_', '.', none of "
        "'-', '_', '.' at the ends",
        examples=("h100", "team-a"),
        source="Kubernetes docs, labels",
    ),
]
Labels = Mapping[LabelKey, LabelValue]
ProfileName = Annotated[
    str,
    Form(
        pattern=r"(?:[1-9]c\.)?[1-9]g\.[0-9]{1,4}gb(?:[+-][a-z][a-z0-9.]*)?",
        wrong="is no MIG profile: slices, 'g.', memory, 'gb', as NVIDIA writes it",
        examples=("1g.5gb", "1g.10gb+me"),
        source="NVIDIA MIG user guide",
    ),
]
_GCP_LABELS = "Compute Engine docs, labels: requirements"
CloudLabels = Mapping[
    Annotated[
        str,
        Form(
            pattern=r"[a-z\u00df-\uffff][-_a-z0-9\u00df-\uffff]{0,62}",
            wrong="is no key of Google's labels: at most 63 small letters, digits, '-' and '_', "
            "starting with a letter",
            examples=("team", "cost-center"),
            source=_GCP_LABELS,
        ),
    ],
    Annotated[
        str,
        Form(
            pattern=r"[-_a-z0-9\u00df-\uffff]{0,63}",
            wrong="is no value of Google's labels: at most 63 small letters, digits, '-' and '_'",
            examples=("research", "team-a"),
            source=_GCP_LABELS,
        ),
    ],
]
"""Google's own labels, not Kubernetes'. International letters are allowed; of those that are
capitals this says nothing.
"""
_AWS_TAGS = "AWS docs, tag naming limits"
Tags = Mapping[
    Annotated[
        str,
        Form(
            pattern=r"(?![aA][wW][sS]:).{1,128}",
            wrong="is no key of an AWS tag: 1 to 128 characters, and not `aws:` before, which is "
            "Amazon's own",
            examples=("team", "cost-center"),
            source=_AWS_TAGS,
        ),
    ],
    Annotated[
        str,
        Form(
            pattern=r".{0,256}",
            wrong="is no value of an AWS tag: at most 256 characters in one line",
            examples=("research", "team-a"),
            source=_AWS_TAGS,
        ),
    ],
]
ResourceName = Annotated[
    str,
    Form(
        pattern=r"(?:nvidia\.com/)?(gpu|mig-[1-9]g\.[0-9]{1,4}gb(?:[.-][a-z][a-z0-9.]*)?)",
        wrong="is no GPU resource: gpu, or mig- and the profile with '.' for '+'",
        examples=("gpu", "mig-1g.5gb", "mig-1g.5gb.me"),
        source="NVIDIA/k8s-device-plugin, internal/rm",
    ),
]
Memory = Annotated[
    str,
    Form(
        pattern=r"[1-9][0-9]{0,6}(?:Mi|Gi)",
        wrong="is no amount of memory: a whole number of Mi or Gi",
        examples=("18Gi", "6144Mi"),
        source="Kubernetes docs, quantities",
    ),
]
Zone = Annotated[
    str,
    Form(
        pattern=r"[a-z]+-[-a-z0-9]*[a-z0-9]",
        wrong="is no name of a zone",
        examples=("us-central1-c", "eu-west-1a"),
        source="the clouds' lists of zones",
    ),
]
ZoneNames = Annotated[
    tuple[Zone, ...],
    Filled(
        empty="nodes are in at least one zone",
        instead="name one zone or more",
        source="GKE and EC2 APIs",
    ),
]
MOST_NODES = 65_000
NodeCount = Annotated[
    int,
    Whole(
        least=1,
        below="a pool without nodes is no pool",
        most=MOST_NODES,
        above="no cluster of any cloud is larger",
        source="GKE limits: 65,000 nodes per cluster from 1.31 on, the most of all clouds",
        otherwise="{min: 0, max: …} for a pool that starts with none",
    ),
]
GpuIndex = Annotated[int, Whole(least=0, below="GPUs are counted from 0", source="NVML")]
GpuCount = Annotated[
    int,
    Whole(
        least=1,
        below="without a GPU there is nothing to do",
        most=32,
        above="the driver takes no more in one machine",
        source="NVIDIA/open-gpu-kernel-modules nvlimits.h, NV_MAX_DEVICES",
    ),
]


def mebibytes(memory: str) -> int:
    """`18Gi` -> 18432."""
    return int(memory[:-2]) * (1024 if memory.endswith("Gi") else 1)
