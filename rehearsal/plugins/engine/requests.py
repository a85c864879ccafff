"""What the engine asks of a provider plugin, as the plugin's methods receive it.

Names follow pulumi/pulumi `sdk/go/common/resource/plugin/provider.go`. Values that the user put in
ignoreChanges are already in `new_inputs`. `timeout_s` is 0 where the user set none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slicewright.rehearsal.plugins.engine.properties import Properties


@dataclass(frozen=True)
class Autonaming:
    """How the user configured automatic names (`pulumi:autonaming`).

    propose: `name` may be changed to fit; enforce: use it unchanged; disable: a name must be given.
    """

    name: str
    mode: Literal["propose", "enforce", "disable"]


@dataclass(frozen=True, kw_only=True)
class CheckConfigRequest:
    """Validate the provider's own inputs. Secrets arrive without their mark."""

    urn: str
    old_inputs: Properties
    new_inputs: Properties


@dataclass(frozen=True, kw_only=True)
class DiffConfigRequest:
    """Compare the provider's own old and new inputs."""

    urn: str
    old_inputs: Properties
    old_outputs: Properties
    new_inputs: Properties


@dataclass(frozen=True, kw_only=True)
class ConfigureRequest:
    """The provider's own inputs, twice: as text and as values."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """`package:config:key` -> text; objects as JSON."""
    inputs: Properties = field(default_factory=dict)
    """With their Secret marks."""


@dataclass(frozen=True, kw_only=True)
class CheckRequest:
    """Validate a resource's inputs and fill in defaults."""

    urn: str
    type: str
    name: str
    old_inputs: Properties
    """Empty for a new resource, and for the second Check of a replacement."""
    new_inputs: Properties
    random_seed: bytes
    """For automatic names: the same seed gives the same name in preview and update."""
    autonaming: Autonaming | None = None


@dataclass(frozen=True, kw_only=True)
class DiffRequest:
    """Compare a resource's stored state with its new inputs."""

    urn: str
    type: str
    id: str
    old_inputs: Properties
    old_outputs: Properties
    new_inputs: Properties


@dataclass(frozen=True, kw_only=True)
class CreateRequest:
    """Create a resource, or say what its outputs would be."""

    urn: str
    type: str
    name: str
    inputs: Properties
    timeout_s: float = 0.0
    preview: bool = False


@dataclass(frozen=True, kw_only=True)
class ReadRequest:
    """Read a resource's live state: for refresh, and with empty inputs for get() and import."""

    urn: str
    type: str
    id: str
    inputs: Properties
    outputs: Properties
    timeout_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class UpdateRequest:
    """Update a resource in place, or say what its outputs would be."""

    urn: str
    type: str
    id: str
    old_inputs: Properties
    old_outputs: Properties
    new_inputs: Properties
    timeout_s: float = 0.0
    preview: bool = False
    ignored: tuple[str, ...] = ()
    """The paths of ignoreChanges: a provider may know better than the state what is there now."""


@dataclass(frozen=True, kw_only=True)
class DeleteRequest:
    """Delete a resource."""

    urn: str
    type: str
    id: str
    inputs: Properties
    outputs: Properties
    timeout_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class InvokeRequest:
    """Call a provider function."""

    token: str
    args: Properties
    preview: bool = False
