"""The last successful deployment, from the history that Pulumi keeps of a stack. Pure.

Every backend keeps the history, and only people who may write the state can change it. A merge that
was never applied does not change it, nor does a rewritten branch. An entry names the commit of the
checkout (`git.head`) and the configuration of the run.

Source: pulumi/pulumi, pkg/cmd/pulumi/stack/stack_history.go (updateInfoJSON) and
pkg/backend/updates.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slicewright.processes.foreign_json import NotReadable, read_json, read_object

FLEET_KEY: Final = "slicewright:fleet"


class NotAHistory(ValueError):
    """The text is not the output of `pulumi stack history --json`."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    commit: str
    """Empty if the checkout was not a git repository."""
    time: str
    fleet: Any
    """The stack file's fleet, as the program read it. None if it came from another source."""

    @property
    def has_bases(self) -> bool:
        """True if the fleet extends base files, which the history does not keep."""
        return isinstance(self.fleet, dict) and "extends" in self.fleet

    @property
    def stack_file(self) -> str | None:
        """The text of a stack file with this fleet, in JSON, which is also YAML. None if the fleet
        is not whole.
        """
        if self.fleet is None or self.has_bases:
            return None
        config = {"config": {FLEET_KEY: self.fleet}}
        return f"{json.dumps(config, indent=2, ensure_ascii=False)}\n"


@dataclass(frozen=True, kw_only=True)
class Page:
    """The knowledge about the last deployment from one page of the history, newest first."""

    deployment: Deployment | None
    complete: bool
    """True if older pages cannot add anything."""


def read_page(output: bytes) -> Page:
    """Raises NotAHistory."""
    entries = _entries(output)
    for entry in entries:
        kind = entry.get("kind") if entry.get("result") == "succeeded" else None
        if kind == "update":
            return Page(deployment=_deployment(entry), complete=True)
        if kind == "destroy":
            # Nothing is deployed any more, so older entries do not matter.
            return Page(deployment=None, complete=True)
    return Page(deployment=None, complete=not entries)


def _entries(output: bytes) -> Sequence[Mapping[str, Any]]:
    try:
        entries = read_json(output, "the history of a stack")
    except NotReadable as e:
        raise NotAHistory(str(e)) from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise NotAHistory("it is not a list of updates")
    return entries


def _deployment(entry: Mapping[str, Any]) -> Deployment:
    environment = entry.get("environment")
    config = entry.get("config")
    return Deployment(
        commit=str(_value_at(environment, "git.head") or ""),
        time=str(entry.get("startTime", "")),
        fleet=_fleet(_value_at(config, FLEET_KEY)),
    )


def _fleet(setting: Any) -> Any:
    if (fleet := _value_at(setting, "objectValue")) is not None:
        return fleet
    try:
        return read_object(str(_value_at(setting, "value")), "a fleet")
    except NotReadable:
        return None


def _value_at(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
