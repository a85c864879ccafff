"""What a provider plugin is built on: subclass ProviderPlugin; provider_server serves it.

The engine uses one plugin object per provider resource. A launched plugin has one per process; an
attached one (PULUMI_DEBUG_PROVIDERS=name:port) has one per connection, because requests do not name
their provider.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from slicewright.rehearsal.plugins.engine.properties import Properties, unwrap
from slicewright.rehearsal.plugins.engine.requests import (
    CheckConfigRequest,
    CheckRequest,
    ConfigureRequest,
    CreateRequest,
    DeleteRequest,
    DiffConfigRequest,
    DiffRequest,
    InvokeRequest,
    ReadRequest,
    UpdateRequest,
)

Kind = Literal["add", "add-replace", "delete", "delete-replace", "update", "update-replace"]


class Severity(IntEnum):
    """The severity of a line in the engine's log."""

    DEBUG = 0
    INFO = 1
    WARNING = 2
    ERROR = 3


class ProviderError(Exception):
    """The operation failed and changed nothing that the engine must store.

    The message is shown to the user unchanged.
    """


@dataclass(kw_only=True, eq=False)
class InitFailed(Exception):
    """The resource exists but is not as requested (partial failure).

    The engine stores `outputs`, shows every reason, fails the run, and calls Update at the next
    `up` even if nothing changed.
    """

    id: str
    outputs: Properties
    inputs: Properties | None = None
    """None keeps the inputs that the engine has."""
    reasons: Sequence[str]

    def __str__(self) -> str:
        return "; ".join(self.reasons)


@dataclass(frozen=True)
class CheckFailure:
    """An invalid input."""

    property: str
    """Its path (`nodeConfig.machineType`); "" for the resource as a whole."""
    reason: str


@dataclass(frozen=True)
class Checked:
    """Inputs with defaults and the automatic name filled in. Failures stop previews too."""

    inputs: Properties
    failures: Sequence[CheckFailure] = ()


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The answer to Diff.

    changes: None lets the engine compare the inputs itself (never replaces).
    detailed: property path -> kind; a path of kind `…-replace` replaces the resource.
    replaces: further paths that replace.
    input_paths: the paths where inputs differ, rather than outputs; None means all.
    diffs: top-level names, for display where there is no `detailed`.
    """

    changes: bool | None
    detailed: Mapping[str, Kind] | None = None
    replaces: Sequence[str] = ()
    delete_before_replace: bool = False
    input_paths: frozenset[str] | None = None
    diffs: Sequence[str] = ()


@dataclass(frozen=True)
class Created:
    """A created resource; in previews `id` is "", and outputs not known yet are UNKNOWN."""

    id: str
    outputs: Properties


@dataclass(frozen=True)
class ReadBack:
    """The live state. Drift shows in `inputs`: live values in the form that `check` returns."""

    id: str
    inputs: Properties
    outputs: Properties


LogSink = Callable[[Severity, str, str, bool], None]
"""Takes severity, message, urn, ephemeral."""


class ProviderPlugin(ABC):
    """One configured provider. Methods are called from many threads at once.

    Every method may raise ProviderError; create, read and update also InitFailed. Anything else is
    reported as a bug in the plugin.
    """

    version: str = "0.0.0"
    """Reported to the engine, which warns if it is lower than the one the SDK asks for."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        """Set when the user interrupts.

        Keep the event that an operation started with: later operations get a new one.
        """
        self._log_sink: LogSink | None = None

    def log_to(self, sink: LogSink) -> None:
        """Sends everything that `log` is given to `sink`."""
        self._log_sink = sink

    def log(self, severity: Severity, message: str, urn: str = "", ephemeral: bool = False) -> None:
        """Sends one line to the engine's log.

        An ephemeral line is the resource's live status: the last one shows, an empty one clears it.
        """
        if self._log_sink is not None:
            self._log_sink(severity, message, urn, ephemeral)

    def check_config(self, request: CheckConfigRequest) -> Checked:
        """Validates the provider's own inputs."""
        return Checked(request.new_inputs)

    def diff_config(self, request: DiffConfigRequest) -> Difference:
        """A non-empty `replaces` replaces the provider and every resource under it."""
        return Difference(changes=unwrap(request.old_inputs) != unwrap(request.new_inputs))

    @abstractmethod
    def configure(self, request: ConfigureRequest) -> None:
        """Not called while an input is unknown; Create and Update are then not called either."""

    @abstractmethod
    def check(self, request: CheckRequest) -> Checked: ...

    @abstractmethod
    def diff(self, request: DiffRequest) -> Difference: ...

    @abstractmethod
    def create(self, request: CreateRequest) -> Created: ...

    @abstractmethod
    def read(self, request: ReadRequest) -> ReadBack | None:
        """None if the resource does not exist."""

    @abstractmethod
    def update(self, request: UpdateRequest) -> Properties:
        """The full new outputs."""

    @abstractmethod
    def delete(self, request: DeleteRequest) -> None:
        """Returns when the resource does not exist, also if it did not exist before."""

    def invoke(self, request: InvokeRequest) -> Properties:
        """The function's result."""
        raise ProviderError(f"the rehearsal does not provide the function {request.token}")
