"""The last deployment that succeeded, from the history that Pulumi keeps of a stack. Pure.

Every backend keeps it, and only who may write the state can change it: neither a merge that was
never applied nor a branch that was rewritten does. An entry names the commit of the checkout
(`git.head`) and the configuration with which it ran.
Source: pulumi/pulumi, pkg/cmd/pulumi/stack/stack_history.go (updateInfoJSON) and
pkg/backend/updates.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

FLEET_KEY: Final = "slicewright:fleet"


class NotAHistory(ValueError):
    """The text is not what `pulumi stack history --json` prints."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    commit: str
    """Empty where the checkout was no git repository."""
    time: str
    fleet: Any
    """The stack file's fleet, as the program has read it; None where it came from elsewhere."""

    @property
    def stack_file(self) -> str | None:
        """As a stack file says it. JSON is YAML."""
        if self.fleet is None:
            return None
        config = {"config": {FLEET_KEY: self.fleet}}
        return f"{json.dumps(config, indent=2, ensure_ascii=False)}\n"


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a page of the history, newest first, says of the last deployment."""

    deployment: Deployment | None
    complete: bool
    """No older page can say anything else."""


def read_page(text: str) -> Page:
    """Raises NotAHistory."""
    entries = _entries(text)
    for entry in entries:
        kind = entry.get("kind") if entry.get("result") == "succeeded" else None
        if kind == "update":
            return Page(deployment=_deployment(entry), complete=True)
        if kind == "destroy":
            # Nothing is deployed any more, whatever was before.
            return Page(deployment=None, complete=True)
    return Page(deployment=None, complete=not entries)


def _entries(text: str) -> Sequence[Mapping[str, Any]]:
    try:
        entries = json.loads(text)
    except ValueError as e:
        raise NotAHistory(str(e)) from None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise NotAHistory("it is no list of updates")
    return entries


def _deployment(entry: Mapping[str, Any]) -> Deployment:
    environment = entry.get("environment")
    config = entry.get("config")
    return Deployment(
        commit=str(_of(environment, "git.head") or ""),
        time=str(entry.get("startTime", "")),
        fleet=_fleet(_of(config, FLEET_KEY)),
    )


def _fleet(setting: Any) -> Any:
    if (fleet := _of(setting, "objectValue")) is not None:
        return fleet
    try:
        fleet = json.loads(str(_of(setting, "value")))
    except ValueError:
        return None
    return fleet if isinstance(fleet, dict) else None


def _of(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
