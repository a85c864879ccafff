"""A pool's `rollout`. Defaults, bounds and descriptions are those of
`slicewright.apis.gpu_pool`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import GetJsonSchemaHandler

from slicewright.apis.gpu_pool.rollout_policy import (
    DEFAULT_POLICY,
    SETTINGS,
    DrainPolicy,
    Evicted,
    OnTimeout,
    RolloutPolicy,
)
from slicewright.apis.gpu_pool.settings import (
    Choice,
    Duration,
    NodeShare,
    NodeTotal,
    Switch,
    describe,
)
from slicewright.infra.stack_file.schema.constraints import (
    OWN_LIMIT,
    IntRange,
)
from slicewright.infra.stack_file.schema.model import SpecModel
from slicewright.infra.stack_file.schema.node_shares import ShareOfNodes

_DRAIN: Final = DEFAULT_POLICY.drain
_ON_TIMEOUT: Final[Mapping[str, OnTimeout]] = {"stop": "Stop", "force": "Force"}
_EVICTED: Final[Mapping[str, Evicted]] = {"gpu": "GPU", "all": "All", "none": "None"}


@dataclass(frozen=True)
class _Described:
    """The description of a policy's field."""

    field: str

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> Any:
        kind = SETTINGS[self.field]
        if isinstance(kind, Choice):
            meanings = {word.lower(): meaning for word, meaning in kind.meanings.items()}
            text = describe(kind.about, meanings)
        elif isinstance(kind, Switch):
            text = describe(kind.about, dict(zip(("false", "true"), kind.meanings, strict=True)))
        else:
            text = kind.description
        return {**handler(core), "description": text}


def _share(field: str) -> ShareOfNodes:
    kind = SETTINGS[field]
    assert isinstance(kind, NodeShare)
    return ShareOfNodes(key=field, bounds=kind.bounds, source=OWN_LIMIT)


def _total(field: str, why_maximum: str = "") -> IntRange:
    kind = SETTINGS[field]
    assert isinstance(kind, NodeTotal)
    return IntRange(
        minimum=kind.minimum,
        maximum=kind.maximum,
        unit="node",
        why_maximum=why_maximum,
        source=OWN_LIMIT,
    )


def _minutes(field: str, why_maximum: str) -> IntRange:
    kind = SETTINGS[field]
    assert isinstance(kind, Duration)
    return IntRange(
        minimum=1,
        maximum=kind.maximum // 60,
        unit="minute",
        why_maximum=why_maximum,
        source=OWN_LIMIT,
    )


class Conflict(NamedTuple):
    """A key that contradicts another one."""

    key: str
    reason: str
    instead: str


class Rollout(SpecModel):
    """How a new layout, or a new driver, is rolled out to the pool's nodes."""

    max_unavailable: Annotated[
        int | str, _share("max_unavailable"), _Described("max_unavailable")
    ] = DEFAULT_POLICY.max_unavailable
    canary: Annotated[int, _total("canary", "a canary is a small sample"), _Described("canary")] = (
        DEFAULT_POLICY.canary
    )
    drain_timeout_minutes: Annotated[
        int,
        _minutes("timeout_s", "a node that is not drained after a day needs an operator"),
        _Described("timeout_s"),
    ] = int(_DRAIN.timeout_s) // 60
    on_drain_timeout: Annotated[Literal["stop", "force"], _Described("on_timeout")] = "stop"
    evict: Annotated[Literal["gpu", "all", "none"], _Described("pods")] = "gpu"
    delete_local_data: Annotated[bool, _Described("delete_local_data")] = _DRAIN.delete_local_data
    one_zone_at_a_time: Annotated[bool, _Described("one_zone_at_a_time")] = (
        DEFAULT_POLICY.one_zone_at_a_time
    )
    max_failures: Annotated[int | str, _share("max_failures"), _Described("max_failures")] = (
        DEFAULT_POLICY.max_failures
    )
    max_failures_in_a_row: Annotated[
        Annotated[int, _total("max_failures_in_a_row")] | None, _Described("max_failures_in_a_row")
    ] = DEFAULT_POLICY.max_failures_in_a_row
    max_unverified: Annotated[int | str, _share("max_unverified"), _Described("max_unverified")] = (
        DEFAULT_POLICY.max_unverified
    )
    quarantine: Annotated[bool, _Described("quarantine")] = DEFAULT_POLICY.quarantine

    replaced_keys: ClassVar[Mapping[str, str]] = {
        "max_unavailable_percent": "max_unavailable: {value}%",
        "max_failures_percent": "max_failures: {value}%",
        "on_failure": "max_failures: 1 for pause (the default), 100% for continue",
        "tolerate_unproven": "max_unverified: {value}",
        "tolerate_unproven_percent": "max_unverified: {value}%",
    }

    @property
    def policy(self) -> RolloutPolicy:
        return RolloutPolicy(
            max_unavailable=self.max_unavailable,
            canary=self.canary,
            one_zone_at_a_time=self.one_zone_at_a_time,
            drain=DrainPolicy(
                timeout_s=60.0 * self.drain_timeout_minutes,
                on_timeout=_ON_TIMEOUT[self.on_drain_timeout],
                pods=_EVICTED[self.evict],
                delete_local_data=self.delete_local_data,
            ),
            max_failures=self.max_failures,
            max_failures_in_a_row=self.max_failures_in_a_row,
            max_unverified=self.max_unverified,
            quarantine=self.quarantine,
        )

    def conflicts(self) -> Iterator[Conflict]:
        """Yields the keys whose value has no effect beside another key's."""
        limit, in_a_row = self.max_failures, self.max_failures_in_a_row
        if isinstance(limit, int) and in_a_row is not None and limit < in_a_row:
            yield Conflict(
                key="max_failures_in_a_row",
                reason=f"the rollout stops at {limit} failed {'node' if limit == 1 else 'nodes'} "
                "anyway, in a row or not",
                instead="write max_failures: 100%, or a greater number",
            )
        if self.evict == "none" and self.on_drain_timeout == "force":
            yield Conflict(
                key="on_drain_timeout",
                reason="with evict: none no pod is evicted, so nothing can be forced",
                instead="write on_drain_timeout: stop, or evict: gpu",
            )
