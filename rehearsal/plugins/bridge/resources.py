"""One kind of resource, as a provider stand-in declares it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rehearsal.clouds.core.client import CloudClient
from rehearsal.plugins.engine.plugin import CheckFailure
from rehearsal.plugins.engine.properties import UNKNOWN, Properties


@dataclass(frozen=True)
class Autoname:
    """Where no name is given, the resource's name in the program, "-" and seven hex digits, cut to
    fit.
    """

    property: str
    longest: int
    lower: bool = False
    """GCP takes lower case only."""
    prefix_property: str | None = None
    """Given this, the cloud's side makes the name, and it is no input."""


@dataclass(frozen=True)
class Session:
    """What a resource's methods work with: the cloud, and the provider's own settings."""

    cloud: CloudClient
    settings: Mapping[str, str]
    note: Callable[[str], None]
    """A line of live status for the user."""
    timeout_s: float
    """Of this operation; always positive."""
    cancelled: Callable[[], bool]


@dataclass(frozen=True)
class State:
    """What is there. inputs: in the shape of `check`; outputs: everything a program may read,
    inputs' names included.
    """

    inputs: Properties
    outputs: Properties


@dataclass
class Made:
    """A created resource. `trouble`: reasons why it is not what was asked for; it exists all the
    same.
    """

    id: str
    trouble: Sequence[str] = field(default_factory=tuple)


class Resource(ABC):
    """Methods raise ProviderError, or what the cloud client raises, which the provider words."""

    kind: str
    force_new: Sequence[str] = ()
    """Property paths without list indices whose change replaces; each stands for everything below
    it too.
    """
    sets: Sequence[str] = ()
    keeps: Sequence[str] = ()
    """Optional and computed: leaving the property out later keeps what is there."""
    autoname: Autoname | None = None
    default_timeout_s: float = 1800.0
    update_unknowns: Mapping[str, Sequence[str]] = {}
    """Output -> the inputs whose change makes it unknown in a preview."""

    def defaults(self, inputs: Properties, settings: Mapping[str, str]) -> Properties:
        """Values that Check fills in, as the real provider does."""
        return {}

    def rules(self, inputs: Properties) -> Sequence[CheckFailure]:
        """What the schema cannot say: properties that exclude or need each other. Inputs may hold
        UNKNOWN.
        """
        return ()

    @abstractmethod
    def create(self, session: Session, inputs: Properties) -> Made: ...

    @abstractmethod
    def read(self, session: Session, resource_id: str, inputs: Properties) -> State | None:
        """None: gone. `inputs` is what was asked for, {} for import."""

    def update(
        self, session: Session, resource_id: str, old: Properties, new: Properties
    ) -> Sequence[str]:
        """Brings the resource to `new`; `old` is what it was asked to be. Returns reasons why it is
        not there yet.
        """
        raise NotImplementedError(f"{self.kind} has nothing that can be updated in place")

    @abstractmethod
    def delete(self, session: Session, resource_id: str, inputs: Properties) -> None:
        """Returns when it is gone."""


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


def kept(inputs: Properties, *names: str) -> Properties:
    """Those of the inputs that the cloud does not store, so that a read returns them unchanged."""
    return {name: inputs[name] for name in names if name in inputs}


def known(value: Any) -> bool:
    return value is not None and value is not UNKNOWN


def members(value: Any) -> Sequence[Any]:
    """Of a list; none where it is absent or not known yet."""
    return value if isinstance(value, list) else ()
