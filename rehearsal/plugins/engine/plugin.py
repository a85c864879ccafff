"""What a provider plugin is built on: subclass ProviderPlugin, and `serve` it.

The engine uses one plugin object per provider resource: of a launched plugin there is one per
process; of an attached one (PULUMI_DEBUG_PROVIDERS=name:port) one per connection, because requests
do not name their provider.
"""

# ruff: noqa: A002 - `id` and `type` are the protocol's words

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NoReturn

from rehearsal.plugins.engine.values import (
    UNKNOWN,
    Properties,
    Secret,
    decode,
    encode,
    has_secret,
    has_unknown,
    unwrap,
    unwrap_here,
)

__all__ = [
    "UNKNOWN",
    "Autonaming",
    "CheckFailure",
    "Checked",
    "Created",
    "Difference",
    "InitFailed",
    "Kind",
    "Properties",
    "ProviderError",
    "ProviderPlugin",
    "ReadBack",
    "Secret",
    "Severity",
    "decode",
    "encode",
    "has_secret",
    "has_unknown",
    "serve",
    "unwrap",
    "unwrap_here",
]

Kind = Literal["add", "add-replace", "delete", "delete-replace", "update", "update-replace"]


class Severity(IntEnum):
    """Of a line in the engine's log. INFO with `ephemeral` is a resource's live status."""

    DEBUG = 0
    INFO = 1
    WARNING = 2
    ERROR = 3


class ProviderError(Exception):
    """The operation failed and changed nothing that the engine must store. The message is shown to
    the user as it is.
    """


class InitFailed(Exception):
    """The resource exists but is not what was asked for (partial failure): the engine stores
    `outputs`, shows every reason, fails the run, and calls Update at the next `up` even if nothing
    changed.

    inputs: None keeps the inputs that the engine knows.
    """

    def __init__(
        self, id: str, outputs: Properties, inputs: Properties | None, reasons: Sequence[str]
    ) -> None:
        self.id = id
        self.outputs = outputs
        self.inputs = inputs
        self.reasons = tuple(reasons)
        super().__init__("; ".join(reasons))


@dataclass(frozen=True)
class CheckFailure:
    """A refused input; `property` is its path (`nodeConfig.machineType`), "" for the resource as a
    whole.
    """

    property: str
    reason: str


@dataclass(frozen=True)
class Checked:
    """Inputs with defaults and the automatic name filled in. Any failure stops previews too."""

    inputs: Properties
    failures: Sequence[CheckFailure] = ()


@dataclass(frozen=True)
class Autonaming:
    """How the user configured automatic names.

    propose: `name` may be changed to fit; enforce: take it as it is; disable: a name must be given.
    """

    name: str
    mode: Literal["propose", "enforce", "disable"]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The answer to Diff.

    changes: None lets the engine compare the inputs itself (never replaces).
    detailed: property path -> kind; a path of kind `…-replace` replaces the resource.
    replaces: further paths that replace.
    input_paths: the paths whose change is one of inputs rather than of outputs; None means all.
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
    """`id` is "" in previews. `outputs` holds every output that a program may read; in previews
    UNKNOWN where it is open.
    """

    id: str
    outputs: Properties


@dataclass(frozen=True)
class ReadBack:
    """What is really there. Drift is seen in `inputs` only: live values in the shape that `check`
    gives them.
    """

    id: str
    inputs: Properties
    outputs: Properties


LogSink = Callable[[Severity, str, str, bool], None]


class ProviderPlugin(ABC):
    """One configured provider. Methods are called from many threads at once.

    Every method may raise ProviderError; create, read and update also InitFailed. Anything else is
    reported as the plugin's bug. timeout_s is 0 where the user set none.
    """

    version: str = "0.0.0"
    """Reported to the engine; below the one that the SDK asks for, the engine warns."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        """Set when the user interrupts. Take it when an operation starts: later operations get a
        new one.
        """
        self.engine_address = ""
        self.urn = ""
        """Of the provider resource, once configured."""
        self._sink: LogSink | None = None

    def log(self, severity: Severity, message: str, urn: str = "", ephemeral: bool = False) -> None:
        """One line to the engine. Ephemeral lines are live status: the last one shows, an empty one
        clears it.
        """
        if self._sink is not None:
            self._sink(severity, message, urn, ephemeral)

    def check_config(self, urn: str, olds: Properties, news: Properties) -> Checked:
        """Of the provider's own inputs. Secrets arrive without their mark."""
        return Checked(news)

    def diff_config(
        self,
        urn: str,
        old_outputs: Properties,
        old_inputs: Properties,
        news: Properties,
        ignore_changes: Sequence[str],
    ) -> Difference:
        """A non-empty `replaces` replaces the provider and every resource under it."""
        return Difference(changes=unwrap(old_inputs) != unwrap(news))

    @abstractmethod
    def configure(self, variables: Mapping[str, str], args: Properties) -> None:
        """variables: `package:config:key` -> text, objects as JSON. args: the same inputs as
        values, secrets marked.

        Not called while an input is unknown; Create and Update are then not called either.
        """

    @abstractmethod
    def check(
        self,
        urn: str,
        type: str,
        name: str,
        olds: Properties,
        news: Properties,
        random_seed: bytes,
        autonaming: Autonaming | None,
    ) -> Checked:
        """olds (old inputs) is empty for a new resource and for the second Check of a
        replacement.
        """

    @abstractmethod
    def diff(
        self,
        urn: str,
        type: str,
        id: str,
        old_outputs: Properties,
        old_inputs: Properties,
        news: Properties,
        ignore_changes: Sequence[str],
    ) -> Difference:
        """With ignore_changes, news already hold the old values."""

    @abstractmethod
    def create(
        self, urn: str, type: str, name: str, inputs: Properties, timeout_s: float, preview: bool
    ) -> Created: ...

    @abstractmethod
    def read(
        self,
        urn: str,
        type: str,
        id: str,
        outputs: Properties,
        inputs: Properties,
        timeout_s: float,
    ) -> ReadBack | None:
        """None: it is gone. Empty inputs for get() and import."""

    @abstractmethod
    def update(
        self,
        urn: str,
        type: str,
        id: str,
        old_outputs: Properties,
        old_inputs: Properties,
        news: Properties,
        timeout_s: float,
        ignore_changes: Sequence[str],
        preview: bool,
    ) -> Properties:
        """The full new outputs."""

    @abstractmethod
    def delete(
        self,
        urn: str,
        type: str,
        id: str,
        outputs: Properties,
        old_inputs: Properties,
        timeout_s: float,
    ) -> None:
        """Returns when it is gone, also when it was gone already."""

    def invoke(self, token: str, args: Properties, preview: bool) -> Properties:
        """A function call of the program."""
        raise ProviderError(f"the rehearsal does not know the function {token}")


def serve(make: Callable[[], ProviderPlugin]) -> NoReturn:
    """Runs a launched plugin until the engine is done with it. make: its class, or anything that
    makes an object of it.
    """
    from rehearsal.plugins.engine.server import run  # the server stands on the types above

    run(make)
