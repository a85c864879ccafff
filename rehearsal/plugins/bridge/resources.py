"""One type of resource, as a provider declares it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slicewright.kubeapi import JsonObject
from slicewright.rehearsal.plugins.engine.plugin import CheckFailure
from slicewright.rehearsal.plugins.engine.properties import UNKNOWN, Properties


@dataclass(frozen=True)
class Autoname:
    """Automatic naming: the resource's logical name (truncated), "-" and seven hex digits."""

    property: str
    longest: int
    lower: bool = False
    """Google Cloud allows lower case only."""
    prefix_property: str | None = None
    """If this property is set, `create` makes the name, and the name is not an input."""


class Calls(Protocol):
    """The APIs of a cloud."""

    def call(
        self,
        service: str,
        method: str,
        params: JsonObject | None = None,
        body: JsonObject | None = None,
    ) -> JsonObject:
        """Raises CloudError when the cloud refuses, CloudUnreachable when none answers."""


@dataclass(frozen=True)
class Session:
    """The context of one operation: the cloud, the provider's settings, the user's timeout."""

    cloud: Calls
    settings: Mapping[str, str]
    show_status: Callable[[str], None]
    """Shows a line of live status to the user."""
    timeout_s: float
    """Always positive."""
    cancelled: Callable[[], bool]


Function = Callable[[Session, Properties], Properties]
"""A function of a provider, from its arguments to its result."""


@dataclass(frozen=True)
class State:
    """A resource's live state."""

    inputs: Properties
    """In the form that `check` returns."""
    outputs: Properties
    """Everything that a program may read, inputs included."""


@dataclass(frozen=True)
class CreateResult:
    """A created resource, and whether it is complete."""

    id: str
    reasons: Sequence[str] = ()
    """Why it is not as requested, though it exists (a partial failure)."""


class Resource(ABC):
    """Methods raise ProviderError, or the cloud client's errors, which the provider translates."""

    kind: str
    force_new: Sequence[str] = ()
    """Property paths (no list indices, all below included) whose change replaces the resource."""
    delete_before_replace: bool = False
    """Whether the real provider always asks for this order."""
    sets: Sequence[str] = ()
    """Property paths of lists whose order does not matter."""
    keeps: Sequence[str] = ()
    """Optional and computed: removing the property from the program keeps its value. Also what a
    schema shares between inputs and outputs and only the cloud sets."""
    keeps_whole: Sequence[str] = ()
    """The same of these alone, and not of what is below them."""
    autoname: Autoname | None = None
    default_timeout_s: float = 1800.0
    busy_reasons: Collection[str] = ()
    """Refusals that the real provider takes for `not yet`: it tries until the timeout.

    What it sends again for less long, such as after a server error, is its client's matter.
    """
    update_unknowns: Mapping[str, Sequence[str]] = {}
    """Output -> the inputs whose change makes the output unknown in a preview."""

    def defaults(self, inputs: Properties, settings: Mapping[str, str]) -> Properties:
        """Defaults that Check fills in, as the real provider does."""
        return {}

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        """Checks beyond the schema, such as properties that conflict. Inputs may be UNKNOWN."""
        return ()

    def replaced_by(self, old: Properties, new: Properties) -> Sequence[str]:
        """Further paths whose change replaces it, for it depends on the values."""
        return ()

    @abstractmethod
    def create(self, session: Session, inputs: Properties) -> CreateResult: ...

    @abstractmethod
    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        """None if it does not exist. `inputs`: as requested; {} for import."""

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        """Changes what differs between two sets of inputs; returns why it is not as requested."""
        raise NotImplementedError(f"no property of {self.kind} can be updated in place")

    @abstractmethod
    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        """Returns when it does not exist."""


def not_simulated(
    inputs: Properties, simulated: Collection[str], *, hint: str = ""
) -> list[CheckFailure]:
    """One failure for each property that the real provider has and the rehearsal does not."""
    return [
        CheckFailure(
            name,
            "the rehearsal does not simulate this property; it simulates "
            f"{', '.join(sorted(simulated))}{hint}",
        )
        for name in inputs
        if name not in simulated and not name.startswith("__")
    ]


def prior_values(inputs: Properties, *names: str) -> Properties:
    """Those of the inputs that the cloud does not store, so that a read returns them unchanged."""
    return {name: inputs[name] for name in names if name in inputs}


def is_known(value: Any) -> bool:
    """Whether the value is set, and not unknown."""
    return value is not None and value is not UNKNOWN


def members(value: Any) -> Sequence[Any]:
    """The items of a list; none where it is absent or not known yet."""
    return value if isinstance(value, list) else ()
