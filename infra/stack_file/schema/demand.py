"""The demand that `slicewright optimise` plans pools for. `up` does not read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, Tag

from slicewright.infra.stack_file.schema.constraints import (
    OWN_LIMIT,
    Constraint,
    ConstraintError,
    DnsLabel,
    FreeText,
    IntRange,
    NotEmpty,
    NotNull,
)
from slicewright.infra.stack_file.schema.field_types import Memory, ProfileName
from slicewright.infra.stack_file.schema.model import SpecModel

_Name = Annotated[str, DnsLabel(63, "Kubernetes docs, labels", "chat")]
_GpuModel = Annotated[
    str, FreeText("a GPU model of the catalog", "infra/catalog/data/gpus.toml", "H100-80")
]
_MachineType = Annotated[
    str, FreeText("a machine type", "Compute Engine and EC2 docs", "p4d.24xlarge")
]
_MOST: Final = 10_000_000


def _count(unit: str, maximum: int = _MOST, minimum: int = 1) -> IntRange:
    return IntRange(minimum=minimum, maximum=maximum, unit=unit, source=OWN_LIMIT)


@dataclass(frozen=True, kw_only=True)
class _Positive(Constraint):
    """A number above 0 with at most `decimals` decimals."""

    noun: str
    most: float
    decimals: int
    example: float

    def check(self, value: float) -> float:
        if not 0 < value <= self.most or round(value, self.decimals) != value:
            raise ConstraintError(
                f"{{value}} is not {self.noun}: above 0, at most {self.most:g}, with at most "
                f"{self.decimals} decimals",
                f"write it like {self.example}",
                OWN_LIMIT,
            )
        return value


_Rate = Annotated[
    float, _Positive(noun="a number of requests per second", most=1e9, decimals=3, example=12.5)
]
_Milliseconds = Annotated[
    float, _Positive(noun="a number of milliseconds", most=1e7, decimals=3, example=250.0)
]
_Usd = Annotated[
    float, _Positive(noun="a price in US dollars per hour", most=1e6, decimals=3, example=32.773)
]
_Profiles = Annotated[
    Annotated[
        tuple[ProfileName, ...],
        NotEmpty(why="no device would do", instead="list at least one MIG profile"),
    ]
    | None,
    NotNull(why="every profile would do", instead="list MIG profiles, or leave it out for all"),
]
_GpuModels = Annotated[
    Annotated[
        tuple[_GpuModel, ...],
        NotEmpty(why="no GPU would do", instead="list at least one GPU model"),
    ]
    | None,
    NotNull(why="every GPU would do", instead="list GPU models, or leave it out for all"),
]
_MachineTypes = Annotated[
    Annotated[
        tuple[_MachineType, ...],
        NotEmpty(why="no pool could have nodes", instead="list a machine type"),
    ]
    | None,
    NotNull(
        why="every machine type would do",
        instead="list machine types, or leave it out for all",
    ),
]


class _Class(SpecModel):
    name: _Name
    gpu_models: _GpuModels = None
    """The GPU models that may serve the class. By default all."""


class ReplicaDemand(_Class):
    """Replicas that are alike. Each gets one partition, or whole GPUs of one node."""

    replicas: Annotated[int, _count("replica")]
    memory: Memory | None = None
    """The GPU memory of a replica, compared with the usable memory of a profile. With several
    `gpus`, of all of them.
    """
    compute_slices: Annotated[int, _count("compute slice", 7)] | None = None
    """The minimum number of compute slices of a partition."""
    profiles: _Profiles = None
    """The MIG profiles that may serve a replica. By default all with enough memory and slices."""
    gpus: Annotated[int, _count("GPU", 16)] | None = None
    """Whole GPUs of a replica, all on one node. None: a partition, or one whole GPU."""


class Measurement(SpecModel):
    """A point of the curve of one replica on one device, such as of one batch size."""

    requests_per_second: _Rate
    latency_ms: _Milliseconds
    """The latency at this rate, in the statistic of the objective, such as its 99th percentile."""


def _throughput_tag(value: Any) -> str:
    return "rate" if value is None or isinstance(value, int | float | str) else "measurements"


_Throughput = Annotated[
    Annotated[_Rate, Tag("rate")]
    | Annotated[
        Annotated[
            tuple[Measurement, ...],
            NotEmpty(
                why="the device would serve nothing", instead="list a measurement, or write a rate"
            ),
        ],
        Tag("measurements"),
    ],
    Discriminator(_throughput_tag),
]


class RateDemand(_Class):
    """A service with a rate of requests, and the rate that one replica on each device serves."""

    requests_per_second: _Rate
    latency_ms: _Milliseconds | None = None
    """The latency objective. Of a device's measurements the highest rate within it counts. A rate
    without a latency counts as it is.
    """
    throughput: Annotated[
        Mapping[
            _GpuModel,
            Annotated[
                Mapping[ProfileName | Literal["whole"], _Throughput],
                NotEmpty(why="no device would do", instead="list at least one profile"),
            ],
        ],
        NotEmpty(why="no GPU would do", instead="list at least one GPU model"),
    ]
    """GPU model -> MIG profile, or `whole` -> requests per second of one replica within its latency
    objective, or a list of measurements.
    """


def _class_tag(value: Any) -> str:
    keys = value if isinstance(value, dict) else vars(value) if value is not None else ()
    return "rate" if "requests_per_second" in keys or "throughput" in keys else "replicas"


DemandClass = Annotated[
    Annotated[ReplicaDemand, Tag("replicas")] | Annotated[RateDemand, Tag("rate")],
    Discriminator(_class_tag),
]


class Demand(SpecModel):
    """The classes that the pools must serve, all at once, and the limits of the pools."""

    classes: Annotated[
        tuple[DemandClass, ...], NotEmpty(why="nothing would be planned", instead="list a class")
    ]
    objective: Literal["cost", "gpus", "nodes"] = "cost"
    """The quantity to minimise. `cost`: the list prices of the nodes."""
    machine_types: _MachineTypes = None
    """The machine types of the pools. By default all GPU machine types with a list price in the
    region and a zone of the cluster that offers them.
    """
    max_pools: Annotated[int, _count("pool", 40)] = 4
    """The maximum number of pools: an autoscaler needs one for each layout of a machine type."""
    max_nodes: Annotated[int, _count("node", 100_000)] | None = None
    max_gpus: Mapping[_GpuModel, Annotated[int, _count("GPU", 1_000_000, 0)]] = Field(
        default_factory=dict
    )
    """GPU model -> the maximum number of its GPUs, such as a quota."""
    max_machines: Mapping[_MachineType, Annotated[int, _count("node", 100_000, 0)]] = Field(
        default_factory=dict
    )
    """Machine type -> the maximum number of its nodes, such as a reservation."""
    headroom_percent: Annotated[int, _count("percent", 1000, 0)] = 0
    """The demand that is planned beyond the stated one, in percent of it."""
    spare_nodes: Annotated[int, _count("node", 100, 0)] = 0
    """The nodes of each pool that may fail while the demand is still served."""
    usd_per_hour: Mapping[_MachineType, _Usd] = Field(default_factory=dict)
    """Machine type -> the price of a node, in place of its list price."""
